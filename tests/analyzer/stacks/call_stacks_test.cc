// Native and Python frames merged: the displayed order, and nothing false if they do not fit.
#include "analyzer/stacks/call_stacks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dlhook::analyzer {
namespace {

constexpr char kPython[] = "/usr/bin/python3.11";
constexpr char kTorch[] = "/venv/libtorch_cpu.so";
constexpr char kLoop[] = "_PyEval_EvalFrameDefault";
using Cut = StackCut;

// A run of one call whose stack is written innermost first.
class OneCall {
 public:
  OneCall() {
    model_.calls.op.push_back(0);
    model_.calls.native_stack.push_back(kNone);
  }

  // Frames "function" or "function@object"; "" for a function without a name; "a|b": a inlined into b.
  OneCall& Native(const std::vector<std::string>& innermost_first, Cut cut = Cut::kWhole) {
    FrameIndex parent = kNone;
    model_.native_symbols.begin.assign(1, 0);
    for (auto frame = innermost_first.rbegin(); frame != innermost_first.rend(); ++frame) {
      model_.native_frames.address.push_back(0x1000 + model_.native_frames.size());
      model_.native_frames.parent.push_back(parent);
      model_.native_frames.process.push_back(0);
      model_.native_frames.cut.push_back(parent == kNone ? cut : Cut::kWhole);
      AddSymbols(*frame);
      parent = static_cast<FrameIndex>(model_.native_frames.size() - 1);
    }
    model_.calls.native_stack[0] = parent;
    return *this;
  }

  // Python functions; a "|" at the end: its loop begins there.
  OneCall& Python(const std::vector<std::string>& innermost_first, bool is_cut = false) {
    PythonStack stack;
    stack.is_cut = is_cut;
    for (const std::string& text : innermost_first) {
      const bool is_entry = text.back() == '|';
      const NameIndex function = Name(text.substr(0, text.size() - is_entry));
      stack.frames.push_back({Name("train.py"), function, 7, kNone, is_entry});
    }
    model_.call_stacks.emplace_back(0, static_cast<StackIndex>(model_.python_stacks.size()));
    model_.python_stacks.push_back(stack);
    return *this;
  }

  std::string Shown() {
    CallStacks stacks(model_);
    std::vector<std::string> shown;
    for (const StackEntryIndex index : stacks.Of(0)) {
      const StackEntry& entry = stacks.entry(index);
      const bool is_python = entry.kind == StackEntry::Kind::kPython;
      shown.push_back(is_python && !entry.file.empty() ? absl::StrCat("py:", entry.function) : entry.function);
    }
    return absl::StrJoin(shown, " ");
  }

  TraceModel& model() { return model_; }

 private:
  NameIndex Name(const std::string& name) {
    model_.AddName(name);
    return static_cast<NameIndex>(model_.names.size() - 1);
  }

  // The same object is one name, as in a model read from a trace.
  NameIndex Object(const std::string& path) {
    const auto known = std::find(model_.names.begin(), model_.names.end(), path);
    return known == model_.names.end() ? Name(path) : static_cast<NameIndex>(known - model_.names.begin());
  }

  void AddSymbols(const std::string& frame) {
    size_t begin = 0;
    while (begin <= frame.size()) {
      const size_t end = std::min(frame.find('|', begin), frame.size());
      const std::string text = frame.substr(begin, end - begin);
      const size_t at = text.find('@');
      const std::string function = text.substr(0, at);
      const std::string object = at == std::string::npos ? kTorch : text.substr(at + 1);
      model_.native_symbols.symbols.push_back({function.empty() ? kNone : Name(function), Object(object),
                                               0x40 + model_.native_symbols.symbols.size(), kNone, 0,
                                               end < frame.size()});
      begin = end + 1;
    }
    model_.native_symbols.begin.push_back(static_cast<uint32_t>(model_.native_symbols.symbols.size()));
  }

  TraceModel model_;
};

std::string InPython(const std::string& function) { return absl::StrCat(function, "@", kPython); }

// sorted() calls back: two loops, the inner one runs two Python functions.
const std::vector<std::string> kTwoLoops = {
    "sgemm_",          "at::native::conv2d(int)",  InPython("cfunction_call"),
    InPython(kLoop),   InPython("_PyEval_Vector"), InPython("list_sort"),
    InPython(kLoop),   InPython("run_mod"),        InPython("Py_BytesMain"),
    InPython("main"),  "@/lib/libc.so.6",          "__libc_start_main@/lib/libc.so.6",
    InPython("_start")};

TEST(CallStacks, PutPythonFramesInThePlaceOfTheLoops) {
  EXPECT_EQ(OneCall().Native(kTwoLoops).Python({"forward", "key|", "<module>|"}).Shown(),
            "sgemm_ at::native::conv2d py:forward py:key py:<module> main");
  EXPECT_EQ(OneCall().Native(kTwoLoops).Python({"key|", "train", "<module>|"}).Shown(),
            "sgemm_ at::native::conv2d py:key py:train py:<module> main");
}

TEST(CallStacks, ShowNativeFramesBetweenPythonFrames) {
  EXPECT_EQ(
      OneCall()
          .Native({"dger", InPython(kLoop), "torch::autograd::PyNode::apply(int)", InPython(kLoop), InPython("main")})
          .Python({"backward|", "<module>|"})
          .Shown(),
      "dger py:backward torch::autograd::PyNode::apply py:<module> main");
}

TEST(CallStacks, OfCallsWithoutNativeStackAreThePythonFrames) {
  EXPECT_EQ(OneCall().Python({"forward", "<module>|"}).Shown(), "py:forward py:<module>");
  EXPECT_EQ(OneCall().Python({"forward"}, true).Shown(), "py:forward […]");
  EXPECT_EQ(OneCall().Shown(), "");
}

TEST(CallStacks, OfThreadsWithoutPythonAreTheNativeFrames) {
  EXPECT_EQ(OneCall().Native({"sgemm_", "at::f(int)", "start_thread@/lib/libc.so.6", "clone3@/lib/libc.so.6"}).Shown(),
            "sgemm_ at::f");
}

TEST(CallStacks, SayNothingFalseWhereTheNumbersDiffer) {
  for (const auto& frames : std::vector<std::vector<std::string>>{{"a|", "b|", "c|"}, {"a|"}, {"a", "b", "c|"}}) {
    EXPECT_EQ(OneCall().Native(kTwoLoops).Python(frames).Shown(), "sgemm_ at::native::conv2d [Python] main")
        << absl::StrJoin(frames, " ");
  }
  EXPECT_EQ(OneCall().Native(kTwoLoops).Shown(), "sgemm_ at::native::conv2d [Python] main");
}

TEST(CallStacks, GoOnInPythonBehindACut) {
  EXPECT_EQ(
      OneCall().Native({"sgemm_", InPython(kLoop), "deep"}, Cut::kTooDeep).Python({"a", "b|", "c", "d|", "e|"}).Shown(),
      "sgemm_ py:a py:b deep […] py:c py:d py:e");
  EXPECT_EQ(OneCall().Native({"sgemm_"}, Cut::kNoUnwindInfo).Python({"a|", "b|"}).Shown(), "sgemm_ […] py:a py:b");
  EXPECT_EQ(OneCall().Native({"sgemm_"}, Cut::kOutOfStack).Shown(), "sgemm_ […]");
  // There can't be more loops than groups.
  EXPECT_EQ(OneCall().Native({InPython(kLoop), "x", InPython(kLoop)}, Cut::kTooDeep).Python({"a|"}).Shown(),
            "[Python] x [Python] […]");
}

TEST(CallStacks, OfTheInterpreterAloneArePython) {
  OneCall call;
  call.Native({InPython("gc_collect"), InPython(kLoop), InPython("main")});
  const FrameIndex outside = call.model().calls.native_stack[0] - 1;  // has a loop, so the object is known
  EXPECT_EQ(call.Shown(), "[Python] main");
  call.model().native_frames.parent[outside + 1] = kNone;
  call.model().native_frames.cut[outside + 1] = Cut::kUnreadable;
  EXPECT_EQ(call.Shown(), "[Python] […]");
  EXPECT_EQ(call.Python({"a|"}).Shown(), "py:a […]");
}

TEST(CallStacks, WithMoreLoopsThanACutPythonStackHasFrames) {
  const std::vector<std::string> native = {"dger",          InPython(kLoop), "f", InPython(kLoop), "g",
                                           InPython(kLoop), InPython("main")};
  EXPECT_EQ(OneCall().Native(native).Python({"a|", "b"}, true).Shown(), "dger py:a f py:b […] g [Python] main");
  EXPECT_EQ(OneCall().Native(native, Cut::kTooDeep).Python({"a|", "b"}, true).Shown(),
            "dger py:a f py:b […] g [Python] main […]");
  EXPECT_EQ(OneCall().Native(native).Python({"a|", "b|"}, true).Shown(), "dger py:a f py:b g [Python] main");
}

TEST(CallStacks, KnowTheLoopInItsForms) {
  EXPECT_TRUE(IsEvaluationLoop("_PyEval_EvalFrameDefault"));
  EXPECT_TRUE(IsEvaluationLoop("_PyEval_EvalFrameDefault.cold"));
  EXPECT_TRUE(IsEvaluationLoop("_PyEval_EvalFrameDefault.lto_priv.0"));
  EXPECT_TRUE(IsEvaluationLoop("_TAIL_CALL_CALL_PY_EXACT_ARGS"));
  EXPECT_FALSE(IsEvaluationLoop("_PyEval_EvalFrame"));
  EXPECT_FALSE(IsEvaluationLoop("_PyEval_EvalFrameDefaultX"));
  EXPECT_EQ(OneCall()
                .Native({"f", absl::StrCat("call_function@", kPython, "|", InPython(kLoop)), InPython("main")})
                .Python({"a|"})
                .Shown(),
            "f py:a main");
}

// A C++ program with Python linked into it keeps its functions.
TEST(CallStacks, LeaveProgramsAroundPythonTheirFrames) {
  EXPECT_EQ(OneCall()
                .Native({"dger", InPython(kLoop), InPython("PyObject_Call"), InPython(""),
                         InPython("game::Script::Run(int)"), InPython("main")})
                .Python({"a|"})
                .Shown(),
            "dger py:a game::Script::Run main");
  EXPECT_EQ(OneCall()
                .Native({"dger", InPython(kLoop), InPython("PyObject_Call"), "run@/opt/program", "main@/opt/program"})
                .Python({"a|"})
                .Shown(),
            "dger py:a run main");
}

TEST(CallStacks, WithoutNamesGoByTheInterpretersFile) {
  EXPECT_EQ(OneCall()
                .Native({"", InPython(""), InPython(""), "f", InPython(""), "@/lib/libc.so.6"})
                .Python({"a|", "b|"})
                .Shown(),
            "libtorch_cpu.so+0x45 py:a py:b […]");
  EXPECT_EQ(OneCall().Native({"f", "pythonize@/lib/libpythonize.so"}).Python({"a|"}).Shown(), "f pythonize");
  EXPECT_EQ(OneCall().Native({"f"}, Cut::kUnreadable).Python({"a|"}).Shown(), "f […] py:a");
}

TEST(CallStacks, WithoutSymbolsShowAddresses) {
  OneCall call;
  call.Native({"f", "g"});
  call.model().native_symbols = {};
  EXPECT_EQ(call.Shown(), "0x1001 0x1000");
}

TEST(CallStacks, ShowInlinedFunctionsInTheirCallers) { EXPECT_EQ(OneCall().Native({"a|b|c", "d"}).Shown(), "a b c d"); }

TEST(CallStacks, RememberWhatTheyHaveWoven) {
  OneCall call;
  call.Native(kTwoLoops).Python({"key|", "<module>|"});
  TraceModel& model = call.model();
  model.calls.op.push_back(0);
  model.calls.native_stack.push_back(model.calls.native_stack[0]);
  model.call_stacks.emplace_back(1, 0);
  CallStacks stacks(model);
  EXPECT_EQ(stacks.Of(0).data(), stacks.Of(1).data());
  EXPECT_EQ(stacks.entries(), stacks.Of(0).size());
}

}  // namespace
}  // namespace dlhook::analyzer
