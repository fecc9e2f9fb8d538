// What an operator computes, from the shapes that a trace has of its inputs.
#ifndef DLHOOK_ANALYZER_IMPORT_KINETO_OPERATOR_DEFINITIONS_H_
#define DLHOOK_ANALYZER_IMPORT_KINETO_OPERATOR_DEFINITIONS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "analyzer/import/kineto/trace_json.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline kineto {

// Of a product, convolution, attention or collective, without function and family. Nothing: another operator, or one of which
// the trace does not have all that is needed.
std::optional<trace::OpDefinition> DefineOperator(const Event& event);

// Whether the operator only carries out what the one around it computes, as "aten::cudnn_convolution" does.
bool CarriesOut(absl::string_view name);

}  // namespace dlhook::analyzer::kineto

#endif  // DLHOOK_ANALYZER_IMPORT_KINETO_OPERATOR_DEFINITIONS_H_
