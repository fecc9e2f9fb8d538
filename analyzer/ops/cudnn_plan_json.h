// Parses a cuDNN execution plan from its JSON text (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION): the only source for
// a plan that a program built from such a text, as XLA does with its autotuning cache.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// Operation, tensors, nodes, engine and knobs, as in a fully recorded plan. The text comes from a program and is not
// trusted: fields of an unexpected type are ignored, lists are truncated at bounds far beyond cuDNN's. An error says
// what is missing: JSON, or an operation graph in it.
absl::StatusOr<trace::Cudnn> ParseCudnnPlanJson(absl::string_view json);

}  // namespace dlhook::analyzer::ops
