// Follows the division of time and the samples together: see gap_samples.h.
#include "analyzer/time/gap_samples.h"

#include <algorithm>

#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline time {
namespace {

class SampleFinder {
 public:
  SampleFinder(const TraceModel& model, ProcessIndex process) : model_(model) {
    const SampleColumns& samples = model.samples;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (model.threads[samples.thread[i]].process == process && samples.call[i] == kNone) order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return samples.time_ns[a] < samples.time_ns[b]; });
  }

  std::vector<GapSample> Find(ProcessIndex process) {
    if (order_.empty()) return {};
    DivideTime(model_, process, {}, [&](const TimePiece& piece) {
      if (!pieces_.empty() && pieces_.front().start_ns != piece.start_ns) Place();
      pieces_.push_back(piece);
    });
    Place();
    return std::move(found_);
  }

 private:
  // The samples of the time of `pieces_`: its parts, one for each thread that has one.
  void Place() {
    const int64_t end_ns = pieces_.empty() ? 0 : pieces_.front().end_ns;
    for (; next_ < order_.size() && model_.samples.time_ns[order_[next_]] < end_ns; ++next_) {
      const size_t sample = order_[next_];
      const int64_t time_ns = model_.samples.time_ns[sample];
      if (time_ns < pieces_.front().start_ns) continue;
      TimePiece piece = PieceOf(model_.samples.thread[sample]);
      if (!MaySamplesTell(model_, piece)) continue;
      piece.start_ns = piece.end_ns = time_ns;
      found_.push_back({sample, piece});
    }
    pieces_.clear();
  }

  const TimePiece& PieceOf(ThreadIndex thread) {
    const auto own =
        std::find_if(pieces_.begin(), pieces_.end(), [&](const TimePiece& piece) { return piece.thread == thread; });
    return own != pieces_.end() ? *own : pieces_[turn_++ % pieces_.size()];
  }

  const TraceModel& model_;
  std::vector<size_t> order_;
  size_t next_ = 0;
  size_t turn_ = 0;
  std::vector<TimePiece> pieces_;
  std::vector<GapSample> found_;
};

}  // namespace

bool MaySamplesTell(const TraceModel& model, const TimePiece& piece) {
  if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting) return false;
  if (piece.kind != ActivityKind::kScope) return true;
  const ScopeKindFacts& facts = FactsOf(model.scopes.look[piece.index].kind);
  return facts.is_bracket || facts.is_wait;
}

GapSamples::GapSamples(const TraceModel& model) {
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    of_.push_back(SampleFinder(model, process).Find(process));
  }
}

}  // namespace dlhook::analyzer::time
