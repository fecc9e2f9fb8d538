// Look-ups in the model.
#include "analyzer/model/trace_model.h"

#include "analyzer/model/op_kind.h"
#include "analyzer/model/release.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline model {
namespace {

struct LossNouns {
  LossReason reason;
  const char* one;
  const char* many;
};
constexpr LossNouns kOtherThanCalls[] = {
    {LossReason::kScopesTooDeep, "scope", "scopes"},
    {LossReason::kTraceLimit, "scope", "scopes"},
    {LossReason::kReadingsDropped, "reading of counters", "readings of counters"},
    {LossReason::kGpuBuffersFull, "activity of a GPU", "activities of GPUs"},
    {LossReason::kGpuRecordsDropped, "record of GPU work", "records of GPU work"},
    {LossReason::kSamplesDropped, "sample", "samples"},
    {LossReason::kProfilesDropped, "profile or program of XLA", "profiles and programs of XLA"},
    {LossReason::kShapesDropped, "shape of a call", "shapes of calls"}};

LossNouns NounsOf(LossReason reason) {
  const auto other = absl::c_find_if(kOtherThanCalls, [&](const LossNouns& nouns) { return nouns.reason == reason; });
  return other == std::end(kOtherThanCalls) ? LossNouns{reason, "call", "calls"} : *other;
}

}  // namespace

bool CountsCalls(LossReason reason) {
  return absl::c_none_of(kOtherThanCalls, [&](const LossNouns& nouns) { return nouns.reason == reason; });
}

const char* LossNoun(LossReason reason, bool is_one) { return is_one ? NounsOf(reason).one : NounsOf(reason).many; }

std::string RankOf(const ProcessInfo& process) {
  return RankVariable(process, {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
}

std::string RankCountOf(const ProcessInfo& process) {
  return RankVariable(process, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
}

std::string RankVariable(const ProcessInfo& process, std::initializer_list<absl::string_view> names) {
  for (const absl::string_view name : names) {
    for (const auto& [variable, value] : process.rank_variables) {
      if (variable == name) return value;
    }
  }
  return "";
}

bool OneDnnIsXlas(const ProcessInfo& process) {
  bool found = false;
  for (const Capability& capability : process.capabilities) {
    if (capability.name != kOneDnnTap.capability || capability.state != CapabilityState::kOn) continue;
    if (!absl::StrContains(capability.object, "libjax_common")) return false;
    found = true;
  }
  return found;
}

std::pair<CallIndex, CallIndex> CallColumns::RangeOf(ThreadIndex of_thread) const {
  if (of_thread == kNone) return {0, static_cast<CallIndex>(size())};
  const auto [begin, end] = absl::c_equal_range(thread, of_thread);
  return {static_cast<CallIndex>(begin - thread.begin()), static_cast<CallIndex>(end - thread.begin())};
}

void ScopeColumns::Resize(size_t count, ThreadIndex of_thread) {
  const auto resize = [&](auto& column) {
    if (count > column.size()) GrowFor(&column, count - column.size());
    column.Resize(count);
  };
  resize(start_ns);
  resize(duration_ns);
  resize(look);
  resize(link);
  resize(parent);
  thread.Resize(count, of_thread);
}

int32_t TraceModel::StatusOf(CallIndex call) const {
  const auto place = std::ranges::lower_bound(failed_calls, call, {}, &FailedCall::call);
  return place != failed_calls.end() && place->call == call ? place->status : 0;
}

bool TraceModel::UsesGpu() const {
  if (!gpu_devices.empty()) return true;
  const auto asks = [](const Op& op) { return op.on_gpu && !IsKind(op, OpKind::kCall); };
  if (absl::c_none_of(ops, asks)) return false;
  for (CallIndex call = 0; call < calls.size(); ++call) {
    if (asks(ops[calls.op[call]]) && StatusOf(call) == 0) return true;
  }
  return absl::c_any_of(aggregates, [&](const AggregateRow& row) { return asks(ops[row.op]); });
}

bool TraceModel::HasReachedLimit() const {
  const auto has_limit = [](const ProcessInfo& process) {
    return absl::c_any_of(process.losses, [](const Loss& loss) { return loss.reason == LossReason::kTraceLimit; });
  };
  return absl::c_any_of(processes, has_limit) ||
         absl::c_any_of(aggregates, [](const AggregateRow& row) { return row.cause == AggregateCause::kTraceLimit; });
}

absl::Span<const uint64_t> TraceModel::OperandsOf(CallIndex call) const {
  const auto place = absl::c_lower_bound(operands.call, call);
  if (place == operands.call.end() || *place != call) return {};
  const size_t index = static_cast<size_t>(place - operands.call.begin());
  const uint64_t begin = operands.begin[index];
  const uint64_t end = index + 1 < operands.begin.size() ? operands.begin[index + 1] : operands.value.size();
  return absl::MakeConstSpan(operands.value).subspan(begin, end - begin);
}

StackIndex TraceModel::PythonStackOf(CallIndex call) const {
  const auto own = std::ranges::lower_bound(call_stacks, call, {}, &std::pair<CallIndex, StackIndex>::first);
  if (own != call_stacks.end() && own->first == call) return own->second;
  for (ScopeIndex scope = calls.ScopeOf(call); scope != kNone; scope = scopes.parent[scope]) {
    if (scopes.look[scope].stack != kNone) return scopes.look[scope].stack;
  }
  return kNone;
}

bool SeesLibraries(const ProcessInfo& process) {
  return absl::c_none_of(process.capabilities, [](const Capability& capability) {
    return capability.name == "library-calls" && capability.state == CapabilityState::kAbsent;
  });
}

// What records it states it: "Python 3.11.7", "PyTorch 2.13.0; light: …".
std::string ReleaseOf(const ProcessInfo& process, absl::string_view software) {
  for (const Capability& capability : process.capabilities) {
    absl::string_view text = capability.reason;
    const bool is_its = capability.state == CapabilityState::kOn && absl::ConsumePrefix(&text, software) &&
                        absl::ConsumePrefix(&text, " ");
    if (is_its) return std::string(text.substr(0, text.find(';')));
  }
  return "";
}

}  // namespace dlhook::analyzer::model
