// The cost of a reading of counters compared with the bare system calls, alternating in one thread.
//   counter_bench [ROUNDS]
// Prints one JSON object: median ns of each, and the median of the rounds' ratios.
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "preload/counters/perf_group.h"
#include "preload/counters/rusage_counters.h"
#include "preload/format/clock.h"

namespace dlhook {
namespace {

constexpr int kReadings = 20000;

volatile uint64_t g_kept;  // so that nothing is optimized away

template <typename Body>
double NanosecondsOf(const Body& body) {
  const uint64_t begin = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < kReadings; ++i) body();
  return static_cast<double>(ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin) / kReadings;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Ours, typename Bare>
void Compare(const char* name, int rounds, const Ours& ours, const Bare& bare, const char* end) {
  std::vector<double> ours_ns, bare_ns, ratios;
  for (int i = 0; i < rounds; ++i) {
    ours_ns.push_back(NanosecondsOf(ours));
    bare_ns.push_back(NanosecondsOf(bare));
    ratios.push_back(ours_ns.back() / bare_ns.back());
  }
  printf("\"%s\": {\"ns\": %.1f, \"bare_ns\": %.1f, \"ratio\": %.3f}%s", name, Median(ours_ns), Median(bare_ns),
         Median(ratios), end);
}

void CompareUsage(int rounds) {
  Usage usage;
  Compare(
      "rusage", rounds,
      [&] {
        ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, true, true, &usage);
        g_kept = FieldOf(usage, UsageField::kMinorFaults);
      },
      [] {
        timespec now;
        rusage counts;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        getrusage(RUSAGE_THREAD, &counts);
        g_kept = static_cast<uint64_t>(counts.ru_minflt);
      },
      "");
}

CounterSpec Software(const char* name, uint64_t config) {
  CounterSpec spec = {};
  snprintf(spec.name, sizeof spec.name, "%s", name);
  spec.perf_type = PERF_TYPE_SOFTWARE;
  spec.perf_config = config;
  return spec;
}

// In the drain's own table no check is needed; in the host's each reading first checks whose the descriptor is.
void CompareGroup(int rounds, bool in_host_table) {
  const CounterSpec specs[] = {Software("task-clock", PERF_COUNT_SW_TASK_CLOCK),
                               Software("page-faults", PERF_COUNT_SW_PAGE_FAULTS),
                               Software("major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ),
                               Software("context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES)};
  PerfEvent events[4];
  for (int i = 0; i < 4; ++i) events[i] = {&specs[i], false};
  PerfGroup group;
  if (!OpenPerfGroup(events, 4, 0, in_host_table, &group)) {
    fprintf(stderr, "perf_event_open: %s\n", strerror(errno));
    return;
  }
  PerfReading reading;
  Compare(
      in_host_table ? "perf_read_in_host" : "perf_read", rounds,
      [&] {
        ReadPerfGroup(group, &reading);
        g_kept = reading.values[0];
      },
      [&] {
        uint64_t words[3 + 4];
        if (read(group.fds[0], words, sizeof words) == sizeof words) g_kept = words[3];
      },
      "");
  ClosePerfGroup(&group);
}

// The protocol around rdpmc, without the instruction (which would fault if it is forbidden): the ns to add to rdpmc's
// own.
struct NoInstructions {
  static uint64_t Pmc(uint32_t index) { return index; }
  static uint64_t Tsc() { return ReadTicks(ClockKind::kTsc); }
};

void ComparePage(int rounds) {
  static perf_event_mmap_page page;
  page.cap_user_rdpmc = page.cap_user_time = 1;
  page.pmc_width = 48;
  page.index = 1;
  page.time_mult = 1;
  PerfPageReading reading = {};
  Compare(
      "perf_page_without_rdpmc", rounds,
      [&] {
        ReadPerfPage<NoInstructions>(&page, &reading);
        g_kept = reading.value;
      },
      [] { g_kept = ReadTicks(ClockKind::kTsc); }, "}\n");
}

}  // namespace
}  // namespace dlhook

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 21;
  printf("{");
  dlhook::CompareUsage(rounds);
  printf(", ");
  dlhook::CompareGroup(rounds, false);
  printf(", ");
  dlhook::CompareGroup(rounds, true);
  printf(", ");
  dlhook::ComparePage(rounds);
  return 0;
}
