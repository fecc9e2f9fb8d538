// Addresses are interned separately from ops, and a batch has those of all its calls one after another: each op's rule
// gives the number of addresses per call.
#include "analyzer/reader/call_attributes.h"

#include "analyzer/model/limits.h"
#include "preload/format/record.h"

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

// Keeps operands of GPU library products, convolutions and conversions, which tables join by what they read and write;
// times between events; copies whose contents were sampled; and operands of CPU products, from which layers are
// inferred.
OperandBuilder::Keep OperandBuilder::KeepOf(const trace::OpDefinition& definition) {
  const bool is_product = definition.has_gemm();
  const bool on_gpu = definition.has_cudnn() || (is_product && definition.gemm().has_cuda()) ||
                      (definition.has_matrix() && absl::StartsWith(definition.family(), "cu"));
  const bool is_sampled = definition.has_copy() && definition.address_count() == 4 &&
                          definition.copy().direction() == trace::Copy::HOST_TO_DEVICE &&
                          definition.copy().bytes() >= kLeastSampledBytes;
  if (on_gpu || is_sampled || absl::StrContains(definition.function(), "EventElapsedTime")) return Keep::kAll;
  return is_product ? Keep::kFirst : Keep::kNo;
}

void OperandBuilder::Define(const trace::OpDefinition& definition) {
  const uint32_t iid = definition.iid();
  if (iid >= rules_.size()) rules_.resize(iid + 1);
  rules_[iid] = {definition.address_count(), KeepOf(definition)};
  keeps_any_ = keeps_any_ || rules_[iid].keep != Keep::kNo;
}

// Ids are consecutive; a gap (a lost definition) remains unknown.
void OperandBuilder::AddAddresses(const trace::Interned& interned) {
  const uint32_t first = interned.first_address_iid();
  if (interned.address_size() == 0) return;
  if (first == 0 || first > kMaxIid) {
    oddities_->Count("an address definition with an impossible id");
    return;
  }
  const size_t end = size_t{first} + static_cast<size_t>(interned.address_size());
  if (end > addresses_.size()) addresses_.resize(end);
  absl::c_copy(interned.address(), addresses_.begin() + first);
}

void OperandBuilder::Reset() {
  rules_.clear();
  addresses_.clear();
  keeps_any_ = false;
}

bool OperandBuilder::TakesIn(Keep keep, ThreadOperands* operands) const {
  if (keep != Keep::kFirst) return keep == Keep::kAll;
  return operands->host_calls < ThreadOperands::kMaxHostCalls && ++operands->host_calls != 0;
}

void OperandBuilder::AddKept(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences,
                             ThreadOperands* operands) const {
  int next = 0;  // in address_iid
  for (size_t i = 0; i < sequences.size(); ++i) {
    const uint32_t iid = batch.op_iid(static_cast<int>(i));
    if (iid >= rules_.size()) return;  // the number of addresses of its call is unknown
    const Rule rule = rules_[iid];
    if (rule.count > static_cast<uint32_t>(batch.address_iid_size() - next)) return;
    const int end = next + static_cast<int>(rule.count);
    if (rule.count != 0 && TakesIn(rule.keep, operands)) {
      operands->places.Add(sequences[i], operands->values.size());
      operands->values.push_back(rule.count);
      for (int j = next; j < end; ++j) operands->values.push_back(AddressOf(batch.address_iid(j)));
    }
    next = end;
  }
}

void OperandBuilder::Append(ThreadOperands* operands, size_t first_call, TraceModel* model) {
  if (operands->places.empty()) return;
  operands->places.Sort();
  const CallColumns& calls = model->calls;
  CallOperands& kept = model->operands;
  for (size_t i = first_call; i < calls.size(); ++i) {
    const uint64_t* place = operands->places.Find(calls.sequence[i]);
    if (place == nullptr) continue;
    const auto values = operands->values.begin() + static_cast<ptrdiff_t>(*place);
    kept.call.push_back(static_cast<CallIndex>(i));
    kept.begin.push_back(kept.value.size());
    kept.value.insert(kept.value.end(), values + 1, values + 1 + static_cast<ptrdiff_t>(*values));
  }
}

// Kept separate from the columns of calls, by sequence number, until the calls have their positions.
void CallAttributes::Add(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences, PythonBuilder* python,
                         NativeStackBuilder* native, Oddities* oddities) {
  const auto add_stacks = [&](const auto& iids, auto* builder, BySequence<uint32_t>* stacks) {
    for (size_t i = 0; i < std::min(sequences.size(), static_cast<size_t>(iids.size())); ++i) {
      const uint32_t stack = builder->FindStack(iids.Get(static_cast<int>(i)));
      if (stack != kNone) stacks->Add(sequences[i], stack);
    }
  };
  if (batch.status_index_size() != 0 || batch.status_size() != 0) AddStatuses(batch, sequences, oddities);
  add_stacks(batch.python_stack_iid(), python, &python_stacks_);
  add_stacks(batch.stack_iid(), native, &native_stacks_);
}

void CallAttributes::AddStatuses(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences,
                                 Oddities* oddities) {
  const int failed = std::min(batch.status_index_size(), batch.status_size());
  int64_t impossible = batch.status_index_size() != batch.status_size() ? 1 : 0;
  for (int i = 0; i < failed; ++i) {
    const bool is_possible = batch.status_index(i) < sequences.size();
    if (!is_possible) ++impossible;
    if (is_possible && batch.status(i) != 0) statuses_.Add(sequences[batch.status_index(i)], batch.status(i));
  }
  oddities->Count("a status without a call, or a call without its status", impossible);
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

// Only a stack defined earlier can be a parent, so there are no cycles.
void NativeStackBuilder::AddDefinitions(const trace::Interned& interned, const OperandBuilder& addresses) {
  for (const trace::InternedStack& stack : interned.stack()) {
    const uint64_t address = addresses.AddressOf(stack.address_iid());
    if (stack.iid() == 0 || stack.iid() > kMaxIid || address == 0) {
      oddities_->Count("a definition of a native stack with an impossible id, or without an address");
      continue;
    }
    Add(stack, address);
  }
}

void NativeStackBuilder::Add(const trace::InternedStack& stack, uint64_t address) {
  const FrameIndex parent = FindStack(stack.parent_iid());
  const bool is_torn = parent == kNone && stack.parent_iid() != 0;
  const StackCut cut = parent != kNone ? StackCut::kWhole
                       : is_torn       ? StackCut::kUnreadable
                                       : FromProto(stack.cut(), StackCut::kUnreadable);
  // A return address may be the first address of the next function.
  const uint64_t at = stack.is_signal_frame() ? address : address - 1;
  if (stack.iid() >= frame_by_iid_.size()) frame_by_iid_.resize(stack.iid() + 1, kNone);
  frame_by_iid_[stack.iid()] = Intern(at, parent, cut);
}

FrameIndex NativeStackBuilder::Intern(uint64_t address, FrameIndex parent, StackCut cut) {
  NativeFrameColumns& frames = model_->native_frames;
  const auto [place, is_new] =
      frames_.emplace(std::tuple(address, parent, static_cast<int>(cut)), static_cast<FrameIndex>(frames.size()));
  if (is_new) {
    frames.address.push_back(address);
    frames.parent.push_back(parent);
    frames.process.push_back(process_);
    frames.cut.push_back(cut);
  }
  return place->second;
}

FrameIndex NativeStackBuilder::Unknown() {
  oddities_->Count("a native stack that the trace does not define (its definition was lost)");
  return kNone;
}

}  // namespace dlhook::analyzer::reader
