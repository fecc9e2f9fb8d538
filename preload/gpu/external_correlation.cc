// See external_correlation.h.
#include "preload/gpu/external_correlation.h"

#include <atomic>

#include "preload/gpu/cupti_callbacks.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline gpu {
namespace {

// An id consists of both numbers of the call.
constexpr uint32_t kSequenceBits = 40;
constexpr uint64_t kSequenceMask = (uint64_t{1} << kSequenceBits) - 1;

// What this thread has on CUPTI's stack. By slot, used by the slot's thread only; entries of another thread or another
// CUPTI count as none.
struct Pushed {
  static constexpr uint32_t kMost = kMaxOpenCalls;
  uint32_t thread_id;
  uint32_t generation;
  uint32_t count;
  uint32_t depths[kMost];  // of the calls that pushed: how many were open then, including it
};
Pushed g_pushed[kMaxSlots];
std::atomic<uint32_t> g_generation{1};

Pushed* PushedOf(const ThreadState* thread) {
  const ProcessState* process = GetProcess();
  if (process == nullptr) return nullptr;
  Pushed* pushed = &g_pushed[thread - process->threads];
  uint32_t generation = g_generation.load(std::memory_order_relaxed);
  if (pushed->thread_id != thread->thread_id || pushed->generation != generation) {
    pushed->thread_id = thread->thread_id;
    pushed->generation = generation;
    pushed->count = 0;
  }
  return pushed;
}

// Pops what calls at this depth and deeper have pushed: the one that ends, and those left without returning.
void PopFrom(const CuptiApi& api, Pushed* pushed, uint32_t depth) {
  for (; pushed->count != 0 && pushed->depths[pushed->count - 1] >= depth; --pushed->count) {
    uint64_t last = 0;
    api.pop_external(cupti::kCustom2, &last);
  }
}

// Records of single functions are available since CUDA 12.5; before, only of all functions.
void EnableFunctions(const CuptiApi& api, bool on) {
  if (api.enable_driver_api == nullptr || api.enable_runtime_api == nullptr) {
    auto enable = on ? api.enable : api.disable;
    enable(cupti::kDriver);
    enable(cupti::kRuntime);
    return;
  }
  for (size_t i = 0; i < kWorkCallbackCount; ++i) {
    const CallbackRange& range = kWorkCallbacks[i];
    auto enable = range.domain == cupti::kDomainDriver ? api.enable_driver_api : api.enable_runtime_api;
    for (uint32_t id = range.first; id <= range.last; ++id) enable(id, on ? 1 : 0);
  }
}

}  // namespace

bool StartExternalCorrelation(const CuptiApi& api) {
  if (api.push_external == nullptr || api.pop_external == nullptr) return false;
  if (api.enable(cupti::kExternalCorrelation) != cupti::kSuccess) return false;
  EnableFunctions(api, true);
  return true;
}

void StopExternalCorrelation(const CuptiApi& api) {
  EnableFunctions(api, false);
  api.disable(cupti::kExternalCorrelation);
}

void PushGpuCall(const CuptiApi& api, ThreadState* thread, uint64_t sequence) {
  Pushed* pushed = PushedOf(thread);
  if (pushed == nullptr) return;
  PopFrom(api, pushed, thread->depth);
  if (pushed->count == Pushed::kMost) return;
  uint64_t id = uint64_t{thread->thread_id} << kSequenceBits | (sequence & kSequenceMask);
  if (api.push_external(cupti::kCustom2, id) == cupti::kSuccess) pushed->depths[pushed->count++] = thread->depth;
}

void PopGpuCall(const CuptiApi& api, ThreadState* thread) {
  Pushed* pushed = PushedOf(thread);
  if (pushed != nullptr) PopFrom(api, pushed, thread->depth + 1);
}

void ForgetPushedCalls() { g_generation.fetch_add(1); }

bool LinkOf(const cupti::ExternalCorrelationRecord& record, GpuLinkRecord* link) {
  if (record.external_kind != cupti::kCustom2) return false;
  *link = {};
  link->header = {sizeof *link / 8, RecordType::kGpuLink, 0, 0, 0, 0};
  link->sequence = record.external_id & kSequenceMask;
  link->correlation = record.correlation;
  link->thread_id = static_cast<uint32_t>(record.external_id >> kSequenceBits);
  return true;
}

}  // namespace dlhook::inline gpu
