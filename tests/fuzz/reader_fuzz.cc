// A trace of unknown origin: bytes -> packets -> model.
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

// Two process traces, as in a run of several processes: the input up to a byte that it selects itself, and all of it.
TraceModel ModelOf(absl::string_view bytes) {
  TraceBuilder builder("fuzz");
  const absl::Status whole = builder.AddTrace("whole.dlh", {bytes});
  Require(whole.ok() || absl::StrContains(whole.message(), "whole.dlh"), "a message names the file");
  const size_t cut = bytes.empty() ? 0 : static_cast<uint8_t>(bytes.back()) * bytes.size() / 256;
  builder.AddTrace("parts.dlh", {bytes.substr(0, cut), bytes}).IgnoreError();
  return std::move(builder).Build();
}

void CheckStacks(const TraceModel& model) {
  const NativeFrameColumns& frames = model.native_frames;
  Require(model.calls.native_stack.empty() || model.calls.native_stack.size() == model.calls.size(),
          "the stacks of calls are none or of one length with them");
  Require(frames.parent.size() == frames.size() && frames.process.size() == frames.size() &&
              frames.cut.size() == frames.size(),
          "columns of frames are of one length");
  for (const FrameIndex frame : model.calls.native_stack) {
    Require(frame == kNone || frame < frames.size(), "a call's stack is one of the model's");
  }
  for (FrameIndex i = 0; i < frames.size(); ++i) {
    Require(frames.parent[i] == kNone || frames.parent[i] < i, "a frame comes after the one around it");
    Require(frames.process[i] < model.processes.size(), "a frame's process is one of the model's");
  }
}

void CheckColumns(const TraceModel& model) {
  const size_t calls = model.calls.size();
  Require(model.calls.parent.size() == calls && model.calls.op.size() == calls, "columns of calls are of one length");
  for (size_t i = 0; i < calls; ++i) {
    Require(model.calls.op[i] < model.ops.size(), "a call's op is one of the model's");
    Require(model.calls.thread[i] < model.threads.size(), "a call's thread is one of the model's");
    Require(model.calls.duration_ns[i] >= 0, "no call takes less than nothing");
    const CallIndex parent = model.calls.parent[i];
    Require(parent == kNone || parent < i, "a call comes after the one around it");
  }
  for (size_t i = 0; i < model.scopes.size(); ++i) {
    const ScopeIndex parent = model.scopes.parent[i];
    Require(parent == kNone || parent < i, "a scope comes after the one around it");
    Require(model.scopes.look[i].name < model.names.size(), "a scope's name is one of the model's");
  }
}

}  // namespace
}  // namespace dlhook::analyzer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dlhook::analyzer::TraceModel;
  const TraceModel model = dlhook::analyzer::ModelOf({reinterpret_cast<const char*>(data), size});
  dlhook::analyzer::CheckColumns(model);
  dlhook::analyzer::CheckStacks(model);
  return 0;
}
