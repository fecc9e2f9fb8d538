// What the names of scopes say: which op, what kind of work, whose part.
#ifndef DLHOOK_ANALYZER_CALLS_SCOPE_NAMES_H_
#define DLHOOK_ANALYZER_CALLS_SCOPE_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

enum class ScopeRole : uint8_t {
  kOther,
  kEvaluate,    // autograd's engine around one backward node
  kAccumulate,  // adds a gradient to a parameter's
  kOptimizer,   // Optimizer.step#SGD.step and Optimizer.zero_grad#SGD.zero_grad
  kCompiled     // of a compiler: torch.compile's regions and what they call
};

struct ScopeName {
  ScopeRole role = ScopeRole::kOther;
  std::string op;               // "conv2d" of "aten::conv2d"; of kOptimizer its name ("SGD"); of kCompiled the region
  bool is_view = false;         // only another view of a tensor, or nothing at all
  bool is_weighted = false;     // what networks are drawn with: convolutions, products, recurrent cells, attention
  bool is_bookkeeping = false;  // makes, moves or reads tensors: no part of a network's function
  bool is_function = false;     // a Python torch.autograd.Function: a bracket around further ops
  bool is_layout_copy = false;  // contiguous: brings a tensor into another memory format
  bool is_product = false;      // mm, addmm, bmm …: what the backward of a product is made of
};

// One element per name of the model.
std::vector<ScopeName> ReadScopeNames(const TraceModel& model);

// "convolution", "linear", "batch norm", "max pooling" …: the field's word for an op ("conv2d") or a module type ("Conv2d",
// without its path); the op's own name with blanks where there is none.
std::string WorkOfOp(absl::string_view op);
std::string WorkOfModule(absl::string_view type);  // empty where the type says nothing

// "Conv2d" of "torch.nn.modules.conv.Conv2d".
std::string ShortType(absl::string_view type);

// The literature's short name of a kind of work, for networks whose own names are not known: "conv", "fc", "relu", "pool".
std::string LiteratureName(absl::string_view work);

// Does the name of a backward node ("ConvolutionBackward0") belong to the op ("aten::convolution")?
bool NodeFitsOp(absl::string_view node, absl::string_view op);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_SCOPE_NAMES_H_
