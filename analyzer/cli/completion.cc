// Commands, flags and files; after "--" what the shell has for the words of any program. The build runs
// `dlhook help --completion SHELL` and installs the results.

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/explain.h"
#include "analyzer/cli/tables.h"
#include "analyzer/diff/diff_runs.h"
#include "analyzer/doctor/counter_trials.h"
#include "analyzer/export/exporter.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/profile/profile_builder.h"
#include "analyzer/render/renderer.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline cli {
namespace {

std::vector<std::string> CommandNames() {
  std::vector<std::string> names = NamesOf(Commands());
  names.emplace_back("help");
  return names;
}

// In single quotes of a POSIX shell.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::vector<std::string> WordsOf(const Flag& flag) {
  std::vector<std::string> words = {absl::StrCat("--", flag.name)};
  if (flag.letter != 0) words.push_back(absl::StrCat("-", std::string(1, flag.letter)));
  return words;
}

std::vector<std::string> Columns() {
  std::vector<std::string> names = {"program"};
  const absl::StatusOr<std::vector<Table>> tables = EmptyTables();
  if (!tables.ok()) return names;
  for (const Table& table : *tables) {
    for (const Column& column : table.columns) names.push_back(column.name);
  }
  absl::c_sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// What may follow a flag, empty: files.
std::vector<std::string> ValuesOf(const Command& command, const Flag& flag) {
  const bool is_of_runs = command.name == "report" || command.name == "diff";
  std::vector<std::string> words;
  if (absl::StrContains(flag.value, '|')) words = absl::StrSplit(flag.value, '|');
  if (absl::StartsWith(flag.value, "FAMILIES")) words.assign(kFamilyNames, kFamilyNames + kFamilyCount);
  if (flag.name == "table" && is_of_runs) words = NamesOf(command.name == "diff" ? ComparableTables() : ReportTables());
  if (flag.name == "format" && command.name == "export") words = NamesOf(Exporters());
  if (flag.name == "format" && words.empty()) words = NamesOf(Renderers());
  if (flag.name == "by") words = ByWords();
  if (flag.name == "sort") words = Columns();
  if (flag.name == "counters" || flag.name == "set") {
    for (const CounterSet& set : kCounterSets) words.emplace_back(set.name);
  }
  if (flag.name == "frames") words = NamesOf(FrameWords());
  if (flag.name == "weight") words = NamesOf(WeightWords());
  return words;
}

std::string Bash() {
  const std::string names = absl::StrJoin(CommandNames(), " ");
  std::string text = absl::StrCat(
      "# Completion for bash.\n_dlhook() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= i\n  COMPREPLY=()\n"
      "  [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  [ \"$word\" != = ] || { before=${COMP_WORDS[COMP_CWORD-1]}; word=; }\n"
      "  for ((i = 2; i < COMP_CWORD; ++i)); do [ \"${COMP_WORDS[i]}\" != -- ] || return; done\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n    words='",
      names, " --help --version'\n  else\n    case ${COMP_WORDS[1]} in\n      help) words='", names,
      " variables' ;;\n");
  for (const Command& command : Commands()) {
    std::vector<std::string> words;
    std::string values;
    for (const Flag& flag : command.flags) {
      words.push_back(absl::StrJoin(WordsOf(flag), " "));
      const std::vector<std::string> known = ValuesOf(command, flag);
      if (known.empty()) continue;
      absl::StrAppend(&values, " --", flag.name, ") words='", absl::StrJoin(known, " "), "' ;;");
    }
    words.emplace_back("--help");
    absl::StrAppend(&text, "      ", command.name, ") [[ $word != -* ]] || words='", absl::StrJoin(words, " "), "'; ",
                    "case $before in", values, " *) ;; esac ;;\n");
  }
  return absl::StrCat(text,
                      "    esac\n  fi\n"
                      "  local last=${word##*,}\n  local list=${word%\"$last\"}\n"  // in a list with commas
                      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -P \"$list\" -- \"$last\")\n}\n"
                      "complete -o bashdefault -o default -F _dlhook dlhook\n");
}

// For a description in brackets of _arguments.
std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string Zsh() {
  std::string text = "#compdef dlhook\n_dlhook() {\n  local -a commands=(\n";
  for (const Command& command : Commands()) {
    absl::StrAppend(&text, "    ", Quoted(absl::StrCat(command.name, ":", command.summary)), "\n");
  }
  absl::StrAppend(&text,
                  "    'help:what a command does and its flags'\n  )\n"
                  "  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
                  "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n"
                  "    help) _describe command commands ;;\n");
  for (const Command& command : Commands()) {
    absl::StrAppend(&text, "    ", command.name, ") _arguments");
    for (const Flag& flag : command.flags) {
      for (const std::string& word : WordsOf(flag)) {
        const std::vector<std::string> known = ValuesOf(command, flag);
        const std::string action =
            known.empty() ? "_files" : absl::StrCat("_sequence compadd - ", absl::StrJoin(known, " "));
        const std::string value = flag.TakesWord() ? absl::StrCat(":", ZshText(flag.value), ":", action) : "";
        absl::StrAppend(&text, " \\\n      ", Quoted(absl::StrCat("*", word, "[", ZshText(flag.help), "]", value)));
      }
    }
    absl::StrAppend(&text, " \\\n      '--help[show this and exit]' '*",
                    command.stops_at_operand ? "::program: _normal" : ":file:_files", "' ;;\n");
  }
  return absl::StrCat(text, "  esac\n}\n_dlhook \"$@\"\n");
}

std::string Fish() {
  std::string text = "# Completion for fish.\n";
  const auto add = [&text](absl::string_view condition, absl::string_view words, absl::string_view meaning) {
    absl::StrAppend(&text, "complete -c dlhook -n ", Quoted(condition), " ", words, " -d '",
                    absl::StrReplaceAll(meaning, {{"\\", "\\\\"}, {"'", "\\'"}}), "'\n");
  };
  for (const Command& command : Commands()) {
    add("__fish_use_subcommand", absl::StrCat("-f -a ", command.name), command.summary);
    add("__fish_seen_subcommand_from help", absl::StrCat("-f -a ", command.name), command.summary);
    const std::string condition = absl::StrCat("__fish_seen_subcommand_from ", command.name);
    for (const Flag& flag : command.flags) {
      const std::string letter = flag.letter == 0 ? "" : absl::StrCat(" -s ", std::string(1, flag.letter));
      const std::vector<std::string> known = ValuesOf(command, flag);
      const std::string values = known.empty() ? "" : absl::StrCat(" -f -a ", Quoted(absl::StrJoin(known, " ")));
      add(condition, absl::StrCat("-l ", flag.name, letter, flag.TakesWord() ? " -r" : "", values), flag.help);
    }
    add(condition, "-l help", "show this and exit");
  }
  add("__fish_use_subcommand", "-f -a help", "what a command does and its flags");
  return text;
}

}  // namespace

absl::StatusOr<std::string> Completion(absl::string_view shell) {
  if (shell == "bash") return Bash();
  if (shell == "zsh") return Zsh();
  if (shell == "fish") return Fish();
  return UnknownName("shell", shell, {"bash", "zsh", "fish"});
}

}  // namespace dlhook::analyzer::cli
