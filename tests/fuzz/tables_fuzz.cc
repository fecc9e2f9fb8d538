// A trace of unknown origin through to the output: every table, in one format or another.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/answer/answer.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/reader/trace_builder.h"
#include "analyzer/render/renderer.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

// The input has no room for options: its length selects them.
void MakeTables(absl::string_view bytes) {
  TraceBuilder builder("fuzz");
  const bool in_parts = bytes.size() % 16 == 1;
  builder.AddTrace("fuzz.dlh", {bytes}, nullptr, in_parts ? ChooseParts({bytes}, 0.3, 3) : ReadParts()).IgnoreError();
  if (bytes.size() % 8 == 0) builder.AddTrace("again.dlh", {bytes}).IgnoreError();  // a run of several processes
  TraceModel model = std::move(builder).Build();
  if (model.processes.empty()) return;
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model, {.use_framework_evidence = bytes.size() % 4 != 0});
  const TableOptions options = {.choices = &choices,
                                .totals = &totals,
                                .analysis = &analysis,
                                .by = static_cast<By>(bytes.size() % std::size(kByNames)),
                                .layers_depth = static_cast<int>(bytes.size() % 3)};
  Report report;
  report.run = &model;
  report.width = 20 + static_cast<int>(bytes.size() % 200);
  for (const TableKind& kind : ReportTables()) {
    size_t mistakes = 0;
    absl::StatusOr<Table> table = MakeTable(kind, model, options, &mistakes);
    Require(table.ok(), "every table can be made of every trace, and is well-formed");
    Require(mistakes == 0, table->notes.empty() ? "" : table->notes.back().c_str());
    report.tables.push_back(*std::move(table));
  }
  const auto answer = MakeAnswer(StepFacts(model, options), {.run = "RUN", .width = static_cast<size_t>(report.width)});
  Require(answer.ok(), "there is an answer for every trace");
  const Renderer& renderer = Renderers()[bytes.size() % Renderers().size()];
  const std::string text = renderer.render(report);
  Require(renderer.name != "json" || nlohmann::json::accept(text), "JSON output is JSON");
}

}  // namespace
}  // namespace dlhook::analyzer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlhook::analyzer::MakeTables({reinterpret_cast<const char*>(data), size});
  return 0;
}
