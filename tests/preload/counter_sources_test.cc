// The sources of counters, one by one: files of /proc, recorded readings. Those of perf_event: perf_group_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "preload/counters/perf_group.h"
#include "preload/counters/rusage_counters.h"
#include "preload/drain/proc_counters.h"
#include "tests/testing_shim/counter_replay.h"

namespace dlhook {
namespace {

using ::testing::HasSubstr;

// ---- /proc ----

TEST(ProcCountersTest, FieldsAreCountedFromTheLastParenthesis) {
  ProcStat stat;
  ASSERT_TRUE(
      ParseStat("4711 (a) b (c)) R 1 2 3 0 -1 4194304 101 102 103 104 11 12 13 14 20 0 1 0 987654 4096", &stat));
  EXPECT_STREQ(stat.name, "a) b (c)");
  EXPECT_EQ(stat.minor_faults, 101u);
  EXPECT_EQ(stat.major_faults, 103u);
  EXPECT_EQ(stat.cpu_jiffies, 23u);
  EXPECT_EQ(stat.start_jiffies, 987654u);
  EXPECT_FALSE(ParseStat("", &stat));
  EXPECT_FALSE(ParseStat("1 (x) R 1 2 3", &stat));
}

TEST(ProcCountersTest, OtherFiles) {
  uint64_t first = 0, second = 0;
  EXPECT_TRUE(ParseSchedstat("154535369 2111 37\n", &first, &second));
  EXPECT_EQ(first, 154535369u);
  EXPECT_EQ(second, 2111u);
  EXPECT_FALSE(ParseSchedstat("", &first, &second));
  EXPECT_TRUE(
      ParseSwitches("Name:\tx\nvoluntary_ctxt_switches:\t37\nnonvoluntary_ctxt_switches:\t24\n", &first, &second));
  EXPECT_EQ(first, 37u);
  EXPECT_EQ(second, 24u);
  EXPECT_FALSE(ParseSwitches("Name:\tx\n", &first, &second));
  EXPECT_TRUE(ParseMigrations("python (1, #threads: 1)\nse.nr_migrations   :     17\nnr_switches : 5\n", &first));
  EXPECT_EQ(first, 17u);
  EXPECT_FALSE(ParseMigrations("no such line", &first));
}

TEST(ProcCountersTest, WhatAThreadIsBlockedIn) {
  auto place = BlockedIn::kOther;
  EXPECT_FALSE(ParseBlockedIn("running\n", &place));
  EXPECT_FALSE(ParseBlockedIn("", &place));
  const std::pair<const char*, BlockedIn> kCalls[] = {
      {"202 0x7f00 0x80", BlockedIn::kLock}, {"0 0x3 0x7f00", BlockedIn::kTransfer},
      {"7 0x7f00", BlockedIn::kPoll},        {"230 0x1 0x1", BlockedIn::kSleep},
      {"61 0x77", BlockedIn::kChild},        {"-1 0x7ffc 0x55", BlockedIn::kFault},
      {"34 0x0 0x0", BlockedIn::kOther}};
  for (const auto& [text, expected] : kCalls) {
    ASSERT_TRUE(ParseBlockedIn(text, &place)) << text;
    EXPECT_EQ(place, expected) << text;
  }
  EXPECT_TRUE(IsBlocked("4711 (a name) may) contain) S 1 2"));
  EXPECT_TRUE(IsBlocked("4711 (x) D 1 2"));
  EXPECT_FALSE(IsBlocked("4711 (x) S) R 1 2"));
  EXPECT_FALSE(IsBlocked(""));
}

// The same thread by both ways. For a running thread the file is as old as the scheduler's last tick.
TEST(ProcCountersTest, AgreesWithGetrusage) {
  ProcFiles files;
  char text[1024];
  Usage usage;
  ProcStat stat;
  uint64_t task_clock_ns = 0, queued_ns = 0;
  StartProcFiles(static_cast<uint32_t>(getpid()), static_cast<uint32_t>(gettid()), &files);
  ASSERT_TRUE(ReadProcFile(&files, ProcFile::kStat, text, sizeof text));
  ASSERT_TRUE(ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, true, true, &usage));
  ASSERT_TRUE(ParseStat(text, &stat));
  EXPECT_LE(stat.minor_faults, usage.minor_faults);
  EXPECT_GE(stat.minor_faults + 8, usage.minor_faults);
  ASSERT_TRUE(ReadProcFile(&files, ProcFile::kSchedstat, text, sizeof text));
  ASSERT_TRUE(ParseSchedstat(text, &task_clock_ns, &queued_ns));
  EXPECT_LE(task_clock_ns, usage.task_clock_ns + 100000000);
  EXPECT_GE(task_clock_ns + 100000000, usage.task_clock_ns);
  CloseProcFiles(&files);
}

// ---- recorded readings ----

std::string Complaint(const std::string& text) {
  char complaint[128] = "";
  return ParseReplay(text.data(), text.size(), complaint, sizeof complaint) ? "" : complaint;
}

TEST(ReplayTest, GoesRoundAndTotalsGrow) {
  ASSERT_EQ(Complaint("# recorded\ncounters cycles instructions\nadd 10 20\nadd 1 2 enabled 100 running 50\n"), "");
  ASSERT_EQ(ReplayedCounters().count, 2u);
  EXPECT_STREQ(ReplayedCounters().counters[1].name, "instructions");
  ReplayPosition position = {};
  PerfReading reading = {};
  for (int i = 0; i < 3; ++i) ReadReplay(&position, &reading);
  EXPECT_EQ(reading.values[0], 21u);
  EXPECT_EQ(reading.values[1], 42u);
  EXPECT_EQ(reading.enabled_ns, 100u);
  EXPECT_EQ(reading.running_ns, 50u);
}

TEST(ReplayTest, RawCountersWrap) {
  ASSERT_EQ(Complaint("bits 32\ncounters cycles\nraw 4294967290\nraw 4\nraw 10"), "");
  ReplayPosition position = {};
  PerfReading reading = {};
  ReadReplay(&position, &reading);
  const uint64_t first = reading.values[0];
  ReadReplay(&position, &reading);
  EXPECT_EQ(reading.values[0] - first, 10u);
  ReadReplay(&position, &reading);
  EXPECT_EQ(reading.values[0] - first, 16u);
}

TEST(ReplayTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(Complaint("counters cycles\nadd 1\nadd x\n"), HasSubstr("line 3"));
  EXPECT_THAT(Complaint("counters cycles\nadd 1 2\n"), HasSubstr("line 2"));
  EXPECT_THAT(Complaint("add 1\n"), HasSubstr("line 1"));
  EXPECT_THAT(Complaint("bits 65\n"), HasSubstr("line 1"));
  EXPECT_THAT(Complaint("counters cycles\n"), HasSubstr("no readings"));
  EXPECT_THAT(Complaint(""), HasSubstr("no readings"));
  EXPECT_EQ(ReplayedCounters().count, 0u);
}

}  // namespace
}  // namespace dlhook
