// The stack of a call for display: native frames by name, including inlined functions, and Python frames instead of the
// interpreter's.
//
// Each call of CPython's evaluation loop is a native frame that runs one Python frame or, since 3.11, several; the
// outermost of these is marked (PythonFrame.is_entry). From the innermost frame outwards, the n-th loop corresponds to
// the n-th group of Python frames. Rules:
// - The interpreter's frames other than its loops are omitted, and so are the frames that start a thread in the C
//   library.
// - If both stacks are complete, there must be as many groups as loops; if one is cut, there may be fewer. Otherwise
//   (the Python stack was taken at another time, or a frame was just removed) each loop is shown as "[Python]": some
//   Python runs there.
// - If the native stack is cut and Python frames are left, these follow the cut; native frames between them are not
//   known.
// - If the Python stack is cut, so is the group in which it ends; further loops are "[Python]".
// - If no loop could be named, but the interpreter's object is known by its path, Python frames replace its innermost
//   frame, and everything outside that is cut.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "analyzer/model/limits.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline stacks {

// Whether a function is CPython's evaluation loop, as compilers name it: "_PyEval_EvalFrameDefault", "….cold", and the
// instructions of an interpreter built with tail calls (since 3.14), "_TAIL_CALL_CALL".
bool IsEvaluationLoop(absl::string_view function);

// Recognizes CPython's own frames in native stacks.
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

struct StackEntry {
  // kCut: "[…]", frames here, or all further out, are not known.
  enum class Kind : uint8_t { kNative, kPython, kCut };
  Kind kind = Kind::kNative;
  // As shown: folded (names/fold_names.h), "libfoo.so+0x1234" without a name; "LeNet.forward".
  std::string function = {};
  std::string full_function = {};  // demangled, with templates and arguments
  std::string object = {};         // path of the library; empty for Python
  std::string file = {};           // empty: not known
  uint32_t line = 0;               // 0: not known
  bool is_plumbing = false;        // only forwards the call (names/fold_names.h)
};
using StackEntryIndex = uint32_t;

// Not thread-safe, because it caches results. `model` must outlive it and not change.
class CallStacks {
 public:
  explicit CallStacks(const TraceModel& model) : model_(model), interpreter_(model) {}

  // Innermost first; empty if no stack of the call is known. For a call without a native stack only its Python frames.
  // Valid as long as this object.
  absl::Span<const StackEntryIndex> Of(CallIndex call) {
    return OfSample(model_.calls.NativeStackOf(call), model_.PythonStackOf(call));
  }
  // The same of a sample: its native frame and Python stack, either may be kNone.
  absl::Span<const StackEntryIndex> OfSample(FrameIndex frame, StackIndex python) {
    return WovenOf(frame, python).entries;
  }
  // For each entry of OfSample its native frame, for inlined functions the enclosing one; kNone: none.
  absl::Span<const FrameIndex> FramesOfSample(FrameIndex frame, StackIndex python) {
    return WovenOf(frame, python).frames;
  }
  const StackEntry& entry(StackEntryIndex index) const { return entries_[index]; }
  size_t entries() const { return entries_.size(); }

 private:
  struct Woven {
    std::vector<StackEntryIndex> entries;
    std::vector<FrameIndex> frames;  // by entry

    void Add(StackEntryIndex entry, FrameIndex frame = kNone) {
      entries.push_back(entry);
      frames.push_back(frame);
    }
  };
  struct NativeStack;

  const Woven& WovenOf(FrameIndex native, StackIndex python);
  Woven Weave(FrameIndex innermost, StackIndex python);
  void WeaveByLoops(const NativeStack& native, StackIndex python, Woven* out);
  void WeaveByObject(const NativeStack& native, StackIndex python, Woven* out);
  NativeStack Unroll(FrameIndex innermost);
  void AddNative(FrameIndex frame, Woven* out);
  void AddCut(Woven* out) { AddMarker(StackEntry::Kind::kCut, "[…]", &cut_, out); }
  // Once for consecutive loops: how many Python frames they run is not known either.
  void AddUnknownPython(Woven* out) { AddMarker(StackEntry::Kind::kPython, "[Python]", &unknown_python_, out); }
  void AddMarker(StackEntry::Kind kind, const char* text, StackEntryIndex* marker, Woven* out);
  // Adds frames from `first` up to the end of their group, or all. Returns the first that was not added.
  size_t AddGroup(const PythonStack& stack, size_t first, Woven* out);
  void AddAllFrom(const PythonStack& stack, size_t first, Woven* out);
  StackEntryIndex NativeEntry(const NativeSymbol& symbol, uint64_t address);
  StackEntryIndex PythonEntry(const PythonFrame& frame);
  StackEntryIndex Add(StackEntry entry);

  const TraceModel& model_;
  InterpreterFrames interpreter_;
  std::vector<StackEntry> entries_;
  absl::flat_hash_map<std::pair<FrameIndex, StackIndex>, Woven> woven_;
  // By function, object, file, line; by object and offset if the function is not known.
  absl::flat_hash_map<std::tuple<NameIndex, NameIndex, NameIndex, uint64_t>, StackEntryIndex> native_entries_;
  absl::flat_hash_map<std::tuple<NameIndex, NameIndex, uint32_t>, StackEntryIndex> python_entries_;
  Limit frames_{"frames in distinct stacks of calls", kMaxStackFrames};
  StackEntryIndex cut_ = kNone;
  StackEntryIndex unknown_python_ = kNone;
};

// Whether the object with this path works for whoever calls it: the C library, C++'s, OpenMP's, allocators.
inline bool IsSharedCode(absl::string_view object) {
  const absl::string_view file = object.substr(object.rfind('/') + 1);
  for (absl::string_view library :
       {"libc.so", "libc-", "libm.so", "libm-", "libpthread", "libmvec", "ld-linux", "libstdc++", "libgcc_s",
        "linux-vdso", "libgomp", "libiomp5", "libjemalloc", "libtcmalloc"}) {
    if (absl::StartsWith(file, library)) return true;
  }
  return false;
}

}  // namespace dlhook::analyzer::stacks
