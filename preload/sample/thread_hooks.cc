// Threads and forked children are sampled from their beginning: pthread_create and fork attach them. Without DLHOOK_SAMPLE
// both go straight to the C library.
// Thread: any application thread.

#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/sample/samples.h"

namespace dlhook::inline sample {
namespace {

using ThreadMain = void* (*)(void*);

// The host's function for a thread that has not begun yet. Not from the host's heap: its malloc may be what creates the
// thread.
struct ThreadStart {
  std::atomic<uint32_t> is_used;
  ThreadMain main;
  void* argument;
};
constexpr uint32_t kMaxStarts = 1024;
ThreadStart g_starts[kMaxStarts];
std::atomic<uint32_t> g_next_start{0};

// A signal's frame with all registers, and ours, take 4 KiB.
constexpr size_t kLeastStackBytes = 64 << 10;

bool HasSmallStack(const pthread_attr_t* attributes) {
  size_t bytes = 0;
  return attributes != nullptr && pthread_attr_getstacksize(attributes, &bytes) == 0 && bytes < kLeastStackBytes;
}

// Null: more threads are being created than there are places.
ThreadStart* TakeStart() {
  for (uint32_t i = 0; i < kMaxStarts; ++i) {
    ThreadStart* start = &g_starts[g_next_start.fetch_add(1, std::memory_order_relaxed) % kMaxStarts];
    uint32_t free = 0;
    if (start->is_used.compare_exchange_strong(free, 1, std::memory_order_acquire)) return start;
  }
  return nullptr;
}

bool IsRecording() {
  ProcessState* process = FindProcess();
  return process != nullptr && process->phase.load(std::memory_order_acquire) == kRecording;
}

struct BegunThread {
  ThreadMain main;
  void* argument;
};
__attribute__((noinline)) BegunThread BeginThread(ThreadStart* start) {
  BegunThread begun = {start->main, start->argument};
  start->is_used.store(0, std::memory_order_release);
  if (AttachThread(kForSamples) == nullptr && IsRecording())
    SaySamples(CapabilityState::kLost, "more threads than rings");
  return begun;
}

// Leaves no frame of its own: the last call is a jump.
void* RunThread(void* start) {
  BegunThread begun = BeginThread(static_cast<ThreadStart*>(start));
  return begun.main(begun.argument);
}

}  // namespace
}  // namespace dlhook::inline sample

extern "C" {

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                          void* (*main)(void*), void* argument) noexcept {
  static const auto real =
      dlhook::RealOf<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  if (dlhook::GetConfig().sample_hz == 0) return real(thread, attributes, main, argument);
  dlhook::ThreadStart* start = dlhook::HasSmallStack(attributes) ? nullptr : dlhook::TakeStart();
  if (start == nullptr) {
    dlhook::SaySamples(dlhook::CapabilityState::kLost, "threads with less than 64 KiB of stack are left alone");
    return real(thread, attributes, main, argument);
  }
  start->main = main;
  start->argument = argument;
  int error = real(thread, attributes, &dlhook::RunThread, start);
  if (error != 0) start->is_used.store(0, std::memory_order_release);
  return error;
}

__attribute__((visibility("default"))) pid_t fork() noexcept {
  static const auto real = dlhook::RealOf<pid_t()>("fork");
  pid_t child = real();
  if (child == 0 && dlhook::GetConfig().sample_hz != 0) dlhook::AttachThread(dlhook::kForSamples);
  return child;
}

}  // extern "C"
