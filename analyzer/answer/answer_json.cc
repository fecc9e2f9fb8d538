// The answer for programs: see answer.h. What does not fit is left out, the least important first, and counted.
#include <nlohmann/json.hpp>

#include "analyzer/answer/answer.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"
#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline answer {
namespace {

using Json = nlohmann::ordered_json;

// How much of each, from the most to the least: the last one fits whatever the run.
struct Room {
  size_t findings, rows, cells, parts, layers, remarks, bytes;
};
constexpr Room kRooms[] = {{8, 3, 8, 9, 8, 6, 2000},
                           {5, 2, 7, 7, 6, 4, 600},
                           {4, 1, 5, 5, 4, 3, 300},
                           {2, 1, 3, 4, 3, 2, 120},
                           {1, 0, 0, 2, 1, 1, 24}};
constexpr size_t kLongestPath = 160;  // that commands repeat

struct Evidence {
  Table table;
  std::vector<size_t> rows, columns;
};

// At most so many bytes of a text, with control characters spelled out as on the screen; counts those that are cut.
std::string Cut(absl::string_view text, const Room& room, size_t& cut) {
  std::string visible = VisibleText(text);
  if (visible.size() <= room.bytes) return visible;
  ++cut;
  size_t end = room.bytes;
  while (end > 0 && (static_cast<unsigned char>(visible[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(visible.substr(0, end), "…");
}

int64_t Whole(double ns) { return static_cast<int64_t>(ns + 0.5); }
double Hundredths(double value) { return std::round(value * 100) / 100; }

// A line for each key, and for each element of an array.
std::string Lines(const Json& object) {
  const auto dumped = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); };
  std::vector<std::string> lines;
  for (const auto& [key, value] : object.items()) {
    std::vector<std::string> elements;
    for (const Json& element : value.is_array() ? value : Json::array()) elements.push_back(dumped(element));
    lines.push_back(
        absl::StrCat(dumped(key), ": ",
                     elements.empty() ? dumped(value) : absl::StrCat("[\n  ", absl::StrJoin(elements, ",\n  "), "]")));
  }
  return absl::StrCat("{", absl::StrJoin(lines, ",\n "), "}\n");
}

Json StepsJson(const StepFacts& facts) {
  if (!facts.HasSteps()) return nullptr;
  const ComparedSteps& steps = facts.steps();
  const TimesOfSteps times = TimesOf(facts);
  const Quartiles quartiles = QuartilesOf(times.durations_ns);
  std::map<std::string, std::pair<int64_t, int64_t>> left_out;  // by why: how many, and their time
  int64_t all = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    const bool is_chosen = absl::c_any_of(steps.tracks, [&](const StepTrack& chosen) {
      return chosen.process == track.process && chosen.thread == track.thread;
    });
    for (const Step& step : track.steps) {
      if (step.kind != steps.kind) continue;
      ++all;
      if (is_chosen && step.counts()) continue;
      auto& [count, ns] = left_out[is_chosen ? LeftOutName(step.left_out) : "of another thread"];
      ++count;
      ns += step.end_ns - step.start_ns;
    }
  }
  Json why = Json::array();
  for (const auto& [reason, sum] : left_out) {
    why.push_back({{"why", reason}, {"steps", sum.first}, {"time_ns", sum.second}});
  }
  const auto processes = absl::c_count_if(steps.tracks, [](const StepTrack& track) { return !track.steps.empty(); });
  const auto known = [](double value) { return value > 0 ? Json(Hundredths(value)) : Json(); };
  return {{"kind", StepKindName(steps.kind)},
          {"all", all},
          {"used", steps.count()},
          {"left_out", std::move(why)},
          {"processes", processes},
          {"mean_ns", Whole(times.mean_ns)},
          {"lower_quartile_ns", quartiles.lower},
          {"median_ns", quartiles.median},
          {"upper_quartile_ns", quartiles.upper},
          {"samples_are", steps.samples() == 0 ? Json() : Json(steps.batch_is_rows ? "rows" : "samples")},
          {"samples_per_step", known(steps.samples())},
          {"samples_per_second", known(SamplesPerSecond(facts))}};
}

bool IsWordOf(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Whether a text has this as words of its own.
bool HasWords(absl::string_view text, absl::string_view words) {
  for (size_t at = text.find(words); at != absl::string_view::npos; at = text.find(words, at + 1)) {
    const size_t end = at + words.size();
    if ((at == 0 || !IsWordOf(text[at - 1])) && (end == text.size() || !IsWordOf(text[end]))) return true;
  }
  return false;
}

// The table that the evidence of a finding names: "table layout: rows of activations"; empty: none.
std::string TableNamedIn(absl::string_view evidence) {
  constexpr absl::string_view kTable = "table ";
  const size_t at = evidence.find(kTable);
  if (at == absl::string_view::npos) return "";
  const absl::string_view name = evidence.substr(at + kTable.size());
  return std::string(name.substr(0, absl::c_find_if_not(name, IsWordOf) - name.begin()));
}

// Of one rule's findings a row belongs to the one with the fewest: what several name is one's own, and the others' sum.
void ClaimRows(const std::vector<RuleFinding>& found, std::vector<Evidence>& evidence) {
  std::vector<size_t> order(evidence.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  absl::c_stable_sort(order, [&](size_t a, size_t b) { return evidence[a].rows.size() < evidence[b].rows.size(); });
  std::set<std::tuple<std::string, std::string, size_t>> claimed;
  for (const size_t i : order) {
    std::erase_if(evidence[i].rows,
                  [&](size_t row) { return !claimed.emplace(found[i].rule, evidence[i].table.name, row).second; });
  }
}

// The rows with most texts that the evidence names, those of the finding's places first; where it names none, the rows of
// these places. Others would look like evidence.
Evidence EvidenceOf(const Finding& finding, Table table) {
  constexpr size_t kLeastWord = 4;
  Evidence evidence;
  const std::vector<std::string> places = absl::StrSplit(finding.where, ", ");
  const auto text_of = [](const Cell& cell) {
    const auto* const text = std::get_if<CellString>(&cell);
    return text == nullptr ? std::string() : text->str();
  };
  const auto is_place = [&](const Cell& cell) {
    const std::string text = text_of(cell);
    return !text.empty() && absl::c_linear_search(places, text);
  };
  const auto is_line = [&](const Cell& cell) { return !finding.line.empty() && text_of(cell) == finding.line; };
  const auto is_named = [&](const Cell& cell) {
    const std::string text = text_of(cell);
    return text.size() >= kLeastWord && HasWords(finding.evidence, text);
  };
  const auto has = [&](size_t row, const auto& is) { return absl::c_any_of(table.rows[row], is); };
  int64_t most = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto count = absl::c_count_if(table.rows[i], is_named);
    if (count > most) evidence.rows.clear();
    most = std::max(most, count);
    if (count == most && (most > 0 || has(i, is_place) || has(i, is_line))) evidence.rows.push_back(i);
  }
  absl::c_stable_partition(evidence.rows, [&](size_t row) { return has(row, is_place); });
  std::vector<bool> names(table.columns.size());
  for (const size_t row : evidence.rows) {
    for (size_t i = 0; i < names.size(); ++i) {
      const Cell& cell = table.rows[row][i];
      names[i] = names[i] || is_named(cell) || is_place(cell) || is_line(cell);
    }
  }
  for (size_t i = 0; i < names.size(); ++i) evidence.columns.push_back(i);
  absl::c_stable_sort(evidence.columns, [&](size_t a, size_t b) {
    const auto rank = [&](size_t i) {
      return names[i] ? 0 : table.columns[i].role == Role::kWeight ? 1 : table.columns[i].role != Role::kNone ? 2 : 3;
    };
    return rank(a) < rank(b);
  });
  evidence.table = std::move(table);
  return evidence;
}

Json RowsJson(const Evidence& evidence, const Room& room, size_t& cut) {
  Json rows = Json::array();
  for (size_t i = 0; i < evidence.rows.size() && i < room.rows; ++i) {
    Json row = Json::object();
    for (const size_t column : evidence.columns) {
      const Cell& cell = evidence.table.rows[evidence.rows[i]][column];
      if (row.size() >= room.cells) break;
      const std::string& name = evidence.table.columns[column].name;
      if (const auto* const text = std::get_if<CellString>(&cell)) row[name] = Cut(text->str(), room, cut);
      if (const auto* const integer = std::get_if<int64_t>(&cell)) row[name] = *integer;
      if (const auto* const real = std::get_if<double>(&cell)) row[name] = *real;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json UnitsJson(const Json& rows, const Table& table) {
  Json units = Json::object();
  for (const Column& column : table.columns) {
    const auto has = [&](const Json& row) { return row.contains(column.name); };
    if (!column.unit.empty() && absl::c_any_of(rows, has)) units[column.name] = column.unit;
  }
  return units;
}

// "train.py:42", or the beginning of "train.py:42 to 45", as file and line; nulls: not known.
std::pair<Json, Json> FileAndLine(absl::string_view label) {
  const absl::string_view line = label.substr(0, label.find(" to "));
  const size_t colon = line.rfind(':');
  int64_t number = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(line.substr(colon + 1), &number)) return {nullptr, nullptr};
  return {std::string(line.substr(0, colon)), number};
}

// The first `most` of these texts.
Json TextsJson(const std::vector<std::string>& texts, size_t most, const Room& room, size_t& cut) {
  Json array = Json::array();
  for (size_t i = 0; i < texts.size() && i < most; ++i) array.push_back(Cut(texts[i], room, cut));
  return array;
}

Json FindingJson(const RuleFinding& found, const Evidence& evidence, const StepFacts& facts, const std::string& run,
                 const Room& room, size_t& cut) {
  const Finding& finding = found.finding;
  const auto text = [&](const std::string& of) { return of.empty() ? Json() : Json(Cut(of, room, cut)); };
  const auto [file, line] = FileAndLine(finding.line);
  const bool is_time = finding.bytes == 0;
  const std::string& table = evidence.table.name;
  const Json rows = RowsJson(evidence, room, cut);
  return {{"rule", found.rule},
          {"kind", finding.is_information ? "information" : "loss"},
          {"confidence", ConfidenceName(finding.confidence)},
          {"gain_ns", is_time ? Json(static_cast<int64_t>(finding.gain_ns)) : Json()},
          {"gain_percent", is_time ? Json(Hundredths(finding.GainPercent(facts.step_ns()))) : Json()},
          {"percent_of", finding.whole_ns > 0 ? finding.whole : "a step"},
          {"gain_is", is_time ? Json(GainBasisName(finding.basis)) : Json()},
          {"bytes", is_time ? Json() : Json(finding.bytes)},
          {"where", text(finding.where)},
          {"file", file.is_null() ? file : Json(Cut(file.get<std::string>(), room, cut))},
          {"line", line},
          {"source", TextsJson(finding.source, finding.source.size(), room, cut)},
          {"finding", text(finding.sentence)},
          {"advice", text(finding.advice)},
          {"changes_results", finding.changes_numerics},
          {"evidence",
           {{"says", text(finding.evidence)},
            {"table", table.empty() ? Json() : Json(table)},
            {"units", UnitsJson(rows, evidence.table)},
            {"rows", rows},
            {"more_rows", evidence.rows.size() - rows.size()}}},
          {"verify", absl::StrCat("dlhook report ", run, " --table ", table.empty() ? "findings" : table)}};
}

size_t Rest(size_t all, const Json& shown) { return all - shown.size(); }

}  // namespace

std::string AnswerJson(const StepFacts& facts, const AnswerOptions& options, TableMaker make_table) {
  std::vector<RuleFinding> found = FindAll(facts);
  const size_t ignored = LeaveOut(options.ignored_findings, &found);
  std::map<std::string, Table> tables;
  std::vector<Evidence> evidence;
  for (size_t i = 0; i < found.size() && i < kRooms[0].findings; ++i) {
    const std::string name = TableNamedIn(found[i].finding.evidence);
    if (!name.empty() && !tables.contains(name)) tables[name] = make_table(name).value_or(Table());
    evidence.push_back(EvidenceOf(found[i].finding, name.empty() ? Table() : tables[name]));
  }
  ClaimRows(found, evidence);
  std::string run = VisibleText(options.run);
  if (run.size() > kLongestPath) run = "RUN";
  const std::vector<LayerRow> layers = LayerRowsOf(facts).value_or(std::vector<LayerRow>());
  const std::vector<std::string> remarks = RunRemarks(facts.model()), not_judged = NotJudged(facts);
  std::vector<std::string> sentences = {WhatRan(facts), HowLong(facts)};
  if (std::string memory = MemorySentence(facts); !memory.empty()) sentences.push_back(std::move(memory));
  for (std::string& remark : StepRemarks(facts)) sentences.push_back(std::move(remark));
  const Json steps = StepsJson(facts);
  std::string text;
  for (const Room& room : kRooms) {
    size_t cut = 0;
    Json step_parts = Json::array(), layer_rows = Json::array(), findings = Json::array();
    for (const StepPart& part : PartsOfStep(facts, room.parts)) {
      Json lines = Json::array();
      for (const PartLine& line : part.lines)
        lines.push_back({{"where", Cut(line.text, room, cut)}, {"time_ns", Whole(line.ns)}});
      step_parts.push_back({{"name", Cut(part.name, room, cut)},
                            {"kind", PartKindName(part.kind)},
                            {"time_ns", Whole(part.ns)},
                            {"percent", part.percent},
                            {"lines", std::move(lines)}});
    }
    for (size_t i = 0; i < layers.size() && i < room.layers; ++i) {
      layer_rows.push_back({{"name", Cut(layers[i].name, room, cut)},
                            {"layers", layers[i].layers},
                            {"forward_ns", Whole(layers[i].forward_ns)},
                            {"backward_ns", Whole(layers[i].backward_ns)},
                            {"time_ns", Whole(layers[i].total_ns)}});
    }
    for (size_t i = 0; i < evidence.size() && i < room.findings; ++i)
      findings.push_back(FindingJson(found[i], evidence[i], facts, run, room, cut));
    const Json answer = TextsJson(sentences, sentences.size(), room, cut);
    const Json not_seen = TextsJson(remarks, room.remarks, room, cut);
    const Json unjudged = TextsJson(not_judged, room.remarks, room, cut);
    Json left_out = {{"findings", Rest(found.size(), findings)},        {"ignored_findings", ignored},
                     {"layers", Rest(layers.size(), layer_rows)},       {"not_seen", Rest(remarks.size(), not_seen)},
                     {"not_judged", Rest(not_judged.size(), unjudged)}, {"texts_cut", cut}};
    const Json all = {{"schema", "dlhook-report"},
                      {"version", 1},
                      {"dlhook", DLHOOK_VERSION},
                      {"run", Cut(facts.model().name, room, cut)},
                      {"answer", answer},
                      {"unit_of_time", facts.StepNoun()},
                      {"time_ns", Whole(facts.step_ns())},
                      {"steps", steps},
                      {"parts", std::move(step_parts)},
                      {"findings", std::move(findings)},
                      {"layers_are_gpu_time", facts.HasGpuTimes()},
                      {"layers", std::move(layer_rows)},
                      {"not_judged", unjudged},
                      {"not_seen", not_seen},
                      {"left_out", std::move(left_out)},
                      {"more",
                       {{"findings", absl::StrCat("dlhook report ", run, " --table findings --format json")},
                        {"tables", absl::StrCat("dlhook report ", run, " --table NAME --format json --limit 20")},
                        {"words", "dlhook report --explain WORD"},
                        {"compare", absl::StrCat("dlhook diff ", run, " NEW --format json")}}}};
    text = EscapedJson(Lines(all));
    if (text.size() <= kMostJsonBytes) break;
  }
  return text;
}

}  // namespace dlhook::analyzer::answer
