// Rule page-faults, for steps in which the first thread faults pages in, depending on whether they are given back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/diff/training_run.h"

namespace dlhook::analyzer {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct Memory {
  int64_t faults = 1000;          // of a step; each costs 2 us, a step takes 12 ms
  int64_t system_ns = 5'000'000;  // of a step
  int64_t kept_bytes = 0;         // of a step
  bool by_first_thread = true;
  std::map<std::string, std::string> settings;
  std::string loader;
  uint32_t page_fault_ns = 2000;
  int64_t block_bytes = 0;  // that the second layer allocates and frees in each of its passes
};

class PageFaultsTest : public testing::Test {
 protected:
  explicit PageFaultsTest() = default;

  void Judge(const Memory& memory) {
    RunSpec spec;
    spec.layers = Layers(2);
    for (LayerSpec& layer : spec.layers) layer.forward_ns = layer.backward_ns = 3'000'000;
    spec.threads = 4;
    spec.settings = memory.settings;
    spec.loader = memory.loader;
    spec.of_thread = true;
    TrainingRun run(spec);
    TraceModel& model = run.model();
    model.threads.front().tid = model.processes.front().pid + (memory.by_first_thread ? 0 : 1);
    int64_t step = 0;
    for (LoadSample& sample : model.loads) {  // one after each step
      sample.page_faults = step * memory.faults;
      sample.system_ns = step * memory.system_ns;
      sample.resident_bytes = step * memory.kept_bytes;
      sample.page_fault_ns = memory.page_fault_ns;
      ++step;
    }
    const Attribution& attribution = run.analysis().attribution();
    for (ScopeIndex scope = 0; memory.block_bytes > 0 && scope < model.scopes.size(); ++scope) {
      const LayerIndex layer = attribution.of_scope[scope].layer;
      if (layer == kNone || attribution.layers[layer].name != "features.1") continue;
      const int64_t start_ns = model.scopes.start_ns[scope];
      model.memory.push_back({.time_ns = start_ns + 10, .address = 64, .bytes = memory.block_bytes, .scope = scope});
      model.memory.push_back({.time_ns = start_ns + 20, .address = 64, .scope = scope});
    }
    const StepFacts facts(model, run.analyzed().options);
    found_.clear();
    for (RuleFinding& finding : FindAll(facts)) {
      if (finding.rule == "page-faults") found_.push_back(std::move(finding.finding));
    }
    not_judged_ = NotJudged(facts);
  }

  std::vector<Finding> found_;
  std::vector<std::string> not_judged_;
};

TEST_F(PageFaultsTest, PagesThatAreGivenBack) {
  Judge({});
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_NEAR(found_[0].gain_ns, 2e6, 1e5);
  EXPECT_THAT(found_[0].sentence, HasSubstr("1000 page faults"));
  EXPECT_THAT(found_[0].advice, HasSubstr("MALLOC_MMAP_MAX_=0"));
  EXPECT_THAT(not_judged_, Not(Contains(HasSubstr("page-faults"))));
}

// Two passes a step, beside 1000 pages.
TEST_F(PageFaultsTest, NamesTheLayerThatAllocatesMostOfThem) {
  Judge({.block_bytes = 600 * 4096});
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_EQ(found_[0].where, "features.1");
  EXPECT_THAT(found_[0].sentence, HasSubstr("features.1 allocates 4.69 MiB a step in blocks of 128 KiB and more."));
  Judge({.block_bytes = 200 * 4096});  // 1.6 of 3.9 MiB
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_EQ(found_[0].where, "");
}

TEST_F(PageFaultsTest, NeverMoreThanTheTimeInTheKernel) {
  Judge({.system_ns = 1'000'000});
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_NEAR(found_[0].gain_ns, 1e6, 1e5);
}

TEST_F(PageFaultsTest, PagesThatAreKeptOrFewAreNoLoss) {
  Judge({.kept_bytes = 1000 * 4096});
  EXPECT_TRUE(found_.empty());
  Judge({.faults = 100});  // 200 us of 12 ms
  EXPECT_TRUE(found_.empty());
  Judge({.system_ns = 200'000});
  EXPECT_TRUE(found_.empty());
}

TEST_F(PageFaultsTest, WhoSetTheAllocatorHearsNothing) {
  using Settings = std::map<std::string, std::string>;
  for (const Settings& settings : {Settings{{"MALLOC_TRIM_THRESHOLD_", "100000"}},
                                   {{"GLIBC_TUNABLES", "glibc.malloc.mmap_max=0"}},
                                   {{"LD_PRELOAD", "libjemalloc.so.2"}}}) {
    Judge({.settings = settings});
    EXPECT_TRUE(found_.empty()) << settings.begin()->first;
  }
  Judge({.settings = {{"GLIBC_TUNABLES", "glibc.rtld.nns=8"}, {"LD_PRELOAD", "libfoo.so"}}});
  EXPECT_FALSE(found_.empty());
}

TEST_F(PageFaultsTest, SaysWhyItCouldNotJudge) {
  Judge({.page_fault_ns = 0});  // of an older trace
  EXPECT_TRUE(found_.empty());
  EXPECT_THAT(not_judged_, Contains(HasSubstr("page-faults (page faults were not sampled)")));
  Judge({.by_first_thread = false});
  EXPECT_TRUE(found_.empty());
  EXPECT_THAT(not_judged_, Contains(HasSubstr("a thread that does not run the steps")));
  Judge({.loader = "_MultiProcessingDataLoaderIter"});
  EXPECT_TRUE(found_.empty());
  EXPECT_THAT(not_judged_, Contains(HasSubstr("shared memory")));
}

}  // namespace
}  // namespace dlhook::analyzer
