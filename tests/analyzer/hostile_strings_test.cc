// Traces whose strings try to control terminals, spreadsheets and readers of profiles: dlhook must print them as it
// prints strings in which the same is spelled out ("\x1b"), and nothing raw.
#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/cli/command.h"
#include "analyzer/export/exporter.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"
#include "preload/format/character.h"
#include "proto/trace.pb.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Appended to the original text, so that names sort and differ as before.
constexpr char kHostile[] =
    "~\x1b]0;PWN\x07\x1b[31mX\u009b31m\nNL\r\u202eRTL\u2066\u200b\u2028\u061c\U000e0041\x7f\ttab\x01\";,=1+1&#27;\\";

std::string ReadFile(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool IsString(const FieldDescriptor* field) { return field->type() == FieldDescriptor::TYPE_STRING; }

// Calls `change` for each string in the message, whatever its schema.
void EachString(Message* message, const std::function<void(const FieldDescriptor*, std::string*)>& change) {
  const Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        EachString(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, i)
                                        : reflection->MutableMessage(message, field),
                   change);
      } else if (IsString(field)) {
        std::string text = field->is_repeated() ? reflection->GetRepeatedString(*message, field, i)
                                                : reflection->GetString(*message, field);
        change(field, &text);
        field->is_repeated() ? reflection->SetRepeatedString(message, field, i, text)
                             : reflection->SetString(message, field, text);
      }
    }
  }
}

// Sets every message and string of the schema once; of alternatives (oneof) the one with the number `choice`.
void Fill(Message* message, int choice, int depth = 0) {
  const Descriptor* type = message->GetDescriptor();
  const Reflection* reflection = message->GetReflection();
  for (int i = 0; i < type->field_count() && depth < 8; ++i) {
    const FieldDescriptor* field = type->field(i);
    const auto* alternatives = field->containing_oneof();
    if (alternatives != nullptr && field->index_in_oneof() != choice % alternatives->field_count()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Fill(field->is_repeated() ? reflection->AddMessage(message, field) : reflection->MutableMessage(message, field),
           choice, depth + 1);
    } else if (IsString(field)) {
      field->is_repeated() ? reflection->AddString(message, field, "s") : reflection->SetString(message, field, "s");
    }
  }
}

struct Outcome {
  int exit_code;
  std::string out, err;
};

// Runs `dlhook WORDS` in this process.
Outcome Dlhook(const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  const std::string paths[] = {folder.path() + "/out", folder.path() + "/err"};
  int kept[2];
  for (int i : {0, 1}) {
    kept[i] = dup(i + 1);
    const int file = open(paths[i].c_str(), O_RDWR | O_CREAT, 0600);
    dup2(file, i + 1);
    close(file);
  }
  const int exit_code = Main(words);
  for (int i : {0, 1}) {
    dup2(kept[i], i + 1);
    close(kept[i]);
  }
  return {exit_code, ReadFile(paths[0]), ReadFile(paths[1])};
}

void ExpectHarmless(const std::string& output, const std::string& what) {
  for (size_t at = 0; at < output.size();) {
    const Character character = FirstCharacter(output.data() + at, output.size() - at);
    if (character.code != '\n' && IsDangerous(character)) {
      FAIL() << what << ": character " << character.code
             << " in: " << VisibleText(output.substr(at < 60 ? 0 : at - 60, 120));
    }
    at += character.bytes;
  }
}

std::vector<std::vector<std::string>> CommandsOn(const std::string& run) {
  std::vector<std::vector<std::string>> commands = {{"dump", run},
                                                    {"report", run, "--by", "stack", "--limit", "0"},
                                                    {"report", run, "--table", "x" + run},
                                                    {"report", run, "--table", "all", "--format", "json"},
                                                    {"report", run, "--function", "none"},
                                                    {"scaling", run, run + "/"},
                                                    {"ctl", "status", run},
                                                    {run}};
  for (const Renderer& renderer : Renderers()) {
    commands.push_back({"report", run, "--format", std::string(renderer.name)});
    commands.push_back({"diff", run, run, "--limit", "0", "--format", std::string(renderer.name)});
  }
  for (const Exporter& exporter : Exporters())
    commands.push_back({"export", run, "--format", std::string(exporter.name)});
  return commands;
}

bool IsBinary(const std::string& format) {
  return std::any_of(Exporters().begin(), Exporters().end(),
                     [&](const Exporter& exporter) { return exporter.name == format && exporter.is_binary; });
}

nlohmann::json Visible(const nlohmann::json& json) {
  if (json.is_string()) return VisibleText(json.get<std::string>());
  nlohmann::json visible = json;
  if (json.is_array()) {
    for (auto& element : visible) element = Visible(element);
  } else if (json.is_object()) {
    visible = nlohmann::json::object();
    for (const auto& [key, value] : json.items()) visible[VisibleText(key)] = Visible(value);
  }
  return visible;
}

std::string Packets(const std::string& textproto) {
  trace::Trace trace;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(textproto, &trace));
  return trace.SerializeAsString();
}

// A run of two processes with all strings of some fields hostile, and its twin with these spelled out.
class Twins {
 public:
  Twins(const std::string& textproto, const std::function<bool(const FieldDescriptor*)>& is_hostile)
      : traces_{ParseTrace(textproto), FilledTrace()} {
    for (trace::Trace& trace : traces_) {
      EachString(&trace, [&](const FieldDescriptor* field, std::string* text) {
        if (is_hostile(field)) absl::StrAppend(text, kHostile);
      });
    }
    for (const trace::Trace& trace : traces_) bytes_ += trace.SerializeAsString();
    hostile_ = Write(std::string("run") + kHostile);
    for (trace::Trace& trace : traces_) {
      EachString(&trace, [&](const FieldDescriptor* field, std::string* text) {
        if (is_hostile(field)) *text = VisibleText(*text);
      });
    }
    spelled_ = Write(VisibleText(std::string("run") + kHostile));
  }

  void Compare() const {
    const std::vector<std::vector<std::string>> hostile_commands = CommandsOn(hostile_);
    const std::vector<std::vector<std::string>> spelled_commands = CommandsOn(spelled_);
    for (size_t i = 0; i < hostile_commands.size(); ++i) {
      CompareOutput(Dlhook(hostile_commands[i]), Dlhook(spelled_commands[i]), spelled_commands[i]);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  // A process with every message and string of the schema.
  static trace::Trace FilledTrace() {
    trace::Trace trace;
    const int packets = trace::Packet::descriptor()->field_count();
    const int ops = trace::OpDefinition::descriptor()->oneof_decl(0)->field_count();
    for (int choice = 0; choice < packets * ops; ++choice) {
      const bool is_another = choice >= packets;
      trace::Packet packet;
      Fill(&packet, choice);
      if (packet.has_header()) packet.mutable_header()->set_schema_major(1);
      if (is_another && (packet.has_header() || packet.has_footer())) continue;
      *trace.add_packet() = packet;
    }
    const auto rank = [](const trace::Packet& packet) { return packet.has_header() ? 0 : packet.has_footer() ? 2 : 1; };
    std::stable_sort(trace.mutable_packet()->begin(), trace.mutable_packet()->end(),
                     [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return trace;
  }

  std::string Write(const std::string& run) const {
    fs::create_directories(folder_.path() + "/" + run);
    for (const trace::Trace& trace : traces_) {
      const std::string file = absl::StrCat(&trace == &traces_[0] ? 1 : 2, run, ".dlh");
      folder_.Write(absl::StrCat(run, "/", file), trace.SerializeAsString());
    }
    return folder_.path() + "/" + run;
  }

  void CompareOutput(const Outcome& hostile, const Outcome& spelled, const std::vector<std::string>& words) const {
    const std::string what = absl::StrJoin(words, " ");
    EXPECT_EQ(hostile.exit_code, spelled.exit_code) << what;
    ExpectHarmless(hostile.err, what);
    EXPECT_EQ(hostile.err, spelled.err) << what;
    if (!IsBinary(words.back())) ExpectHarmless(hostile.out, what);
    if (testing::Test::HasFatalFailure()) return;
    if (words.back() == "json") {
      EXPECT_EQ(Visible(nlohmann::json::parse(hostile.out)), nlohmann::json::parse(spelled.out)) << what;
    } else if (words.front() == "dump") {
      EXPECT_TRUE(Packets(hostile.out) == bytes_) << what;
    } else {
      ASSERT_EQ(hostile.out, spelled.out) << what;
    }
    EXPECT_EQ(std::count(hostile.out.begin(), hostile.out.end(), '\n'),
              std::count(spelled.out.begin(), spelled.out.end(), '\n'))
        << what;
  }

  TemporaryFolder folder_;
  trace::Trace traces_[2];
  std::string bytes_, hostile_, spelled_;
};

#ifdef __SANITIZE_ADDRESS__  // ten times slower
constexpr int kBits = 0;
#else
constexpr int kBits = 3;
#endif

class HostileStringsTest : public testing::TestWithParam<std::string> {};

TEST_P(HostileStringsTest, PrintedAsIfSpelledOut) {
  const std::string textproto = ReadFile(GetParam());
  ASSERT_NO_FATAL_FAILURE(Twins(textproto, [](const FieldDescriptor*) { return true; }).Compare());
  // If the names that identify a call are hostile, little is reported about it: so half of the fields, then the other
  // half, by each bit of their number.
  for (int bit = 0; bit < kBits; ++bit) {
    for (int half = 0; half < 2; ++half) {
      const auto is_hostile = [&](const FieldDescriptor* field) {
        return (std::hash<std::string>()(field->full_name()) >> bit & 1) == static_cast<size_t>(half);
      };
      ASSERT_NO_FATAL_FAILURE(Twins(textproto, is_hostile).Compare()) << "bit " << bit << ", half " << half;
    }
  }
}

std::vector<std::string> TraceTexts() {
  std::vector<std::string> paths;
  for (const char* folder : {DLHOOK_TESTS "/golden", DLHOOK_TESTS "/fuzz/corpus/trace"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".textproto") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

INSTANTIATE_TEST_SUITE_P(Traces, HostileStringsTest, testing::ValuesIn(TraceTexts()),
                         [](const auto& info) { return fs::path(info.param).stem().string(); });

}  // namespace
}  // namespace dlhook::analyzer
