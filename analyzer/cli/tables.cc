// Opening runs and running passes.
#include "analyzer/cli/tables.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "analyzer/cli/load_options.h"
#include "analyzer/cli/names.h"
#include "analyzer/cli/output.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer {
namespace {

constexpr std::pair<absl::string_view, LayersBy> kLayersBy[] = {{"layer", LayersBy::kLayer},
                                                                {"module", LayersBy::kModule},
                                                                {"type", LayersBy::kType},
                                                                {"op", LayersBy::kOp},
                                                                {"line", LayersBy::kLine}};

}  // namespace

absl::StatusOr<LoadedRun> OpenRun(const std::string& path) {
  ReadingProgress progress(path);
  return LoadRun(path, {.drain_leftover = LeftoverDrain(),
                        .progress = [&](uint64_t done, uint64_t all) { progress.Update(done, all); }});
}

std::vector<std::string> ListOf(const Args& args, absl::string_view flag) {
  std::vector<std::string> names;
  for (const std::string& list : args.All(flag)) {
    for (absl::string_view name : absl::StrSplit(list, ',')) names.emplace_back(name);
  }
  return names;
}

absl::StatusOr<std::vector<const Pass*>> FindPasses(const std::vector<std::string>& names) {
  std::vector<const Pass*> passes;
  for (const std::string& name : names) {
    const absl::StatusOr<const Pass*> pass = FindNamed(Passes(), "table", name);
    if (!pass.ok()) return pass.status();
    if (std::find(passes.begin(), passes.end(), *pass) == passes.end()) passes.push_back(*pass);
  }
  if (names.empty()) {
    for (const Pass& pass : Passes()) passes.push_back(&pass);
  }
  return passes;
}

std::vector<Flag> LayerFlags() {
  return {{"by", "WHAT", "rows of layers: layer, module, type, op or line (default: layer)"},
          {"depth", "N", "fold modules deeper than N into those around them (0: none)"},
          {"evidence", "WHICH", "all, or structure: layers from calls alone (default: all)"}};
}

absl::StatusOr<LayerOptions> ReadLayerFlags(const Args& args) {
  LayerOptions options;
  const std::string by = args.Last("by").value_or("layer");
  const auto* const found =
      std::find_if(std::begin(kLayersBy), std::end(kLayersBy), [&](const auto& known) { return known.first == by; });
  if (found == std::end(kLayersBy)) {
    return absl::InvalidArgumentError(absl::StrCat("--by expects layer, module, type, op or line, found '", by, "'"));
  }
  options.by = found->second;
  const std::string depth = args.Last("depth").value_or("0");
  if (!absl::SimpleAtoi(depth, &options.depth) || options.depth < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--depth expects a number of parts of a name (layer1.0.conv2 has three; 0: all of them), found '", depth, "'"));
  }
  const std::string evidence = args.Last("evidence").value_or("all");
  if (evidence != "all" && evidence != "structure") {
    return absl::InvalidArgumentError(absl::StrCat("--evidence expects all or structure, found '", evidence, "'"));
  }
  options.use_framework_evidence = evidence == "all";
  return options;
}

RunAnalysis::RunAnalysis(TraceModel* model, const LayerOptions& options)
    : model_(*model),
      options_(options),
      choices_(ResolveChoices(model)),
      totals_(ComputeTotals(*model)),
      layers_(*model, {.use_framework_evidence = options.use_framework_evidence}) {}

PassOptions RunAnalysis::options() const {
  return {.choices = &choices_,
          .totals = &totals_,
          .analysis = &layers_,
          .layers_by = options_.by,
          .layers_depth = options_.depth};
}

absl::StatusOr<std::vector<Table>> RunAnalysis::MakeTables(const std::vector<const Pass*>& passes) const {
  std::vector<Table> tables;
  for (const Pass* pass : passes) {
    absl::StatusOr<Table> table = pass->run(model_, options());
    if (!table.ok()) return table.status();
    if (absl::Status status = CheckTable(*table); !status.ok()) return status;
    tables.push_back(*std::move(table));
  }
  return tables;
}

}  // namespace dlhook::analyzer
