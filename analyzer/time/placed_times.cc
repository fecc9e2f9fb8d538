// Follows the division of time and the times together: see placed_times.h.
#include "analyzer/time/placed_times.h"

#include <algorithm>
#include <utility>

namespace dlhook::analyzer::inline time {

void ForEachPlace(const TraceModel& model, ProcessIndex process, std::vector<TimeOfThread> times,
                  absl::FunctionRef<void(const TimeOfThread&, absl::Span<const TimePiece>)> take) {
  if (times.empty()) return;
  std::stable_sort(times.begin(), times.end(),
                   [](const TimeOfThread& a, const TimeOfThread& b) { return a.time_ns < b.time_ns; });
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
  const auto own =
      std::find_if(parts.begin(), parts.end(), [thread](const TimePiece& part) { return part.thread == thread; });
  return own == parts.end() ? nullptr : &*own;
}

}  // namespace dlhook::analyzer::time
