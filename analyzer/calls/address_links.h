// Which call reads what another one wrote, as far as operand addresses show it.
#ifndef DLHOOK_ANALYZER_CALLS_ADDRESS_LINKS_H_
#define DLHOOK_ANALYZER_CALLS_ADDRESS_LINKS_H_

#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

struct AddressLink {
  CallIndex writer = 0;
  CallIndex reader = 0;
};

// From and to calls of the ops in `is_wanted` (by op index): the call that wrote an address (the last operand) which they
// read, and the first one that reads what they wrote. Both are library calls of the same thread, with only few library
// calls between them and none that wrote the address again: memory is soon reused for other tensors by kernels with
// unknown operands.
std::vector<AddressLink> FindAddressLinks(const TraceModel& model, const std::vector<bool>& is_wanted);

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_ADDRESS_LINKS_H_
