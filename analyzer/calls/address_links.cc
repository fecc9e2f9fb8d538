// Which call reads what another one wrote: see address_links.h.
#include "analyzer/calls/address_links.h"

#include <algorithm>

#include "analyzer/calls/call_context.h"

namespace dlhook::analyzer::inline calls {
namespace {

// library calls to look at after the writer
constexpr int kMaxDistance = 8;

struct Written {
  CallIndex writer = 0;
  uint64_t address = 0;
  bool is_read = false;
  int distance = 0;
};

bool Reads(absl::Span<const uint64_t> operands, uint64_t address) {
  return std::find(operands.begin(), operands.end() - 1, address) != operands.end() - 1;
}

}  // namespace

std::vector<AddressLink> FindAddressLinks(const TraceModel& model, const std::vector<bool>& is_wanted) {
  std::vector<AddressLink> links;
  std::vector<Written> recent;
  ThreadIndex thread = kNone;
  for (CallIndex call : model.operands.call) {
    const OpIndex op = model.calls.op[call];
    const absl::Span<const uint64_t> operands = model.OperandsOf(call);
    if (!IsLibraryOp(model.ops[op]) || operands.empty()) continue;
    if (model.calls.thread[call] != thread) recent.clear();
    thread = model.calls.thread[call];
    std::erase_if(recent, [&](Written& written) {
      if (Reads(operands, written.address)) {
        const bool is_first = is_wanted[model.calls.op[written.writer]] && !written.is_read;
        if (is_first || is_wanted[op]) links.push_back({written.writer, call});
        written.is_read = true;
      }
      return operands.back() == written.address || ++written.distance >= kMaxDistance;
    });
    if (operands.back() != 0) recent.push_back({.writer = call, .address = operands.back()});
  }
  return links;
}

}  // namespace dlhook::analyzer::calls
