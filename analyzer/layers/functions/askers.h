// Who made a call: the framework function above it and the line of the user's program.
#pragma once

#include "absl/container/node_hash_map.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/limits.h"
#include "analyzer/stacks/call_stacks.h"

namespace dlhook::analyzer::inline functions {

// Whether the function belongs to a library whose calls are recorded, or only forwards a call to one: "cblas_sgemm",
// "dnnl::primitive::execute", "at::native::cpublas::gemm", "caffe::caffe_cpu_gemm<float>". Takes the folded name.
bool IsLibraryFunction(absl::string_view function);

// Not thread-safe, because it caches results. `model` and `attribution` must outlive it.
class Askers {
 public:
  Askers(const TraceModel& model, const Attribution& attribution);

  // "at::native::addmm_out_cpu", "tensorflow::MatMulOp::Compute": among the native functions above the call, up to the
  // next Python frame, one that computes an op or a layer, else the innermost outside the math libraries. Without a
  // native stack, the framework op around the call ("aten::addmm"), else its innermost Python function. Empty: not
  // known.
  const std::string& FunctionOf(CallIndex call) { return Of(call).function; }
  // The same of where a sample of CPU time was taken; for code without names "[libfoo.so]".
  std::string FunctionOfSample(size_t sample);
  // "lenet.py:42": the innermost line of Python outside frameworks, else that of the layer. For a program without
  // Python, the program's innermost function other than the calling one, with its line if known. Empty: not known.
  const std::string& LineOf(CallIndex call) { return Of(call).line; }
  // The called function first, then its callers: "sgemm_ < at::native::cpublas::gemm < ... < train (lenet.py:42)".
  // Empty: not known.
  const std::string& StackOf(CallIndex call) { return WithStack(call).stack; }
  // The same, shortened to a few functions: without inner functions of libraries and dispatchers; of Python only the
  // user's lines.
  const std::string& PathOf(CallIndex call) { return WithStack(call).path; }

 private:
  struct Key {  // calls that agree in all of these have the same results
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
    std::string stack, path;  // long, so computed on demand
    bool has_stack = false;
  };
  Answer& Of(CallIndex call);
  const Answer& WithStack(CallIndex call);
  Key KeyOf(CallIndex call) const;
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
  absl::node_hash_map<Key, Answer> answers_;  // references to results stay valid
};

}  // namespace dlhook::analyzer::functions
