// Counters of perf_event: pages that are read by rdpmc, groups. Features that this machine lacks (rdpmc, processor
// counters) are simulated by pages made by hand.
#include "preload/counters/perf_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "preload/counters/rusage_counters.h"

namespace dlhook {
namespace perf_group_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- a page of the kernel ----

perf_event_mmap_page g_page;
std::vector<uint64_t> g_pmc;  // the counter's values, one per read; the last one stays
uint32_t g_pmc_index;
int g_writes;  // number of writes by the kernel during a read
uint64_t g_tsc;

struct TestCounters {
  static uint64_t Pmc(uint32_t index) {
    g_pmc_index = index;
    if (g_writes > 0) {
      --g_writes;
      g_page.lock += 2;
      g_page.offset += 1000;
    }
    const uint64_t value = g_pmc.front();
    if (g_pmc.size() > 1) g_pmc.erase(g_pmc.begin());
    return value;
  }
  static uint64_t Tsc() { return g_tsc; }
};

class PerfPageTest : public ::testing::Test {
 protected:
  PerfPageTest() {
    memset(&g_page, 0, sizeof g_page);
    g_page.cap_user_rdpmc = 1;
    g_page.pmc_width = 48;
    g_page.index = 3;
    g_page.time_enabled = g_page.time_running = 500;
    g_pmc = {0};
    g_writes = 0;
    g_tsc = 0;
  }
  static PerfPageReading Read() {
    PerfPageReading reading = {};
    EXPECT_TRUE(ReadPerfPage<TestCounters>(&g_page, &reading));
    return reading;
  }
};

TEST_F(PerfPageTest, ACountIsThePagesAndTheProcessors) {
  g_page.offset = 1000000;
  g_pmc = {77};
  EXPECT_EQ(Read().value, 1000077u);
  EXPECT_EQ(g_pmc_index, 2u);  // the page's index is one more
}

// The kernel lets counters begin below zero so that they overflow in time: -1000 in 48 bits.
TEST_F(PerfPageTest, CountersAreSignedAndWrap) {
  g_page.offset = (1 << 20) + 1000;
  g_pmc = {(uint64_t{1} << 48) - 1000};
  EXPECT_EQ(Read().value, uint64_t{1} << 20);
  g_pmc = {5};  // it has overflowed
  EXPECT_EQ(Read().value, (uint64_t{1} << 20) + 1005);
  g_page.pmc_width = 64;
  g_pmc = {~uint64_t{0}};
  EXPECT_EQ(Read().value, (uint64_t{1} << 20) + 999);
}

TEST_F(PerfPageTest, IsReadAgainWhereTheKernelWroteMeanwhile) {
  g_page.offset = 10;
  g_pmc = {1, 2, 3};
  g_writes = 2;
  EXPECT_EQ(Read().value, 2013u);
}

TEST_F(PerfPageTest, GivesUpOnAKernelThatNeverEnds) {
  g_writes = 1 << 20;
  PerfPageReading reading;
  EXPECT_FALSE(ReadPerfPage<TestCounters>(&g_page, &reading));
}

TEST_F(PerfPageTest, OutOfTheProcessorThePageHasAll) {
  g_page.index = 0;
  g_page.offset = 4711;
  g_page.time_enabled = 900;
  g_page.time_running = 300;
  const PerfPageReading reading = Read();
  EXPECT_EQ(reading.value, 4711u);
  EXPECT_EQ(reading.enabled_ns, 900u);
  EXPECT_EQ(reading.running_ns, 300u);
}

TEST_F(PerfPageTest, NotWhereTheKernelForbids) {
  g_page.cap_user_rdpmc = 0;
  PerfPageReading reading;
  EXPECT_FALSE(ReadPerfPage<TestCounters>(&g_page, &reading));
}

// Times continue since the page was written: <linux/perf_event.h>, time_mult. Here 4 ticks are 3 ns.
TEST_F(PerfPageTest, TimesGoOn) {
  g_page.cap_user_time = 1;
  g_page.time_shift = 10;
  g_page.time_mult = 768;
  g_page.time_offset = 7;
  g_tsc = 4000;
  EXPECT_EQ(Read().enabled_ns, 500u + 3007u);
  EXPECT_EQ(Read().running_ns, 500u + 3007u);
  g_page.index = 0;
  EXPECT_EQ(Read().enabled_ns, 500u + 3007u);
  EXPECT_EQ(Read().running_ns, 500u);
  // A short clock, which the page's last value completes.
  g_page.cap_user_time_short = 1;
  g_page.time_cycles = 0x1000000ff;
  g_page.time_mask = 0xffffffff;
  g_tsc = 0x5;
  EXPECT_EQ(Read().enabled_ns, 500u + 7u + (0x200000005u * 768 >> 10));
}

// Without a clock both times are outdated and would mean that nothing ran.
TEST_F(PerfPageTest, WithoutAClockEqualTimesAreNotTold) {
  EXPECT_EQ(Read().enabled_ns, 0u);
  g_page.time_running = 499;
  EXPECT_EQ(Read().enabled_ns, 500u);
}

// ---- groups ----

CounterSpec Spec(const char* name, uint32_t type, uint64_t config) {
  CounterSpec spec = {};
  snprintf(spec.name, sizeof spec.name, "%s", name);
  spec.perf_type = type;
  spec.perf_config = config;
  return spec;
}

std::vector<std::string> Names(const PerfEvent* events, uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i)
    names.push_back(events[i].spec->name + std::string(events[i].user_only ? ":u" : ""));
  return names;
}

// Documentation/perf's topdown.txt: metrics are only counted in a group with slots as its leader.
TEST(PerfGroupTest, MetricsFollowTheSlotsThatLeadThem) {
  CounterSpec metric = Spec("topdown-retiring", 4, 0x8000), slots = Spec("slots", 4, 0x400),
              cycles = Spec("cycles", 0, 0);
  CounterSpec other = Spec("topdown-fe-bound", 4, 0x8200);
  metric.needs_slots = other.needs_slots = true;
  slots.leads_group = true;
  PerfEvent events[] = {{&metric, false}, {&cycles, false}, {&slots, true}, {&other, false}};
  ArrangePerfEvents(events, 4);
  EXPECT_THAT(Names(events, 4), ElementsAre("cycles", "slots:u", "topdown-retiring:u", "topdown-fe-bound:u"));
  EXPECT_EQ(LongestPerfGroup(events, 4), 1u);
  EXPECT_EQ(LongestPerfGroup(events + 1, 3), 3u);
}

// Only the processor's own can be read by rdpmc.
TEST(PerfGroupTest, TheKernelsCountersAreAGroupOfTheirOwn) {
  const CounterSpec task = Spec("task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
  const CounterSpec faults = Spec("minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN);
  const CounterSpec cycles = Spec("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
  PerfEvent events[] = {{&task, false}, {&cycles, false}, {&faults, false}};
  ArrangePerfEvents(events, 3);
  EXPECT_THAT(Names(events, 3), ElementsAre("cycles", "task-clock", "minor-faults"));
  EXPECT_EQ(LongestPerfGroup(events, 3), 1u);
  EXPECT_EQ(LongestPerfGroup(events + 1, 2), 2u);
}

// A member that joined a running group would begin to count later.
TEST(PerfGroupTest, AllOfAGroupBeginAtOnce) {
  CounterSpec clock = Spec("task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
  CounterSpec faults = Spec("minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN);
  const CounterSpec* specs[] = {&clock, &faults};
  PerfGroups groups;
  DividePerfGroups(
      specs, 2, [](void*, const CounterSpec&, const char*) {}, nullptr, &groups);
  if (groups.count == 0) GTEST_SKIP() << "SKIPPED: perf_group_test: perf_event_open: " << strerror(errno);
  constexpr uint64_t kPages = 300;
  std::vector<PerfGroup> open(groups.count);
  uint32_t first = 0;
  for (uint32_t i = 0; i < groups.count; first += groups.sizes[i++]) {
    ASSERT_TRUE(OpenPerfGroup(groups.events + first, groups.sizes[i], 0, false, &open[i]));
  }
  void* memory = mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, kPages * 4096, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * 4096] = 1;
  munmap(memory, kPages * 4096);
  first = 0;
  for (uint32_t i = 0; i < groups.count; first += groups.sizes[i++]) {
    PerfReading reading;
    ASSERT_TRUE(ReadPerfGroup(open[i], &reading));
    for (uint32_t j = 0; j < groups.sizes[i]; ++j) {
      EXPECT_GE(reading.values[j], kPages) << groups.events[first + j].spec->name;
    }
    ClosePerfGroup(&open[i]);
  }
}

TEST(PerfGroupTest, ReasonsSayWhatToDo) {
  char reason[200];
  const CounterSpec cycles = Spec("cycles", PERF_TYPE_HARDWARE, 0);
  const std::pair<int, const char*> cases[] = {{ENOENT, "not on this machine"},
                                               {EACCES, "perf_event_paranoid"},
                                               {EBUSY, "taken"},
                                               {EMFILE, "ulimit -n"},
                                               {ENOSYS, "not implemented"}};
  for (const auto& [error, expected] : cases) {
    ExplainPerfError(cycles, error, reason, sizeof reason);
    EXPECT_THAT(reason, HasSubstr(expected));
  }
}

// Real events: the kernel's own counters, available on every machine.
class RealGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (OpenPerfGroup(events_, 2, 0, true, &group_)) return;
    for (PerfEvent& event : events_) event.user_only = true;
    if (!OpenPerfGroup(events_, 2, 0, true, &group_))
      GTEST_SKIP() << "SKIPPED: perf_group_test: perf_event_open: " << strerror(errno);
  }
  void TearDown() override {
    if (group_.count != 0) ClosePerfGroup(&group_);
  }
  CounterSpec all_faults_ = Spec("page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
  CounterSpec faults_ = Spec("minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN);
  PerfEvent events_[2] = {{&all_faults_, false}, {&faults_, false}};
  PerfGroup group_ = {};
};

TEST_F(RealGroupTest, CountsFaultsAsGetrusageDoes) {
  constexpr size_t kPages = 300;
  PerfReading before, after;
  Usage usage_before, usage_after;
  ASSERT_TRUE(ReadPerfGroup(group_, &before));
  ASSERT_TRUE(ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, true, true, &usage_before));
  void* memory = mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, kPages * 4096, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * 4096] = 1;
  ASSERT_TRUE(ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, true, true, &usage_after));
  ASSERT_TRUE(ReadPerfGroup(group_, &after));
  munmap(memory, kPages * 4096);
  const uint64_t faults = usage_after.minor_faults - usage_before.minor_faults;
  EXPECT_GE(faults, kPages);
  EXPECT_GE(after.values[1] - before.values[1], faults);
  EXPECT_LE(after.values[1] - before.values[1], faults + 8);  // between the readings
  EXPECT_EQ(after.values[0] - before.values[0], after.values[1] - before.values[1]);
  EXPECT_GE(after.enabled_ns, after.running_ns);
}

// They are out of the range of newly opened files.
TEST_F(RealGroupTest, DescriptorsAreHighAndCloseOnExec) {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_GE(group_.fds[0], static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096) / 2));
  EXPECT_EQ(fcntl(group_.fds[0], F_GETFD), FD_CLOEXEC);
}

// A host that puts its own pipe on the number of dlhook's descriptor keeps its contents, and the pipe.
TEST_F(RealGroupTest, AForeignFileOnOurNumberIsLeftAlone) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_NONBLOCK), 0);
  ASSERT_EQ(write(pipe_ends[1], "the host's own data, as long as a reading is", 44), 44);
  ASSERT_EQ(dup2(pipe_ends[0], group_.fds[0]), group_.fds[0]);
  PerfReading reading;
  EXPECT_FALSE(ReadPerfGroup(group_, &reading));
  const int number = group_.fds[0];
  ClosePerfGroup(&group_);
  char text[64] = "";
  EXPECT_EQ(read(number, text, sizeof text), 44);
  EXPECT_STREQ(text, "the host's own data, as long as a reading is");
  for (int fd : {number, pipe_ends[0], pipe_ends[1]}) EXPECT_EQ(close(fd), 0);
}

TEST_F(RealGroupTest, NoMoreThanAnEighthOfTheDescriptors) {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit small = {160, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  std::vector<PerfGroup> groups(40);
  size_t open = 0;
  while (open < groups.size() && OpenPerfGroup(events_, 1, 0, true, &groups[open])) ++open;
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(open, 160u / 8 - 2);  // two are the fixture's
  for (size_t i = 0; i < open; ++i) ClosePerfGroup(&groups[i]);
  EXPECT_TRUE(OpenPerfGroup(events_, 1, 0, true, &groups[0]));  // closed ones no longer count
  ClosePerfGroup(&groups[0]);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace perf_group_test
}  // namespace dlhook
