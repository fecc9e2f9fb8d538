// See difference.h.

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/diff/difference.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/release.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr size_t kMostTold = 6;
constexpr size_t kBuildIdBytesTold = 6;

std::string NumberOr(uint32_t number) { return number == 0 ? "" : absl::StrCat(number); }

void AddProcess(const ProcessInfo& process, Environment& facts) {
  facts.Add(DifferenceKind::kReleases, "dlhook", process.tool_version);
  for (const char* software : {"Python", "PyTorch"})
    facts.Add(DifferenceKind::kReleases, software, ReleaseOf(process, software));
  for (const Mapping& mapping : process.mappings) {
    facts.Add(DifferenceKind::kBuilds, absl::StrCat("build of ", BaseName(mapping.path)),
              absl::BytesToHexString(absl::string_view(mapping.build_id).substr(0, kBuildIdBytesTold)));
  }
  for (const auto& [name, value] : process.settings)
    facts.Add(DifferenceKind::kSettings, name, value.empty() ? "''" : value);
  facts.Add(DifferenceKind::kMachine, "processor", process.processor.name);
  facts.Add(DifferenceKind::kMachine, "processors that the program may use", NumberOr(process.processors));
}

}  // namespace

void Environment::Add(DifferenceKind kind, const std::string& what, const std::string& value) {
  if (!value.empty()) facts[{kind, what}].insert(value);
}

void Environment::Add(const Environment& other) {
  for (const auto& [what, values] : other.facts) facts[what].insert(values.begin(), values.end());
}

Environment EnvironmentOf(const TraceModel& model, const MachineLoad& load) {
  Environment facts;
  for (const ProcessInfo& process : model.processes) AddProcess(process, facts);
  for (const Op& op : model.ops) {
    if (op.onednn() != nullptr)
      facts.Add(DifferenceKind::kReleases, "oneDNN", std::string(absl::StripPrefix(op.onednn()->version, "v")));
  }
  for (const GpuDevice& device : model.gpu_devices) facts.Add(DifferenceKind::kMachine, "GPU", device.name);
  facts.Add(DifferenceKind::kThreads, model.processes.size() > 1 ? "threads of a process" : "threads of the program",
            NumberOr(load.threads));
  return facts;
}

std::vector<Difference> EnvironmentDifferences(const BaseSide<Environment>& base,
                                               const NewSide<Environment>& new_side) {
  std::vector<Difference> differences;
  for (const auto& [what, values] : Both(base->facts, new_side->facts)) {
    const std::string before = absl::StrJoin(values.first, ", "), after = absl::StrJoin(values.second, ", ");
    const bool is_known = (!before.empty() && !after.empty()) || what.first == DifferenceKind::kSettings;
    if (before == after || !is_known) continue;
    differences.push_back({what.first, what.second, before, after,
                           what.first == DifferenceKind::kBuilds
                               ? absl::StrCat("another ", what.second)
                               : absl::StrCat(what.second, " ", Arrow(before, after))});
  }
  return differences;
}

std::string EnvironmentText(const std::vector<Difference>& differences) {
  std::vector<std::string> words;
  for (const Difference& difference : differences) {
    if (difference.IsOfEnvironment()) words.push_back(difference.words);
  }
  const size_t more = words.size() - std::min(words.size(), kMostTold);
  words.resize(words.size() - more);
  return absl::StrCat(absl::StrJoin(words, "; "), more == 0 ? "" : absl::StrCat("; ", more, " more"));
}

}  // namespace dlhook::analyzer::diff
