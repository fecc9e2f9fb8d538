#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/diff/changes.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline diff {
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

std::vector<RowPair> MatchRows(BaseSide<const Table*> base, NewSide<const Table*> new_side, const NameMap& names) {
  return Matcher(**base, **new_side, names).Run();
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

NameMap MatchLayerNames(BaseSide<NetworkSide> base, NewSide<NetworkSide> new_side) {
  const std::vector<Named> before = NamedLayers(*base), after = NamedLayers(*new_side);
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
