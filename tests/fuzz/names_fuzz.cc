// All other texts that a program passes to the analyzer and that are parsed: plans of cuDNN as JSON, names of kernels,
// of ops, of modules, the words of oneDNN's fields. The first byte selects the reader.
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/calls/tensor_class.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/ops/cudnn_problem.h"
#include "analyzer/ops/decode_op.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

void ReadPlan(const std::string& text) {
  const absl::StatusOr<trace::Cudnn> plan = ParseCudnnPlanJson(text);
  Require(plan.ok() || !plan.status().message().empty(), "a refusal says why");
  trace::OpDefinition definition;
  definition.mutable_cudnn()->mutable_plan()->set_json(text);
  Require(!DecodeOp(definition).kind.empty(), "every op has a kind");
}

void ReadKernel(const std::string& text) {
  const std::string name = Demangle(text);
  const std::string short_name = ShortKernelName(name);
  Require(short_name.size() <= name.size() + 8, "a short name is no longer than the whole one");
  FindConversionKernel(name);
}

void ReadScope(const std::string& text) {
  TraceModel model;
  model.AddName(text);
  const ScopeName name = ReadScopeNames(model).front();
  LiteratureName(WorkOfOp(name.op));
  LiteratureName(WorkOfModule(ShortType(text)));
  NodeFitsOp(text, name.op);
  NodeFitsOp(name.op, text);
}

void ReadFields(const std::string& text) {
  for (const Tensor& tensor : ParseMemoryDescriptors(text))
    Require(tensor.role.size() <= text.size(), "roles are of the text");
  ParsePostOps(text);
  AuxiliaryValue(text, "alg");
  ParseProblemNumbers(text);
  ParseDimsList(text);
}

constexpr void (*kReaders[])(const std::string&) = {ReadPlan, ReadKernel, ReadScope, ReadFields};

}  // namespace
}  // namespace dlhook::analyzer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dlhook::analyzer::kReaders;
  dlhook::Input input(data, size);
  const uint8_t reader = input.Byte();
  kReaders[reader % (sizeof kReaders / sizeof kReaders[0])](input.Rest());
  return 0;
}
