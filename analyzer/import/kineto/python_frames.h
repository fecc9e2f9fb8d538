// Python functions and modules of a trace: "torch/nn/modules/linear.py(130): forward", "nn.Module: Linear_36".
#pragma once

#include "analyzer/import/kineto/packet_writer.h"

namespace dlhook::analyzer::inline kineto {

// Whether the name is one of a Python function or module: built-in functions have no frames.
bool IsPythonFrame(absl::string_view name);

// What Inductor's code calls for each loop that it compiled for processors, and how it is named here.
inline constexpr char kLoopFunction[] = "<built-in function kernel>", kInductorLoop[] = "inductor::loop";

// The file of the program if the frame is of its outermost code, "train.py"; else empty.
std::string ScriptOf(absl::string_view name);

// The open frames of one thread at a time.
class PythonFrames {
 public:
  explicit PythonFrames(PacketWriter* writer) : writer_(writer) {}

  // Ends with the frame around it at the latest.
  void Open(const std::string& name, int64_t end_ns);
  void CloseUntil(int64_t ns) {
    while (!open_.empty() && open_.back().end_ns <= ns) open_.pop_back();
  }
  bool IsInInductorsCode() const { return !open_.empty() && open_.back().frame.is_inductors; }
  // Id of the stack of open frames; 0: none is open.
  uint32_t Stack();

 private:
  struct Frame {
    uint32_t file = 0, function = 0, line = 0, object = 0;
    bool is_inductors = false;
  };
  struct Module {
    uint32_t root = 0;
    std::string path;
  };
  struct OpenFrame {
    Frame frame;
    int64_t end_ns = 0;
    uint32_t object = 0;  // of the innermost module, this one included
    uint32_t stack = 0;   // up to this frame, once it was asked for
  };

  uint32_t ObjectOf(const std::string& name);

  PacketWriter* writer_;
  std::vector<OpenFrame> open_;
  absl::flat_hash_map<std::string, Frame> known_;
  std::vector<Module> modules_;  // by object - 1
};

}  // namespace dlhook::analyzer::kineto
