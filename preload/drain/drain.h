// Pops records from the rings of one session, interns, encodes packets and appends them to a sink. The same code for
// three hosts: a writer thread of the recorded process, the launcher (dlhook run), the reader (rings of a killed
// process). Needs nothing from the recorded process but the session mapping, and trusts nothing in it.
// Thread: one at a time per session.
#pragma once

#include "preload/drain/aggregates.h"
#include "preload/drain/batches.h"
#include "preload/drain/byte_sink.h"
#include "preload/drain/describe.h"
#include "preload/drain/interner.h"
#include "preload/format/open_scopes.h"
#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/format/session.h"
#include "preload/format/tap_line.h"

namespace dlhook::inline drain {

// The times of the last steps.
class StepTimes {
 public:
  static constexpr uint32_t kMost = 100;

  // Adds one; whether it is longer than 99 of the 100 before it, and than their mean by a quarter.
  bool Add(uint64_t ticks);

 private:
  uint64_t ticks_[kMost] = {};
  uint64_t count_ = 0;
};

// How the recorded process ended, as far as known.
using ProcessEnd = fields::Footer::End;

class Drain {
 public:
  // `session` is mapped readable and writable with `mapping_bytes` bytes. False (with a sentence in error()) if it is
  // not a session of this build.
  bool Open(SessionHeader* session, uint64_t mapping_bytes, ByteSink* sink);
  // Takes records if it is worthwhile (all with `everything`); returns the fill level of the fullest ring, in 1/256 of
  // its size. `take_clock_sample`: this machine's clocks are those of the recorded process.
  uint32_t Step(bool everything, bool take_clock_sample);
  // Writes everything it holds, so that another drain can continue.
  void Suspend();
  // Takes the totals that threads of a dead process kept and could not hand over.
  void TakeLeftTotals();
  // As Step(true, true), and what has not ended as if it did now.
  void TakeOpen();
  // Drains the rest and writes losses and the footer.
  void Finish(ProcessEnd end, bool take_clock_sample);
  const char* error() const { return error_; }
  // The mapping's file has grown: rings up to here may be read.
  void set_mapping_bytes(uint64_t bytes) { mapping_bytes_ = bytes; }
  // Readings taken by the drain itself (drain/counter_sampler.h). `names`: of the counters, separated by commas.
  void AddSamples(uint32_t thread_id, uint32_t tid, ReadingKind kind, CounterSource source, const char* names,
                  const CounterReading* readings, uint32_t count);
  // A thread without records of its own: the drain's, or (number 0) one that makes no calls.
  void AddThread(uint32_t thread_id, uint32_t tid, const char (&name)[16]);
  // Load of the process (the launcher's io/machine_files.h). Not beyond the trace's limit.
  void AddLoad(const LoadSample& sample) {
    if (!IsBeyondLimit()) fields::LoadSample::WritePacket(sample, &out_);
  }
  // A file whose code a stack from outside has frames in.
  void AddCode(uint64_t start, uint64_t end, const char* path, const void* build_id, uint32_t build_id_bytes);
  // Where a thread that has records was blocked. Beyond kMostWaits, or the trace's limit, they are left out.
  static constexpr uint32_t kMostWaits = 64;
  void AddWaits(uint32_t thread_id, const Wait* waits, uint32_t count, const OutsideStacks& stacks);
  // What the sampler can't count, and why.
  void AddCapability(const char* name, fields::Capability::State state, const char* reason);
  // Whether the trace contains this thread, and no later one in its slot.
  bool HasThread(uint32_t thread_id) const {
    for (uint32_t known : state_.thread_ids) {
      if (known == thread_id) return true;
    }
    return false;
  }
  // True if nothing is kept in detail any more: from now on little should be added.
  bool IsBeyondLimit() const { return state_.detail.end_ticks != 0 && TraceBytes() > detail_bytes_; }
  // True if there is room only for what is always kept.
  bool IsFull() const { return TraceBytes() > full_bytes_; }
  // In the whole trace, as far as written.
  uint64_t calls() const { return state_.calls; }

 private:
  struct Waiting {  // before each record that waits
    uint32_t slot, bytes;
  };
  static constexpr uint64_t kMostWaitingSeconds = 10;
  static constexpr size_t kMostWaitingBytes = 4 << 20;  // a step with more records is not kept for being slow

  // A contiguous range of a slot's positions, and its memory.
  struct Segment {
    const char* data;  // null: the session gives no valid location
    uint64_t bytes;    // power of two
    uint64_t end;      // the first position in another segment
  };
  Segment MemoryAt(uint64_t offset, uint64_t bytes) const;
  Segment SegmentAt(uint32_t index, uint64_t position) const;
  uint64_t RoomOf(const Slot& slot) const;
  void FreeChunks();
  void StartOver(ResetReason reset_reason);
  void ForgetDefinitions();
  void ForgetIfNearlyFull();
  uint32_t DrainSlot(uint32_t index, bool everything);
  const RecordHeader* RecordAt(uint32_t index, uint64_t position, uint64_t head, Segment* segment) const;
  const RecordHeader* NextRecord(uint32_t index, uint64_t head, Segment* segment);
  void TakeRecord(uint32_t slot, const RecordHeader* header, size_t bytes);
  void TakeNow(uint32_t slot, const RecordHeader* header);
  void Take(uint32_t slot, const CallRecord* record);
  void Take(uint32_t slot, const TapLineRecord* record);
  void Take(uint32_t slot, const ThreadRecord* record);
  void Take(uint32_t slot, const ScopeRecord* record);
  void Take(uint32_t slot, const CounterRecord* record);
  void Take(uint32_t slot, const SampleRecord* record);
  void Take(uint32_t slot, const MemoryRecord* record);
  void Take(uint32_t slot, const GpuActivityRecord* record);
  void Take(uint32_t slot, const GpuLinkRecord* record);
  void Take(uint32_t slot, const GpuGraphNodeRecord* record);
  void Take(uint32_t slot, const GpuDeviceRecord* record);
  void Take(uint32_t slot, const GpuWindowRecord* record);
  void Take(uint32_t slot, const CallTotalsRecord* record);
  void Take(uint32_t slot, const ProfileRecord* record);
  void Take(uint32_t, const MappingRecord* record) { WriteMappingPacket(*record, &out_); }
  void Take(uint32_t, const CapabilityRecord* record) { WriteCapabilityPacket(*record, &out_); }
  void Take(uint32_t, const PythonModuleRecord* record) { WritePythonModulePacket(*record, &out_); }
  void Take(uint32_t, const CompiledCodeRecord* record) { WriteCompiledCodePacket(*record, &out_); }
  void Take(uint32_t slot, const PythonStackRecord* record) { state_.python_stacks[slot] = record->python_stack; }
  uint32_t OpOf(const CallRecord* record);
  uint32_t HintedOpOf(const CallRecord* record);
  // Of a call that ended then: without its shape if these take too much.
  uint32_t OpAt(uint64_t end_ticks, const CallRecord& record);
  uint32_t TapOpAt(uint64_t end_ticks, const TapLineRecord& record, const TapLine& line);
  bool KeepsShape(uint64_t end_ticks);
  void CountDefinition(size_t bytes) { state_.detail.totals_bytes += state_.detail.end_ticks != 0 ? bytes : 0; }
  void DefineTapOp(uint32_t op, const TapLineRecord& record, bool has_shape);
  void TakeTotalsTable(const TotalsTable* table, uint64_t table_bytes, uint64_t head);
  void AddTotals(uint32_t op, const CallTotalsRecord& record);
  void AddScope(uint32_t thread_id, const void* name, uint32_t name_bytes, const ScopeRecord& scope);
  void TakeTapWindow(const ScopeRecord& window);
  void TakeOpenCall(uint32_t index, uint64_t first_sequence, uint64_t now);
  uint64_t TakeOpenScopes(uint32_t index, uint64_t now);  // returns the first number of a call in the innermost
  void TakeOpenScope(uint32_t index, const OpenScopeEntry& scope, const char* name, uint64_t now);
  uint32_t NameOf(const void* text, uint32_t bytes);
  uint32_t DefinedNameOf(uint32_t number);
  template <typename Frame>
  void DefinePythonStack(uint32_t iid, bool is_cut, uint32_t count, Frame frame);
  uint32_t PythonStackOf(uint32_t number);
  uint32_t NativeStackOf(uint32_t number);
  // Defines the nodes from this one outwards. `find(number, &node)`: false if there is no such node.
  template <typename Find>
  uint32_t DefineStack(uint32_t number, Find find);
  uint32_t OutsideStackOf(const OutsideStacks& stacks, uint32_t number);
  uint32_t OutsidePythonStackOf(const OutsideStacks& stacks, uint32_t number);
  void NameCounters(const char* names, size_t size, CounterBatchKey* key);
  void AddReading(const CounterBatchKey& key, const CounterReading& reading);
  uint32_t GpuKernelOf(const GpuActivityRecord& activity);
  bool LeavesOutGpu(uint64_t start_ns);
  void LoseForMemory();
  // `native_stack`: a StackNode, 0: none.
  void AddCall(uint32_t slot, BatchedCall* call, uint32_t address_count, uint32_t native_stack);
  uint64_t TraceBytes() const { return state_.file_bytes + out_.size(); }
  uint64_t HeldBytes() const;  // of it, with what is still in batches and totals: about
  uint64_t WindowsBytes() const { return detail_bytes_ - beginning_bytes_ - slow_bytes_; }  // of all later windows
  void PlanLimits(uint64_t now_ticks);
  bool KeepsDetail(uint64_t end_ticks);  // of what ended then
  void EndStep(uint32_t thread_id, const ScopeRecord& update);
  bool Waits(uint32_t slot, const RecordHeader& header) const;
  void AddWaiting(uint32_t slot, const RecordHeader* header, size_t bytes);
  void TakeWaiting(uint64_t end_ticks);  // all that ended until then
  void KeepSlowStep(uint32_t thread_id, uint64_t end_ticks);
  bool MayKeepSlowStep(uint64_t ticks) const;
  bool EndsTurn(uint32_t update);
  void BeginDetail(uint32_t thread_id);
  uint64_t WholeUntil(uint64_t ticks);
  void EndDetail(uint64_t end_ticks, bool at_once);
  void PlanWindow();
  bool HasWindows() const;
  uint64_t Progress() const;  // of the run, in steps; without any, in milliseconds
  uint64_t ProgressUntilNext(uint64_t bytes, uint64_t left) const;
  void FollowTime();
  void NoteOperation(uint32_t thread_id);
  bool KeepsProfile(const ProfileRecord& record);
  template <size_t kBytes>
  void MarkWindow(const char (&name)[kBytes], uint32_t thread_id, uint64_t start_ticks, uint64_t end_ticks);
  static uint64_t EndOf(const RecordHeader& header);
  static bool EndsStep(const ScopeRecord& scope);
  void FlushBatch();
  void FlushAggregates(uint64_t now_ticks, bool force);
  void WriteCaptureState();
  void WriteDropped(uint32_t slot, uint64_t dropped);
  void WriteLosses(bool is_end);
  void WriteAllLeftOut();
  void Publish(bool last);
  void SaveCheckpoint();

  SessionHeader* session_ = nullptr;
  uint64_t mapping_bytes_ = 0;
  ByteSink* sink_ = nullptr;
  const char* error_ = "";
  Interner interner_;
  Buffer out_;  // packets not yet written
  // Definitions that must precede the open batches. Others need new strings while they are written.
  Buffer pending_strings_;
  Buffer pending_;
  Buffer scratch_;
  CallBatch batch_;
  Columns<fields::ScopeBatch::Rows> scopes_;
  Columns<fields::SampleBatch::Rows> samples_;
  CounterBatch counters_[8];
  Columns<fields::GpuActivityBatch::Rows> gpu_activities_;
  Columns<fields::GpuLinkBatch::Rows> gpu_links_[8];
  Columns<fields::GpuGraphNodeBatch::Rows> gpu_nodes_;
  Columns<fields::MemoryBatch::Rows> memory_;
  Columns<fields::WaitBatch::Rows, kMostWaits> waits_;
  bool leaves_out_gpu_ = false;    // since the end of what is kept in detail
  uint32_t tids_[kMaxSlots] = {};  // of the slots' current threads; 0: began before this drain
  AggregateTable aggregates_;
  Checkpoint state_ = {};  // its value after out_ is written
  // Sizes of the trace, by its limit: of the beginning that is kept in detail, of all details, if no step ends, and of all that
  // may be left out; and of totals by shapes.
  uint64_t beginning_bytes_ = UINT64_MAX, detail_bytes_ = UINT64_MAX, most_bytes_ = UINT64_MAX;
  uint64_t full_bytes_ = UINT64_MAX, totals_bytes_ = UINT64_MAX;
  uint64_t slow_bytes_ = UINT64_MAX;  // of slow steps
  // Between windows: records since the last step ended, until it is known whether theirs is slow. Each behind its slot and size.
  Buffer waiting_;
  uint32_t waiting_of_[kMaxSlots] = {};  // how many of each slot
  bool is_watching_ = false;             // false also if a step has too many
  // False since a window has ended until all rings have been drained once more: what is in them may belong to it.
  bool is_settled_ = true;
  StepTimes step_times_;
  uint64_t longest_slow_ticks_ = 0;
  uint32_t profile_ = UINT32_MAX;  // the one of which pieces come
  bool keeps_profile_ = false;
  uint64_t unwritten_calls_ = 0;  // in out_ and the open batch
  uint64_t last_sample_ticks_ = 0;
  uint64_t sample_ticks_ = 0;  // between two of them
  uint64_t last_sweep_ticks_ = 0;
  uint64_t next_aggregate_flush_ticks_ = 0;
  uint64_t aggregate_window_ticks_ = 0;
  bool tails_moved_ = false;  // since the last checkpoint
};

}  // namespace dlhook::inline drain
