// See report_page.h.
#include "analyzer/page/report_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/answer/layer_rows.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/export/gzip.h"
#include "analyzer/page/call_tree.h"
#include "analyzer/page/fit_rows.h"
#include "analyzer/page/page_file.h"
#include "analyzer/page/timelines.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/profile/profile_builder.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/run_facts.h"

namespace dlhook::analyzer::inline page {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostParts = 9;
constexpr size_t kMostLayers = 12;

// What a page holds at most, from the most to the least.
struct Room {
  size_t rows, slices, nodes;
};
constexpr Room kRooms[] = {{20'000, 12'000, 12'000}, {5'000, 6'000, 6'000}, {1'000, 3'000, 3'000}, {200, 1'000, 1'000}};

Json Answer(const StepFacts& facts) {
  Json parts = Json::array();
  for (const StepPart& part : PartsOfStep(facts, kMostParts)) {
    parts.push_back(
        {{"name", part.name}, {"kind", PartKindName(part.kind)}, {"ns", part.ns}, {"percent", part.percent}});
  }
  Json layers = Json::array();
  const absl::StatusOr<std::vector<LayerRow>> rows = LayerRowsOf(facts);
  for (size_t i = 0; rows.ok() && i < rows->size() && i < kMostLayers; ++i) {
    const LayerRow& row = (*rows)[i];
    layers.push_back({{"name", row.name},
                      {"layers", row.layers},
                      {"forward", row.forward_ns},
                      {"backward", row.backward_ns},
                      {"update", row.update_ns},
                      {"time", row.total_ns}});
  }
  return {{"what_ran", WhatRan(facts)},         {"how_long", HowLong(facts)},
          {"step_noun", facts.StepNoun()},      {"step_ns", facts.step_ns()},
          {"has_steps", facts.HasSteps()},      {"has_gpu_times", facts.HasGpuTimes()},
          {"parts", std::move(parts)},          {"layers", std::move(layers)},
          {"step_remarks", StepRemarks(facts)}, {"not_seen", RunRemarks(facts.model())}};
}

Json RoofsJson(const Peaks* peaks) {
  Json roofs = Json::array();
  if (peaks == nullptr) return roofs;
  for (const Roof& roof : peaks->Roofs()) {
    roofs.push_back({{"name", roof.name},
                     {"value", roof.value},
                     {"unit", roof.is_bandwidth ? "GB/s" : "GFLOP/s"},
                     {"gpu", roof.on_gpu}});
  }
  return roofs;
}

// The phases of steps, by process and start as in the table `steps`.
Json StepPhases(const StepFacts& facts, size_t most) {
  const TraceModel& model = facts.model();
  Json all = Json::array();
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      if (all.size() >= most) return all;
      Json phases = Json::object();
      for (const PhaseInterval& phase : step.phases) {
        Json& sum = phases[PhaseKindName(phase.kind)];
        sum = (sum.is_null() ? 0 : sum.get<int64_t>()) + phase.end_ns - phase.start_ns;
      }
      all.push_back({model.processes[track.process].pid, step.start_ns - model.start_ns, std::move(phases)});
    }
  }
  return all;
}

std::string DataIn(const Room& room, const StepFacts& facts, const Profile& profile, std::vector<Table> tables) {
  for (Table& table : tables) FitRows(room.rows, &table);
  const Json more = {{"kind", "report"},
                     {"title", facts.model().name},
                     {"version", DLHOOK_VERSION},
                     {"answer", Answer(facts)},
                     {"timelines", Timelines(facts, room.slices)},
                     {"step_phases", StepPhases(facts, room.rows)},
                     {"roofs", RoofsJson(facts.options().peaks)},
                     {"stacks", CallTree(profile, room.nodes)}};
  Report report;
  report.run = &facts.model();
  report.tables = std::move(tables);
  return Gzip(absl::StrCat("{\"report\": ", RenderJson(report), ", \"page\": ", PageJson(more), "}"));
}

}  // namespace

std::string ReportPage(const StepFacts& facts, const std::vector<Table>& tables) {
  const Profile profile = BuildProfile(facts.model(), *facts.options().analysis, {});
  std::string data;
  for (const Room& room : kRooms) {
    data = DataIn(room, facts, profile, tables);
    if (data.size() <= kMostPacked) break;
  }
  return PageFile(data);
}

}  // namespace dlhook::analyzer::page
