// The formats, on a small profile. tests/preload_e2e/test_export.py uses real readers (callgrind_annotate, dot, protoc)
// on real runs.
#include <gtest/gtest.h>
#include <zlib.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/export/exporter.h"
#include "analyzer/export/gzip.h"
#include "analyzer/export/third_party/pprof/profile.pb.h"

namespace dlhook::analyzer {
namespace {

// A profile of stacks of Python functions, outermost first, all in file.py.
class ExportersTest : public testing::Test {
 protected:
  ProfileFrameIndex Python(const std::string& name, uint32_t line = 1) {
    return profile_.Frame(
        {.function = profile_.Function({FrameKind::kPython, name, kPythonObject, "/home/u/file.py", ""}),
         .line = line});
  }
  void Add(const std::vector<ProfileFrameIndex>& stack, int64_t time_ns, int64_t calls = 1) {
    NodeIndex node = kRoot;
    for (ProfileFrameIndex frame : stack) node = profile_.Child(node, frame);
    profile_.Add(node, labels_, {time_ns, calls, 0, 0});
  }
  void AddNames(const std::vector<std::string>& names, int64_t time_ns) {
    std::vector<ProfileFrameIndex> stack;
    stack.reserve(names.size());
    for (const std::string& name : names) stack.push_back(Python(name));
    Add(stack, time_ns);
  }

  TraceModel model_;
  Profile profile_{model_};
  LabelsIndex labels_ = profile_.AddLabels({.layer = "conv1"});
};

TEST_F(ExportersTest, FoldedHasNoSignsOfItsOwnInNames) {
  const auto call = [this](const std::string& name) {
    return profile_.Frame({.function = profile_.Function({.kind = FrameKind::kCall, .name = name})});
  };
  Add({call("a;b\nc"), call("reorder 64")}, 5);
  Add({call(" ")}, 6);
  Add({call("unused")}, 0);
  EXPECT_EQ(ExportFolded(profile_, {}), "? 6\na:b\\nc;reorder_64 5\n");
}

TEST_F(ExportersTest, FoldedJoinsWhatDiffersInLinesOnly) {
  Add({Python("f", 1)}, 5);
  Add({Python("f", 2)}, 6);
  EXPECT_EQ(ExportFolded(profile_, {}), "f (file.py) 11\n");
  EXPECT_EQ(ExportFolded(profile_, {.with_lines = true}), "f (file.py:1) 5\nf (file.py:2) 6\n");
  EXPECT_EQ(ExportFolded(profile_, {.weight = Weight::kCalls}), "f (file.py) 2\n");
}

// main calls f, f calls g, g calls f again: 3 ns in the inner f, 4 ns in g, 10 ns in main.
TEST_F(ExportersTest, CallgrindCountsRecursionOnce) {
  AddNames({"main", "f", "g", "f"}, 3);
  AddNames({"main", "f", "g"}, 4);
  AddNames({"main"}, 10);
  const std::string text = ExportCallgrind(profile_, {});
  EXPECT_EQ(text.substr(text.find("events:")),
            "events: time calls flops bytes\n"
            "summary: 17 3 0 0\n"
            "\nob=(1) [python]\nfl=(1) /home/u/file.py\nfn=(1) main\n0 10 1 0 0\n"
            "cob=(1)\ncfi=(1)\ncfn=(2) f\ncalls=2 0\n1 7 2 0 0\n"
            "\nob=(1)\nfl=(1)\nfn=(2)\n"
            "cob=(1)\ncfi=(1)\ncfn=(3) g\ncalls=2 0\n1 7 2 0 0\n"
            "\nob=(1)\nfl=(1)\nfn=(4) f'2\n0 3 1 0 0\n"
            "\nob=(1)\nfl=(1)\nfn=(3)\n0 4 1 0 0\n"
            "cob=(1)\ncfi=(1)\ncfn=(4)\ncalls=1 0\n1 3 1 0 0\n"
            "totals: 17 3 0 0\n");
}

std::string Unpacked(const std::string& packed) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(1 << 20, 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(Gzip, IsReadByZlibAndSaysNoTime) {
  for (const std::string& text : {std::string(), std::string("a"), std::string(300000, 'b')}) {
    EXPECT_EQ(Unpacked(Gzip(text)), text);
    EXPECT_EQ(Gzip(text).substr(4, 4), std::string(4, 0));
  }
}

TEST_F(ExportersTest, PprofIsWhole) {
  model_.native_frames.address = {0x1010, 0x9000};
  model_.native_frames.process = {0, 0};
  model_.native_frames.parent = {kNone, kNone};
  model_.native_frames.cut = {StackCut::kWhole, StackCut::kWhole};
  model_.processes.emplace_back();
  Mapping mapping;
  mapping.start = 0x1000;
  mapping.end = 0x2000;
  mapping.path = "/lib/libfoo.so";
  mapping.build_id = "\x01\xab";
  model_.processes[0].mappings.push_back(mapping);
  const auto native = [this](const std::string& name, FrameIndex frame, bool is_inlined) {
    return profile_.Frame(
        {.function = profile_.Function({FrameKind::kNative, name, "/lib/libfoo.so", "", name + "(int)"}),
         .line = 9,
         .native = frame,
         .is_inlined = is_inlined});
  };
  Add({Python("main", 3), native("f", 0, false), native("inlined", 0, true)}, 70, 2);
  Add({Python("main", 3), native("unmapped", 1, false)}, 30);

  perftools::profiles::Profile out;
  ASSERT_TRUE(out.ParseFromString(Unpacked(ExportPprof(profile_, {}))));
  const auto text = [&out](int64_t index) { return out.string_table(static_cast<int>(index)); };
  EXPECT_EQ(text(0), "");
  EXPECT_EQ(std::set<std::string>(out.string_table().begin(), out.string_table().end()).size(),
            static_cast<size_t>(out.string_table_size()));
  ASSERT_EQ(out.sample_type_size(), 4);
  EXPECT_EQ(text(out.sample_type(0).type()) + "/" + text(out.sample_type(0).unit()), "calls/count");
  EXPECT_EQ(text(out.sample_type(3).type()) + "/" + text(out.sample_type(3).unit()), "time/nanoseconds");

  ASSERT_EQ(out.sample_size(), 2);
  EXPECT_EQ(out.sample(0).value(0), 2);
  EXPECT_EQ(out.sample(0).value(3), 70);
  EXPECT_EQ(text(out.sample(0).label(0).key()) + "=" + text(out.sample(0).label(0).str()), "layer=conv1");
  ASSERT_EQ(out.sample(0).location_id_size(), 2);  // the inlined function is part of f's
  const auto& location = out.location(static_cast<int>(out.sample(0).location_id(0)) - 1);
  EXPECT_EQ(location.address(), 0x1010u);
  ASSERT_EQ(location.line_size(), 2);
  const auto& function = out.function(static_cast<int>(location.line(0).function_id()) - 1);
  EXPECT_EQ(text(function.name()), "inlined");
  EXPECT_EQ(text(function.system_name()), "inlined(int)");
  EXPECT_EQ(location.line(0).line(), 9);
  EXPECT_EQ(text(out.function(0).name()) + " " + text(out.function(0).system_name()), "main ");  // "<module>" must stay
  const auto& found = out.mapping(static_cast<int>(location.mapping_id()) - 1);
  EXPECT_EQ(text(found.filename()) + " " + text(found.build_id()), "/lib/libfoo.so 01ab");
  EXPECT_EQ(out.location(static_cast<int>(out.sample(1).location_id(0)) - 1).mapping_id(), 0u);
  EXPECT_EQ(out.sample(0).location_id(1), out.sample(1).location_id(1));
}

}  // namespace
}  // namespace dlhook::analyzer
