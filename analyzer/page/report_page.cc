#include "analyzer/page/report_page.h"

#include <nlohmann/json.hpp>

#include "analyzer/analysis/memory_use.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/profile/profile_builder.h"

namespace dlhook::analyzer::inline page {
namespace {

using Json = nlohmann::ordered_json;

const char* KindName(FrameKind frame) {
  return NameIn<FrameKind::kNote>(
      frame, {"process", "thread", "layer", "Python", "native", "framework", "library", "GPU", "other"});
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

// The stacks of a run as a tree, for web/src/views/callers.js.
// {"functions": [[name, kind, object, file]], "left_out": N, "parent": [], "function": [], "line": [], "total": [], "self": []}
// with the root first, parents before children, times in ns. The `most_nodes` heaviest, others are in their parents' totals.
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

constexpr size_t kMostParts = 9;
constexpr size_t kMostLayers = 12;
constexpr size_t kMostMemory = 1'000;

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
          {"mean_ns", TimesOf(facts).mean_ns},  {"has_gpu_times", facts.HasGpuTimes()},
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

// The phases of steps, by process and start as in the table `steps`; not of those without operations, where a phase reaches into
// the next one.
Json StepPhases(const StepFacts& facts, size_t most) {
  const TraceModel& model = facts.model();
  Json all = Json::array();
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) {
      if (all.size() >= most) return all;
      if (step.left_out == LeftOut::kNotRecorded) continue;
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

// [{name, start: [ns], bytes: []}]: of each process the resident memory, of each device what a framework's allocator gave out.
// Of the `most` equal parts of the run the most in each.
Json MemoryOverTime(const TraceModel& model, size_t most) {
  std::map<std::string, std::map<int64_t, std::pair<int64_t, int64_t>>> series;  // by part: bytes, time
  const int64_t length = std::max<int64_t>(1, (model.end_ns - model.start_ns) / static_cast<int64_t>(most));
  const auto add = [&](ProcessIndex process, const std::string& name, int64_t time_ns, auto bytes) {
    if (bytes <= 0) return;
    const std::string of = model.processes.size() > 1 ? absl::StrCat(", ", ProcessLabel(model, process)) : "";
    auto& at = series[absl::StrCat(name, of)][(time_ns - model.start_ns) / length];
    at = std::max(at, std::pair(static_cast<int64_t>(bytes), time_ns - model.start_ns));
  };
  for (const LoadSample& load : model.loads) add(load.process, "resident memory", load.time_ns, load.resident_bytes);
  std::map<std::tuple<ProcessIndex, uint32_t, uint64_t>, int64_t> blocks;
  std::map<std::pair<ProcessIndex, uint32_t>, int64_t>
      held;  // for allocators that do not say it, as far as it was seen
  for (const MemoryEvent& event : model.memory) {
    const ProcessIndex process = model.threads[event.thread].process;
    const auto block = blocks.try_emplace({process, event.device, event.address}).first;
    int64_t& sum = held[{process, event.device}];
    sum += event.bytes - block->second;
    block->second = event.bytes;
    if (event.bytes == 0) blocks.erase(block);
    add(process, absl::StrCat("tensors on ", MemoryDeviceName(event.device)), event.time_ns,
        event.allocated_bytes > 0 ? event.allocated_bytes : sum);
  }
  Json all = Json::array();
  for (const auto& [name, parts] : series) {
    Json start = Json::array(), bytes = Json::array();
    for (const auto& [part, at] : parts) {
      bytes.push_back(at.first);
      start.push_back(at.second);
    }
    all.push_back({{"name", name}, {"start", std::move(start)}, {"bytes", std::move(bytes)}});
  }
  return all;
}

}  // namespace

std::string ReportPage(const StepFacts& facts, const std::vector<Table>& tables) {
  const Profile profile = BuildProfile(facts.model(), *facts.options().analysis, {});
  Report report;
  report.run = &facts.model();
  report.tables = tables;
  const Json answer = Answer(facts);
  return PageFile(report, [&](const Room& room) {
    return Json{{"kind", "report"},
                {"title", facts.model().name},
                {"version", DLHOOK_VERSION},
                {"answer", answer},
                {"timelines", Timelines(facts, room.slices)},
                {"memory", MemoryOverTime(facts.model(), kMostMemory)},
                {"step_phases", StepPhases(facts, room.rows)},
                {"roofs", RoofsJson(facts.options().peaks)},
                {"stacks", CallTree(profile, room.nodes)}};
  });
}

}  // namespace dlhook::analyzer::page
