// Rows of counters by activity: layers (or what they are folded into) and scopes. See counter_rows.h.
#include "analyzer/tables/counters/counter_rows.h"

#include <set>
#include <utility>

#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/time/activity_labels.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kOtherThreads[] = "[other threads]";

class LayerRows : public CounterRows {
 public:
  LayerRows(const TraceModel& model, const TableOptions& options)
      : model_(model),
        by_(options.layers_by),
        groups_(model, options.analysis->attribution(), by_, options.layers_depth) {
    std::set<std::string> models;
    for (const LayerGroup& group : groups_.groups()) {
      if (!group.model.empty()) models.insert(group.model);
    }
    has_models_ = models.size() > 1;
  }

  TypedColumns<size_t> Columns() const override {
    TypedColumns<size_t> columns = {
        {As(Role::kName,
            TextColumn("layer",
                       "Layer as in the table layers, or what --by asks for; [not seen: native code or Python], [data "
                       "loading], [waiting]: a thread was in none; [other threads]: threads without recorded calls "
                       "while no thread did anything known; [not sampled]: the process counted it, but no reading of a "
                       "thread.")),
         [this](size_t row) {
           if (row == kRest) return kNotSampled;
           return GroupOf(row) == nullptr ? kOtherThreads : GroupOf(row)->label.c_str();
         }},
        {As(Role::kKey,
            TextColumn("direction", "forward, backward-data …; recompute: forward pass for the backward pass.")),
         [this](size_t row) {
           const bool is_known = GroupOf(row) != nullptr && rows_.At(row).second != LayerDirection::kUnknown;
           return is_known ? Cell(LayerDirectionName(rows_.At(row).second)) : Cell();
         }},
        {As(Role::kKey, TextColumn("model", "The network, if there are several.")), [this](size_t row) {
           return has_models_ && GroupOf(row) != nullptr ? KnownText(GroupOf(row)->model) : Cell();
         }}};
    columns.Find("model")->detail = !has_models_;
    return columns;
  }

  size_t RowOf(ProcessIndex, const CountedPiece& piece) override {
    const GroupPlace place = groups_.OfPiece(piece);
    return rows_.Of({piece.is_of_other_threads ? kNone : place.group, place.direction});
  }

 private:
  // Null: the rest, and other threads.
  const LayerGroup* GroupOf(size_t row) const {
    if (row == kRest || rows_.At(row).first == kNone) return nullptr;
    return &groups_.groups()[rows_.At(row).first];
  }

  const TraceModel& model_;
  const LayersBy by_;
  const LayerGroups groups_;
  bool has_models_ = false;
  Numbering<std::pair<GroupIndex, LayerDirection>> rows_;  // kNone: other threads
};

class ScopeRows : public CounterRows {
 public:
  explicit ScopeRows(const TraceModel& model) : model_(model) {}

  TypedColumns<size_t> Columns() const override {
    return {{As(Role::kKey,
                TextColumn("scope", "Innermost scope around it: an op of the framework, a range of the program.")),
             [this](size_t row) { return row == kRest ? kNotSampled : rows_.At(row); }}};
  }

  size_t RowOf(ProcessIndex, const CountedPiece& piece) override {
    ScopeIndex scope = kNone;
    if (piece.kind == ActivityKind::kScope || piece.kind == ActivityKind::kDataLoading) scope = piece.index;
    if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting)
      scope = model_.calls.ScopeOf(piece.index);
    if (scope != kNone) return rows_.Of(ScopeLabel(model_, scope));
    if (piece.is_of_other_threads) return rows_.Of(kOtherThreads);
    return rows_.Of(piece.kind == ActivityKind::kUnattributed ? kUnattributed : "[in no scope]");
  }

 private:
  const TraceModel& model_;
  Numbering<std::string> rows_;
};

}  // namespace

std::unique_ptr<CounterRows> RowsByLayer(const TraceModel& model, const TableOptions& options) {
  return std::make_unique<LayerRows>(model, options);
}

std::unique_ptr<CounterRows> RowsByScope(const TraceModel& model) { return std::make_unique<ScopeRows>(model); }

}  // namespace dlhook::analyzer::tables
