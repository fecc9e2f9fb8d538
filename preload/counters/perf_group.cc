// Groups of perf events.
#include "preload/counters/perf_group.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/format/identity.h"

namespace dlhook::inline counters {
namespace {

constexpr size_t kPageBytes = 4096;
// Numbers that a program's own descriptors rarely reach, without enlarging its table unnecessarily.
constexpr rlim_t kLargestTable = 4096;
constexpr rlim_t kPartOfTable = 8;  // at most 1/8 of the descriptors that it may have

// In the host's table, for all threads. A forked child inherits its parent's descriptors and counts them.
std::atomic<uint32_t> g_descriptors{0};

int OpenEvent(const PerfEvent& event, pid_t tid, int leader) {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = event.spec->perf_type;
  attributes.config = event.spec->perf_config;
  attributes.config1 = event.spec->perf_config1;
  attributes.config2 = event.spec->perf_config2;
  attributes.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  attributes.disabled = leader < 0;  // all start at once, when the leader is enabled
  attributes.exclude_user = event.spec->exclude_user;
  attributes.exclude_kernel = event.user_only || event.spec->exclude_kernel;
  attributes.exclude_hv = attributes.exclude_kernel;
  long fd = syscall(SYS_perf_event_open, &attributes, tid, -1, leader, PERF_FLAG_FD_CLOEXEC);
  return static_cast<int>(fd);
}

// Moves the descriptor to a high number in the host's table; -1, and closed, if the limit is reached.
int MoveUp(int fd) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return fd;
  rlim_t table = limit.rlim_cur < kLargestTable ? limit.rlim_cur : kLargestTable;
  bool may_have = g_descriptors.fetch_add(1) < table / kPartOfTable;
  int high = may_have ? fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(table - table / 4)) : -1;
  close(fd);
  if (high >= 0) return high;
  g_descriptors.fetch_sub(1);
  errno = EMFILE;
  return -1;
}

bool IsOurs(int fd, uint64_t id) {
  uint64_t found = 0;
  return ioctl(fd, PERF_EVENT_IOC_ID, &found) == 0 && found == id;
}

void CloseEvent(PerfGroup* group, uint32_t i) {
  if (IsOurs(group->fds[i], group->ids[i])) close(group->fds[i]);
  if (group->in_host_table) g_descriptors.fetch_sub(1);
  group->fds[i] = -1;
}

// Kernel and processor events are kept apart: only the latter can be read by rdpmc, and wait for a free register.
bool IsOfKernel(const CounterSpec& spec) { return spec.perf_type == PERF_TYPE_SOFTWARE; }

bool AddEvent(const PerfEvent& event, pid_t tid, PerfGroup* group) {
  int fd = OpenEvent(event, tid, group->count == 0 ? -1 : group->fds[0]);
  if (fd >= 0 && group->in_host_table) fd = MoveUp(fd);
  if (fd < 0) return false;
  group->fds[group->count] = fd;
  group->ids[group->count] = 0;
  ioctl(fd, PERF_EVENT_IOC_ID, &group->ids[group->count]);
  ++group->count;
  return true;
}

void CloseDescriptors(PerfGroup* group) {
  ErrnoKeeper keeper;
  for (uint32_t i = group->count; i-- > 0;) CloseEvent(group, i);
}

bool ReadMapped(const PerfGroup& group, PerfReading* reading) {
  for (uint32_t i = 0; i < group.count; ++i) {
    PerfPageReading page;
    if (!ReadPerfPage(group.pages[i], &page)) return false;
    reading->values[i] = page.value;
    if (i != 0) continue;
    reading->enabled_ns = page.enabled_ns;
    reading->running_ns = page.running_ns;
  }
  return true;
}

// Whether the counters have ever been in the processor; others may hold the registers they need. Checked right after
// opening.
bool IsScheduled(const PerfGroup& group) {
  PerfReading reading;
  return !ReadPerfGroup(group, &reading) || reading.enabled_ns == 0 || reading.running_ns != 0;
}

bool NmiWatchdogCounts() {
  char text[4];
  ReadFileAt(AT_FDCWD, "/proc/sys/kernel/nmi_watchdog", text, sizeof text);
  return text[0] == '1';
}

int Paranoid() {
  char text[8];
  if (ReadFileAt(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid", text, sizeof text) == 0) return -2;
  return text[0] == '-' ? -1 : text[0] - '0';
}

// 0, or an errno. EBUSY: others hold the registers.
int TryGroup(const PerfEvent* events, uint32_t count) {
  PerfGroup group;
  if (!OpenPerfGroup(events, count, 0, false, &group)) return errno;
  bool is_scheduled = IsScheduled(group);
  ClosePerfGroup(&group);
  return is_scheduled ? 0 : EBUSY;
}

// Opens one event alone: completely, or for user mode only if the kernel allows no more. 0 or an errno.
int TryEvent(PerfEvent* event) {
  int error = TryGroup(event, 1);
  if (error != EACCES && error != EPERM) return error;
  event->user_only = true;
  error = TryGroup(event, 1);
  bool counts_nothing = (error == 0 || error == EBUSY) && event->spec->is_in_kernel;
  return counts_nothing ? EACCES : error;
}

// How many of the first `count` events fit into one group.
uint32_t FittingEvents(const PerfEvent* events, uint32_t count) {
  while (count > 1 && TryGroup(events, count) != 0) --count;
  return count;
}

// Keeps the events that can be counted here; reports the others.
uint32_t KeepUsable(const CounterSpec* const* specs, size_t count, RefuseCounter refuse, void* context,
                    PerfEvent* events) {
  uint32_t kept = 0;
  bool has_slots = false;
  for (size_t i = 0; i < count; ++i) {
    PerfEvent event = {specs[i], false};
    if (specs[i]->needs_slots) continue;
    int error = TryEvent(&event);
    has_slots = has_slots || (error == 0 && specs[i]->leads_group);
    if (error == 0) {
      events[kept++] = event;
      continue;
    }
    char reason[200];
    ExplainPerfError(*specs[i], error, reason, sizeof reason);
    refuse(context, *specs[i], reason);
  }
  // These can't be opened alone.
  for (size_t i = 0; i < count; ++i) {
    if (!specs[i]->needs_slots) continue;
    if (has_slots) events[kept++] = {specs[i], false};
    if (!has_slots) refuse(context, *specs[i], "\"slots\" is not there, which it needs");
  }
  return kept;
}

}  // namespace

bool OpenPerfGroup(const PerfEvent* events, uint32_t count, pid_t tid, bool in_host_table, PerfGroup* group) {
  *group = {};
  group->in_host_table = in_host_table;
  while (group->count < count) {
    if (AddEvent(events[group->count], tid, group)) continue;
    CloseDescriptors(group);
    group->count = 0;
    return false;
  }
  // Events that join a running group may not count before their thread is scheduled again (seen on Linux 6.18: page
  // faults next to task-clock), without any indication.
  ioctl(group->fds[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
  return true;
}

bool MapPerfGroup(PerfGroup* group) {
  uint32_t mapped = 0;
  for (; mapped < group->count; ++mapped) {
    void* page = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, group->fds[mapped], 0);
    if (page == MAP_FAILED) break;
    group->pages[mapped] = static_cast<perf_event_mmap_page*>(page);
    if (!group->pages[mapped]->cap_user_rdpmc) {
      munmap(page, kPageBytes);
      break;
    }
  }
  if (mapped == group->count) {
    CloseDescriptors(group);
    group->is_mapped = true;
    return true;
  }
  while (mapped-- > 0) munmap(group->pages[mapped], kPageBytes);
  return false;
}

bool ReadPerfGroup(const PerfGroup& group, PerfReading* reading) {
  if (group.is_mapped) return ReadMapped(group, reading);
  // A program that closed our descriptor and reused its number for a file of its own must not lose data to our read.
  if (group.in_host_table && !IsOurs(group.fds[0], group.ids[0])) {
    errno = EBADF;
    return false;
  }
  struct {
    uint64_t count;
    uint64_t enabled_ns;
    uint64_t running_ns;
    uint64_t values[kMaxCountersOfSet];
  } found;
  ssize_t wanted = static_cast<ssize_t>((3 + group.count) * sizeof(uint64_t));
  if (read(group.fds[0], &found, sizeof found) != wanted || found.count != group.count) return false;
  reading->enabled_ns = found.enabled_ns;
  reading->running_ns = found.running_ns;
  memcpy(reading->values, found.values, group.count * sizeof found.values[0]);
  return true;
}

void ClosePerfGroup(PerfGroup* group) {
  if (group->is_mapped) {
    for (uint32_t i = 0; i < group->count; ++i) munmap(group->pages[i], kPageBytes);
  } else {
    CloseDescriptors(group);
  }
  group->count = 0;
}

void ArrangePerfEvents(PerfEvent* events, uint32_t count) {
  PerfEvent arranged[kMaxCounters];
  uint32_t taken = 0;
  bool user_only = false;
  // Metrics follow `slots` directly, and these come last: other events may then begin earlier groups.
  for (int rank = 0; rank < 4; ++rank) {
    for (uint32_t i = 0; i < count; ++i) {
      const CounterSpec& spec = *events[i].spec;
      if (rank != (spec.leads_group ? 2 : spec.needs_slots ? 3 : IsOfKernel(spec) ? 1 : 0)) continue;
      if (spec.leads_group) user_only = events[i].user_only;
      arranged[taken] = events[i];
      if (spec.needs_slots) arranged[taken].user_only = user_only;
      ++taken;
    }
  }
  memcpy(events, arranged, taken * sizeof *events);
}

uint32_t LongestPerfGroup(const PerfEvent* events, uint32_t count) {
  uint32_t longest = count < kMaxCountersOfSet ? count : kMaxCountersOfSet;
  for (uint32_t i = 1; i < longest; ++i) {
    if (events[i].spec->leads_group || IsOfKernel(*events[i].spec) != IsOfKernel(*events[0].spec)) return i;
  }
  return longest;
}

void DividePerfGroups(const CounterSpec* const* specs, size_t count, RefuseCounter refuse, void* context,
                      PerfGroups* groups) {
  *groups = {};
  uint32_t kept = KeepUsable(specs, count, refuse, context, groups->events);
  ArrangePerfEvents(groups->events, kept);
  for (uint32_t begin = 0; begin < kept;) {
    uint32_t size = FittingEvents(groups->events + begin, LongestPerfGroup(groups->events + begin, kept - begin));
    groups->sizes[groups->count++] = size;
    begin += size;
  }
}

void ExplainPerfError(const CounterSpec& spec, int error, char* reason, size_t size) {
  switch (error) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
    case ENXIO:
      snprintf(reason, size, "not on this machine: %s",
               spec.perf_type == PERF_TYPE_SOFTWARE
                   ? "the kernel has no such counter"
                   : "the processor has no such counter, or no counters at all are shown here");
      return;
    case EACCES:
    case EPERM:
      snprintf(reason, size, "not allowed: /proc/sys/kernel/perf_event_paranoid is %d%s", Paranoid(),
               spec.is_in_kernel ? " and this happens in the kernel only" : ", or a sandbox forbids perf_event_open");
      return;
    case EBUSY:
      snprintf(reason, size, "taken: others use the processor's counters%s",
               NmiWatchdogCounts() ? ", one is the NMI watchdog's (/proc/sys/kernel/nmi_watchdog)" : "");
      return;
    case EMFILE:
    case ENFILE:
      snprintf(reason, size, "no descriptor left for it (ulimit -n; dlhook takes a small part of them only)");
      return;
    case EINVAL:
      snprintf(reason, size, "no such event of this processor");
      return;
    default:
      snprintf(reason, size, "perf_event_open: %s", strerror(error));
  }
}

}  // namespace dlhook::inline counters
