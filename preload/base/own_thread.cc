#include "preload/base/own_thread.h"

namespace dlhook::inline base {
namespace {

using ThreadCount = std::atomic<unsigned>;

// Null: this C library has none under this name. Then an own thread that is the process's last one ends it.
ThreadCount* CountOfThreads() {
  const ElfW(Sym)* symbol = FindLibcSymbol("__nptl_nthreads");  // exported for debuggers (libthread_db)
  if (symbol == nullptr || symbol->st_size != sizeof(ThreadCount)) return nullptr;
  return reinterpret_cast<ThreadCount*>(FindLibc()->l_addr + symbol->st_value);
}

}  // namespace

void UncountedThread::Start() {
  if (ThreadCount* count = CountOfThreads()) count->fetch_sub(1);
}

UncountedThread::~UncountedThread() {
  ThreadCount* count = CountOfThreads();
  if (count == nullptr) return;
  unsigned others = count->load();
  // None: the last one is in exit(), which must not be called a second time.
  while (!count->compare_exchange_weak(others, others == 0 ? 2 : others + 1)) {
  }
}

}  // namespace dlhook::inline base
