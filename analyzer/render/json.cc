// {"tables": [{"name", "title", "columns": [{"name", "unit", "type", …}], "rows": [[…]], "notes": […]}], "run": {…}}.
// One row per line, so that two reports can be compared as text. The format is documented in analyzer/README.md.
#include <nlohmann/json.hpp>

#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"

namespace dlhook::analyzer::inline render {
namespace {

using Json = nlohmann::ordered_json;

// Invalid UTF-8 (possible in file names) gets replacement characters.
std::string Dump(const Json& json) { return EscapedJson(json.dump(-1, ' ', false, Json::error_handler_t::replace)); }

constexpr const char* kTypeNames[] = {"text", "integer", "real"};
static_assert(static_cast<size_t>(ColumnType::kReal) + 1 == std::size(kTypeNames));
constexpr const char* kBetterNames[] = {"neither", "lower", "higher"};
static_assert(static_cast<size_t>(Better::kHigher) + 1 == std::size(kBetterNames));

Json CellJson(const Cell& cell) {
  if (const auto* text = std::get_if<CellString>(&cell)) return text->str();
  if (const auto* integer = std::get_if<int64_t>(&cell)) return *integer;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return nullptr;
}

Json ColumnsJson(const Table& table) {
  Json columns = Json::array();
  for (const Column& column : table.columns) {
    columns.push_back({{"name", column.name},
                       {"unit", column.unit},
                       {"type", kTypeNames[static_cast<size_t>(column.type)]},
                       {"better", kBetterNames[static_cast<size_t>(column.better)]},
                       {"explanation", column.explanation},
                       {"detail", column.detail}});
  }
  return columns;
}

void AppendJson(const Table& table, std::string* out) {
  absl::StrAppend(out, "  {\"name\": ", Dump(table.name), ", \"title\": ", Dump(table.title),
                  ",\n   \"columns\": ", Dump(ColumnsJson(table)), ",\n   \"rows\": [");
  const char* separator = "\n    ";
  for (const Row& row : table.rows) {
    Json cells = Json::array();
    for (const Cell& cell : row) cells.push_back(CellJson(cell));
    absl::StrAppend(out, separator, Dump(cells));
    separator = ",\n    ";
  }
  absl::StrAppend(out, "],\n   \"notes\": ", Dump(Json(table.notes)), "}");
}

Json ProcessJson(const ProcessInfo& process) {
  Json ranks = Json::object();
  for (const auto& [name, value] : process.rank_variables) ranks[name] = value;
  return {{"file", process.file},
          {"pid", process.pid},
          {"parent_pid", process.parent_pid},
          {"host", process.host},
          {"program", process.program},
          {"script", process.script},
          {"rank_variables", std::move(ranks)},
          {"start_ns", process.start_ns},
          {"end_ns", process.end_ns},
          {"end", process.has_footer ? EnumName(process.end) : "open"},
          {"capture_families", process.capture_families},
          {"tool_version", process.tool_version}};
}

Json LossesJson(const TraceModel& run) {
  Json losses = Json::array();
  for (const ProcessInfo& process : run.processes) {
    for (const Loss& loss : process.losses) {
      losses.push_back({{"file", process.file},
                        {"reason", EnumName(loss.reason)},
                        {"thread_id", loss.thread_id},
                        {"calls", loss.calls},
                        {"bytes", loss.bytes},
                        {"detail", loss.detail}});
    }
  }
  return losses;
}

Json CapabilitiesJson(const TraceModel& run) {
  Json capabilities = Json::array();
  for (const ProcessInfo& process : run.processes) {
    for (const Capability& capability : process.capabilities) {
      capabilities.push_back({{"file", process.file},
                              {"name", capability.name},
                              {"state", EnumName(capability.state)},
                              {"object", capability.object},
                              {"reason", capability.reason}});
    }
  }
  return capabilities;
}

Json RunJson(const TraceModel& run) {
  Json processes = Json::array(), oddities = Json::array();
  for (const auto& [sentence, count] : run.oddities) oddities.push_back({{"sentence", sentence}, {"count", count}});
  for (const ProcessInfo& process : run.processes) processes.push_back(ProcessJson(process));
  return {{"name", run.name},
          {"wall_ns", run.wall_ns()},
          {"processes", std::move(processes)},
          {"scopes", run.scopes.size()},
          {"python_modules", run.modules.size()},
          {"losses", LossesJson(run)},
          {"capabilities", CapabilitiesJson(run)},
          {"oddities", std::move(oddities)}};
}

}  // namespace

std::string RenderJson(const Report& report) {
  std::string out = "{";
  if (report.base != nullptr && !report.tables.empty()) {
    // docs/schema.md
    absl::StrAppend(&out,
                    "\"schema\": \"dlhook-diff\", \"version\": 1,\n \"verdict\": ", Dump(report.tables.front().title),
                    ",\n ");
  }
  out += "\"tables\": [";
  const char* separator = "\n";
  for (const Table& table : report.tables) {
    out += separator;
    AppendJson(table, &out);
    separator = ",\n";
  }
  out += "]";
  if (report.base != nullptr) absl::StrAppend(&out, ",\n \"environment\": ", Dump(report.environment));
  if (report.base != nullptr) absl::StrAppend(&out, ",\n \"base\": ", Dump(RunJson(*report.base)));
  const auto add = [&](const char* key, const std::vector<const TraceModel*>& runs) {
    Json array = Json::array();
    for (const TraceModel* run : runs) array.push_back(RunJson(*run));
    if (!runs.empty()) absl::StrAppend(&out, ",\n \"", key, "\": ", Dump(array));
  };
  add("more_bases", report.more_bases);
  add("more_runs", report.more_runs);
  if (report.run != nullptr) absl::StrAppend(&out, ",\n \"run\": ", Dump(RunJson(*report.run)));
  out += "}\n";
  return out;
}

}  // namespace dlhook::analyzer::render
