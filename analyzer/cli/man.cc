// roff: see man(7). The build runs `dlhook help --man` and installs the result.
#include "analyzer/cli/output.h"

extern "C" {
extern const char dlhook_skill[], dlhook_skill_end[];  // skill.md: see glossary.S
}

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kDate[] = "2026-11-22";  // of the last change of the page's own text

// Text for roff: "-" must remain copyable into a shell.
std::string Escaped(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"~", "\\(ti"}, {"^", "\\(ha"}});
  return absl::StartsWith(escaped, ".") || absl::StartsWith(escaped, "'") ? absl::StrCat("\\&", escaped) : escaped;
}

std::string Section(absl::string_view title) { return absl::StrCat(".SH ", title, "\n"); }

// A term in bold, its value, and its explanation.
std::string Term(absl::string_view term, absl::string_view value, absl::string_view meaning) {
  return absl::StrCat(".TP\n\\fB", Escaped(term), "\\fR", value.empty() ? "" : " ",
                      value.empty() ? "" : absl::StrCat("\\fI", Escaped(value), "\\fR"), "\n", Escaped(meaning), "\n");
}

// Lines as in the help, including its tables.
std::string Verbatim(absl::string_view text) {
  std::string out = ".PP\n.nf\n";
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty()) absl::StrAppend(&out, Escaped(line), "\n");
    if (line.empty() && !absl::EndsWith(out, ".nf\n") && !absl::EndsWith(out, ".sp\n")) absl::StrAppend(&out, ".sp\n");
  }
  if (absl::EndsWith(out, ".sp\n")) out.resize(out.size() - 4);
  return absl::StrCat(out, ".fi\n");
}

std::string CommandText(const Command& command) {
  std::string text = absl::StrCat(".SS dlhook ", command.name, "\n\\fBdlhook ", command.name, "\\fR",
                                  command.flags.empty() ? "" : " [\\fIFLAG\\fR]...", " \\fI", Escaped(command.operands),
                                  "\\fR\n.PP\n", Escaped(command.summary), "\n");
  for (const Flag& flag : command.flags) {
    absl::StrAppend(&text, Term(FlagText(flag), flag.standard.empty() ? flag.value : "", flag.help));
  }
  const std::string details = DetailsOf(command);
  return details.empty() ? text : absl::StrCat(text, Verbatim(details));
}

std::string Examples() {
  std::string text = Section("EXAMPLES");
  for (const Command& command : Commands()) {
    for (const Example& example : command.examples) absl::StrAppend(&text, Term(example.command, "", example.meaning));
  }
  return text;
}

std::string Environment() {
  std::string text = absl::StrCat(Section("ENVIRONMENT"), "Of the program that is recorded:\n");
  for (const Variable& variable : Variables()) {
    absl::StrAppend(&text, Term(variable.name, "",
                                absl::StrCat(variable.meaning, ". Values: ", variable.values,
                                             ". Default: ", variable.standard, ".")));
  }
  return absl::StrCat(text, ".PP\n", Escaped(FamiliesSentence()), "\n.PP\nOf dlhook itself:\n",
                      Term("COLUMNS", "", "width of text where the output is no terminal"),
                      Term("NO_COLOR", "", "if it is set and not empty, no colour unless --color always asks for it"),
                      Term("TERM", "", "no colour where it is dumb or not set"));
}

}  // namespace

std::string ManPage() {
  std::string text = absl::StrCat(".TH DLHOOK 1 \"", kDate, "\" \"dlhook " DLHOOK_VERSION "\" \"User Commands\"\n",
                                  Section("NAME"), "dlhook \\- ", Escaped(kOneLine), "\n", Section("SYNOPSIS"),
                                  "\\fBdlhook\\fR \\fICOMMAND\\fR [\\fIWORD\\fR]...\n", Section("DESCRIPTION"),
                                  Escaped(kDescription), "\n", Section("COMMANDS"));
  for (const Command& command : Commands()) absl::StrAppend(&text, CommandText(command));
  absl::StrAppend(&text, Examples(), Section("EXIT STATUS"));
  for (const ExitCode& code : ExitCodes()) absl::StrAppend(&text, Term(code.code, "", code.meaning));
  return absl::StrCat(text, Environment());
}

// docs/skill.md, for assistants.
Command SkillCommand() {
  return {.name = "skill",
          .summary = "print one page of instructions for an assistant",
          .examples = {{"dlhook skill >SKILL.md", "where an assistant looks for skills"}},
          .run = [](const Args&) -> absl::StatusOr<int> {
            return PrintOutput(absl::string_view(dlhook_skill, static_cast<size_t>(dlhook_skill_end - dlhook_skill)));
          }};
}

}  // namespace dlhook::analyzer::cli
