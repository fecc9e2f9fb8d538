// What an operator computes, from the shapes that a trace has of its inputs.
#pragma once

#include "analyzer/import/kineto/trace_json.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline kineto {

// Of a product, convolution, attention or collective, without function and family. Nothing: another operator, or one of which
// the trace does not have all that is needed.
std::optional<trace::OpDefinition> DefineOperator(const Event& event);

// Whether the operator only carries out what the one around it computes, as "aten::cudnn_convolution" does.
bool CarriesOut(absl::string_view name);

// A convolution's operator that computes the gradients of its input and of its weights, one after the other: what its kernels are
// called tells them apart, and ChooseGradient makes the definition of one.
bool HasBothGradients(const trace::OpDefinition& definition);
void ChooseGradient(bool of_weights, trace::OpDefinition* definition);
enum class Gradient : uint8_t { kUnknown, kData, kWeights };
Gradient GradientOfKernel(absl::string_view name);

}  // namespace dlhook::analyzer::kineto
