// The budget of descriptors.
#include "preload/drain/descriptor_budget.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>

namespace dlhook::inline drain {
namespace {

constexpr uint64_t kPartOfTable = 4;
constexpr uint64_t kMostDescriptors = 8192;  // each file of /proc that has been read uses a page

// Process id, and in the lower half the number taken: a forked child's drain has its own table.
std::atomic<uint64_t> g_taken{0};

uint64_t Budget() {
  rlimit limit;
  uint64_t part = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / kPartOfTable : 0;
  return part < kMostDescriptors ? part : kMostDescriptors;
}

}  // namespace

bool TakeDescriptors(uint32_t count) {
  uint64_t process = static_cast<uint64_t>(getpid()) << 32;
  uint64_t budget = Budget();
  uint64_t seen = g_taken.load(std::memory_order_relaxed);
  for (;;) {
    uint64_t taken = (seen >> 32 << 32) == process ? seen & 0xffffffffu : 0;
    if (taken + count > budget) return false;
    if (g_taken.compare_exchange_weak(seen, process | (taken + count))) return true;
  }
}

void GiveBackDescriptors(uint32_t count) { g_taken.fetch_sub(count); }

}  // namespace dlhook::inline drain
