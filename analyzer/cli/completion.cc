// Commands, flags and their values; after "--" what the shell has for the words of any program. The scripts of the shells, which
// the build installs, ask `dlhook help --complete`.

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

// What may follow a flag; empty: files.
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
  if (flag.name == "counters" || flag.name == "set") words = NamesOf(kCounterSets);
  if (flag.name == "frames") words = NamesOf(FrameWords());
  if (flag.name == "weight") words = NamesOf(WeightWords());
  return words;
}

struct Candidate {
  std::string word;
  absl::string_view meaning = {};
};

// What may stand at the end of these words, the ones before `last`.
std::vector<Candidate> CandidatesOf(absl::Span<const std::string> before, absl::string_view last) {
  std::vector<Candidate> candidates;
  if (before.empty() || before.front() == "help") {
    for (const Command& command : Commands()) candidates.push_back({std::string(command.name), command.summary});
    candidates.push_back({"help", "what a command does and its flags"});
    candidates.push_back(before.empty() ? Candidate{"--version"} : Candidate{"variables", "what is recorded"});
    return candidates;
  }
  const Command* const command = FindCommand(before.front());
  if (command == nullptr || absl::c_linear_search(before, "--")) return candidates;
  const size_t equals = last.find('=');  // "--format=csv", which bash divides in three
  if (before.back() == "=") before.remove_suffix(1);
  const Flag* const flag =
      FindFlag(*command, equals == absl::string_view::npos ? absl::string_view(before.back()) : last.substr(0, equals));
  const bool is_its_value = equals != absl::string_view::npos || (flag != nullptr && flag->standard.empty());
  if (flag != nullptr && !flag->value.empty() && is_its_value) {
    // Behind those of a list that are there.
    const size_t begin = last.find_last_of("=,") + 1;
    for (const std::string& value : ValuesOf(*command, *flag)) {
      candidates.push_back({absl::StrCat(last.substr(0, begin), value)});
    }
  } else if (absl::StartsWith(last, "-")) {
    for (const Flag& known : command->flags) candidates.push_back({absl::StrCat("--", known.name), known.help});
    candidates.push_back({"--help"});
  }
  return candidates;
}

constexpr char kBash[] = R"sh(# Completion for bash.
_dlhook() { mapfile -t COMPREPLY < <(dlhook help --complete "${COMP_WORDS[@]:1:COMP_CWORD}" | cut -f 1); }
complete -o bashdefault -o default -F _dlhook dlhook
)sh";
// zsh's _describe has a colon between a word and its meaning.
constexpr char kZsh[] = R"sh(#compdef dlhook
_dlhook() {
  local -a candidates=(${(f)"$(dlhook help --complete "${(@)words[2,CURRENT]}")"})
  candidates=(${${candidates//:/\\:}/$'\t'/:})
  (( $#candidates )) && _describe dlhook candidates || _default
}
_dlhook "$@"
)sh";
constexpr char kFish[] = R"sh(# Completion for fish.
complete -c dlhook -a '(dlhook help --complete (commandline -opc)[2..-1] (commandline -ct))'
)sh";

}  // namespace

std::string Candidates(absl::Span<const std::string> words) {
  std::string lines;
  if (words.empty()) return lines;
  absl::string_view last = words.back();
  if (last == "=") {
    last = "";
  } else {
    words.remove_suffix(1);
  }
  for (const auto& [word, meaning] : CandidatesOf(words, last)) {
    if (absl::StartsWith(word, last)) absl::StrAppend(&lines, word, meaning.empty() ? "" : "\t", meaning, "\n");
  }
  return lines;
}

absl::StatusOr<std::string> Completion(absl::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return UnknownName("shell", shell, {"bash", "zsh", "fish"});
}

}  // namespace dlhook::analyzer::cli
