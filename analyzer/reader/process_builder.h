// The part of TraceBuilder that lives while one process trace is read: its ids, threads and clock.
#pragma once

#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/gpu_builder.h"
#include "analyzer/reader/process_facts.h"
#include "analyzer/reader/scope_builder.h"
#include "analyzer/reader/thread_events.h"
#include "analyzer/reader/trace_builder.h"
#include "analyzer/reader/xla_builder.h"

namespace dlhook::analyzer::inline reader {

class ProcessBuilder {
 public:
  ProcessBuilder(TraceBuilder* run, std::string path, ReadParts parts)
      : run_(run),
        parts_(std::move(parts)),
        python_(&run->model_, &run->names_, &run->oddities_),
        native_stacks_(&run->model_, &run->oddities_),
        operands_(&run->oddities_),
        gpu_(&run->model_, &run->gpu_kernels_, &run->gpu_time_, &run->oddities_) {
    facts_.process.file = run->NameOf(path);
    facts_.process.path = std::move(path);
  }

  // Adds the packet at which `reader` is.
  void Add(PacketReader* reader);

  // Call after the last packet: maps the clock, nests the calls, appends everything to the run's model.
  void Finish();

 private:
  struct Thread {
    ThreadData data;
    StagingArray<StagedCall> calls;
    SequenceSet sequences;
    CallAttributes attributes;
    ThreadOperands operands;
    ThreadScopes scopes;
    int64_t xla_id = 0;  // by which XLA knows it; 0: not known
    uint64_t last_end_ticks = 0;
    bool in_order = true;           // calls are in the order of their ends
    bool has_other_scopes = false;  // than those for what XLA compiles
  };

  void AddPacket(const trace::Packet& packet);
  // True: the batch lies outside of the parts that are read.
  bool IsLeftOut(const std::optional<BatchOutline>& outline);
  bool IsInParts(uint64_t duration, uint64_t end_ticks, uint32_t op) const;
  uint64_t TicksPerNs() const;
  void AddCalls(const trace::CallBatch& batch);
  void AddScopes(const trace::ScopeBatch& batch);
  size_t UsableCalls(const trace::CallBatch& batch);
  void AddDefinitions(const trace::Interned& interned);
  void AddOps(const trace::Interned& interned);
  void AddThread(const trace::ThreadInfo& info);

  // OpIndex of an interned op, plus kTapCall for a tap's.
  uint32_t FindOp(uint32_t iid);
  Thread& FindThread(uint32_t thread_id);
  void FinishXla(const ClockMap& clock);
  void FinishThread(Thread* thread, const ClockMap& clock);
  void AppendCalls(Thread* thread, ThreadIndex index);
  void FinishLoads(const ClockMap& clock);
  void FinishParts(const ClockMap& clock);
  void FinishSamples(const ClockMap& clock, const ThreadIndices& threads);
  void FinishAggregates(const ClockMap& clock, const ThreadIndices& threads);
  void FinishBounds(const ClockMap& clock);
  std::vector<int64_t> FinishStops(const ClockMap& clock);
  void Observe(int64_t start_ns, int64_t end_ns);
  void FinishGpu(const ClockMap& clock, const ThreadIndices& threads);
  void CheckCallCount();

  TraceBuilder* run_;
  const ReadParts parts_;
  ProcessFacts facts_;
  ProcessIndex index_ = 0;
  trace::Footer footer_;
  std::vector<trace::ClockSample> clock_samples_;
  std::vector<trace::LoadSample> load_samples_;
  std::vector<uint32_t> op_by_iid_;  // kNone: not defined since the last Reset
  PythonBuilder python_;
  NativeStackBuilder native_stacks_;
  OperandBuilder operands_;
  CounterBuilder counters_;
  SampleBuilder samples_;
  WaitBuilder waits_;
  MemoryBuilder memory_;
  GpuBuilder gpu_;
  XlaBuilder xla_;
  std::map<uint32_t, Thread> threads_;
  uint32_t current_thread_id_ = 0;
  Thread* current_thread_ = nullptr;
  std::vector<trace::CallAggregate> aggregates_;  // op_iid replaced by the result of FindOp
  std::vector<trace::CaptureState> captures_;     // in the order of time
  uint64_t recorded_calls_ = 0;
  int64_t first_ns_ = INT64_MAX;
  int64_t last_ns_ = INT64_MIN;
  trace::CallBatch batch_;  // these are reused, so that reading a batch does not allocate
  trace::ScopeBatch scope_batch_;
  std::vector<uint64_t> sequences_;  // of the batch's calls
};

}  // namespace dlhook::analyzer::reader
