// One sweep over the edges of all threads: between two edges the set of activities is constant, and the time is divided
// at once.
#include "analyzer/time/time_division.h"

#include <queue>

#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline time {
namespace {

constexpr ScopeIndex kMostAsked = 2000;  // scopes of a thread

bool HasItems(const TraceModel& model, ThreadIndex thread) {
  const auto [call, calls_end] = model.calls.RangeOf(thread);
  const auto [scope, scopes_end] = model.scopes.thread.RangeOf(thread);
  return call < calls_end || scope < scopes_end;
}

// Whether a network's modules run in it, by some of its scopes.
bool RunsModules(const TraceModel& model, ThreadIndex thread) {
  const auto [begin, end] = model.scopes.thread.RangeOf(thread);
  for (ScopeIndex scope = begin; scope < end; scope += (end - begin) / kMostAsked + 1) {
    const StackIndex stack = model.scopes.look[scope].stack;
    if (stack == kNone) continue;
    const std::vector<PythonFrame>& frames = model.python_stacks[stack].frames;
    if (absl::c_any_of(frames, [](const PythonFrame& frame) { return frame.module != kNone; })) return true;
  }
  return false;
}

class TimeDivision {
 public:
  TimeDivision(const TraceModel& model, ProcessIndex process, const std::vector<int64_t>& boundaries,
               const std::function<void(const TimePiece&)>& take, const std::vector<Interval>& only)
      : model_(model),
        rules_(model),
        take_(take),
        only_(only.begin()),
        only_end_(only.end()),
        is_cut_(!only.empty()),
        end_ns_(only.empty() ? model.end_ns : std::min(model.end_ns, only.back().end_ns)),
        boundary_(boundaries.begin()),
        boundaries_end_(boundaries.end()),
        now_ns_(model.start_ns) {
    AddThreads(process);
  }

  void Run() {
    if (only_ != only_end_ && threads_.size() == 1) return RunPartsOfOne();
    for (size_t i = 0; i < threads_.size(); ++i) Queue(i);
    while (!queue_.empty()) RunThread();
    AdvanceTo(end_ns_);
  }

 private:
  using Event = std::pair<int64_t, size_t>;

  void AddThreads(ProcessIndex process) {
    for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) {
      if (process != kNone && model_.threads[thread].process != process) continue;
      threads_.emplace_back(model_, rules_, thread);
      if (threads_.back().next_time_ns() == INT64_MAX) threads_.pop_back();
    }
    runs_modules_.resize(threads_.size());
    for (size_t i = 0; threads_.size() > 1 && i < threads_.size(); ++i)
      runs_modules_[i] = RunsModules(model_, threads_[i].thread());
    for (const ThreadActivity& thread : threads_) current_.push_back(&thread.now());
    place_.resize(threads_.size());
  }

  void RunPartsOfOne() {
    for (; only_ != only_end_ && only_->start_ns < model_.end_ns; ++only_) {
      end_ns_ = std::min(only_->end_ns, model_.end_ns);
      if (now_ns_ < only_->start_ns) {
        threads_[0].SkipTo(now_ns_ = only_->start_ns);
        Switch(0, &threads_[0].now());
      }
      Queue(0);
      if (!queue_.empty()) RunThread();
      AdvanceTo(end_ns_);
    }
  }

  void Queue(size_t index) {
    if (threads_[index].next_time_ns() <= end_ns_) queue_.push({threads_[index].next_time_ns(), index});
  }

  // Advances the thread whose turn it is for as long as it stays ahead of the others.
  void RunThread() {
    const size_t index = queue_.top().second;
    queue_.pop();
    const int64_t limit_ns = queue_.empty() ? end_ns_ : queue_.top().first;
    ThreadActivity& thread = threads_[index];
    while (thread.next_time_ns() <= limit_ns) {
      const int64_t time_ns = thread.next_time_ns();
      thread.Step();
      if (thread.now() != *current_[index]) {
        AdvanceTo(time_ns);
        Switch(index, &thread.now());
      } else {
        current_[index] = &thread.now();
      }
    }
    Queue(index);
  }

  void Switch(size_t index, const Activity* next) {
    std::vector<size_t>* const before = SetOf(*current_[index]);
    std::vector<size_t>* const after = SetOf(*next);
    current_[index] = next;
    if (before == after && (before == nullptr || before->size() == 1)) return;  // most of them
    if (before != nullptr) Leave(index, *before);
    if (after == nullptr) return;
    place_[index] = after->size();
    after->push_back(index);
  }

  // The working threads, or those in other activities; null for threads in none.
  std::vector<size_t>* SetOf(const Activity& activity) {
    if (activity.kind == ActivityKind::kUnattributed) return nullptr;
    return activity.is_work ? &working_ : &idling_;
  }

  void Leave(size_t index, std::vector<size_t>& set) {
    const size_t last = set.back();
    set[place_[index]] = last;
    place_[last] = place_[index];
    set.pop_back();
  }

  void AdvanceTo(int64_t time_ns) {
    while (now_ns_ < time_ns) {
      while (boundary_ != boundaries_end_ && *boundary_ <= now_ns_) ++boundary_;
      const int64_t end_ns = boundary_ != boundaries_end_ ? std::min(*boundary_, time_ns) : time_ns;
      DividePiece(end_ns);
      now_ns_ = end_ns;
    }
  }

  // Of the threads that do not work: of those in gaps only the ones that run modules, if there are any.
  const std::vector<size_t>& Foremost() {
    if (idling_.size() < 2) return idling_;
    const auto is_in_gap = [&](size_t index) { return current_[index]->kind == ActivityKind::kNotSeen; };
    const bool any_runs_modules =
        absl::c_any_of(idling_, [&](size_t index) { return is_in_gap(index) && runs_modules_[index]; });
    if (!any_runs_modules) return idling_;
    foremost_.clear();
    absl::c_copy_if(idling_, std::back_inserter(foremost_),
                    [&](size_t index) { return !is_in_gap(index) || runs_modules_[index]; });
    return foremost_;
  }

  bool Compiles(size_t index) const {
    const Activity& now = *current_[index];
    return now.kind == ActivityKind::kScope && model_.scopes.look[now.index].kind == ScopeKind::kXlaCompilation;
  }

  // Of the threads that work: what compiles beside others runs ahead of them.
  const std::vector<size_t>& Workers() {
    if (working_.size() < 2 || absl::c_none_of(working_, [this](size_t index) { return Compiles(index); }))
      return working_;
    foremost_.clear();
    absl::c_copy_if(working_, std::back_inserter(foremost_), [this](size_t index) { return !Compiles(index); });
    return foremost_.empty() ? working_ : foremost_;
  }

  // Remainders go to the threads in turn.
  void DividePiece(int64_t end_ns) {
    TimePiece piece;
    piece.start_ns = now_ns_;
    piece.end_ns = end_ns;
    const std::vector<size_t>& set = working_.empty() ? Foremost() : Workers();
    if (set.empty()) {
      piece.share_ns = end_ns - now_ns_;
      return Give(piece);
    }
    const auto count = std::ssize(set);
    if (count == 1) {  // most pieces; without divisions
      turn_ = 0;
      return TakePart(set.front(), end_ns - now_ns_, piece);
    }
    const int64_t even_ns = (end_ns - now_ns_) / count;
    const int64_t rest_ns = (end_ns - now_ns_) % count;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t one_more = (i + count - turn_ % count) % count < rest_ns ? 1 : 0;
      TakePart(set[static_cast<size_t>(i)], even_ns + one_more, piece);
    }
    turn_ = (turn_ + rest_ns) % count;
  }

  void TakePart(size_t index, int64_t share_ns, TimePiece& piece) {
    piece.share_ns = share_ns;
    piece.kind = current_[index]->kind;
    piece.index = current_[index]->index;
    piece.thread = threads_[index].thread();
    piece.gap = current_[index]->gap;
    Give(piece);
  }

  void Give(const TimePiece& piece) {
    if (!is_cut_) return take_(piece);
    while (only_ != only_end_ && only_->end_ns <= piece.start_ns) ++only_;
    if (only_ != only_end_ && only_->start_ns < piece.end_ns) take_(piece);
  }

  const TraceModel& model_;
  const ActivityRules rules_;
  const std::function<void(const TimePiece&)>& take_;
  std::vector<Interval>::const_iterator only_;  // the next one
  const std::vector<Interval>::const_iterator only_end_;
  const bool is_cut_;
  int64_t end_ns_;
  std::vector<int64_t>::const_iterator boundary_;  // the next one
  const std::vector<int64_t>::const_iterator boundaries_end_;
  int64_t now_ns_;
  std::vector<ThreadActivity> threads_;
  std::vector<const Activity*> current_;  // by index in threads_, as are `place_` and the sets
  std::vector<size_t> place_;             // in its set
  std::vector<size_t> working_;
  std::vector<size_t> idling_, foremost_;
  std::vector<bool> runs_modules_;  // by index in threads_, if there are several
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> queue_;
  int64_t turn_ = 0;
};

}  // namespace

Place PlaceOf(const Attribution& attribution, const TimePiece& piece) {
  switch (piece.kind) {
    case ActivityKind::kCall:
    case ActivityKind::kWaiting:
      return attribution.of_call[piece.index];
    case ActivityKind::kScope:
    case ActivityKind::kDataLoading:
      return attribution.PlaceOfScope(piece.index);
    case ActivityKind::kNotSeen:
      return attribution.PlaceOfGap(piece.gap);
    case ActivityKind::kUnattributed:
      break;
  }
  return {};
}

void DivideTime(const TraceModel& model, ProcessIndex process, const std::vector<int64_t>& boundaries,
                const std::function<void(const TimePiece&)>& take, const std::vector<Interval>& only) {
  TimeDivision(model, process, boundaries, take, only).Run();
}

bool HasOneThread(const TraceModel& model, ProcessIndex process) {
  int threads = 0;
  for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
    if (model.threads[thread].process != process) continue;
    threads += HasItems(model, thread) ? 1 : 0;
  }
  return threads == 1;
}

void ForEachPlace(const TraceModel& model, ProcessIndex process, std::vector<TimeOfThread> times,
                  absl::FunctionRef<void(const TimeOfThread&, absl::Span<const TimePiece>)> take) {
  if (times.empty()) return;
  std::ranges::stable_sort(times, {}, &TimeOfThread::time_ns);
  std::vector<Interval> only;
  for (const TimeOfThread& at : times) {
    const bool is_new = only.empty() || only.back().start_ns != at.time_ns;
    if (is_new && at.time_ns < model.end_ns) only.push_back({at.time_ns, at.time_ns + 1});
  }
  std::vector<TimePiece> parts;  // of one piece of time
  auto next = times.begin();
  const auto place = [&] {
    for (; next != times.end() && !parts.empty() && next->time_ns < parts.front().end_ns; ++next) {
      if (next->time_ns >= parts.front().start_ns) take(*next, parts);
    }
    parts.clear();
  };
  const auto take_piece = [&](const TimePiece& piece) {
    if (!parts.empty() && parts.front().start_ns != piece.start_ns) place();
    parts.push_back(piece);
  };
  DivideTime(model, process, {}, take_piece, only);
  place();
}

const TimePiece* PartOf(ThreadIndex thread, absl::Span<const TimePiece> parts) {
  const auto own = absl::c_find_if(parts, [thread](const TimePiece& part) { return part.thread == thread; });
  return own == parts.end() ? nullptr : &*own;
}

}  // namespace dlhook::analyzer::time
