// Which op reads what a call wrote: see consumers.h.
#include "analyzer/calls/consumers.h"

#include <algorithm>

#include "analyzer/calls/call_context.h"

namespace dlhook::analyzer::inline calls {
namespace {

// library calls to look at after the producer
constexpr int kMaxDistance = 8;

struct Pending {
  CallIndex producer = 0;
  uint64_t address = 0;
  int distance = 0;
};

bool Reads(absl::Span<const uint64_t> operands, uint64_t address) {
  return std::find(operands.begin(), operands.end() - 1, address) != operands.end() - 1;
}

}  // namespace

absl::flat_hash_map<CallIndex, CallIndex> FindConsumers(const TraceModel& model, const std::vector<bool>& is_producer) {
  absl::flat_hash_map<CallIndex, CallIndex> consumers;
  std::vector<Pending> pending;
  ThreadIndex thread = kNone;
  for (CallIndex call : model.operands.call) {
    const OpIndex op = model.calls.op[call];
    const absl::Span<const uint64_t> operands = model.OperandsOf(call);
    if (!IsLibraryOp(model.ops[op]) || operands.empty()) continue;
    if (model.calls.thread[call] != thread) pending.clear();
    thread = model.calls.thread[call];
    std::erase_if(pending, [&](Pending& written) {
      const bool is_read = Reads(operands, written.address);
      if (is_read) consumers[written.producer] = call;
      return is_read || operands.back() == written.address || ++written.distance >= kMaxDistance;
    });
    if (is_producer[op] && operands.back() != 0) pending.push_back({call, operands.back()});
  }
  return consumers;
}

}  // namespace dlhook::analyzer::calls
