// Generated from preload/format/variables.inc.
#include <string.h>
#include <unistd.h>

#include <cstdlib>

#include "analyzer/cli/command.h"
#include "analyzer/doctor/counter_trials.h"
#include "preload/format/hook_table.h"
#include "preload/runtime/config.h"

namespace dlhook::analyzer::inline cli {

namespace {

constexpr absl::string_view kPrefix = "DLHOOK_";
constexpr char kOut[] = "DLHOOK_OUT";  // its flag is -o
constexpr absl::string_view kHz = "99";

// The texts are written for docs/environment.md: words of a choice are in backticks.
Variable Make(bool is_of_run, std::string name, std::string values, std::string standard, std::string meaning) {
  Variable variable = {.name = std::move(name)};
  const std::vector<std::string> parts = absl::StrSplit(values, '`');
  for (size_t i = 1; i < parts.size(); i += 2) variable.words.push_back(parts[i]);
  const bool is_choice = parts.front().empty();
  variable.placeholder = is_choice ? absl::StrJoin(variable.words, "|")
                                   : absl::AsciiStrToUpper(values.substr(0, values.find_first_of(",; ")));
  if (is_of_run && variable.name != kOut) {
    variable.flag = absl::StrReplaceAll(absl::AsciiStrToLower(variable.name.substr(kPrefix.size())), {{"_", "-"}});
  }
  for (std::string* text : {&values, &standard, &meaning}) std::erase(*text, '`');
  variable.help = absl::StrCat(meaning.substr(0, meaning.find_first_of(";:")), " (default: ", standard, ")");
  variable.values = std::move(values);
  variable.standard = std::move(standard);
  variable.meaning = std::move(meaning);
  return variable;
}

// "; did you mean cycles?" of the first of these words that is none of the known ones, but like one. Else empty.
std::string MeantWord(absl::string_view words, const std::vector<std::string>& known) {
  for (absl::string_view word : absl::StrSplit(words, ',')) {
    absl::ConsumePrefix(&word, "-");
    const bool is_known = absl::c_linear_search(known, word);
    const std::string nearest = is_known ? "" : NearestName(word, known);
    if (!nearest.empty()) return absl::StrCat("; did you mean ", nearest, "?");
  }
  return "";
}

// The name of a variable with its value as the shim would read it; and as it was given, by a variable or a flag.
struct Setting {
  const Variable* variable;
  std::string value;
  std::string given;
};

const Setting* g_asked;  // ParseConfig takes no context

const char* Lookup(const char* name) { return g_asked->variable->name == name ? g_asked->value.c_str() : nullptr; }

absl::Status Check(const Setting& setting) {
  const bool is_counters = setting.variable->name == "DLHOOK_COUNTERS";
  static Config config;  // large
  g_asked = &setting;
  ParseConfig(&Lookup, &config);
  std::string complaint = config.complaint;
  std::vector<std::string> known = setting.variable->words;
  if (absl::StartsWith(setting.variable->placeholder, "FAMILIES")) {
    known.insert(known.end(), kFamilyNames, kFamilyNames + kFamilyCount);
  }
  if (is_counters) {
    complaint = CounterComplaint(setting.value);
  } else if (!complaint.empty()) {
    complaint += MeantWord(setting.value, known);
  }
  if (complaint.empty()) return absl::OkStatus();
  absl::string_view rest = complaint;
  absl::ConsumePrefix(&rest, absl::StrCat(setting.variable->name, "="));
  return absl::InvalidArgumentError(absl::StrCat(setting.given, "=", rest));
}

}  // namespace

std::string CounterComplaint(const std::string& words) {
  const CounterList list = ParseWords(words, ThisProcessor());
  if (list.complaint[0] == '\0') return "";
  std::vector<std::string> known;
  for (const CounterSet& set : kCounterSets) known.emplace_back(set.name);
  for (const CounterLine& counter : CounterLines()) known.emplace_back(counter.name);
  return absl::StrCat(list.complaint, MeantWord(words, known));
}

const std::vector<Variable>& Variables() {
  static const auto& kVariables = *new std::vector<Variable>{
#define DLHOOK_VARIABLE(name, reader, member, values, standard, meaning) Make(true, name, values, standard, meaning),
#define DLHOOK_REPORT_VARIABLE(name, values, standard, meaning) Make(false, name, values, standard, meaning),
#include "preload/format/variables.inc"
  };
  return kVariables;
}

std::vector<Flag> VariableFlags(absl::string_view but) {
  std::vector<Flag> flags;
  for (const Variable& variable : Variables()) {
    if (variable.flag.empty() || variable.flag == but) continue;
    flags.push_back({.name = variable.flag,
                     .value = variable.placeholder,
                     .help = variable.help,
                     .standard = variable.flag == "sample" ? kHz : "",
                     .is_variable = true});
  }
  return flags;
}

absl::Status SetVariables(const Args& args, absl::string_view but) {
  if (const char* const unknown = FindUnknownVariable(environ); unknown != nullptr) {
    const std::string name(unknown, strcspn(unknown, "="));
    std::vector<std::string> known;  // what they all begin with says nothing
    for (const Variable& variable : Variables()) known.push_back(variable.name.substr(kPrefix.size()));
    const std::string nearest = NearestName(name.substr(kPrefix.size()), known);
    const std::string meant = nearest.empty() ? "" : absl::StrCat("did you mean ", kPrefix, nearest, "? ");
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not a variable of dlhook; ", meant, "dlhook help variables lists them"));
  }
  for (const Variable& variable : Variables()) {
    const std::optional<std::string> flag = variable.flag == but ? std::nullopt : args.Last(variable.flag);
    const char* const value = flag ? flag->c_str() : getenv(variable.name.c_str());
    if (value == nullptr) continue;
    const Setting setting = {&variable, std::string(value), flag ? absl::StrCat("--", variable.flag) : variable.name};
    RETURN_IF_ERROR(Check(setting));
    if (flag) setenv(variable.name.c_str(), value, 1);
  }
  return absl::OkStatus();
}

std::string FamiliesSentence() {
  std::vector<absl::string_view> standard, others;
  for (int i = 0; i < kFamilyCount; ++i) {
    ((kDefaultFamilies >> i & 1) != 0 ? standard : others).push_back(kFamilyNames[i]);
  }
  return absl::StrCat("Families: ", absl::StrJoin(standard, ", "), "; off by default: ", absl::StrJoin(others, ", "),
                      ".");
}

}  // namespace dlhook::analyzer::cli
