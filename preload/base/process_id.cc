#include "preload/base/process_id.h"

#include <unistd.h>

#include "preload/base/own_pages.h"

namespace dlhook::inline base {
namespace {

std::atomic<std::atomic<uint32_t>*> g_page{nullptr};

}  // namespace

uint32_t ProcessId() {
  std::atomic<uint32_t>* page = OneForEachProcess(&g_page);
  uint32_t known = page == nullptr ? 0 : page->load(std::memory_order_relaxed);
  if (known != 0) return known;
  uint32_t pid = static_cast<uint32_t>(getpid());
  if (page != nullptr) page->store(pid, std::memory_order_relaxed);
  return pid;
}

}  // namespace dlhook::inline base
