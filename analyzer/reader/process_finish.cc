// One process trace after its last packet: times are mapped and calls nested now, because the clock sample after a call
// determines its time.

#include "analyzer/reader/process_builder.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr size_t kCallsAtATime = 1 << 14;  // moved from staging to the model

// What oneDNN's log tells of inside a product of XLA's is what computes it.
void NameLibrary(OpIndex product, OpIndex inside, std::vector<Op>* ops) {
  if ((*ops)[inside].family != kOneDnnTap.family || (*ops)[product].family != kJaxTap.family) return;
  for (OpIndex op = product; op < ops->size(); ++op) {  // with its continuation
    if (op != product && !(*ops)[op].is_continuation) break;
    if ((*ops)[op].implementation.empty()) (*ops)[op].implementation = "oneDNN";
  }
}

}  // namespace

void ProcessBuilder::Finish() {
  TraceModel& model = run_->model_;
  index_ = static_cast<ProcessIndex>(model.processes.size());
  ClockMap clock(facts_.header.clock(), clock_samples_, &run_->oddities_);
  uint64_t first_ticks = facts_.header.process().shim_loaded_ticks();
  if (first_ticks == 0 && !clock_samples_.empty()) first_ticks = clock_samples_[0].ticks();
  run_->PlaceOnAxis(&facts_.process, &clock, clock.ToNs(first_ticks));
  const size_t first_window = model.scope_windows.size();

  const size_t first_scope = model.scopes.size();
  FinishXla(clock);
  ThreadIndices indices;
  for (auto& [thread_id, thread] : threads_) {
    indices[thread_id] = static_cast<ThreadIndex>(model.threads.size());
    FinishThread(&thread, clock);
  }
  ReadXlaRanges(first_scope, xla_.profiles(), &run_->names_, &model);
  python_.Finish();
  counters_.Finish(clock, index_, indices, &run_->counter_budget_, &model, &run_->oddities_);
  FinishSamples(clock, indices);
  memory_.Finish(clock, indices, &run_->model_);
  FinishAggregates(clock, indices);
  FinishLoads(clock);
  FinishParts(clock);
  FinishGpu(clock, indices);
  FinishBounds(clock);
  const std::vector<int64_t> stops_ns = FinishStops(clock);
  gpu_.FinishWindows(facts_.process.start_ns, facts_.process.end_ns, footer_.end() == trace::Footer::EXITED);
  FinishScopeWindows(first_window, stops_ns, facts_.process.end_ns, &model.scope_windows);
  CheckCallCount();
  model.processes.push_back(std::move(facts_.process));
}

// XLA's threads are known by what they ran; those that made calls, too, are one thread. Of a process that has scopes of
// other frameworks, which are always recorded, the windows say nothing.
void ProcessBuilder::FinishXla(const ClockMap& clock) {
  constexpr uint32_t kFirstOwnId = 1u << 30;  // far above those that a process gives to its threads
  xla_.Finish(index_, clock, clock_samples_, &run_->names_, &run_->model_, &run_->oddities_);
  bool has_others = false;
  std::map<int64_t, uint32_t> thread_of;
  for (const auto& [thread_id, thread] : threads_) {
    has_others |= thread.has_other_scopes;
    if (thread.xla_id != 0) thread_of.try_emplace(thread.xla_id, thread_id);
  }
  uint32_t next_id = kFirstOwnId;
  for (XlaBuilder::Thread& of_xla : xla_.threads()) {
    const auto known = thread_of.find(of_xla.id);
    Thread& thread = FindThread(known != thread_of.end() ? known->second : next_id++);
    if (thread.data.name.empty()) thread.data.name = of_xla.name;
    for (const RecordedScope& scope : of_xla.scopes) thread.scopes.Add(scope, parts_);
    for (const StagedCall& call : of_xla.calls) {
      const auto end = static_cast<uint64_t>(call.time), duration = static_cast<uint64_t>(call.duration);
      if (!parts_.all() && !parts_.Has(end - std::min(duration, end), end)) continue;
      *thread.calls.Reserve(1) = call;
      thread.calls.Commit(1);
      thread.in_order = false;
    }
  }
  if (has_others) return;
  for (const auto& [start, end] : xla_.windows()) {
    run_->model_.scope_windows.push_back({index_, clock.ToNs(start), clock.ToNs(end)});
  }
}

// A sample that goes back in time, or whose times do, is dropped.
void ProcessBuilder::FinishLoads(const ClockMap& clock) {
  LoadSample last;
  for (const trace::LoadSample& sample : load_samples_) {
    LoadSample load = {.process = index_, .time_ns = clock.ToNs(sample.ticks())};
    Read(sample, &load);
    const bool is_first = &sample == load_samples_.data();
    if (!is_first && load.time_ns <= last.time_ns) continue;
    if (load.cpu_ns < last.cpu_ns || load.waiting_ns < last.waiting_ns) continue;
    if (load.page_faults < last.page_faults || load.system_ns < last.system_ns) continue;
    if (load.throttled_ns < last.throttled_ns) continue;
    run_->model_.loads.push_back(last = load);
  }
}

void ProcessBuilder::FinishParts(const ClockMap& clock) {
  for (const auto& [first, last] : parts_.spans()) {
    run_->model_.read_spans.push_back({index_, clock.ToNs(first), clock.ToNs(last)});
  }
}

void ProcessBuilder::FinishThread(Thread* thread, const ClockMap& clock) {
  const ThreadIndex index = static_cast<ThreadIndex>(run_->model_.threads.size());
  thread->data.process = index_;
  run_->model_.threads.push_back(thread->data);
  const absl::Span<StagedCall> calls = thread->calls.values();
  if (!thread->in_order) {
    absl::c_stable_sort(calls, [](const StagedCall& a, const StagedCall& b) {
      return static_cast<uint64_t>(a.time) < static_cast<uint64_t>(b.time);
    });
  }
  NestingCounts counts;
  NestCalls(clock, calls, &counts);
  // What is around a call at the edge of a part may have been left out with the rest.
  if (parts_.all()) {
    run_->oddities_.Count("a call whose surrounding call is not in the trace (it was lost)", counts.lost_parents);
  }
  run_->oddities_.Count("a call that overlapped another one of its thread and was shortened", counts.clipped);
  const size_t base = run_->model_.calls.size();
  AppendCalls(thread, index);
  thread->scopes.Finish(clock, index, base, &run_->scope_time_, &run_->model_, &run_->oddities_);
  if (thread->scopes.start_ns() <= thread->scopes.end_ns()) Observe(thread->scopes.start_ns(), thread->scopes.end_ns());
  thread->attributes.Append(base, &run_->model_);
  OperandBuilder::Append(&thread->operands, base, &run_->model_);
  *thread = Thread();  // frees its memory before the next one needs some
}

void ProcessBuilder::AppendCalls(Thread* thread, ThreadIndex index) {
  CallColumns& columns = run_->model_.calls;
  const absl::Span<const StagedCall> calls = thread->calls.values();
  const size_t base = columns.size();
  if (calls.size() >= kNone - base) {
    run_->oddities_.Count("a call beyond the 2^32 that one report can hold", static_cast<int64_t>(calls.size()));
    return;
  }
  if (!run_->call_time_.TakeAll(calls)) {
    run_->oddities_.Count("a call of a thread whose times can't be true", static_cast<int64_t>(calls.size()));
    return;
  }
  ForEachOf(kCallColumns, [&](auto column) { GrowFor(&(columns.*column), calls.size()); });
  for (size_t begin = 0; begin < calls.size(); begin += kCallsAtATime) {
    const size_t end = std::min(begin + kCallsAtATime, calls.size());
    ForEachOf(kCallColumns, [&](auto column) { (columns.*column).resize(base + end); });
    for (size_t i = begin; i < end; ++i) {
      const StagedCall& call = calls[i];
      const size_t to = base + i;
      columns.start_ns[to] = call.time;
      columns.duration_ns[to] = call.duration;
      columns.self_ns[to] = call.duration;
      columns.op[to] = call.op;
      columns.thread[to] = index;
      columns.sequence[to] = call.sequence;
      columns.parent[to] = call.parent == kNone ? kNone : static_cast<CallIndex>(base + call.parent);
      if (call.parent == kNone) {
        Observe(call.time, call.time + call.duration);
      } else {
        columns.self_ns[base + call.parent] -= call.duration;
        NameLibrary(columns.op[base + call.parent], call.op, &run_->model_.ops);
      }
    }
    thread->calls.ReleaseFront(end);
  }
}

void ProcessBuilder::FinishSamples(const ClockMap& clock, const ThreadIndices& threads) {
  const auto [first_ns, last_ns] =
      samples_.Finish(clock, threads, &run_->sample_time_, &run_->model_, &run_->oddities_);
  if (first_ns <= last_ns) Observe(first_ns, last_ns);
  waits_.Finish(clock, threads, &run_->sample_time_, &run_->model_, &run_->oddities_);
}

void ProcessBuilder::FinishAggregates(const ClockMap& clock, const ThreadIndices& threads) {
  for (const trace::CallAggregate& aggregate : aggregates_) {
    const auto thread = threads.find(aggregate.thread_id());
    if (aggregate.count() == 0 || aggregate.count() > kMaxCounted || thread == threads.end()) {
      run_->oddities_.Count("a total of no calls, or of too many, or of a thread that the trace does not name");
      continue;
    }
    const bool in_ticks = (aggregate.op_iid() & kTapCall) == 0;
    const auto ns = [&](uint64_t time) {
      return in_ticks ? clock.DurationNs(time) : static_cast<int64_t>(std::min<uint64_t>(time, INT64_MAX));
    };
    AggregateRow row;
    row.op = aggregate.op_iid() & ~kTapCall;
    row.thread = thread->second;
    row.window_start_ns = clock.ToNs(aggregate.window_start_ticks());
    row.window_end_ns = std::max(row.window_start_ns, clock.ToNs(aggregate.window_end_ticks()));
    row.count = static_cast<int64_t>(aggregate.count());
    row.sum_ns = ns(aggregate.sum());
    row.min_ns = ns(aggregate.min());
    row.max_ns = ns(aggregate.max());
    row.nested_count = static_cast<int64_t>(std::min(aggregate.nested_count(), aggregate.count()));
    row.nested_sum_ns = std::min(row.sum_ns, ns(aggregate.nested_sum()));
    row.cause = FromProto<AggregateCause>(aggregate.cause());
    if (!run_->call_time_.Take(row.sum_ns)) {
      run_->oddities_.Count("a total of calls whose times can't be true");
      continue;
    }
    Observe(row.window_start_ns, row.window_end_ns);
    run_->model_.aggregates.push_back(row);
    recorded_calls_ += aggregate.count();
  }
}

// A killed process may have waited for work that ended after its last call.
void ProcessBuilder::FinishGpu(const ClockMap& clock, const ThreadIndices& threads) {
  const int64_t end_ns = gpu_.Finish(clock, clock_samples_, threads);
  if (end_ns != INT64_MIN && footer_.end() != trace::Footer::EXITED) Observe(end_ns, end_ns);
}

void ProcessBuilder::FinishBounds(const ClockMap& clock) {
  const uint64_t loaded_ticks = facts_.header.process().shim_loaded_ticks();
  if (loaded_ticks != 0) Observe(clock.ToNs(loaded_ticks), clock.ToNs(loaded_ticks));
  if (footer_.end_ticks() != 0) Observe(clock.ToNs(footer_.end_ticks()), clock.ToNs(footer_.end_ticks()));
  if (first_ns_ > last_ns_) {  // nothing was recorded
    const uint64_t ticks = clock_samples_.empty() ? 0 : clock_samples_[0].ticks();
    first_ns_ = last_ns_ = clock.ToNs(ticks);
  }
  facts_.process.calls = recorded_calls_;
  facts_.process.start_ns = first_ns_;
  facts_.process.end_ns = last_ns_;
  facts_.process.end = FromProto<ProcessEnd>(footer_.end());
}

// Returns when each began.
std::vector<int64_t> ProcessBuilder::FinishStops(const ClockMap& clock) {
  std::vector<int64_t> stops_ns;
  std::vector<RecordingStop>& stops = run_->model_.recording_stops;
  bool was_recording = true;
  for (const trace::CaptureState& capture : captures_) {
    const int64_t at_ns = clock.ToNs(capture.ticks());
    if (capture.recording() && !was_recording) stops.back().end_ns = std::max(at_ns, stops.back().start_ns);
    if (!capture.recording() && was_recording) {
      stops.push_back({index_, at_ns, std::max(at_ns, facts_.process.end_ns)});
      stops_ns.push_back(at_ns);
    }
    was_recording = capture.recording();
  }
  return stops_ns;
}

void ProcessBuilder::Observe(int64_t start_ns, int64_t end_ns) {
  first_ns_ = std::min(first_ns_, start_ns);
  last_ns_ = std::max(last_ns_, end_ns);
}

void ProcessBuilder::CheckCallCount() {
  if (!facts_.process.has_footer || footer_.calls() == recorded_calls_) return;
  run_->oddities_.Count(absl::StrCat(facts_.process.file, ": its footer tells of ", footer_.calls(),
                                     " calls, it holds ", recorded_calls_));
}

}  // namespace dlhook::analyzer::reader
