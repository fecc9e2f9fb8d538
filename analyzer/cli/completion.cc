// Commands, flags and files; after "--" what the shell has for the words of any program. The build runs
// `dlhook help --completion SHELL` and installs the results.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/names.h"

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

std::string Bash() {
  const std::string names = absl::StrJoin(CommandNames(), " ");
  std::string text = absl::StrCat(
      "# Completion for bash.\n_dlhook() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words= i\n  COMPREPLY=()\n"
      "  for ((i = 2; i < COMP_CWORD; ++i)); do [ \"${COMP_WORDS[i]}\" != -- ] || return; done\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n    words='",
      names, " --help --version'\n  else\n    case ${COMP_WORDS[1]} in\n      help) words='", names,
      " variables' ;;\n");
  for (const Command& command : Commands()) {
    std::vector<std::string> words;
    for (const Flag& flag : command.flags) words.push_back(absl::StrJoin(WordsOf(flag), " "));
    words.emplace_back("--help");
    absl::StrAppend(&text, "      ", command.name, ") [[ $word != -* ]] || words='", absl::StrJoin(words, " "),
                    "' ;;\n");
  }
  return absl::StrCat(text,
                      "    esac\n  fi\n"
                      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\n"
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
        const std::string value = flag.TakesWord() ? absl::StrCat(":", ZshText(flag.value), ":_files") : "";
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
      add(condition, absl::StrCat("-l ", flag.name, letter, flag.TakesWord() ? " -r" : ""), flag.help);
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
