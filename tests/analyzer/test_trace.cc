// See test_trace.h.
#include "tests/analyzer/test_trace.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "analyzer/reader/trace_builder.h"

namespace dlhook::analyzer {

trace::Trace ParseTrace(const std::string& textproto) {
  trace::Trace trace;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(textproto, &trace)) << textproto;
  return trace;
}

std::string TraceBytesOf(const trace::Trace& trace) { return trace.SerializeAsString(); }
std::string TraceBytesOf(const std::string& textproto) { return TraceBytesOf(ParseTrace(textproto)); }

std::string HeaderText(const std::string& process) {
  return "packet { header { schema_major: 1 tool_version: '0.1.0' process { " + process +
         " } clock { kind: MONOTONIC ticks_per_second: 1000000000 } } }\n";
}

std::string OpsText() {
  return R"pb(packet {
                interned {
                  op { iid: 1 function: "outer" family: "blas" time_source: CLOCK_TICKS }
                  op { iid: 2 function: "inner" family: "blas" time_source: CLOCK_TICKS }
                  op { iid: 3 function: "onednn:exec" family: "onednn" time_source: ONEDNN_LOG }
                }
              })pb";
}

TraceModel LoadTexts(const std::map<std::string, std::string>& textprotos) {
  TraceBuilder builder("run");
  for (const auto& [file, text] : textprotos) {
    const std::string bytes = TraceBytesOf(text);
    const absl::Status status = builder.AddTrace(file, {bytes});
    EXPECT_TRUE(status.ok()) << status;
  }
  return std::move(builder).Build();
}

TraceModel LoadText(const std::string& textproto) { return LoadTexts({{"1.dlh", textproto}}); }

int64_t OddityCount(const TraceModel& model, const std::string& words) {
  int64_t count = 0;
  for (const auto& [sentence, times] : model.oddities) {
    if (absl::StrContains(sentence, words)) count += times;
  }
  return count;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "dlhook_test.XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string TemporaryFolder::Write(const std::string& name, const std::string& bytes) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace dlhook::analyzer
