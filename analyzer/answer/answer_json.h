// The answer for programs: docs/schema.md and docs/report.schema.json say what is in it.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "analyzer/answer/answer.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline answer {

inline constexpr size_t kMostJsonBytes = 8192;

// `make_table`: a table of the report by its name, as evidence of findings; NotFound: there is none of this name.
using TableMaker = absl::FunctionRef<absl::StatusOr<Table>(const std::string& name)>;
std::string AnswerJson(const StepFacts& facts, const AnswerOptions& options, TableMaker make_table);

}  // namespace dlhook::analyzer::answer
