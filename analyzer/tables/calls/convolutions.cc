// Table `convolutions`: what each convolution costs by each algorithm, so that a rate by the direct count (effective) and
// the operations that were really done are told apart.

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/op_cost.h"
#include "analyzer/peaks/convolution_cost.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"

namespace dlhook::analyzer::inline tables {
namespace {

using Algorithm = ConvolutionAlgorithm;

struct ConvolutionsKey {
  std::string problem;
  std::string direction;
  std::string types;
  std::string chosen;
  auto operator<=>(const ConvolutionsKey&) const = default;
};

// Calls of one problem that were computed in one way.
struct Convolution : ConvolutionsKey {
  const Op* op = nullptr;  // one of them
  ConvolutionShape shape;
  std::optional<Algorithm> algorithm;
  double calls = 0;
  double time_ns = 0;  // of GPUs where they computed

  double EffectiveRate() const { return time_ns > 0 ? FlopsBy(Algorithm::kDirect) * calls / time_ns : 0; }
  std::optional<double> DoneRate() const {
    if (!algorithm || time_ns <= 0 || !CostOf(shape, *algorithm)) return std::nullopt;
    return FlopsBy(*algorithm) * calls / time_ns;
  }
  double FlopsBy(Algorithm by) const { return CostOf(shape, by)->flops; }
  double ExtraBytes(Algorithm by) const {
    const std::optional<int> bits = TypeBits(op->types.substr(0, op->types.find(':')));
    return CostOf(shape, by)->extra_elements * (bits ? *bits : 0) / 8;
  }
};

Cell Count(double value) { return value < 9e18 ? Cell(static_cast<int64_t>(std::llround(value))) : Cell(); }

TypedColumn<Convolution> FlopsColumn(const char* name, Algorithm algorithm) {
  return {Detail(IntegerColumn(name, "flops", Better::kNeither,
                               absl::StrCat("Operations of one call by ", ConvolutionAlgorithmName(algorithm),
                                            ", transforms included. Empty: it does not support this one."))),
          [algorithm](const Convolution& row) {
            const auto cost = CostOf(row.shape, algorithm);
            return cost ? Count(cost->flops) : Cell();
          }};
}

// Its tensors read and written once: libraries that fuse transforms or patches into the products need no more.
TypedColumn<Convolution> AtLeastColumn(const char* name, Algorithm algorithm, const Peaks& peaks) {
  return {Detail(TimeColumn(
              name, absl::StrCat("The least time of one call by ", ConvolutionAlgorithmName(algorithm),
                                 " on this machine: its operations at the peak rate, or its tensors through memory."))),
          [algorithm, &peaks](const Convolution& row) {
            const auto cost = CostOf(row.shape, algorithm);
            const auto bound = cost
                                   ? peaks.BoundOf(*row.op, cost->flops, static_cast<double>(row.op->bytes.value_or(0)))
                                   : std::nullopt;
            return bound ? Count(bound->ns) : Cell();
          }};
}

TypedColumns<Convolution> ConvolutionsColumns(const TableOptions& options) {
  TypedColumns<Convolution> columns = {
      {As(Role::kKey, TextColumn("direction")), "Forward, or the gradient of data or weights.",
       &Convolution::direction},
      {As(Role::kShape, TextColumn("problem")), "Its size, as the library states it.",
       [](const Convolution& row) { return ProblemLabel(*row.op); }},
      {TextColumn("algorithm"), "The algorithm that ran, if the library states it: direct, im2col, Winograd, FFT.",
       [](const Convolution& row) { return KnownText(row.algorithm ? ConvolutionAlgorithmName(*row.algorithm) : ""); }},
      {CallsColumn("Calls."), [](const Convolution& row) { return Count(row.calls); }},
      {TimeColumn("mean_time"), "Of one call; on a GPU the GPU time of the call.",
       [](const Convolution& row) { return row.time_ns > 0 ? Count(row.time_ns / row.calls) : Cell(); }},
      {RealColumn("effective_rate", "GFLOP/s", Better::kHigher),
       "By the direct count, whatever algorithm ran: for comparing algorithms; may exceed the machine's peak.",
       [](const Convolution& row) { return row.time_ns > 0 ? Cell(row.EffectiveRate()) : Cell(); }},
      {RealColumn("done_rate", "GFLOP/s", Better::kHigher),
       "By the operations of the algorithm that ran. Empty: the library does not state it, or not its tile size.",
       [](const Convolution& row) { return row.DoneRate() ? Cell(*row.DoneRate()) : Cell(); }},
      {As(Role::kChoice, Detail(TextColumn("implementation"))), "As the library names it.",
       Known(&Convolution::chosen)},
      {As(Role::kChoice, Detail(TextColumn("types"))), "Data types; one where all are equal.", &Convolution::types},
      FlopsColumn("direct_flops", Algorithm::kDirect),
      {Detail(IntegerColumn("im2col_bytes", "bytes", Better::kNeither)),
       "Traffic of im2col besides the tensors: the matrix of patches, written and read.",
       [](const Convolution& row) { return Count(row.ExtraBytes(Algorithm::kIm2col)); }},
      FlopsColumn("winograd2_flops", Algorithm::kWinograd2),
      FlopsColumn("winograd4_flops", Algorithm::kWinograd4),
      FlopsColumn("fft_flops", Algorithm::kFft),
  };
  if (options.peaks == nullptr || !options.peaks->IsKnown()) return columns;
  const Peaks& peaks = *options.peaks;
  columns.Add(AtLeastColumn("direct_least", Algorithm::kDirect, peaks));
  columns.Add(AtLeastColumn("winograd2_least", Algorithm::kWinograd2, peaks));
  columns.Add(AtLeastColumn("winograd4_least", Algorithm::kWinograd4, peaks));
  columns.Add(AtLeastColumn("fft_least", Algorithm::kFft, peaks));
  return columns;
}

// Rates by the direct count beyond the peak, and what accounts for them.
std::string FastNote(const Convolution& row, double peak) {
  std::string sentence = absl::StrFormat("%s %s runs at %.3g GFLOP/s by the direct count, above the peak of %.3g",
                                         ProblemLabel(*row.op), row.direction, row.EffectiveRate(), peak);
  if (const std::optional<double> done = row.DoneRate(); done && *done <= peak) {
    return absl::StrFormat("%s: %s does %.3g GFLOP/s.", sentence, ConvolutionAlgorithmName(*row.algorithm), *done);
  }
  std::vector<std::string> possible;
  for (const Algorithm algorithm : kConvolutionAlgorithms) {
    const auto cost = CostOf(row.shape, algorithm);
    if (cost && cost->flops * row.calls / row.time_ns <= peak)
      possible.emplace_back(ConvolutionAlgorithmName(algorithm));
  }
  if (row.algorithm || possible.empty()) return absl::StrCat(sentence, ": the peak is too low.");
  return absl::StrCat(sentence, ": an algorithm with fewer operations, ", absl::StrJoin(possible, " or "), ".");
}

}  // namespace

absl::StatusOr<Table> ConvolutionsTable(const TraceModel& model, const TableOptions& options) {
  std::map<ConvolutionsKey, Convolution> rows;
  for (const CalledOp& called : CalledOps(model, options)) {
    const Op& op = called.op;
    const std::optional<ConvolutionShape> shape = ConvolutionShapeOf(op);
    if (!shape || op.is_creation || op.is_trial || called.own_calls() == 0) continue;
    if (op.captured && called.gpu.executions == 0) continue;
    Convolution& row =
        GroupOf<ConvolutionsKey>({op.problem, DirectionName(op.direction), op.types, ChosenLabel(op)}, rows);
    row.op = &op;
    row.shape = *shape;
    row.algorithm = ConvolutionAlgorithmOf(op);
    const bool has_gpu_time = called.gpu.executions > 0;
    row.calls += static_cast<double>(has_gpu_time ? called.gpu.executions : called.own_calls());
    if (has_gpu_time || !op.is_asynchronous) {
      row.time_ns += static_cast<double>(has_gpu_time ? called.gpu.busy_ns : called.totals.total_ns);
    }
  }
  const auto order = ByWeight(rows, &Convolution::time_ns);
  Table table = NewTable("convolutions", "Cost of convolutions by algorithm", ConvolutionsColumns(options), order);
  SayWhyNone(model, "shapes", &table);
  AddBoundNotes(options, &table);
  for (const Convolution* row : order) {
    const std::optional<double> peak = options.peaks == nullptr ? std::nullopt : options.peaks->RateOf(*row->op);
    if (peak && row->EffectiveRate() > *peak) table.notes.push_back(FastNote(*row, *peak));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
