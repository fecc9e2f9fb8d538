// Golden tests: a trace as text in, every table of it and the answer screen out.
//
//   golden_test            compares with expected/TRACE.TABLE.csv; tables without rows have no file
//   golden_test --update   rewrites those files; read the difference before you commit it
//
// To add one: put TRACE.textproto here (`dlhook dump RUN > TRACE.textproto`, cut down to what
// matters), run --update, check the tables by hand.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/answer/answer.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;

bool update = false;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  EXPECT_TRUE(file.good()) << path;
}

std::vector<std::string> TraceNames() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(DLHOOK_GOLDEN)) {
    if (entry.path().extension() == ".textproto") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// All columns of all rows, then the notes.
std::string TableText(const TraceModel& model, const Table& table) {
  Report report;
  report.run = &model;
  report.tables = {table};
  std::string text = RenderCsv(report);
  for (const std::string& note : table.notes) absl::StrAppend(&text, "# ", note, "\n");
  return text;
}

// The binary form of the text trace, in a folder of its own.
class ScratchTrace {
 public:
  explicit ScratchTrace(const std::string& name) {
    std::string folder = (fs::temp_directory_path() / "dlhook_golden_XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    trace::Trace trace;
    const std::string text = ReadFile(fs::path(DLHOOK_GOLDEN) / (name + ".textproto"));
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &trace)) << name;
    WriteFile(path(), trace.SerializeAsString());
  }
  ~ScratchTrace() { fs::remove_all(folder_); }
  fs::path path() const { return folder_ / "1.dlh"; }

 private:
  fs::path folder_;
};

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, EveryTable) {
  const ScratchTrace trace(GetParam());
  absl::StatusOr<LoadedRun> run = LoadRun(trace.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->damage.empty()) << run->damage[0];
  run->model.name = GetParam();
  const Choices choices = ResolveChoices(&run->model);
  const RunTotals totals = ComputeTotals(run->model);
  const LayerAnalysis analysis(run->model);
  for (const TableKind& kind : ReportTables()) {
    size_t mistakes = 0;
    const absl::StatusOr<Table> table =
        MakeTable(kind, run->model, {.choices = &choices, .totals = &totals, .analysis = &analysis}, &mistakes);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(mistakes, 0u) << table->name << ": " << table->notes.back();
    const fs::path expected = fs::path(DLHOOK_GOLDEN) / "expected" / absl::StrCat(GetParam(), ".", table->name, ".csv");
    if (table->rows.empty() && table->notes.empty()) {
      EXPECT_FALSE(fs::exists(expected)) << table->name << " has no rows";
      continue;
    }
    const std::string text = TableText(run->model, *table);
    if (update) WriteFile(expected, text);
    EXPECT_EQ(text, ReadFile(expected)) << "if this is what it should be: golden_test --update";
  }
}

TEST_P(GoldenTest, Answer) {
  const ScratchTrace trace(GetParam());
  absl::StatusOr<LoadedRun> run = LoadRun(trace.path());
  ASSERT_TRUE(run.ok()) << run.status();
  run->model.name = GetParam();
  const Choices choices = ResolveChoices(&run->model);
  const RunTotals totals = ComputeTotals(run->model);
  const LayerAnalysis analysis(run->model);
  const StepFacts facts(run->model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  const absl::StatusOr<std::string> answer = MakeAnswer(facts, {.run = "RUN"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(*answer, "\n"), '\n');
  EXPECT_LE(lines.size(), kMostLines);
  for (const std::string& line : lines) EXPECT_LE(TextWidth(line), 80u) << line;
  int percent = 0;
  for (const StepPart& part : PartsOfStep(facts, 7)) percent += part.percent;
  EXPECT_EQ(percent, 100);
  const fs::path expected = fs::path(DLHOOK_GOLDEN) / "expected" / absl::StrCat(GetParam(), ".answer.txt");
  if (update) WriteFile(expected, *answer);
  EXPECT_EQ(*answer, ReadFile(expected)) << "if this is what it should be: golden_test --update";
}

TEST(ExpectedFiles, EachIsOfATable) {
  std::set<std::string> names;
  for (const std::string& trace : TraceNames()) {
    for (const TableKind& kind : ReportTables()) names.insert(absl::StrCat(trace, ".", kind.name, ".csv"));
    names.insert(absl::StrCat(trace, ".answer.txt"));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(DLHOOK_GOLDEN) / "expected")) {
    EXPECT_EQ(names.count(entry.path().filename().string()), 1u) << entry.path() << " is compared with nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, GoldenTest, ::testing::ValuesIn(TraceNames()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenTest);

}  // namespace
}  // namespace dlhook::analyzer

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  dlhook::analyzer::update = argc > 1 && std::string(argv[1]) == "--update";
  return RUN_ALL_TESTS();
}
