// A call graph in Graphviz's language, with costs. Boxes contain a function's own cost and the cost including
// everything it calls; a recursive function's total counts every call once. Functions below a given share are omitted,
// and the graph says how much that is; an edge that skips omitted functions is dashed.
#include <cmath>

#include "absl/strings/str_format.h"
#include "analyzer/export/exporter.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {
namespace {

constexpr size_t kLongestName = 80;

std::string Shortened(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // not inside a multi-byte character
  return absl::StrCat(name.substr(0, end), "…");
}

std::string Amount(Weight weight, int64_t value) {
  const auto number = static_cast<double>(value);
  if (weight == Weight::kCalls) return absl::StrCat(value, value == 1 ? " call" : " calls");
  if (weight == Weight::kTime) {
    if (value < 1000000) return absl::StrFormat("%.3g us", number / 1e3);
    return value < 1000000000 ? absl::StrFormat("%.3g ms", number / 1e6) : absl::StrFormat("%.4g s", number / 1e9);
  }
  const char* const unit = weight == Weight::kFlops ? "FLOP" : "B";
  return value < 1000000000 ? absl::StrFormat("%.3g M%s", number / 1e6, unit)
                            : absl::StrFormat("%.4g G%s", number / 1e9, unit);
}

struct Edge {
  FunctionIndex from, to;
  friend bool operator<(const Edge& a, const Edge& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); }
};
struct EdgeSum {
  int64_t weight = 0;
  bool is_direct = false;  // somewhere without an omitted function in between
};

class DotWriter {
 public:
  DotWriter(const Profile& profile, const ExportOptions& options)
      : profile_(profile),
        options_(options),
        self_(profile.functions().size()),
        total_(profile.functions().size()),
        sum_(profile.Sum()[static_cast<size_t>(options.weight)]) {
    const std::vector<Weights> self = profile.SelfWeights();
    const std::vector<Weights> total = profile.TotalWeights();
    for (NodeIndex node = kRoot + 1; node < profile.nodes().size(); ++node) {
      const FunctionIndex function = profile.FunctionOf(node);
      self_[function] += WeightIn(self[node]);
      if (!IsAgain(node)) total_[function] += WeightIn(total[node]);
    }
    for (NodeIndex node = kRoot + 1; node < profile.nodes().size(); ++node) CollectEdge(node, WeightIn(total[node]));
  }

  std::string Write() {
    std::string nodes, edges;
    for (FunctionIndex function = 0; function < total_.size(); ++function) {
      if (IsKept(function)) absl::StrAppend(&nodes, Box(function));
    }
    int64_t dropped_edges = 0;
    for (const auto& [edge, sum] : edges_) {
      if (IsLarge(sum.weight)) {
        absl::StrAppend(&edges, Arrow(edge, sum));
      } else {
        ++dropped_edges;
      }
    }
    return absl::StrCat(
        "digraph dlhook {\n  graph [label=\"", Title(dropped_edges),
        "\", labelloc=t, fontname=\"Helvetica\"]\n"
        "  node [shape=box, style=filled, fontname=\"Helvetica\"]\n  edge [fontname=\"Helvetica\", fontsize=10]\n",
        nodes, edges, "}\n");
  }

 private:
  int64_t WeightIn(const Weights& weights) const { return weights[static_cast<size_t>(options_.weight)]; }
  double PercentOf(int64_t weight) const {
    return sum_ == 0 ? 0 : 100.0 * static_cast<double>(weight) / static_cast<double>(sum_);
  }
  bool IsLarge(int64_t weight) const { return weight > 0 && PercentOf(weight) >= options_.min_percent; }
  bool IsKept(FunctionIndex function) const { return IsLarge(total_[function]); }

  // Whether an outer frame is of the same function.
  bool IsAgain(NodeIndex node) const {
    for (NodeIndex outer = profile_.nodes()[node].parent; outer != kRoot; outer = profile_.nodes()[outer].parent) {
      if (profile_.FunctionOf(outer) == profile_.FunctionOf(node)) return true;
    }
    return false;
  }

  // The next outer frame whose function is in the graph; kRoot: none.
  NodeIndex KeptCaller(NodeIndex node) const {
    do {
      node = profile_.nodes()[node].parent;
    } while (node != kRoot && !IsKept(profile_.FunctionOf(node)));
    return node;
  }

  // Counts an edge once, even if a recursion uses it again.
  void CollectEdge(NodeIndex node, int64_t weight) {
    if (!IsKept(profile_.FunctionOf(node))) return;
    const NodeIndex caller = KeptCaller(node);
    if (caller == kRoot) return;
    const Edge edge = {profile_.FunctionOf(caller), profile_.FunctionOf(node)};
    EdgeSum& sum = edges_[edge];
    sum.is_direct = sum.is_direct || caller == profile_.nodes()[node].parent;
    NodeIndex to = caller;
    for (NodeIndex from = KeptCaller(to); from != kRoot; to = from, from = KeptCaller(from)) {
      if (profile_.FunctionOf(from) == edge.from && profile_.FunctionOf(to) == edge.to) return;
    }
    sum.weight += weight;
  }

  std::string Box(FunctionIndex index) const {
    const ProfileFunction& function = profile_.functions()[index];
    const std::string place = function.file.empty() ? function.object : function.file;
    const std::string self =
        self_[index] == 0
            ? ""
            : absl::StrFormat("%s (%.1f%%)\\nof ", Amount(options_.weight, self_[index]), PercentOf(self_[index]));
    const double size = 9 + std::sqrt(PercentOf(self_[index])) * 2;
    const std::string tooltip = function.full_name.empty() ? function.name : function.full_name;
    return absl::StrFormat("  n%d [label=\"%s%s\\n%s%s (%.1f%%)\", fontsize=%.0f, fillcolor=\"%s\", tooltip=\"%s\"]\n",
                           index, DotString(Shortened(VisibleText(function.name))),
                           place.empty() ? "" : absl::StrCat("\\n", DotString(BaseName(place))), self,
                           Amount(options_.weight, total_[index]), PercentOf(total_[index]), size,
                           Colour(PercentOf(total_[index])), DotString(tooltip));
  }

  // From nearly white to orange: the more, the warmer.
  static std::string Colour(double percent) {
    return absl::StrFormat("0.07 %.3f 1.000", 0.03 + 0.5 * std::sqrt(percent / 100));
  }

  std::string Arrow(Edge edge, const EdgeSum& sum) const {
    return absl::StrFormat("  n%d -> n%d [label=\"%s\", penwidth=%.1f%s]\n", edge.from, edge.to,
                           Amount(options_.weight, sum.weight), 0.5 + 5 * PercentOf(sum.weight) / 100,
                           sum.is_direct ? "" : ", style=dashed");
  }

  std::string Title(int64_t dropped_edges) const {
    int64_t dropped = 0;
    int64_t dropped_self = 0;
    for (FunctionIndex function = 0; function < total_.size(); ++function) {
      if (IsKept(function)) continue;
      ++dropped;
      dropped_self += self_[function];
    }
    std::string title = absl::StrCat(DotString(profile_.model().name), ": ", Amount(options_.weight, sum_),
                                     options_.weight == Weight::kTime      ? " of the host"
                                     : options_.weight == Weight::kGpuTime ? " of GPUs"
                                                                           : "");
    if (dropped == 0 && dropped_edges == 0) return title;
    return absl::StrFormat(
        "%s\\nleft out: %d functions and %d edges below %g%%; in these functions themselves: %s (%.1f%%)", title,
        dropped, dropped_edges, options_.min_percent, Amount(options_.weight, dropped_self), PercentOf(dropped_self));
  }

  const Profile& profile_;
  const ExportOptions& options_;
  std::vector<int64_t> self_, total_;  // by FunctionIndex
  const int64_t sum_;
  std::map<Edge, EdgeSum> edges_;
};

}  // namespace

std::string ExportDot(const Profile& profile, const ExportOptions& options) {
  return DotWriter(profile, options).Write();
}

}  // namespace dlhook::analyzer::exports
