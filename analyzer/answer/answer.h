// The answer screen: what ran, where a step's time goes, what could be faster, the heaviest layers, which commands to run
// next.
#pragma once

#include "analyzer/table/table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline answer {

struct AnswerOptions {
  std::string run;    // as commands accept it, for the suggested next commands
  size_t width = 80;  // in characters
  bool color = false;
  bool is_brief = false;  // what ran, without steps also where its time goes, and findings: for the end of `dlhook run`
  bool is_live = false;   // of a run that goes on, below what live.h says: where a step goes, layers, findings in brief
  std::vector<std::string> ignored_findings = {};  // see findings/findings_table.h
};

// At most kMostLines lines, if findings that are worth much leave it room.
inline constexpr size_t kMostLines = 45;
absl::StatusOr<std::string> MakeAnswer(const StepFacts& facts, const AnswerOptions& options);

// The answer for programs: docs/schema.md and docs/report.schema.json say what is in it.
inline constexpr size_t kMostJsonBytes = 8192;

// `make_table`: a table of the report by its name, as evidence of findings; NotFound: there is none of this name.
using TableMaker = absl::FunctionRef<absl::StatusOr<Table>(const std::string& name)>;
std::string AnswerJson(const StepFacts& facts, const AnswerOptions& options, TableMaker make_table);

}  // namespace dlhook::analyzer::answer
