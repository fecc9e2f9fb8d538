// Generated from preload/format/variables.inc.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/cli/commands.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline cli {

namespace {

// The texts are written for docs/environment.md.
Variable Plain(const char* name, std::string values, std::string standard, std::string meaning) {
  for (std::string* text : {&values, &standard, &meaning}) std::erase(*text, '`');
  return {name, values, standard, meaning};
}

}  // namespace

const std::vector<Variable>& Variables() {
  static const auto& kVariables = *new std::vector<Variable>{
#define DLHOOK_VARIABLE(name, reader, member, values, standard, meaning) Plain(name, values, standard, meaning),
#define DLHOOK_REPORT_VARIABLE(name, values, standard, meaning) Plain(name, values, standard, meaning),
#include "preload/format/variables.inc"
  };
  return kVariables;
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
