// Joins the pieces of DivideTime: see raw_tables.h.

#include "analyzer/export/raw_tables.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline exports {
namespace {

class TimeRows {
 public:
  TimeRows(const Timeline& run, TableRows& rows)
      : model_(run.model),
        attribution_(run.analysis.attribution()),
        steps_(run.model, run.analysis.steps()),
        rows_(rows),
        open_(run.model.threads.size() + 1) {}

  void Fill() {
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      DivideTime(model_, process, steps_.Boundaries(process), [&](const TimePiece& piece) { Take(process, piece); });
      for (Open& open : open_) Write(process, open);
    }
  }

 private:
  // The last piece of a thread, with those before it that continue into it.
  struct Open {
    TimePiece piece;
    uint32_t step = kNone;
    PhaseKind phase = PhaseKind::kUnknown;
  };

  void Take(ProcessIndex process, const TimePiece& piece) {
    Open& open = open_[piece.thread == kNone ? open_.size() - 1 : piece.thread];
    const uint32_t step = steps_.At(process, piece.thread, piece.start_ns);
    const PhaseKind phase = steps_.PhaseAt(step, piece.start_ns);
    const bool goes_on = open.piece.end_ns == piece.start_ns && open.piece.kind == piece.kind &&
                         open.piece.index == piece.index && open.piece.gap == piece.gap && open.step == step &&
                         open.phase == phase && open.piece.share_ns > 0;
    if (goes_on) {
      open.piece.end_ns = piece.end_ns;
      open.piece.share_ns += piece.share_ns;
      return;
    }
    Write(process, open);
    open = {piece, step, phase};
  }

  void Write(ProcessIndex process, Open& open) {
    const TimePiece piece = open.piece;
    open.piece = {};
    if (piece.share_ns == 0) return;
    const bool is_call = piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting;
    const bool is_scope = piece.kind == ActivityKind::kScope || (piece.kind == ActivityKind::kDataLoading);
    const Place place = PlaceOf(attribution_, piece);
    const std::string line = piece.kind == ActivityKind::kNotSeen ? attribution_.LineOfGap(piece.gap) : "";
    rows_.Integer(process).Index(piece.thread).Index(open.step);
    rows_.Text(open.phase == PhaseKind::kUnknown ? "" : PhaseKindName(open.phase)).Text(ActivityName(piece.kind));
    rows_.Index(is_call ? piece.index : kNone).Index(is_scope ? piece.index : kNone).Index(place.layer);
    rows_.Text(DirectionWord(place.direction)).Text(line);
    rows_.Integer(piece.start_ns - model_.start_ns).Integer(piece.end_ns - model_.start_ns).Integer(piece.share_ns);
    rows_.End();
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  StepIndex steps_;
  TableRows& rows_;
  std::vector<Open> open_;  // by thread; the last one: no thread
};

}  // namespace

void FillTime(const Timeline& run, TableRows& rows) { TimeRows(run, rows).Fill(); }

}  // namespace dlhook::analyzer::exports
