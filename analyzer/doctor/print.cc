// Pure functions.
#include <nlohmann/json.hpp>

#include "analyzer/doctor/program_report.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer::inline doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLabelWidth = 9;  // "warning  "
constexpr size_t kIndent = kLabelWidth + 2;

void AppendWrapped(absl::string_view label, Style style, absl::string_view text, size_t width, bool color,
                   std::string* out) {
  std::string padded(label);
  padded.resize(kLabelWidth, ' ');
  std::string before = absl::StrCat("  ", Styled(padded, style, color));
  for (const std::string& line : Wrapped(text, width - kIndent)) {
    absl::StrAppend(out, before, line, "\n");
    before = std::string(kIndent, ' ');
  }
}

Style StyleOf(Level level) {
  return level == Level::kOk ? Style::kPlain : level == Level::kNote ? Style::kQuiet : Style::kWarning;
}

void AppendFinding(const Finding& finding, size_t width, bool color, std::string* out) {
  const std::string subject = finding.subject.empty() ? "" : absl::StrCat(finding.subject, " ");
  AppendWrapped(LevelName(finding.level), StyleOf(finding.level), absl::StrCat(finding.id, ": ", subject, finding.text),
                width, color, out);
  if (!finding.advice.empty())
    AppendWrapped("", Style::kPlain, absl::StrCat("What to do: ", finding.advice), width, color, out);
}

// Counts of functions are in json.
std::string CountLabel(const LibraryReport& library) {
  std::vector<std::string> parts;
  if (!library.families.empty()) parts.push_back(absl::StrJoin(library.families, ", "));
  if (library.recorded.has_value())
    parts.push_back(absl::StrCat(*library.recorded, *library.recorded == 1 ? " call recorded" : " calls recorded"));
  if (!library.past.empty()) parts.push_back(absl::StrCat("calls past dlhook of ", library.past.size(), " functions"));
  if (!library.inside.empty()) parts.push_back(absl::StrCat("has ", library.inside));
  for (const SeenTap& tap : library.taps) {
    parts.push_back(
        absl::StrCat(tap.name, " ", tap.state, tap.reason.empty() ? "" : absl::StrCat(" (", tap.reason, ")")));
  }
  return absl::StrJoin(parts, "; ");
}

void AppendLibraries(const std::vector<LibraryReport>& libraries, size_t width, bool color, std::string* out) {
  for (const LibraryReport& library : libraries) {
    if (library.State() == "caller") continue;
    absl::StrAppend(out, "  ", Styled(VisibleText(BaseName(library.path)), Style::kHeader, color), ": ",
                    library.State(), "\n");
    AppendWrapped("", Style::kPlain, absl::StrCat(CountLabel(library), "."), width, color, out);
  }
}

void AppendProgram(const ProgramReport& report, size_t width, bool color, std::string* out) {
  absl::StrAppend(
      out, Styled(VisibleText(absl::StrCat("program: ", absl::StrJoin(report.words, " "))), Style::kTitle, color),
      "\n");
  const std::string counts = absl::StrJoin(report.recorded, ", ", absl::PairFormatter(": "));
  AppendWrapped("ended", Style::kPlain,
                absl::StrCat(report.end, "; processes inspected: ", report.processes_looked_into,
                             ", recorded: ", report.processes_recorded, "."),
                width, color, out);
  AppendWrapped("recorded", Style::kPlain, absl::StrCat(counts.empty() ? "nothing" : counts, "."), width, color, out);
  if (!report.run.empty()) {
    AppendWrapped("run", Style::kPlain, VisibleText(absl::StrCat("kept; next: dlhook report ", report.run)), width,
                  color, out);
  }
  absl::StrAppend(out, "\n", Styled("libraries", Style::kTitle, color), "\n");
  if (report.libraries.empty()) absl::StrAppend(out, "  none that dlhook knows\n");
  AppendLibraries(report.libraries, width, color, out);
  const auto append = [&](absl::string_view title, bool is_ok, absl::string_view none) {
    std::string lines;
    for (Finding finding : report.findings) {
      finding.subject = ShortPath(finding.subject);  // json has the path
      if ((finding.level == Level::kOk) == is_ok) AppendFinding(finding, width, color, &lines);
    }
    if (lines.empty()) lines = std::string(none);
    if (!lines.empty()) absl::StrAppend(out, "\n", Styled(title, Style::kTitle, color), "\n", lines);
  };
  append("observed in addition to calls", true, "");
  append("not observed, or only in part", false, "  nothing known\n");
}

Json FindingsJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"id", finding.id},
                    {"level", LevelName(finding.level)},
                    {"subject", finding.subject},
                    {"text", finding.text},
                    {"advice", finding.advice}});
  }
  return list;
}

Json LibraryJson(const LibraryReport& library) {
  Json taps = Json::array();
  for (const SeenTap& tap : library.taps)
    taps.push_back({{"name", tap.name}, {"state", tap.state}, {"reason", tap.reason}});
  return {{"path", library.path},
          {"soname", library.soname},
          {"build_id", library.build_id},
          {"state", library.State()},
          {"families", library.families},
          {"provides", library.provides.size()},
          {"recorded_calls", library.recorded.has_value() ? Json(*library.recorded) : Json()},
          {"refers_to", library.calls.size()},
          {"bound_to_dlhook", library.through.size()},
          {"bound_past_dlhook", library.past},
          {"not_called_yet", library.unbound.size()},
          {"weak", library.weak},
          {"inside", library.inside},
          {"taps", taps},
          {"processes", library.processes}};
}

const char* KindName(CpuTime::Kind kind) {
  return NameIn<CpuTime::Kind::kUnseen>(kind, {"seen", "python", "system", "unseen"});
}

Json CpuTimeJson(const std::vector<CpuTime>& times) {
  Json list = Json::array();
  for (const CpuTime& time : times)
    list.push_back(
        {{"path", time.path}, {"kind", KindName(time.kind)}, {"samples", time.samples}, {"for", time.through}});
  return list;
}

Json ProgramJson(const ProgramReport& program) {
  Json libraries = Json::array();
  for (const LibraryReport& library : program.libraries) libraries.push_back(LibraryJson(library));
  return {{"words", program.words},
          {"end", program.end},
          {"run", program.run.empty() ? Json() : Json(program.run)},
          {"processes_looked_into", program.processes_looked_into},
          {"processes_recorded", program.processes_recorded},
          {"recorded", program.recorded},
          {"cpu_time", CpuTimeJson(program.cpu_time)},
          {"libraries", libraries},
          {"findings", FindingsJson(program.findings)}};
}

}  // namespace

const char* LevelName(Level level) { return NameIn<Level::kProblem>(level, {"ok", "note", "warning", "problem"}); }

std::string ShortPath(const std::string& path) {
  const std::string kPackages = "-packages/";
  const size_t packages = path.rfind(kPackages);
  return packages == std::string::npos ? BaseName(path) : path.substr(packages + kPackages.size());
}

int CountBad(const std::vector<Finding>& findings) {
  return static_cast<int>(absl::c_count_if(findings, [](const Finding& finding) {
    return finding.level == Level::kWarning || finding.level == Level::kProblem;
  }));
}

int DoctorReport::CountBad() const {
  return analyzer::CountBad(machine) + (program.has_value() ? analyzer::CountBad(program->findings) : 0);
}

std::string DoctorReport::Verdict() const {
  const int bad = CountBad();
  if (bad > 0)
    return absl::StrCat(bad, bad == 1 ? " check needs" : " checks need", " attention: see warning and problem above.");
  if (!program.has_value()) return "dlhook works here. For a program: dlhook doctor -- PROGRAM.";
  const std::optional<int> seen = SeenPercent(program->cpu_time);
  return seen.has_value() ? absl::StrCat("dlhook works here: libraries that it observes have ", *seen,
                                         " % of this program's CPU time.")
                          : "dlhook works here. What share of this program it observes is not known: the trial was too "
                            "short, or could not be sampled.";
}

std::string DoctorText(const DoctorReport& report, size_t width, bool color) {
  width = std::max<size_t>(width, 40);
  std::string out;
  // With a program only what may affect it.
  for (const Finding& finding : report.machine) {
    if (!report.program.has_value() || CountBad({finding}) > 0) AppendFinding(finding, width, color, &out);
  }
  if (!out.empty()) out = absl::StrCat(Styled("this machine", Style::kTitle, color), "\n", out, "\n");
  if (report.program.has_value()) {
    AppendProgram(*report.program, width, color, &out);
    out.push_back('\n');
  }
  for (const std::string& line : Wrapped(report.Verdict(), width)) absl::StrAppend(&out, line, "\n");
  return out;
}

std::string DoctorJson(const DoctorReport& report) {
  const Json json = {{"version", DLHOOK_VERSION},
                     {"verdict", report.Verdict()},
                     {"warnings_and_problems", report.CountBad()},
                     {"machine", FindingsJson(report.machine)},
                     {"program", report.program.has_value() ? ProgramJson(*report.program) : Json()}};
  return EscapedJson(json.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace dlhook::analyzer::doctor
