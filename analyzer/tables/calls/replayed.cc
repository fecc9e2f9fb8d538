#include "analyzer/tables/calls/replayed.h"

#include "analyzer/io/run_folder.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

using Cells = std::vector<std::string>;

constexpr uint64_t kMostKept = 16 << 20;  // bytes

Cell Time(double ns) { return ns > 0 ? Cell(static_cast<int64_t>(ns)) : Cell(); }  // as replay itself shows it

}  // namespace

ReplayFile ReplayFileOf(const TraceModel& model) {
  const ProcessInfo& process = model.processes.front();
  const int64_t began_s = (process.start_ns + process.realtime_offset_ns.value_or(0)) / 1'000'000'000;
  return {process.path.empty() ? "" : process.path + ".replay", absl::StrCat("dlhook replay\t", began_s, "\n")};
}

void AddReplayed(const TraceModel& model, Table* table) {
  const bool is_choices = table->name == "algorithms";
  if (model.processes.empty() || (!is_choices && table->name != "candidates")) return;
  const ReplayFile file = ReplayFileOf(model);
  const absl::StatusOr<std::string> text = ReadWholeFile(file.path, kMostKept, FileIs::kFound);
  if (!text.ok() || !absl::StartsWith(*text, file.first_line)) return;
  struct Kept {
    double alone_ns = 0, speed = 0;
    std::string best;
  };
  std::map<Cells, Kept> chosen;  // by what rows of algorithms differ in
  const Cells lines = absl::StrSplit(text->substr(file.first_line.size()), '\n', absl::SkipEmpty());
  for (absl::string_view line : lines) {
    const Cells cells = absl::StrSplit(line, '\t');
    double ns = 0, speed = 0;
    const bool is_whole = cells.size() == 11 && absl::SimpleAtod(cells[9], &ns) && absl::SimpleAtod(cells[10], &speed);
    if (!is_whole || !(ns >= 0 && ns < 1e15 && speed >= 0 && speed < 1e6)) continue;  // or anybody's
    const std::string &by = cells[6], &way = cells[7], &implementation = cells[8];
    const char* const between = way.empty() || implementation.empty() ? "" : ": ";
    if (!is_choices)
      AddRow({{"kind", cells[0]},
              {"direction", cells[1]},
              {"problem", cells[2]},
              {"candidate", absl::StrCat(way, between, implementation)},
              {"time", Time(ns)},
              {"source", "replay"},
              {"notes", by}},
             table);
    if (!absl::StrContains(by, "op of ")) continue;
    Kept& kept = chosen[{cells.begin(), cells.begin() + 6}];
    if (way.empty()) kept.alone_ns = ns;
    if (speed > kept.speed) kept = {kept.alone_ns, speed, way};
  }
  table->Note(is_choices ? "alone, best_other and times_as_fast" : "Rows of the source replay",
              " are measured by dlhook replay, ", lines.empty() ? "" : lines.front(), ".");
  if (!is_choices) return;
  for (auto& row : table->rows) {
    Cells key;
    for (const char* name : {"kind", "direction", "problem", "types", "formats", "chosen"})
      key.push_back(TextOf(*table, row, name));
    const Kept& kept = chosen[key];
    row.insert(row.end(), {Time(kept.alone_ns), KnownText(kept.best), kept.speed > 0 ? Cell(kept.speed) : Cell()});
  }
  table->columns.push_back(TimeColumn("alone", "A call alone, with warm caches: measured by dlhook replay."));
  table->columns.push_back(TextColumn("best_other", "The fastest other way: measured by dlhook replay."));
  table->columns.push_back(RealColumn("times_as_fast", "", Better::kHigher, "That way, relative to the chosen one."));
}

}  // namespace dlhook::analyzer::tables
