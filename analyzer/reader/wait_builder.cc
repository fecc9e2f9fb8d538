#include "analyzer/reader/wait_builder.h"

#include <algorithm>

namespace dlhook::analyzer::inline reader {

void WaitBuilder::Add(const trace::WaitBatch& batch, const OperandBuilder& addresses, NativeStackBuilder* native_stacks,
                      PythonBuilder* python, Oddities* oddities) {
  const int count = batch.start_delta_size();
  for (const int size : {batch.ticks_size(), batch.blocked_in_size(), batch.address_iid_size(), batch.stack_iid_size(),
                         batch.cut_size(), batch.python_stack_iid_size()}) {
    if (size == count) continue;
    return oddities->Count("a batch of waits whose arrays do not fit together (it was left out)");
  }
  uint64_t ticks = 0;
  for (int i = 0; i < count; ++i) {
    ticks += static_cast<uint64_t>(batch.start_delta(i));
    Wait wait = {ticks,
                 batch.ticks(i),
                 batch.thread_id(),
                 batch.blocked_in(i) < kBlockedIns ? static_cast<BlockedIn>(batch.blocked_in(i)) : BlockedIn::kOther,
                 kNone,
                 python->FindStack(batch.python_stack_iid(i))};
    const uint64_t address = addresses.AddressOf(batch.address_iid(i));
    const auto cut = FromProto<StackCut>(static_cast<int>(std::min(batch.cut(i), 255u)));
    if (address != 0) wait.frame = native_stacks->Interrupted(address, batch.stack_iid(i), cut);
    waits_.push_back(wait);
  }
}

void WaitBuilder::Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, TimeBudget* budget,
                         TraceModel* model, Oddities* oddities) {
  for (const Wait& wait : waits_) {
    const auto thread = threads.find(wait.thread_id);
    const int64_t duration_ns = clock.DurationNs(wait.ticks);
    if (thread == threads.end() || !budget->Take(duration_ns)) {
      oddities->Count("a wait that can't be true, or of a thread that the trace does not name");
      continue;
    }
    model->waits.push_back(
        {clock.ToNs(wait.start_ticks), duration_ns, thread->second, wait.frame, wait.python_stack, wait.blocked_in});
  }
  waits_.clear();
}

}  // namespace dlhook::analyzer::reader
