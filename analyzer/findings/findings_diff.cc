// Findings that came or went: see findings_table.h.

#include "absl/strings/str_cat.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline findings {
namespace {

using Key = std::pair<std::string, std::string>;  // rule; place where a rule has several findings

// Its layers or part of a step, else its lines' text without their numbers, which change with the file, else its line.
std::string PlaceOf(const Finding& finding) {
  if (!finding.where.empty() || finding.source.empty()) return finding.where.empty() ? finding.line : finding.where;
  std::string text;
  for (const std::string& line : finding.source) absl::StrAppend(&text, line.substr(line.find(':')));
  return text;
}

std::set<std::string> RulesWithSeveral(const FindingsOfRuns& base, const FindingsOfRuns& new_side) {
  std::set<std::string> rules;
  for (const FindingsOfRuns* side : {&base, &new_side}) {
    for (const std::vector<RuleFinding>& run : *side) {
      std::set<std::string> seen;
      for (const RuleFinding& found : run) {
        if (!seen.insert(found.rule).second) rules.insert(found.rule);
      }
    }
  }
  return rules;
}

struct Found {
  size_t runs = 0;
  const RuleFinding* first = nullptr;
};

std::map<Key, Found> FoundOn(const FindingsOfRuns& side, const std::set<std::string>& several) {
  std::map<Key, Found> found;
  for (const std::vector<RuleFinding>& run : side) {
    std::set<Key> seen;
    for (const RuleFinding& finding : run) {
      Key key = {finding.rule, several.contains(finding.rule) ? PlaceOf(finding.finding) : ""};
      if (!seen.insert(key).second) continue;
      Found& sum = found[std::move(key)];
      ++sum.runs;
      if (sum.first == nullptr) sum.first = &finding;
    }
  }
  return found;
}

constexpr double kMuchMore = 2;  // times

// Those that most runs of `side` have and of `other` have not, or have much less of.
void AddOwn(const FindingsOfRuns& side, const FindingsOfRuns& other, const std::set<std::string>& several, bool is_new,
            std::vector<FindingChange>& changes) {
  const std::map<Key, Found> own = FoundOn(side, several), others = FoundOn(other, several);
  for (const auto& [key, found] : own) {
    const auto same = others.find(key);
    const bool is_on_other = same != others.end() && 2 * same->second.runs > other.size();
    const bool is_same_place = is_on_other && PlaceOf(found.first->finding) == PlaceOf(same->second.first->finding);
    const double other_ns = is_same_place ? same->second.first->finding.gain_ns : 0;
    if (2 * found.runs <= side.size()) continue;
    if (!is_on_other || (other_ns > 0 && found.first->finding.gain_ns >= kMuchMore * other_ns))
      changes.push_back({is_new, found.first, other_ns});
  }
}

}  // namespace

std::vector<FindingChange> ChangedFindings(const BaseSide<FindingsOfRuns>& base,
                                           const NewSide<FindingsOfRuns>& new_side) {
  const std::set<std::string> several = RulesWithSeveral(*base, *new_side);
  std::vector<FindingChange> changes;
  AddOwn(*new_side, *base, several, true, changes);
  AddOwn(*base, *new_side, several, false, changes);
  absl::c_stable_sort(changes,
                      [](const FindingChange& a, const FindingChange& b) { return a.change_ns() > b.change_ns(); });
  return changes;
}

bool IsCause(absl::string_view rule) {
  constexpr absl::string_view kSymptoms[] = {"page-faults",  "layout-conversions", "python-bound", "unfused-ops",
                                             "machine-busy", "lower-precision",    "warm-up",      "gpu-idle"};
  return !absl::c_linear_search(kSymptoms, rule);
}

Table FindingsDiff(const std::vector<FindingChange>& changes) {
  const TypedColumns<FindingChange> columns = {
      {TextColumn("change"),
       "new: only NEW has it; gone: only BASE has it; more, less: its gain in NEW is at least twice that in BASE, or "
       "at most half.",
       [](const FindingChange& row) {
         if (row.other_ns > 0) return Cell(std::string(row.is_new ? "more" : "less"));
         return Cell(std::string(row.is_new ? "new" : "gone"));
       }},
      {As(Role::kKey, TextColumn("rule")), "What found it.",
       [](const FindingChange& row) { return Cell(row.found->rule); }},
      {IntegerColumn("gain", "ns", Better::kLower),
       "Upper bound on the time saved per step, on the side that has it, or more of it.",
       [](const FindingChange& row) { return Cell(static_cast<int64_t>(row.found->finding.gain_ns)); }},
      {TextColumn("where"), "Layers or part of the step.",
       [](const FindingChange& row) { return KnownText(row.found->finding.where); }},
      {TextColumn("finding"), "What is slow.",
       [](const FindingChange& row) { return KnownText(row.found->finding.sentence); }},
      {Detail(TextColumn("advice")), "What to do.",
       [](const FindingChange& row) { return KnownText(row.found->finding.advice); }},
  };
  return NewTable("findings", "Findings (dlhook report RUN) that only one side has, or has much more of", columns,
                  changes);
}

}  // namespace dlhook::analyzer::findings
