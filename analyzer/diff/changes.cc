#include "analyzer/diff/changes.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/diff/diff_table.h"
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
  return NameIn<Speed::kUnknown>(finding, {"equal", "noise", "slower", "faster", "unknown"});
}

void TimeChange::Add(const TimeChange& other) {
  base_ns += other.base_ns;
  new_ns += other.new_ns;
  AddSamples(other.base_samples, base_samples);
  AddSamples(other.new_samples, new_samples);
}

void Judge(const Pace& pace, double exponent, size_t tests, TimeChange& change) {
  change.noise_ns = NoiseBound(change.base_samples, change.new_samples, tests);
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

TableChanges CompareTables(const MeasuredTable& base, const MeasuredTable& new_side, const NameMap& names) {
  TableChanges changes = {&base, &new_side, {}};
  for (const RowPair& pair : MatchRows(base.table, new_side.table, names)) {
    RowChange& change = changes.rows.emplace_back();
    change.rows = pair;
    if (pair.base != kNoRow) change.time.base_ns = WeightOf(base, pair.base);
    if (pair.new_row != kNoRow) change.time.new_ns = WeightOf(new_side, pair.new_row);
    change.time.base_samples = SamplesOf(base, pair.base);
    change.time.new_samples = SamplesOf(new_side, pair.new_row);
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

namespace {

// rows of one form and key; beyond this they are matched in order
constexpr size_t kMostCompared = 100;

size_t EqualSizes(const Shape& a, const Shape& b) {
  size_t equal = 0;
  for (size_t i = 0; i < a.sizes.size(); ++i) equal += a.sizes[i] == b.sizes[i] ? 1 : 0;
  return equal;
}

class Matcher {
 public:
  Matcher(const Table& base, const Table& new_side, const NameMap& names)
      : base_(base), new_(new_side), names_(names), of_base_(base.rows.size()), of_new_(new_side.rows.size()) {}

  std::vector<RowPair> Run() {
    PairInOrder(KeyParts::kAll, Match::kSame);
    PairInOrder(KeyParts::kWithoutChoices, Match::kChanged);
    PairResized();
    for (size_t row = 0; row < of_base_.size(); ++row) {
      if (!of_base_[row]) pairs_.push_back({row, kNoRow, Match::kRemoved});
    }
    for (size_t row = 0; row < of_new_.size(); ++row) {
      if (!of_new_[row]) pairs_.push_back({kNoRow, row, Match::kAdded});
    }
    return std::move(pairs_);
  }

 private:
  // Rows not yet paired, by key.
  using Bucket = std::pair<std::vector<size_t>, std::vector<size_t>>;

  std::map<std::string, Bucket> OpenRows(KeyParts parts) const {
    std::map<std::string, Bucket> buckets;
    for (size_t row = 0; row < of_base_.size(); ++row) {
      if (!of_base_[row]) buckets[RowKey(base_, row, parts, &names_)].first.push_back(row);
    }
    for (size_t row = 0; row < of_new_.size(); ++row) {
      if (!of_new_[row]) buckets[RowKey(new_, row, parts)].second.push_back(row);
    }
    return buckets;
  }

  void Pair(size_t base, size_t new_row, Match match) {
    of_base_[base] = of_new_[new_row] = true;
    pairs_.push_back({base, new_row, match});
  }

  void PairInOrder(KeyParts parts, Match match) {
    for (const auto& [key, bucket] : OpenRows(parts)) {
      for (size_t i = 0; i < std::min(bucket.first.size(), bucket.second.size()); ++i) {
        Pair(bucket.first[i], bucket.second[i], match);
      }
    }
  }

  // Rows of the same op of the same layer are matched whatever their sizes.
  void PairResized() {
    const bool is_of_layer = ColumnOf(base_, Role::kName) != kNoColumn;
    for (const auto& [key, bucket] : OpenRows(KeyParts::kWithoutShape)) {
      const auto& [before, after] = bucket;
      std::vector<std::tuple<size_t, size_t, size_t>> likely;  // number of sizes that differ, rows
      for (size_t i = 0; i < std::min(before.size(), kMostCompared); ++i) {
        const Shape shape = ShapeOf(RowKey(base_, before[i], KeyParts::kShape));
        for (size_t j = 0; j < std::min(after.size(), kMostCompared); ++j) {
          const Shape other = ShapeOf(RowKey(new_, after[j], KeyParts::kShape));
          if (shape.form != other.form) continue;
          const size_t differing = shape.sizes.size() - EqualSizes(shape, other);
          if (is_of_layer || 2 * differing <= shape.sizes.size()) likely.emplace_back(differing, before[i], after[j]);
        }
      }
      absl::c_sort(likely);
      for (const auto& [differing, base, new_row] : likely) {
        if (!of_base_[base] && !of_new_[new_row]) Pair(base, new_row, Match::kResized);
      }
    }
  }

  const Table& base_;
  const Table& new_;
  const NameMap& names_;
  std::vector<bool> of_base_, of_new_;  // already matched
  std::vector<RowPair> pairs_;
};

bool IsPart(Role role, KeyParts parts) {
  if (role == Role::kKey || role == Role::kName) return parts != KeyParts::kShape;
  if (role == Role::kShape) return parts != KeyParts::kWithoutShape;
  return role == Role::kChoice && parts == KeyParts::kAll;
}

// "others (115)" matches "others" with any number.
std::string WithoutNumber(const std::string& text) { return absl::StartsWith(text, "others (") ? "others" : text; }

// With more layers (branches unrolled by a tracer) names are compared as they are: the table below has the product of
// both numbers as its size.
constexpr size_t kMostLayers = 4000;

struct Named {
  std::string name, type;
  std::set<std::string> problems;  // of its forward pass
};

// Each name once, in the order of the first forward pass.
std::vector<Named> NamedLayers(const NetworkSide& network) {
  const Attribution& attribution = *network.attribution;
  std::vector<Named> layers;
  std::map<std::string, size_t> places;
  for (const Layer& layer : attribution.layers) {
    if (places.try_emplace(layer.name, layers.size()).second) layers.push_back({layer.name, layer.type, {}});
  }
  std::set<std::pair<LayerIndex, OpIndex>> seen;
  for (CallIndex call = 0; call < attribution.of_call.size(); ++call) {
    const Place& place = attribution.of_call[call];
    if (place.layer == kNone || place.direction != LayerDirection::kForward) continue;
    const OpIndex op = network.model->calls.op[call];
    if (!seen.insert({place.layer, op}).second) continue;
    layers[places.at(attribution.layers[place.layer].name)].problems.insert(ProblemLabel(network.model->ops[op]));
  }
  return layers;
}

// -1: nothing in common.
int Likeness(const Named& a, const Named& b) {
  int likeness = 0;
  if (!a.problems.empty() && a.problems == b.problems) likeness += 4;
  if (!a.type.empty() && a.type == b.type) likeness += 3;
  if (a.name == b.name) likeness += 1;
  return likeness == 0 ? -1 : likeness;
}

// Pairs of positions in the two orders that do not cross.
std::vector<std::pair<size_t, size_t>> Align(const std::vector<Named>& base, const std::vector<Named>& new_side) {
  const size_t width = new_side.size() + 1;
  std::vector<int> best((base.size() + 1) * width);
  for (size_t i = base.size(); i-- > 0;) {
    for (size_t j = new_side.size(); j-- > 0;) {
      const int skip = std::max(best[(i + 1) * width + j], best[i * width + j + 1]);
      const int likeness = Likeness(base[i], new_side[j]);
      best[i * width + j] = likeness < 0 ? skip : std::max(skip, best[(i + 1) * width + j + 1] + likeness);
    }
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0, j = 0; i < base.size() && j < new_side.size();) {
    const int here = best[i * width + j];
    if (here == best[(i + 1) * width + j]) {
      ++i;
    } else if (here == best[i * width + j + 1]) {
      ++j;
    } else {
      pairs.emplace_back(i++, j++);
    }
  }
  return pairs;
}

}  // namespace

std::vector<RowPair> MatchRows(const Table& base, const Table& new_side, const NameMap& names) {
  return Matcher(base, new_side, names).Run();
}

std::string CellText(const Cell& cell) {
  if (const auto* text = std::get_if<CellString>(&cell)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&cell)) return absl::StrCat(*integer);
  if (const auto* real = std::get_if<double>(&cell)) return absl::StrCat(*real);
  return "";
}

std::string RowKey(const Table& table, size_t row, KeyParts parts, const NameMap* names) {
  std::string key;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!IsPart(table.columns[column].role, parts)) continue;
    std::string text = WithoutNumber(CellText(table.rows[row][column]));
    if (names != nullptr && table.columns[column].role == Role::kName) {
      const auto translated = names->find(text);
      if (translated != names->end()) text = translated->second;
    }
    absl::StrAppend(&key, text, "\x1f");
  }
  return key;
}

NameMap MatchLayerNames(const NetworkSide& base, const NetworkSide& new_side) {
  const std::vector<Named> before = NamedLayers(base), after = NamedLayers(new_side);
  NameMap names;
  if (before.size() > kMostLayers || after.size() > kMostLayers) return names;
  std::set<std::string> paired_before, paired_after, all_after;
  for (const auto& [i, j] : Align(before, after)) {
    paired_before.insert(before[i].name);
    paired_after.insert(after[j].name);
    if (before[i].name != after[j].name) names[before[i].name] = after[j].name;
  }
  for (const Named& layer : after) all_after.insert(layer.name);
  for (const Named& layer : before) {
    if (paired_before.contains(layer.name) || !all_after.contains(layer.name)) continue;
    // Moved to another position, or gone while another layer has its name.
    if (paired_after.contains(layer.name)) names[layer.name] = absl::StrCat("\x1e", layer.name);
  }
  return names;
}

}  // namespace dlhook::analyzer::diff
