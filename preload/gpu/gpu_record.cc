// Writes records of GPU times into rings: see WriteGpuRecord in gpu_time.h.
// Thread: the ring's; only dlhook-gpu is patient.
#include <string.h>
#include <time.h>

#include "preload/gpu/gpu_time.h"

namespace dlhook::inline gpu {
namespace {

constexpr long kNapNs = 200 * 1000;
constexpr uint32_t kMostNaps = 5000;  // a second in total

// Naps of the patient thread since the drain last made progress.
uint32_t g_naps;

RecordHeader* WaitForRoom(ThreadState* thread, uint32_t words, FrameMark* mark) {
  RecordHeader* space = ReserveDescription(thread, words, mark);
  for (; space == nullptr && g_naps < kMostNaps && thread->active != 0; ++g_naps) {
    timespec nap = {0, kNapNs};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    space = ReserveDescription(thread, words, mark);
  }
  if (space != nullptr) g_naps = 0;
  return space;
}

}  // namespace

bool WriteGpuRecord(ThreadState* thread, RecordHeader* record, const void* text, uint32_t text_bytes, bool patient) {
  if (thread->active == 0) return false;
  uint32_t head_bytes = uint32_t{record->words} * 8;
  record->words = static_cast<uint16_t>((head_bytes + text_bytes + 7) / 8);
  FrameMark mark;
  RecordHeader* space =
      patient ? WaitForRoom(thread, record->words, &mark) : ReserveDescription(thread, record->words, &mark);
  if (space == nullptr) {
    if (thread->active != 0) thread->session->gpu_dropped_ring.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  memcpy(static_cast<void*>(space), record, head_bytes);
  if (text_bytes != 0) memcpy(reinterpret_cast<char*>(space) + head_bytes, text, text_bytes);
  CommitRecord(thread, space);
  return true;
}

}  // namespace dlhook::inline gpu
