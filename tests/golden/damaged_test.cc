// Every table of damaged runs: the traces here and in ../fuzz/corpus/trace, changed in a few places by the fuzzers'
// mutator, always in the same ones. No table contains an impossible number.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/reader/trace_builder.h"
#include "proto/trace.pb.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

namespace {

std::mt19937 random_bits;

}  // namespace

// The mutator's change of bytes: one bit.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t /*max_size*/) {
  if (size > 0) data[random_bits() % size] ^= static_cast<uint8_t>(1u << random_bits() % 8);
  return size;
}

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;

#ifdef __SANITIZE_ADDRESS__       // ten times slower; fuzz.tables changes them, too
constexpr int kDamagedRuns = 40;  // of each trace
#else
constexpr int kDamagedRuns = 200;
#endif
constexpr size_t kRoom = 1 << 14;  // for what a mutation adds

void ExpectPossibleNumbers(const std::string& bytes) {
  TraceBuilder builder("damaged");
  builder.AddTrace("damaged.dlh", {bytes}).IgnoreError();
  TraceModel model = std::move(builder).Build();
  if (model.processes.empty()) return;
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  for (const TableKind& kind : ReportTables()) {
    size_t mistakes = 0;
    const absl::StatusOr<Table> table =
        MakeTable(kind, model, {.choices = &choices, .totals = &totals, .analysis = &analysis}, &mistakes);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(mistakes, 0u) << kind.name << ": " << table->notes.back();
  }
}

class DamagedTest : public testing::TestWithParam<std::string> {};

TEST_P(DamagedTest, TablesHoldNoNonsense) {
  std::ifstream file(GetParam());
  std::stringstream text;
  text << file.rdbuf();
  trace::Trace trace;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text.str(), &trace));
  const std::string whole = trace.SerializeAsString();
  ExpectPossibleNumbers(whole);
  random_bits.seed(1);
  for (int run = 0; run < kDamagedRuns && !HasFailure(); ++run) {
    std::string damaged = whole;
    for (int changes = 1 + run % 4; changes > 0; --changes) {
      const size_t size = damaged.size();
      damaged.resize(whole.size() + kRoom);
      damaged.resize(LLVMFuzzerCustomMutator(reinterpret_cast<uint8_t*>(damaged.data()), size, damaged.size(),
                                             static_cast<unsigned>(random_bits())));
    }
    SCOPED_TRACE(run);
    ExpectPossibleNumbers(damaged);
  }
}

std::vector<std::string> Traces() {
  std::vector<std::string> paths;
  for (const char* folder : {DLHOOK_TESTS "/golden", DLHOOK_TESTS "/fuzz/corpus/trace"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".textproto") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

INSTANTIATE_TEST_SUITE_P(Traces, DamagedTest, testing::ValuesIn(Traces()),
                         [](const auto& info) { return fs::path(info.param).stem().string(); });

}  // namespace
}  // namespace dlhook::analyzer
