// Packets out, of one thread after another: what was open around what becomes scopes, calls and stacks.
#pragma once

#include "analyzer/import/kineto/kineto_events.h"
#include "analyzer/import/kineto/python_frames.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline kineto {

// Of the batches that are written.
inline constexpr size_t kBatch = 1024;

// "Memcpy HtoD (Pageable -> Device)", "Memcpy PtoP (Device -> Device)"
trace::Copy CopyOf(const std::string& name, uint64_t bytes);

class ThreadPackets {
 public:
  // `rank`: of this process; empty: not known.
  ThreadPackets(KeptEvents& kept, std::string rank, PacketWriter& writer)
      : kept_(kept), rank_(std::move(rank)), writer_(writer), frames_(&writer) {}

  // `events`: of the thread, by start, what surrounds before what it surrounds.
  void Write(const ThreadKey& key, const std::vector<HostEvent>& events);
  uint64_t call_count() const { return call_count_; }

 private:
  struct Open {
    const HostEvent* event;
    int64_t end_ns;
    uint64_t first_sequence = 0;  // of what begins in it
    uint64_t sequence = 0;        // of the call that it is, or of what it computes; 0: neither
    // Of what is around it, so that it need not be searched: index of the innermost with a sequence, -1: none; the innermost
    // operator, itself included; and the definition of the innermost that has one.
    ptrdiff_t caller = -1;
    const HostEvent* innermost_operator = nullptr;
    uint32_t innermost_definition = 0;
    int64_t call_start_ns = 0;
    uint32_t op = 0;                 // index in definitions_ of what it computes; 0: nothing
    int64_t weights_ns = INT64_MAX;  // of both gradients of a convolution: when those of the weights begin
    bool is_of_weights = false;
    bool is_call = false;
    bool asks_gpu = false;
    uint32_t stack = 0;
    trace::ScopeBatch::Kind kind = trace::ScopeBatch::FRAMEWORK_OP;
  };

  struct Link {
    int64_t ticks;
    int64_t correlation;
    int64_t sequence;
  };

  void Begin(const std::vector<HostEvent>& events, size_t i);
  void BeginCall(Open* open);
  trace::ScopeBatch::Kind KindOf(const HostEvent& event) const;
  uint32_t OpOf(const std::vector<HostEvent>& events, size_t i) const;
  bool FindWeights(const std::vector<HostEvent>& events, size_t i, int64_t* weights_ns) const;
  void BeginWeights(int64_t ns);
  void CloseUntil(int64_t ns);
  void AddCall(const Open& open);
  trace::OpDefinition OperatorDefinition(const Open& open) const;
  void SetRank(trace::Collective* collective) const;
  trace::OpDefinition CallDefinition(const Open& open) const;
  void FlushCalls();
  void AddScope(const Open& open);
  void FlushScopes();
  void FlushLinks();
  void WriteMemory(const ThreadKey& key);

  KeptEvents& kept_;
  const std::string rank_;
  PacketWriter& writer_;
  PythonFrames frames_;
  uint32_t thread_ = 0;
  uint64_t call_count_ = 0;

  // Of the thread that is being written.
  uint64_t sequence_ = 0;
  std::vector<Open> open_;
  size_t open_with_weights_ = 0;  // whose gradients of weights are to begin
  trace::CallBatch calls_;
  uint64_t call_ticks_ = 0, call_sequence_ = 0;
  trace::ScopeBatch scopes_;
  uint64_t scope_ticks_ = 0, scope_sequence_ = 0;
  int64_t scope_link_ = 0;
  std::vector<Link> links_;
};

}  // namespace dlhook::analyzer::kineto
