// Which frames of native stacks are CPython's own: its evaluation loop, in whose place Python frames are shown, and
// what stands between a loop and the next, which tells a reader nothing.
#ifndef DLHOOK_ANALYZER_STACKS_INTERPRETER_FRAMES_H_
#define DLHOOK_ANALYZER_STACKS_INTERPRETER_FRAMES_H_

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline stacks {

// Whether a function is the loop, as compilers leave it: "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold",
// and the instructions of an interpreter that is built of tail calls (from 3.14 on), "_TAIL_CALL_CALL".
bool IsEvaluationLoop(absl::string_view function);

class InterpreterFrames {
 public:
  // Looks at all symbols of the model once.
  explicit InterpreterFrames(const TraceModel& model);

  // A loop, whatever is inlined into it.
  bool IsLoop(FrameIndex frame) const;
  // In the object that holds a loop, by a C name or none: the interpreter's own, but for main(). (A program in C++ with
  // a Python linked into it keeps its frames.)
  bool IsInside(FrameIndex frame) const;
  // In an object that by its name is a Python: says something where no loop could be named.
  bool IsInPython(FrameIndex frame) const;
  // What a thread begins with, in the C library.
  bool IsStart(FrameIndex frame) const;

 private:
  const NativeSymbol* Outermost(FrameIndex frame) const;

  const TraceModel& model_;
  absl::flat_hash_set<NameIndex> loops_;    // functions
  absl::flat_hash_set<NameIndex> objects_;  // that hold one
  absl::flat_hash_set<NameIndex> pythons_;  // objects, by their names
  absl::flat_hash_set<NameIndex> c_libraries_;
};

}  // namespace dlhook::analyzer::stacks

#endif  // DLHOOK_ANALYZER_STACKS_INTERPRETER_FRAMES_H_
