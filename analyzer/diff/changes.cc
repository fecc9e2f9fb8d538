#include "analyzer/diff/changes.h"

#include <cmath>

#include "absl/strings/match.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr double kPartThatCounts = 0.03;  // of a step
constexpr size_t kLeastActivities = 2;

double WeightOf(const MeasuredTable& table, size_t row) {
  return NumberOf(table.table.rows[row][ColumnOf(table.table, Role::kWeight)]) / table.per;
}

// A row that one side lacks counts as blocks of zero.
Samples SamplesOf(const MeasuredTable& table, size_t row) {
  if (row != kNoRow) return table.samples[row];
  Samples nothing;
  for (size_t blocks : table.block_counts) nothing.emplace_back(blocks);
  return nothing;
}

struct WeightedRatio {
  double ratio;
  double weight;
};

double TotalWeight(const std::vector<WeightedRatio>& ratios) {
  double weight = 0;
  for (const WeightedRatio& ratio : ratios) weight += ratio.weight;
  return weight;
}

double WeightedMedian(std::vector<WeightedRatio> ratios) {
  absl::c_sort(ratios, [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
  double below = 0;
  const double half = TotalWeight(ratios) / 2;
  for (const WeightedRatio& ratio : ratios) {
    below += ratio.weight;
    if (below >= half) return ratio.ratio;
  }
  return 1;
}

// For each kind of activity, the ratio of each layer's part. Single ops would be too small: a time slice lost to
// another program hits some of them and spares the rest.
std::map<std::string, std::vector<WeightedRatio>> RatiosByActivity(const TableChanges& work) {
  const size_t activity = *FindColumn(work.base->table, "activity");
  const size_t layer = ColumnOf(work.base->table, Role::kName);
  std::map<std::pair<std::string, std::string>, TimeChange> parts;
  for (const RowChange& row : work.rows) {
    if (row.rows.match != Match::kSame) continue;
    const Row& cells = work.base->table.rows[row.rows.base];
    parts[{CellText(cells[activity]), CellText(cells[layer])}].Add(row.time);
  }
  std::map<std::string, std::vector<WeightedRatio>> ratios;
  for (const auto& [part, time] : parts) {
    if (time.base_ns > 0) ratios[part.first].push_back({time.new_ns / time.base_ns, time.base_ns});
  }
  return ratios;
}

void AddSamples(const Samples& from, Samples& to) {
  to.resize(std::max(from.size(), to.size()));
  for (size_t run = 0; run < from.size(); ++run) {
    to[run].resize(std::max(from[run].size(), to[run].size()));
    for (size_t i = 0; i < from[run].size(); ++i) to[run][i] += from[run][i];
  }
}

}  // namespace

const char* SpeedName(Speed finding) {
  constexpr const char* kNames[] = {"equal", "noise", "slower", "faster", "unknown"};
  static_assert(std::size(kNames) == static_cast<size_t>(Speed::kUnknown) + 1);
  return kNames[static_cast<size_t>(finding)];
}

void TimeChange::Add(const TimeChange& other) {
  base_ns += other.base_ns;
  new_ns += other.new_ns;
  AddSamples(other.base_samples, base_samples);
  AddSamples(other.new_samples, new_samples);
}

void Judge(const Pace& pace, double exponent, size_t tests, TimeChange& change) {
  change.noise_ns = NoiseBound(BaseSide(change.base_samples), NewSide(change.new_samples), tests);
  const double shift_ns = change.base_ns * (std::pow(pace.ratio, exponent) - 1);
  const double change_ns = change.change_ns();
  if (change.noise_ns && shift_ns * change_ns > 0) *change.noise_ns += std::abs(shift_ns);
  if (change_ns == 0) {
    change.finding = Speed::kEqual;
  } else if (!change.noise_ns) {
    change.finding = Speed::kUnknown;
  } else if (std::abs(change_ns) <= *change.noise_ns) {
    change.finding = Speed::kNoise;
  } else {
    change.finding = change_ns > 0 ? Speed::kSlower : Speed::kFaster;
  }
}

TableChanges CompareTables(BaseSide<const MeasuredTable*> base, NewSide<const MeasuredTable*> new_side,
                           const NameMap& names) {
  TableChanges changes = {*base, *new_side, {}};
  for (const RowPair& pair : MatchRows(BaseSide(&(*base)->table), NewSide(&(*new_side)->table), names)) {
    RowChange& change = changes.rows.emplace_back();
    change.rows = pair;
    if (pair.base != kNoRow) change.time.base_ns = WeightOf(**base, pair.base);
    if (pair.new_row != kNoRow) change.time.new_ns = WeightOf(**new_side, pair.new_row);
    change.time.base_samples = SamplesOf(**base, pair.base);
    change.time.new_samples = SamplesOf(**new_side, pair.new_row);
  }
  return changes;
}

Pace FindPace(const TableChanges& work) {
  double base_ns = 0;
  for (const RowChange& row : work.rows) base_ns += row.time.base_ns;
  std::vector<double> medians;
  for (const auto& [activity, ratios] : RatiosByActivity(work)) {
    if (TotalWeight(ratios) >= kPartThatCounts * base_ns) medians.push_back(WeightedMedian(ratios));
  }
  Pace pace;
  if (medians.size() < kLeastActivities) return pace;
  const auto [least, most] = absl::c_minmax_element(medians);
  if (*least > 1) pace.ratio = *least;
  if (*most < 1 && *most > 0) pace.ratio = *most;
  return pace;
}

void JudgeRows(const Pace& pace, TableChanges& changes) {
  const Table& table = changes.base->table;
  const bool is_of_gpus = absl::StartsWith(table.columns[ColumnOf(table, Role::kWeight)].name, "gpu_");
  const Pace own = is_of_gpus ? Pace() : pace;
  for (RowChange& row : changes.rows) Judge(own, kPaceOfPart, changes.rows.size(), row.time);
}

}  // namespace dlhook::analyzer::diff
