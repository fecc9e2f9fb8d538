// Kept separate from the columns of calls, by sequence number, until the calls have their positions.
#include "analyzer/reader/call_attributes.h"

#include <algorithm>

namespace dlhook::analyzer::inline reader {
namespace {

// A framework operator runs no Python: for a call directly inside one the writer repeats the stack of an earlier call.
// Autograd functions written in Python are not operators: their names have no namespace.
bool IsInOperator(const TraceModel& model, CallIndex call) {
  // The column ends with the last thread so far that has scopes.
  const ScopeIndex scope = call < model.calls.scope.size() ? model.calls.scope[call] : kNone;
  return scope != kNone && model.scopes.look[scope].kind == ScopeKind::kFrameworkOp &&
         model.names[model.scopes.look[scope].name].find(':') != std::string::npos;
}

}  // namespace

void CallAttributes::Add(const trace::CallBatch& batch, size_t count, PythonBuilder* python, NativeStackBuilder* native,
                         Oddities* oddities) {
  if (batch.status_index_size() != 0 || batch.status_size() != 0) AddStatuses(batch, count, oddities);
  if (batch.python_stack_iid_size() != 0) AddPythonStacks(batch, count, python);
  if (batch.stack_iid_size() != 0) AddNativeStacks(batch, count, native);
}

// The indices of failed calls ascend, so one pass finds their sequence numbers.
void CallAttributes::AddStatuses(const trace::CallBatch& batch, size_t count, Oddities* oddities) {
  const int failed = std::min(batch.status_index_size(), batch.status_size());
  if (batch.status_index_size() != batch.status_size()) {
    oddities->Count("a status without a call, or a call without its status");
  }
  uint64_t sequence = batch.base_sequence();
  size_t next = 0;  // of the call whose sequence number is computed next
  for (int i = 0; i < failed; ++i) {
    const size_t index = batch.status_index(i);
    if (index >= count || index + 1 < next) {
      oddities->Count("a status without a call, or a call without its status");
      continue;
    }
    for (; next <= index; ++next) {
      sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(static_cast<int>(next))});
    }
    if (batch.status(i) != 0) statuses_.Add(sequence, batch.status(i));
  }
}

void CallAttributes::AddPythonStacks(const trace::CallBatch& batch, size_t count, PythonBuilder* python) {
  const size_t stacks = std::min(count, static_cast<size_t>(batch.python_stack_iid_size()));
  uint64_t sequence = batch.base_sequence();
  for (int i = 0; i < static_cast<int>(stacks); ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(i)});
    const StackIndex stack = python->FindStack(batch.python_stack_iid(i));
    if (stack != kNone) python_stacks_.Add(sequence, stack);
  }
}

void CallAttributes::AddNativeStacks(const trace::CallBatch& batch, size_t count, NativeStackBuilder* native) {
  const size_t stacks = std::min(count, static_cast<size_t>(batch.stack_iid_size()));
  uint64_t sequence = batch.base_sequence();
  for (int i = 0; i < static_cast<int>(stacks); ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(i)});
    const FrameIndex stack = native->Find(batch.stack_iid(i));
    if (stack != kNone) native_stacks_.Add(sequence, stack);
  }
}

// The column ends with the last thread so far that has stacks.
void CallAttributes::AppendNativeStacks(size_t first_call, CallColumns* calls) {
  native_stacks_.Sort();
  calls->native_stack.resize(calls->size(), kNone);
  for (size_t i = first_call; i < calls->size(); ++i) {
    const FrameIndex* stack = native_stacks_.Find(calls->sequence[i]);
    if (stack != nullptr) calls->native_stack[i] = *stack;
  }
}

void CallAttributes::Append(size_t first_call, TraceModel* model) {
  if (!native_stacks_.empty()) AppendNativeStacks(first_call, &model->calls);
  if (statuses_.empty() && python_stacks_.empty()) return;
  statuses_.Sort();
  python_stacks_.Sort();
  for (size_t i = first_call; i < model->calls.size(); ++i) {
    const auto call = static_cast<CallIndex>(i);
    const int32_t* status = statuses_.Find(model->calls.sequence[i]);
    if (status != nullptr) model->failed_calls.push_back({call, *status});
    const StackIndex* stack = python_stacks_.Find(model->calls.sequence[i]);
    if (stack != nullptr && !IsInOperator(*model, call)) model->call_stacks.emplace_back(call, *stack);
  }
}

}  // namespace dlhook::analyzer::reader
