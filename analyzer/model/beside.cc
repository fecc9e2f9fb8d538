#include "analyzer/model/beside.h"

#include <sched.h>

namespace dlhook::analyzer::inline model {

// On a machine with more processors than a cpu_set_t has bits the question fails: it has two.
bool MayUseTwoProcessors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) > 1;
}

}  // namespace dlhook::analyzer::model
