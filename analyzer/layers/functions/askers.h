// Who asked for a call: the framework's function above it and the line of the user's program.
#ifndef DLHOOK_ANALYZER_LAYERS_FUNCTIONS_ASKERS_H_
#define DLHOOK_ANALYZER_LAYERS_FUNCTIONS_ASKERS_H_

#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/limits.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/stacks/call_stacks.h"

namespace dlhook::analyzer::inline functions {

// Whether the function belongs to a library whose calls are recorded, or only hands a call to one: "cblas_sgemm",
// "dnnl::primitive::execute", "at::native::cpublas::gemm", "caffe::caffe_cpu_gemm<float>". Takes the folded name.
bool IsLibraryFunction(absl::string_view function);

// Not thread-safe: remembers what it has found. `model` and `attribution` must outlive it.
class Askers {
 public:
  Askers(const TraceModel& model, const Attribution& attribution);

  // "at::native::addmm_out_cpu", "tensorflow::MatMulOp::Compute": of the native functions above the call, up to the
  // next Python frame, one that computes an op or a layer, else the innermost outside of the math libraries. Without
  // native stack the framework's op around the call ("aten::addmm"), else its innermost Python function. Empty: not
  // known.
  const std::string& FunctionOf(CallIndex call);
  // "lenet.py:42": the innermost line of Python that is not a framework's; without any, of the layer; of a program
  // without Python the innermost function of its own that is not the asking one, with its line where that is known.
  // Empty: not known.
  const std::string& LineOf(CallIndex call);
  // The function called first, then who called it, outwards: "sgemm_ < at::native::cpublas::gemm < ... < train
  // (lenet.py:42)". Empty: not known.
  const std::string& StackOf(CallIndex call);
  // The same without what people read over, at most a few stations: no inside of libraries, no dispatchers, of Python
  // the user's lines.
  const std::string& PathOf(CallIndex call);

 private:
  struct Key {  // calls that are alike in all of these have the same answers
    FrameIndex frame = kNone;
    StackIndex python_stack = kNone;
    NameIndex scope = kNone;  // name of the innermost framework op
    LayerIndex layer = kNone;
    OpIndex op = 0;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.frame, key.python_stack, key.scope, key.layer, key.op);
    }
  };
  struct Answer {
    std::string function, line;
    std::string stack, path;  // long: not before somebody asks
    bool has_stack = false;
  };
  Answer& Of(CallIndex call);
  const Answer& WithStack(CallIndex call);
  Key KeyOf(CallIndex call) const;
  Answer Find(CallIndex call, const Key& key);
  NameIndex OpScopeOf(CallIndex call) const;
  std::string AskingFunction(absl::Span<const StackEntryIndex> stack, const Key& key) const;
  std::string UserLine(absl::Span<const StackEntryIndex> stack, const Key& key, const std::string& function) const;
  std::string OwnFunction(absl::Span<const StackEntryIndex> stack, const std::string& asking) const;
  std::string WholeStack(absl::Span<const StackEntryIndex> stack, const Key& key);
  std::string Path(absl::Span<const StackEntryIndex> stack, const Key& key) const;
  bool IsOnPath(const StackEntry& entry, bool has_user_lines) const;

  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<PythonPlace> places_;  // by StackIndex
  CallStacks stacks_;
  Limit text_{"bytes of distinct stacks of calls", kMaxStackTextBytes};
  absl::node_hash_map<Key, Answer> answers_;  // what was returned stays where it is
};

}  // namespace dlhook::analyzer::functions

#endif  // DLHOOK_ANALYZER_LAYERS_FUNCTIONS_ASKERS_H_
