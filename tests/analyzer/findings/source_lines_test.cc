// The text of lines that findings name: only of the file that ran.
#include "analyzer/work/source_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace source_lines_test {

using testing::ElementsAre;
using testing::IsEmpty;

class SourceLinesTest : public testing::Test {
 protected:
  SourceLinesTest() : folder_(std::filesystem::path(testing::TempDir()) / "source_lines") {
    std::filesystem::create_directories(folder_ / "other");
    Write(folder_ / "train.py");
  }
  ~SourceLinesTest() override { std::filesystem::remove_all(folder_); }

  static void Write(const std::filesystem::path& path) { std::ofstream(path) << "import torch\n  x = f(y)  \n"; }

  // For a run that began so many seconds from now, with frames in these files.
  std::vector<std::string> Of(const std::string& label, int64_t after_s = 60,
                              const std::vector<std::string>& files = {"train.py"}, bool in_loop = false) {
    ModelBuilder builder;
    for (const std::string& file : files) builder.AddStack({{(folder_ / file).string(), "<module>", 1}});
    TraceModel model = builder.Build(1);
    model.processes.front().realtime_offset_ns = (std::time(nullptr) + after_s) * 1'000'000'000;
    return SourceLines(model).Of(label, in_loop);
  }

  const std::filesystem::path folder_;
};

TEST_F(SourceLinesTest, IsThatOfTheLines) {
  EXPECT_THAT(Of("train.py:2"), ElementsAre("2: x = f(y)"));
  EXPECT_THAT(Of("train.py:2 to 1"), ElementsAre("2: x = f(y)", "1: import torch"));
}

TEST_F(SourceLinesTest, IsThatOfWhatRunsBetween) {
  std::ofstream(folder_ / "train.py") << "for x in data:\n  f(x)\n\n  g(x)\n  h(x)\n  i(x)\nprint()\n";
  EXPECT_THAT(Of("train.py:2 to 5"), ElementsAre("2: f(x)", "4: g(x)", "5: h(x)"));
  EXPECT_THAT(Of("train.py:2 to 6"), ElementsAre("2: f(x)", "4: g(x)", "5: h(x)", "6: i(x)"));
  EXPECT_THAT(Of("train.py:5 to 2"), ElementsAre("5: h(x)", "6: i(x)", "1: for x in data:", "2: f(x)"));
  EXPECT_THAT(Of("train.py:6 to 5"), ElementsAre("6: i(x)", "1: for x in data:", "2: f(x)", "4: g(x)", "5: h(x)"));
  EXPECT_THAT(Of("train.py:5 to 1"), ElementsAre("5: h(x)", "6: i(x)", "1: for x in data:"));
}

TEST_F(SourceLinesTest, IsAllThatRunsThere) {
  std::ofstream(folder_ / "train.py") << "def read(x):\n  return parse(x)\n\ndef parse(x):\n  return x\n\ndef "
                                         "other():\n  pass\n\nfor x in data:\n  f(x)\n  y = read(x)\n"
                                         "  a()\n  b()\n  another()\n  g(y)\nprint()\n";
  ModelBuilder builder;
  builder.AddStack({{(folder_ / "train.py").string(), "<module>", 1}});
  TraceModel model = builder.Build(1);
  model.processes.front().realtime_offset_ns = (std::time(nullptr) + 60) * 1'000'000'000;
  EXPECT_EQ(SourceLines(model).CodeOf("train.py:11 to 16"),
            "return parse(x)\nreturn x\nf(x)\ny = read(x)\na()\nb()\nanother()\ng(y)\n");
  EXPECT_EQ(SourceLines(model).CodeOf("train.py:13 to 14"), "a()\nb()\n");
}

// f and g are on recorded stacks.
TEST_F(SourceLinesTest, IsNotThatOfBranchesThatDidNotRun) {
  std::ofstream(folder_ / "train.py")
      << "for i in range(9):\n  if a:\n    slow(i)\n  elif b:\n    f(i)\n  else: other(i)\n"
         "  if c:\n    maybe(i)\n  g(i)\n  h(i if a else 0)\ndef maybe(i):\n  return i\n";
  ModelBuilder builder;
  for (const uint32_t line : {5, 9}) builder.AddStack({{(folder_ / "train.py").string(), "<module>", line}});
  TraceModel model = builder.Build(1);
  model.processes.front().realtime_offset_ns = (std::time(nullptr) + 60) * 1'000'000'000;
  EXPECT_EQ(SourceLines(model).CodeOf("train.py:9", /*in_loop=*/true),
            "for i in range(9):\nif a:\nelif b:\nf(i)\nif c:\nmaybe(i)  # if this branch runs\ng(i)\n"
            "h(i if a else 0)  # if this branch runs\nreturn i  # if this branch runs\n");
}

// Between two calls of one line the rest of its loop may run.
TEST_F(SourceLinesTest, IsThatOfTheLoopAround) {
  std::ofstream(folder_ / "train.py")
      << "x = 0\nfor x in data:\n  f(x)\n  g(x)\n  h(x)\nprint()\ndef k():\n  f(x)\n  g(x)\n";
  const auto of_loop = [&](const char* label) { return Of(label, 60, {"train.py"}, /*in_loop=*/true); };
  EXPECT_THAT(of_loop("train.py:3"), ElementsAre("2: for x in data:", "3: f(x)", "4: g(x)", "5: h(x)"));
  EXPECT_THAT(of_loop("train.py:5"), ElementsAre("2: for x in data:", "3: f(x)", "4: g(x)", "5: h(x)"));
  EXPECT_THAT(of_loop("train.py:6"), ElementsAre("6: print()"));
  EXPECT_THAT(of_loop("train.py:9"), ElementsAre("8: f(x)", "9: g(x)"));  // of a function what runs before
}

TEST_F(SourceLinesTest, GoesOnBehindInnerLoopsAndStatementsOfSeveralLines) {
  std::ofstream(folder_ / "train.py")
      << "for x in data:\n  for y in x:\n    f(\n      y, ')'\n    )\n  slow(x)\n  z = (1,\n  2)\n  h(x)\n";
  EXPECT_THAT(Of("train.py:3 to 9"), ElementsAre("3: f(", "6: slow(x)", "7: z = (1,", "8: 2)", "9: h(x)"));
  EXPECT_THAT(Of("train.py:9 to 3"), ElementsAre("9: h(x)", "1: for x in data:", "2: for y in x:", "3: f("));
}

TEST_F(SourceLinesTest, IsThatOfTheFunctionFurtherUp) {
  std::ofstream(folder_ / "train.py")
      << "def sample(n):\n  rows = slow(n)\n  return f(rows)\n\nfor i in range(9):\n  f(sample(i))\n";
  EXPECT_THAT(Of("train.py:6 to 3"), ElementsAre("6: f(sample(i))", "2: rows = slow(n)", "3: return f(rows)"));
}

TEST_F(SourceLinesTest, IsThatOfTheFunctionFurtherDown) {
  std::ofstream(folder_ / "train.py") << "def main():\n  for i in range(9):\n    f(sample(i))\n    g()\n\ndef "
                                         "sample(n):\n  rows = slow(n)\n  return f(rows)\n";
  EXPECT_THAT(Of("train.py:3 to 8"),
              ElementsAre("3: f(sample(i))", "4: g()", "7: rows = slow(n)", "8: return f(rows)"));
  EXPECT_THAT(Of("train.py:2 to 8"), ElementsAre("2: for i in range(9):", "7: rows = slow(n)", "8: return f(rows)"));
}

TEST_F(SourceLinesTest, IsNothingForWhatIsNotTheFileThatRan) {
  EXPECT_THAT(Of("train.py:2", -60), IsEmpty());  // changed since
  EXPECT_THAT(Of("train.py:9"), IsEmpty());
  EXPECT_THAT(Of("other.py:1"), IsEmpty());
  EXPECT_THAT(Of(""), IsEmpty());
  EXPECT_THAT(Of("train.py:1 to model.py:2"), IsEmpty());
  Write(folder_ / "other" / "train.py");
  EXPECT_THAT(Of("train.py:2", 60, {"train.py", "other/train.py"}), IsEmpty());  // which of them?
  std::filesystem::remove(folder_ / "train.py");
  EXPECT_THAT(Of("train.py:2"), IsEmpty());
  Write(folder_ / "train.txt");
  EXPECT_THAT(Of("train.txt:2", 60, {"train.txt"}), IsEmpty());
}

}  // namespace source_lines_test
}  // namespace dlhook::analyzer
