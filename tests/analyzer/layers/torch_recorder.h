// PyTorch's scopes for tests of layers, written in the order of execution: scopes are opened and closed, time advances
// by itself.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {

class TorchRecorder {
 public:
  explicit TorchRecorder(ThreadIndex thread = 0) : thread_(thread) {}

  ModelBuilder& builder() { return builder_; }
  void SwitchTo(ThreadIndex thread) { thread_ = thread; }

  void Begin(const std::string& name, ScopeKind kind, int64_t link = -1, StackIndex stack = kNone) {
    open_.push_back({name, kind, link, stack, now_ns_});
    now_ns_ += kTick;
  }
  void End() {
    const Open scope = open_.back();
    open_.pop_back();
    now_ns_ += kTick;
    builder_.Scope(scope.name, scope.kind, scope.start_ns, now_ns_ - scope.start_ns, thread_, scope.link, scope.stack);
    now_ns_ += kTick;
  }
  // An op that creates the next node (with its number), or none if `is_node` is false.
  void Op(const std::string& name, StackIndex stack, bool is_node = true) {
    Begin(name, ScopeKind::kFrameworkOp, next_node_, stack);
    if (is_node) ++next_node_;
    End();
  }
  // aten::linear as PyTorch runs it: contains aten::t and aten::addmm, two nodes, or none without gradients.
  void Linear(StackIndex stack, bool is_node = true) {
    Begin("aten::linear", ScopeKind::kFrameworkOp, next_node_, stack);
    Op("aten::t", kNone, is_node);
    Begin("aten::addmm", ScopeKind::kFrameworkOp, next_node_);
    if (is_node) ++next_node_;
    Call(gemm_);
    End();
    End();
  }
  void Call(OpIndex op, std::vector<uint64_t> operands = {}) {
    builder_.Call(op, now_ns_, 2 * kTick, thread_, 0, std::move(operands));
    now_ns_ += 3 * kTick;
  }
  // A node with the engine's scope around it; `inside` are its own ops.
  void Node(const std::string& name, int64_t number, const std::vector<std::string>& inside = {}) {
    BeginNode(name, number);
    for (const std::string& op : inside) {
      Begin(op, ScopeKind::kFrameworkOp);
      if (op == "aten::mm") Call(gemm_);
      End();
    }
    EndNode();
  }
  void BeginNode(const std::string& name, int64_t number) {
    Begin("autograd::engine::evaluate_function: " + name, ScopeKind::kFrameworkOp);
    Begin(name, ScopeKind::kBackwardNode, number);
  }
  void EndNode() {
    End();
    End();
  }
  void Wait(int64_t ns) { now_ns_ += ns; }
  void Accumulate() { Node("torch::autograd::AccumulateGrad", -1); }
  void set_gemm(OpIndex op) { gemm_ = op; }
  int64_t next_node() const { return next_node_; }
  int64_t MakeNode() { return next_node_++; }
  int64_t now_ns() const { return now_ns_; }

 private:
  static constexpr int64_t kTick = 10;
  struct Open {
    std::string name;
    ScopeKind kind;
    int64_t link;
    StackIndex stack;
    int64_t start_ns;
  };
  ModelBuilder builder_;
  std::vector<Open> open_;
  ThreadIndex thread_;
  int64_t now_ns_ = 0;
  int64_t next_node_ = 0;
  OpIndex gemm_ = 0;
};

}  // namespace dlhook::analyzer
