// Recognizes CPython's own frames in native stacks: its evaluation loop, which is replaced by Python frames, and what
// is between two loops, which is omitted.
#ifndef DLHOOK_ANALYZER_STACKS_INTERPRETER_FRAMES_H_
#define DLHOOK_ANALYZER_STACKS_INTERPRETER_FRAMES_H_

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline stacks {

// Whether a function is the loop, as compilers name it: "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold",
// and the instructions of an interpreter built with tail calls (since 3.14), "_TAIL_CALL_CALL".
bool IsEvaluationLoop(absl::string_view function);

class InterpreterFrames {
 public:
  // Examines all symbols of the model once.
  explicit InterpreterFrames(const TraceModel& model);

  // A loop, whatever is inlined into it.
  bool IsLoop(FrameIndex frame) const;
  // In an object that contains a loop, with a C name or none: the interpreter's own, except for main(). (A C++ program
  // with Python linked into it keeps its frames.)
  bool IsInside(FrameIndex frame) const;
  // In an object whose name is that of a Python: used if no loop could be named.
  bool IsInPython(FrameIndex frame) const;
  // The frames that start a thread, in the C library.
  bool IsStart(FrameIndex frame) const;

 private:
  const NativeSymbol* Outermost(FrameIndex frame) const;

  const TraceModel& model_;
  absl::flat_hash_set<NameIndex> loops_;    // functions
  absl::flat_hash_set<NameIndex> objects_;  // with a loop
  absl::flat_hash_set<NameIndex> pythons_;  // objects, by name
  absl::flat_hash_set<NameIndex> c_libraries_;
};

}  // namespace dlhook::analyzer::stacks

#endif  // DLHOOK_ANALYZER_STACKS_INTERPRETER_FRAMES_H_
