// Exact, in time linear in the calls: instead of dividing every instant among the active threads, a "meter" accumulates
// the share of one active thread, and a thread reads it when its innermost call changes.
#include "analyzer/model/wall_sweep.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace dlhook::analyzer::inline model {
namespace {

// The meter counts in 2^-16 ns; the remainder of each division is carried to the next interval.
constexpr int kMeterBits = 16;

// Steps through the starts and ends of one thread's calls.
class ThreadCursor {
 public:
  ThreadCursor(const TraceModel& model, size_t begin, size_t end) : model_(model), next_(begin), end_(end) {
    FindNextTime();
  }

  int64_t next_time_ns() const { return next_time_ns_; }  // INT64_MAX: no more
  bool is_active() const { return !open_.empty(); }
  OpIndex innermost_op() const { return open_.back().op; }

  void Step() {
    if (!open_.empty() && open_.back().end_ns == next_time_ns_) {
      open_.pop_back();
    } else {
      const int64_t end_ns = model_.calls.start_ns[next_] + model_.calls.duration_ns[next_];
      open_.push_back({std::min(end_ns, model_.end_ns), model_.calls.op[next_]});
      ++next_;
    }
    FindNextTime();
  }

  uint64_t meter_ = 0;  // as of the last change of the innermost call

 private:
  struct Open {
    int64_t end_ns;
    OpIndex op;
  };

  // If an end and a start are at the same time, the end comes first.
  void FindNextTime() {
    next_time_ns_ = open_.empty() ? INT64_MAX : open_.back().end_ns;
    if (next_ < end_ && model_.calls.start_ns[next_] < next_time_ns_) {
      next_time_ns_ = std::clamp(model_.calls.start_ns[next_], model_.start_ns, model_.end_ns);
    }
  }

  const TraceModel& model_;
  size_t next_;
  size_t end_;
  int64_t next_time_ns_ = INT64_MAX;
  std::vector<Open> open_;
};

class Sweep {
 public:
  explicit Sweep(const TraceModel& model) : model_(model), now_ns_(model.start_ns), metered_(model.ops.size()) {}

  WallShares Run() {
    for (size_t i = 0, end; i < model_.calls.size(); i = end) {
      end = i + 1;
      while (end < model_.calls.size() && model_.calls.thread[end] == model_.calls.thread[i]) ++end;
      cursors_.emplace_back(model_, i, end);
    }
    for (size_t i = 0; i < cursors_.size(); ++i) queue_.push({cursors_[i].next_time_ns(), i});
    while (!queue_.empty()) RunThread();
    AdvanceTo(model_.end_ns);
    shares_.op_ns = Rounded();
    return std::move(shares_);
  }

 private:
  using Event = std::pair<int64_t, size_t>;

  // Advances the thread whose turn it is for as long as it stays ahead of the others.
  void RunThread() {
    const size_t index = queue_.top().second;
    queue_.pop();
    const int64_t limit_ns = queue_.empty() ? INT64_MAX : queue_.top().first;
    ThreadCursor& cursor = cursors_[index];
    while (cursor.next_time_ns() <= limit_ns && cursor.next_time_ns() != INT64_MAX) {
      AdvanceTo(cursor.next_time_ns());
      const bool was_active = cursor.is_active();
      if (was_active) metered_[cursor.innermost_op()] += meter_ - cursor.meter_;
      cursor.meter_ = meter_;
      cursor.Step();
      active_ += static_cast<int>(cursor.is_active()) - static_cast<int>(was_active);
    }
    if (cursor.next_time_ns() != INT64_MAX) queue_.push({cursor.next_time_ns(), index});
  }

  void AdvanceTo(int64_t time_ns) {
    if (time_ns <= now_ns_) return;
    const uint64_t elapsed_ns = time_ns - now_ns_;
    if (active_ == 0) {
      AddIdle(now_ns_, time_ns);
    } else if (active_ == 1 && carry_ == 0) {
      meter_ += elapsed_ns << kMeterBits;
    } else {
      const unsigned __int128 scaled = (static_cast<unsigned __int128>(elapsed_ns) << kMeterBits) + carry_;
      meter_ += static_cast<uint64_t>(scaled / active_);
      carry_ = static_cast<uint64_t>(scaled % active_);
    }
    now_ns_ = time_ns;
  }

  void AddIdle(int64_t start_ns, int64_t end_ns) {
    shares_.idle_ns += end_ns - start_ns;
    if (model_.aggregates.empty()) return;
    if (!shares_.idle.empty() && shares_.idle.back().second == start_ns) {
      shares_.idle.back().second = end_ns;
    } else {
      shares_.idle.emplace_back(start_ns, end_ns);
    }
  }

  // Whole nanoseconds per op. All meter readings and the carry are exactly the busy time, so what rounding moves from
  // one op to the next adds up to it, too.
  std::vector<int64_t> Rounded() {
    std::vector<int64_t> rounded(metered_.size());
    unsigned __int128 sum = carry_;
    int64_t given_ns = 0;
    for (size_t op = 0; op < metered_.size(); ++op) {
      sum += metered_[op];
      const int64_t until_ns = static_cast<int64_t>(sum >> kMeterBits);
      rounded[op] = until_ns - given_ns;
      given_ns = until_ns;
    }
    return rounded;
  }

  const TraceModel& model_;
  int64_t now_ns_;
  std::vector<ThreadCursor> cursors_;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> queue_;
  int active_ = 0;
  uint64_t meter_ = 0;
  uint64_t carry_ = 0;  // in meter units, less than active_ at the time
  std::vector<unsigned __int128> metered_;
  WallShares shares_;
};

}  // namespace

WallShares SweepWall(const TraceModel& model) { return Sweep(model).Run(); }

}  // namespace dlhook::analyzer::model
