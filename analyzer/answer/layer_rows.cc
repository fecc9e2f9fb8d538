// The heaviest layers: see step_parts.h.

#include "analyzer/answer/step_parts.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr size_t kLeastBlocks = 3;

// "encoder.layer.11.dense" -> "encoder.layer.*.dense", "block_3.conv" -> "block_*.conv"; of an op in a module, the
// module: "encoder.0:add#2", the second one there, -> "encoder.*:add".
std::string PatternOf(const std::string& name) {
  const size_t colon = name.find(':');
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(name.substr(0, colon), '.')) {
    absl::string_view head = part;
    while (!head.empty() && absl::ascii_isdigit(head.back())) head.remove_suffix(1);
    const bool is_number = head.size() < part.size() && (head.empty() || absl::EndsWith(head, "_"));
    parts.push_back(is_number ? absl::StrCat(head, "*") : std::string(part));
  }
  const std::string module = absl::StrJoin(parts, ".");
  return colon == name.npos ? module : absl::StrCat(module, name.substr(colon, name.rfind('#') - colon));
}

// The model in front of a layer's name; "Net" for "Net.encoder", of which the name "encoder.0" says the rest.
std::string OwnerOf(const std::string& model, const std::string& name) {
  const size_t dot = model.rfind('.');
  if (dot == model.npos) return model;
  const std::string part = model.substr(dot + 1);
  const bool says = absl::StartsWith(name, part) && absl::StrContains(".:", name.substr(part.size(), 1));
  return says ? model.substr(0, dot) : model;
}

bool HasLetter(const std::string& name) { return absl::c_any_of(name, absl::ascii_isalpha); }

std::string WithType(const std::string& name, const std::string& type) {
  return type.empty() ? name : absl::StrCat(name, " (", type, ")");
}

void Merge(const LayerRow& row, LayerRow& into) {
  into.layers += row.layers;
  into.forward_ns += row.forward_ns;
  into.backward_ns += row.backward_ns;
  into.update_ns += row.update_ns;
  into.total_ns += row.total_ns;
  into.least_ns = std::min(into.least_ns, row.least_ns);
  into.most_ns = std::max(into.most_ns, row.most_ns);
}

}  // namespace

std::vector<LayerRow> LayerRows(const Table& layers) {
  const bool has_gpu = FindColumn(layers, "gpu_time").has_value();
  const auto time_of = [&](const Row& row, const char* name) {
    return NumberOf(layers, row, absl::StrCat(has_gpu ? "gpu_" : "", name));
  };
  std::vector<std::pair<std::string, std::string>> names;  // with owners, by row
  std::set<std::string> owners;
  for (const Row& cells : layers.rows) {
    const std::string name = TextOf(layers, cells, "layer"), model = TextOf(layers, cells, "model");
    names.emplace_back(name, OwnerOf(model, name));
    owners.insert(names.back().second);
  }
  owners.erase("");
  std::map<std::pair<std::string, std::string>, std::vector<LayerRow>> by_pattern;
  for (const Row& cells : layers.rows) {
    const auto& [name, owner] = names[static_cast<size_t>(&cells - layers.rows.data())];
    if (name.empty() || absl::StrContains(name, "[")) continue;
    const std::string of_model = owner.empty() || owners.size() == 1 ? "" : absl::StrCat(owner, ": ");
    LayerRow row = {.name = of_model + name,
                    .forward_ns = time_of(cells, "forward"),
                    .backward_ns = time_of(cells, "backward"),
                    .update_ns = time_of(cells, "update"),
                    .total_ns = time_of(cells, "time")};
    row.least_ns = row.most_ns = row.total_ns;
    if (row.total_ns > 0) by_pattern[{of_model + PatternOf(name), TextOf(layers, cells, "type")}].push_back(row);
  }
  std::multiset<std::string> of_pattern;
  for (const auto& [pattern, members] : by_pattern) of_pattern.insert(pattern.first);
  std::vector<LayerRow> rows;
  for (auto& [pattern, members] : by_pattern) {
    if (members.size() < kLeastBlocks) {
      for (LayerRow& member : members) {
        if (!HasLetter(member.name)) member.name = WithType(member.name, pattern.second);
      }
      rows.insert(rows.end(), members.begin(), members.end());
      continue;
    }
    LayerRow all = members.front();
    // Blocks with one pattern may have several types: "blocks.*" may name convolutions and activations.
    all.name = of_pattern.count(pattern.first) > 1 || !HasLetter(pattern.first)
                   ? WithType(pattern.first, pattern.second)
                   : pattern.first;
    for (size_t i = 1; i < members.size(); ++i) Merge(members[i], all);
    rows.push_back(all);
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &LayerRow::total_ns);
  return rows;
}

absl::StatusOr<std::vector<LayerRow>> LayerRowsOf(const StepFacts& facts) {
  const auto is_layers = [](const TableKind& kind) { return kind.name == "layers"; };
  const auto kind = absl::c_find_if(TableKinds(), is_layers);
  const absl::StatusOr<Table> table = MakeTable(*kind, facts.model(), facts.step_options());
  if (!table.ok()) return table.status();
  return LayerRows(*table);
}

}  // namespace dlhook::analyzer::answer
