#include "analyzer/answer/answer.h"

#include "analyzer/answer/sentences.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr size_t kParts = 7;
constexpr size_t kLayers = 7;
constexpr size_t kLeastLayers = 3;  // however much stands above them
constexpr size_t kFindings = 5;
constexpr size_t kBriefFindings = 3;
constexpr double kNeverFolded = 10;       // percent: findings of this gain are always shown
constexpr double kNeedsAName = 30;        // percent: of a part that the program's own code causes
constexpr double kMostOfTheStep = 50;     // percent: of one operation of a layer
constexpr char kBusy[] = "machine-busy";  // nothing to mend in the program: a line
constexpr size_t kNamedRules = 6;         // that could not judge the run for one reason
constexpr size_t kRemarks = 3;
constexpr size_t kRemarkLines = 3;  // per remark
constexpr size_t kLinesBelow = 6;   // titles, empty lines and the next commands, below the findings
constexpr size_t kBar = 24;
constexpr size_t kRange = 24;           // columns for the least and the most time of repeated layers …
constexpr size_t kWidthForRange = 100;  // … on terminals this wide

// "No rule judges this: 94 % gemm 16x3000:3000x3000 in GCN:mm, train.py:12."; empty: no operation of a layer takes most of the
// step, or it is a GPU's.
std::string MostlyOne(const StepFacts& facts) {
  struct Operation {
    double ns = 0;
    const WorkItem* longest = nullptr;
  };
  std::map<std::pair<std::string, std::string>, Operation> operations;  // of all directions; by kind and layer
  for (const WorkItem& item : facts.items()) {
    if (!item.IsHostCompute() && item.scope == nullptr) continue;
    Operation& operation = operations[{item.IsCall() ? KindLabel(*item.op) : item.scope->op, item.group->label}];
    operation.ns += item.ns;
    if (operation.longest == nullptr) operation.longest = &item;
  }
  for (const auto& [key, operation] : operations) {
    const double percent = 100 * operation.ns / facts.step_ns();
    if (percent < kMostOfTheStep || !facts.model().gpu.empty()) continue;
    const WorkItem& item = *operation.longest;
    const std::string line = facts.LineOf(item);
    return absl::StrFormat("No rule judges this: %.0f %% %s%s in %s%s.", percent, key.first,
                           item.IsCall() ? absl::StrCat(" ", ProblemLabel(*item.op)) : "", key.second,
                           line.empty() || absl::StrContains(key.second, line) ? "" : absl::StrCat(", ", line));
  }
  return "";
}

class Screen {
 public:
  Screen(const StepFacts& facts, const AnswerOptions& options)
      : facts_(facts), options_(options), width_(std::max<size_t>(options.width, 40)) {}

  void Line(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    lines_.push_back(std::move(line));
  }
  void Title(absl::string_view title) {
    Line("");
    Line(Styled(title, Style::kTitle, options_.color));
  }
  void Text(absl::string_view text, absl::string_view indent = "") {
    for (const std::string& line : Wrapped(VisibleText(text), width_ - indent.size())) Line(absl::StrCat(indent, line));
  }

  void WhereItGoes();
  absl::Status Layers();
  void Findings();
  void NotSeen();
  void Next();
  std::string Take() const { return absl::StrCat(absl::StrJoin(lines_, "\n"), "\n"); }

 private:
  bool IsShort() const { return options_.is_brief || options_.is_live; }
  void FindingLines(const RuleFinding& found, bool with_sentence);
  void NoRuleFor();
  void MostlyOutside();
  const std::vector<StepPart>& Parts() {
    if (!parts_) parts_ = PartsOfStep(facts_, kParts);
    return *parts_;
  }
  void Information();
  bool HasRoomFor(size_t lines) const {
    return lines_.size() + lines + kLinesBelow + kLeastLayers + NotSeenLines().size() <= kMostLines;
  }
  std::string LeadOf(const Finding& finding) const;
  std::vector<std::string> NotSeenLines() const;

  const StepFacts& facts_;
  const AnswerOptions& options_;
  const size_t width_;
  std::optional<std::vector<StepPart>> parts_;
  std::vector<std::string> lines_;
  std::vector<RuleFinding> findings_;
  bool has_layers_ = false;
};

void Screen::WhereItGoes() {
  Title(absl::StrCat("Where a ", facts_.StepNoun(), " goes"));
  size_t name_width = 10;
  for (const StepPart& part : Parts()) name_width = std::max(name_width, TextWidth(VisibleText(part.name)));
  name_width = std::min(name_width, width_ - 24);
  const size_t bar = std::min(kBar, width_ - name_width - 24);
  for (const StepPart& part : Parts()) {
    const auto filled = static_cast<size_t>(static_cast<double>(bar) * part.percent / 100 + 0.5);
    Line(absl::StrFormat(
        "  %-*s %10s %4d %%  %s", static_cast<int>(name_width), Shortened(VisibleText(part.name), name_width),
        HumanTime(part.ns), part.percent,
        Styled(std::string(filled, '#'), part.percent >= 25 ? Style::kHot : Style::kPlain, options_.color)));
    for (const PartLine& line : part.lines) {
      Line(Shortened(absl::StrFormat("   %3.0f %% %s", 100 * line.ns / facts_.step_ns(), VisibleText(line.text)),
                     width_));
    }
  }
  for (const std::string& sentence : StepRemarks(facts_)) Text(sentence, "  ");
}

absl::Status Screen::Layers() {
  absl::StatusOr<std::vector<LayerRow>> found = LayerRowsOf(facts_);
  if (!found.ok()) return found.status();
  std::vector<LayerRow> rows = *std::move(found);
  has_layers_ = !rows.empty();
  if (!has_layers_) return absl::OkStatus();
  const size_t all = rows.size(), above = lines_.size() + NotSeenLines().size() + kLinesBelow;
  const size_t room = above < kMostLines ? kMostLines - above : 0;
  rows.resize(std::min({rows.size(), kLayers, std::max(kLeastLayers, room)}));
  const bool has_blocks = absl::c_any_of(rows, [](const LayerRow& row) { return row.layers > 1; });
  const bool has_range = has_blocks && width_ >= kWidthForRange;
  const size_t name_width = width_ - 44 - (has_range ? kRange : 0);
  std::vector<std::string> names;
  for (const LayerRow& row : rows) {
    const std::string name = VisibleText(row.name);
    names.push_back(row.layers == 1 ? name : absl::StrCat(name, " x", row.layers));
  }
  names = ShortenedApart(names, name_width);
  Line("");
  const std::string title =
      all > rows.size() ? absl::StrFormat("Heaviest layers (%d of %d)", rows.size(), all) : "Layers";
  Line(absl::StrFormat(
      "%s %10s %10s %10s  step%*s",
      Styled(absl::StrFormat("%-*s", static_cast<int>(name_width + 2), title), Style::kTitle, options_.color),
      "forward", "backward", facts_.HasGpuTimes() ? "GPU time" : "time", has_range ? static_cast<int>(kRange) : 0,
      has_range ? "of one layer" : ""));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto time = [](double ns) { return ns > 0 ? HumanTime(ns) : std::string("-"); };
    const std::string range = has_range && rows[i].layers > 1
                                  ? absl::StrCat(HumanTime(rows[i].least_ns), " to ", HumanTime(rows[i].most_ns))
                                  : "";
    Line(absl::StrFormat("  %-*s %10s %10s %10s %3.0f %%%*s", static_cast<int>(name_width), names[i],
                         time(rows[i].forward_ns), time(rows[i].backward_ns), time(rows[i].total_ns),
                         100 * rows[i].total_ns / facts_.step_ns(), has_range ? static_cast<int>(kRange) : 0, range));
  }
  return absl::OkStatus();
}

void Screen::MostlyOutside() {
  const double seen_ns =
      facts_.Sum([](const WorkItem& item) { return item.doing.activity != ActivityKind::kUnattributed; });
  if (seen_ns >= facts_.step_ns() / 2 || IsOfGpu(facts_, PaceOf(facts_))) return;
  Text(absl::StrCat("Most of the time is outside recorded calls, so most rules could not be applied",
                    facts_.model().samples.empty() ? "; dlhook run --sample shows whose code computes." : "."),
       "  ");
}

void Screen::Findings() {
  findings_ = FindAll(facts_);
  const size_t ignored = LeaveOut(options_.ignored_findings, &findings_);
  const auto losses = static_cast<size_t>(
      absl::c_count_if(findings_, [](const RuleFinding& found) { return !found.finding.is_information; }));
  if (losses == 0) {
    const size_t before = lines_.size();
    Title("Findings");
    const size_t title = lines_.size();
    NoRuleFor();
    if (lines_.size() == title) {
      lines_.resize(before);
      Title("Findings: none");
    }
    MostlyOutside();
    for (const std::string& sentence : NotJudged(facts_, kNamedRules)) Text(sentence, "  ");
    if (ignored > 0) Text(IgnoredSentence(ignored), "  ");
    Information();
    return;
  }
  Title(absl::StrCat("Findings, by what a ", facts_.StepNoun(), " could gain"));
  const size_t most = IsShort() ? kBriefFindings : kFindings;
  size_t shown = 0, folded = 0;
  double judged = 0;
  for (size_t i = 0; i < losses; ++i) {
    const auto& [rule, finding] = findings_[i];
    const double percent = finding.GainPercent(facts_.step_ns());
    const bool is_busy = rule == kBusy;
    if (!is_busy) judged = std::max(judged, percent);
    const size_t before = lines_.size();
    FindingLines(findings_[i], !IsShort() && shown < most);
    const bool has_room = shown < most && (IsShort() || HasRoomFor(ignored > 0 ? 1 : 0));
    if (has_room || percent >= kNeverFolded || is_busy) {
      shown += is_busy ? 0 : 1;
    } else {
      lines_.resize(before);
      ++folded;
    }
  }
  if (judged < kNeverFolded) {
    NoRuleFor();
    MostlyOutside();
  }
  if (folded > 0) Text(absl::StrCat(folded, " more: table findings."), "  ");
  if (ignored > 0) Text(IgnoredSentence(ignored), "  ");
  Information();
}

// The part that the program's own code causes, or one operation of a layer, if it is large; if the host waits for the GPU, that.
void Screen::NoRuleFor() {
  if (IsOfGpu(facts_, PaceOf(facts_))) {
    return Text("No rule judges this: what the GPU computes decides how long it takes (table kernels).", "  ");
  }
  const auto is_own = [](const StepPart& part) {
    return absl::c_linear_search(
        std::array{PartKind::kPython, PartKind::kNative, PartKind::kBetweenCalls, PartKind::kInput, PartKind::kBlocked},
        part.kind);
  };
  const auto part = absl::c_find_if(Parts(), is_own);
  if (part == Parts().end() || part->percent < kNeedsAName) {
    if (const std::string one = MostlyOne(facts_); !one.empty()) Text(one, "  ");
    return;
  }
  std::vector<std::string> lines;
  for (const PartLine& line : part->lines) lines.push_back(line.text);
  Text(absl::StrCat("No rule judges this: ", part->percent, " % ", part->name, lines.empty() ? "" : ", at ",
                    absl::StrJoin(lines, " and "), "."),
       "  ");
}

// A line of each that is no loss, as long as there is room.
void Screen::Information() {
  if (IsShort()) return;
  for (const auto& [rule, finding] : findings_) {
    if (!finding.is_information || !HasRoomFor(2)) continue;
    Text(absl::StrCat("For information: ", rule, ", ", LeadOf(finding),
                      finding.changes_numerics ? ", changes results" : "", finding.line.empty() ? "" : ", ",
                      finding.line, ": table findings."),
         "  ");
  }
}

// "up to 0.48 ms (9 %)".
std::string Screen::LeadOf(const Finding& finding) const {
  if (finding.bytes > 0) return HumanCell(finding.bytes, "bytes");
  const char* const word = finding.basis == GainBasis::kMeasured   ? ""
                           : finding.basis == GainBasis::kComputed ? "about "
                                                                   : "up to ";
  return absl::StrFormat("%s%s (%.0f %%%s)", word, HumanTime(finding.gain_ns), finding.GainPercent(facts_.step_ns()),
                         finding.whole_ns > 0 ? absl::StrCat(" of ", finding.whole) : "");
}

void Screen::FindingLines(const RuleFinding& found, bool with_sentence) {
  const auto& [rule, finding] = found;
  if (rule == kBusy) {
    return Line(
        Shortened(absl::StrCat("  ", LeadOf(finding), "  ", rule, ": other programs use the processors"), width_));
  }
  std::string place = finding.where;
  if (!finding.line.empty() && !absl::StrContains(place, finding.line)) {
    absl::StrAppend(&place, place.empty() ? "" : ", ", finding.line);
  }
  Text(absl::StrCat(LeadOf(finding), "  ", rule, place.empty() ? "" : ": ", place), "  ");
  if (with_sentence) {
    for (const std::string& line : finding.source) Line(Shortened(absl::StrCat("    ", VisibleText(line)), width_));
    Text(finding.sentence, "    ");
  }
  Text(absl::StrCat("-> ", finding.advice, finding.changes_numerics ? " (changes results)" : ""), "    ");
}

// The most severe remarks, each cut to a few lines.
std::vector<std::string> Screen::NotSeenLines() const {
  const std::vector<std::string> remarks = RunRemarks(facts_.model());
  std::vector<std::string> lines;
  for (size_t i = 0; i < remarks.size() && i < kRemarks; ++i) {
    std::vector<std::string> wrapped = Wrapped(VisibleText(remarks[i]), width_ - 4);
    if (wrapped.size() > kRemarkLines) {
      wrapped.resize(kRemarkLines);
      wrapped.back() += " …";
    }
    for (size_t line = 0; line < wrapped.size(); ++line)
      lines.push_back(absl::StrCat(line == 0 ? "  " : "    ", wrapped[line]));
  }
  if (remarks.size() > kRemarks) {
    lines.push_back(absl::StrCat("  ", remarks.size() - kRemarks, " more: tables summary and capabilities."));
  }
  return lines;
}

void Screen::NotSeen() {
  const std::vector<std::string> lines = NotSeenLines();
  if (lines.empty()) return;
  Title("What could not be seen");
  for (const std::string& line : lines) Line(line);
}

void Screen::Next() {
  const char* table = "layers";
  if (!has_layers_) table = facts_.model().samples.empty() ? "accounting" : "hotspots";
  if (!findings_.empty()) table = "findings";
  Line("");
  Text(absl::StrCat("next: dlhook report ", options_.run, " --table ", table, " (or --table all, --explain WORD)"));
}

}  // namespace

absl::StatusOr<std::string> MakeAnswer(const StepFacts& facts, const AnswerOptions& options) {
  Screen screen(facts, options);
  if (!options.is_live) {
    screen.Text(WhatRan(facts));
    screen.Text(HowLong(facts));
    const std::string memory = options.is_brief ? "" : MemorySentence(facts);
    if (!memory.empty()) screen.Text(memory);
  }
  // What repeats and what is wrong say most; without steps nothing else does.
  if (!options.is_brief || !facts.HasSteps()) screen.WhereItGoes();
  screen.Findings();
  if (!options.is_brief) {
    if (absl::Status status = screen.Layers(); !status.ok()) return status;
  }
  if (!options.is_brief && !options.is_live) {
    screen.NotSeen();
    screen.Next();
  }
  return screen.Take();
}

}  // namespace dlhook::analyzer::answer
