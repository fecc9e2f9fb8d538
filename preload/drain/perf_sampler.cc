// Groups of perf events on the threads of a recorded process.
#include <stdio.h>

#include "preload/drain/counter_sampler.h"

namespace dlhook::inline drain {
namespace {

bool OpenGroup(const PerfEvent* events, uint32_t count, uint32_t tid, PerfGroup* group) {
  *group = {};
  if (!TakeDescriptors(count)) {
    errno = EMFILE;
    return false;
  }
  if (OpenPerfGroup(events, count, static_cast<pid_t>(tid), false, group)) return true;
  ErrnoKeeper keeper;
  GiveBackDescriptors(count);
  return false;
}

void TellRefusal(void* drain, const CounterSpec& spec, const char* reason) {
  char name[sizeof spec.name + 16];
  snprintf(name, sizeof name, "counter:%s", spec.name);
  static_cast<Drain*>(drain)->AddCapability(name, fields::Capability::State::kRefused, reason);
}

}  // namespace

bool PerfSampler::Open(const CounterSpec* const* specs, size_t count, Drain* drain) {
  if (count == 0) return false;
  const CounterSpec* kept[kMaxCounters];
  for (size_t i = 0; i < count; ++i) {
    list_.counters[i] = *specs[i];
    kept[i] = &list_.counters[i];
  }
  DividePerfGroups(kept, count, &TellRefusal, drain, &groups_);
  if (groups_.count > kMaxGroups) groups_.count = kMaxGroups;
  uint32_t event = 0;
  for (uint32_t group = 0; group < groups_.count; ++group) {
    first_[group] = event;
    size_t used = 0;
    for (uint32_t i = 0; i < groups_.sizes[group]; ++i, ++event) {
      int written = snprintf(names_[group] + used, sizeof names_[group] - used, "%s%s", i == 0 ? "" : ",",
                             groups_.events[event].spec->name);
      used += static_cast<size_t>(written);
    }
  }
  return groups_.count != 0;
}

void PerfSampler::Begin(Thread* thread, uint32_t tid, Drain* drain) {
  for (uint32_t group = 0; group < groups_.count; ++group) {
    thread->held_count[group] = 0;
    const PerfEvent* events = &groups_.events[first_[group]];
    if (OpenGroup(events, groups_.sizes[group], tid, &thread->groups[group])) continue;
    // A thread that has just ended needs no report.
    if (errno == ESRCH || has_complained_) continue;
    has_complained_ = true;
    char reason[200];
    ExplainPerfError(*events[0].spec, errno, reason, sizeof reason);
    TellRefusal(drain, *events[0].spec, reason);
  }
}

void PerfSampler::Sample(Thread* thread, uint64_t ticks, uint32_t thread_id, uint32_t tid, Drain* drain) {
  for (uint32_t group = 0; group < groups_.count; ++group) {
    PerfReading reading;
    if (thread->groups[group].count == 0 || !ReadPerfGroup(thread->groups[group], &reading)) continue;
    if (thread->held_count[group] == kHeldReadings) HandOver(thread, thread_id, tid, drain);
    CounterReading* held = &thread->held[group][thread->held_count[group]++];
    *held = {ticks, reading.enabled_ns, reading.running_ns, {}};
    memcpy(held->values, reading.values, sizeof reading.values);
  }
}

void PerfSampler::HandOver(Thread* thread, uint32_t thread_id, uint32_t tid, Drain* drain) {
  for (uint32_t group = 0; group < groups_.count; ++group) {
    uint32_t count = thread->held_count[group];
    if (count != 0)
      drain->AddSamples(thread_id, tid, ReadingKind::kSample, CounterSource::kPerfRead, names_[group],
                        thread->held[group], count);
    thread->held_count[group] = 0;
  }
}

void PerfSampler::End(Thread* thread) {
  for (PerfGroup& group : thread->groups) {
    if (group.count == 0) continue;
    GiveBackDescriptors(group.count);
    ClosePerfGroup(&group);
  }
}

}  // namespace dlhook::inline drain
