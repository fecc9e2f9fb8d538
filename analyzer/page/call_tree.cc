#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "analyzer/page/report_page.h"

namespace dlhook::analyzer::inline page {
namespace {

using Json = nlohmann::ordered_json;

const char* KindName(FrameKind kind) {
  constexpr const char* kNames[] = {"process",   "thread",  "layer", "Python", "native",
                                    "framework", "library", "GPU",   "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(FrameKind::kNote) + 1);
  return kNames[static_cast<size_t>(kind)];
}

// The weight that a node must have to be kept.
int64_t LeastKept(const std::vector<Weights>& totals, size_t most_nodes) {
  if (totals.size() <= most_nodes) return 1;
  std::vector<int64_t> times;
  for (const Weights& weights : totals) times.push_back(TimeIn(weights));
  const auto nth = times.begin() + static_cast<std::ptrdiff_t>(most_nodes);
  std::nth_element(times.begin(), nth, times.end(), std::greater<>());
  return *nth + 1;
}

}  // namespace

Json CallTree(const Profile& profile, size_t most_nodes) {
  const std::vector<Weights> totals = profile.TotalWeights(), selves = profile.SelfWeights();
  const int64_t least = LeastKept(totals, most_nodes);
  std::map<FunctionIndex, size_t> functions;
  std::vector<size_t> places(profile.nodes().size());
  Json names = Json::array(), parent = Json::array(), function = Json::array(), line = Json::array(),
       total = Json::array(), self = Json::array();
  size_t left_out = 0;
  for (NodeIndex node = kRoot; node < profile.nodes().size(); ++node) {
    if (node != kRoot && TimeIn(totals[node]) < least) {
      ++left_out;
      continue;
    }
    places[node] = parent.size();
    parent.push_back(places[profile.nodes()[node].parent]);
    total.push_back(TimeIn(totals[node]));
    self.push_back(TimeIn(selves[node]));
    line.push_back(node == kRoot ? 0 : profile.FrameOf(node).line);
    if (node == kRoot) {
      function.push_back(-1);
      continue;
    }
    const auto [at, is_new] = functions.try_emplace(profile.FunctionOf(node), functions.size());
    function.push_back(at->second);
    const ProfileFunction& facts = profile.functions()[profile.FunctionOf(node)];
    if (is_new) names.push_back({facts.name, KindName(facts.kind), facts.object, facts.file});
  }
  return {{"functions", std::move(names)},   {"left_out", left_out},    {"parent", std::move(parent)},
          {"function", std::move(function)}, {"line", std::move(line)}, {"total", std::move(total)},
          {"self", std::move(self)}};
}

}  // namespace dlhook::analyzer::page
