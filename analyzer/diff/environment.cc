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

class Facts {
 public:
  void Add(DifferenceKind kind, const std::string& what, const std::string& value) {
    if (!value.empty()) environment_.facts[{kind, what}].insert(value);
  }
  void Add(DifferenceKind kind, const std::string& what, uint32_t number) {
    if (number != 0) Add(kind, what, absl::StrCat(number));
  }

  void AddProcess(const ProcessInfo& process) {
    Add(DifferenceKind::kReleases, "dlhook", process.tool_version);
    for (const char* software : {"Python", "PyTorch"})
      Add(DifferenceKind::kReleases, software, ReleaseOf(process, software));
    for (const Mapping& mapping : process.mappings) {
      if (!mapping.build_id.empty()) {
        Add(DifferenceKind::kBuilds, absl::StrCat("build of ", BaseName(mapping.path)),
            absl::BytesToHexString(absl::string_view(mapping.build_id).substr(0, kBuildIdBytesTold)));
      }
    }
    for (const auto& [name, value] : process.settings)
      Add(DifferenceKind::kSettings, name, value.empty() ? "''" : value);
    Add(DifferenceKind::kMachine, "processor", process.processor.name);
    Add(DifferenceKind::kMachine, "processors that the program may use", process.processors);
  }

  Environment Take() { return std::move(environment_); }

 private:
  Environment environment_;
};

}  // namespace

void Environment::Add(const Environment& other) {
  for (const auto& [what, values] : other.facts) facts[what].insert(values.begin(), values.end());
}

Environment EnvironmentOf(const TraceModel& model, const MachineLoad& load) {
  Facts facts;
  for (const ProcessInfo& process : model.processes) facts.AddProcess(process);
  for (const Op& op : model.ops) {
    if (op.onednn() != nullptr) {
      facts.Add(DifferenceKind::kReleases, "oneDNN", std::string(absl::StripPrefix(op.onednn()->version, "v")));
    }
  }
  for (const GpuDevice& device : model.gpu_devices) facts.Add(DifferenceKind::kMachine, "GPU", device.name);
  facts.Add(DifferenceKind::kThreads, model.processes.size() > 1 ? "threads of a process" : "threads of the program",
            load.threads);
  return facts.Take();
}

std::vector<Difference> EnvironmentDifferences(const BaseSide<Environment>& base,
                                               const NewSide<Environment>& new_side) {
  std::map<std::pair<DifferenceKind, std::string>, std::pair<std::string, std::string>> both;
  for (const auto& [what, values] : base->facts) both[what].first = absl::StrJoin(values, ", ");
  for (const auto& [what, values] : new_side->facts) both[what].second = absl::StrJoin(values, ", ");
  std::vector<Difference> differences;
  for (const auto& [what, values] : both) {
    const auto& [before, after] = values;
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
  size_t more = 0;
  for (const Difference& difference : differences) {
    if (!difference.IsOfEnvironment()) continue;
    if (words.size() < kMostTold) {
      words.push_back(difference.words);
    } else {
      ++more;
    }
  }
  return absl::StrCat(absl::StrJoin(words, "; "), more == 0 ? "" : absl::StrCat("; ", more, " more"));
}

}  // namespace dlhook::analyzer::diff
