// Attributes that only some calls of a thread have: a status other than success, their own Python stack, a native
// stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/by_sequence.h"
#include "analyzer/reader/native_stack_builder.h"
#include "analyzer/reader/python_builder.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

class CallAttributes {
 public:
  // For the first `count` calls of a batch. Stacks are looked up immediately, because the next Reset invalidates their
  // ids.
  void Add(const trace::CallBatch& batch, size_t count, PythonBuilder* python, NativeStackBuilder* native,
           Oddities* oddities);

  // Appends those of the calls from `first_call` on, which belong to this thread and have their scopes.
  void Append(size_t first_call, TraceModel* model);

 private:
  void AddStatuses(const trace::CallBatch& batch, size_t count, Oddities* oddities);
  void AddPythonStacks(const trace::CallBatch& batch, size_t count, PythonBuilder* python);
  void AddNativeStacks(const trace::CallBatch& batch, size_t count, NativeStackBuilder* native);
  void AppendNativeStacks(size_t first_call, CallColumns* calls);

  BySequence<int32_t> statuses_;
  BySequence<StackIndex> python_stacks_;
  BySequence<FrameIndex> native_stacks_;
};

}  // namespace dlhook::analyzer::reader
