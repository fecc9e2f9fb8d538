#include "preload/core/process_id.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace dlhook {
namespace {

std::atomic<std::atomic<uint32_t>*> g_page{nullptr};

// Null where the kernel can't wipe memory in a child.
std::atomic<uint32_t>* NewPage() {
  constexpr size_t kBytes = 4096;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::atomic<uint32_t>* expected = nullptr;
  auto page = static_cast<std::atomic<uint32_t>*>(memory);
  if (madvise(memory, kBytes, MADV_WIPEONFORK) == 0 && g_page.compare_exchange_strong(expected, page)) return page;
  munmap(memory, kBytes);
  return expected;
}

}  // namespace

uint32_t ProcessId() {
  std::atomic<uint32_t>* page = g_page.load(std::memory_order_acquire);
  if (page == nullptr) page = NewPage();
  uint32_t known = page == nullptr ? 0 : page->load(std::memory_order_relaxed);
  if (known != 0) return known;
  uint32_t pid = static_cast<uint32_t>(getpid());
  if (page != nullptr) page->store(pid, std::memory_order_relaxed);
  return pid;
}

}  // namespace dlhook
