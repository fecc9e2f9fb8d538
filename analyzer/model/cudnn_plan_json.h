// An execution plan of cuDNN as its own JSON text (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION): what is known of
// a plan that a program built from such a text, as XLA does with its autotuning cache.
#ifndef DLHOOK_ANALYZER_MODEL_CUDNN_PLAN_JSON_H_
#define DLHOOK_ANALYZER_MODEL_CUDNN_PLAN_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline model {

// Operation, tensors, nodes, engine and knobs, as a plan recorded whole has them. The text comes from a program and is
// believed in nothing: fields of another type than expected are left out, lists are cut at bounds far beyond what cuDNN
// takes. An error says what is missing: no JSON, or no operation graph in it.
absl::StatusOr<trace::Cudnn> ParseCudnnPlanJson(absl::string_view json);

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_CUDNN_PLAN_JSON_H_
