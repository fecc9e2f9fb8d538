// Takes and leaves chunks.
#include "preload/runtime/ring_growth.h"

#include "preload/runtime/process_state.h"
#include "preload/runtime/shared_pages.h"

namespace dlhook::inline runtime {
namespace {

bool HasPages(const SessionHeader& session, uint32_t index) {
  ProcessState* process = GetProcess();
  int saved_errno = errno;
  bool has = process != nullptr &&
             AllocatePages(process, session.chunks_offset + index * session.chunk_bytes, session.chunk_bytes);
  errno = saved_errno;
  return has;
}

// From here on a signal handler may leave at any point: EndGrowth then repeats the rest.
void MoveTo(ThreadState* thread, uint32_t next_chunk) {
  thread->next_chunk = next_chunk;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread->moves = 1;
  EndGrowth(thread);
}

}  // namespace

uint32_t TakeChunk(ThreadState* thread, bool for_totals) {
  SessionHeader* session = thread->session;
  uint64_t now = thread->ring.slot->tail.load(std::memory_order_relaxed) + 1;
  uint64_t* refused_at = &thread->chunk_refused_at[for_totals];
  if (*refused_at == now) return kMaxChunks;
  uint32_t first = for_totals ? RecordChunks(*session) : 0;
  uint32_t end = for_totals ? session->chunk_count : RecordChunks(*session);
  for (uint32_t i = first; i < end; ++i) {
    Chunk& chunk = session->chunks[i];
    uint32_t free = 0;
    if (chunk.owner.load(std::memory_order_relaxed) != 0) continue;
    if (!chunk.owner.compare_exchange_strong(free, kChunkTaken, std::memory_order_acquire)) continue;
    if (chunk.has_pages.load(std::memory_order_relaxed) == 0 && !HasPages(*session, i)) {
      chunk.owner.store(0, std::memory_order_release);
      break;
    }
    chunk.has_pages.store(1, std::memory_order_relaxed);
    std::atomic<uint32_t>& used = session->chunks_used;
    for (uint32_t seen = used.load(); !for_totals && seen <= i && !used.compare_exchange_weak(seen, i + 1);) {
    }
    return i;
  }
  *refused_at = now;
  return kMaxChunks;
}

void EndGrowth(ThreadState* thread) {
  if (thread->moves == 0) return;
  SessionHeader* session = thread->session;
  RingProducer* ring = &thread->ring;
  uint32_t owner = static_cast<uint32_t>(ring->slot - session->slots) + 1;
  if (thread->chunk != 0 && thread->chunk != thread->next_chunk) {
    // While it has no end it belongs to this thread; as soon as it has one the drain may reuse it.
    Chunk& left = session->chunks[thread->chunk - 1];
    uint64_t none = 0;
    if (left.owner.load(std::memory_order_relaxed) == owner) left.end.compare_exchange_strong(none, ring->head);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread->chunk = thread->next_chunk;
  char* memory = reinterpret_cast<char*>(session);
  if (thread->chunk == 0) {
    ring->MoveTo(memory + ring->slot->data_offset, ring->slot->bytes.load(std::memory_order_relaxed), 0);
  } else {
    session->chunks[thread->chunk - 1].owner.store(owner, std::memory_order_release);
    ring->MoveTo(memory + session->chunks_offset + (thread->chunk - 1) * session->chunk_bytes, session->chunk_bytes,
                 ring->head);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread->moves = 0;
}

bool GrowRing(ThreadState* thread, FrameMark* mark) {
  RingProducer* ring = &thread->ring;
  if (ring->busy != 0) return false;
  ring->Take(mark);
  uint32_t index = TakeChunk(thread, false);
  if (index < kMaxChunks) {
    Chunk& chunk = thread->session->chunks[index];
    chunk.start.store(ring->head, std::memory_order_relaxed);
    chunk.end.store(0, std::memory_order_relaxed);
    MoveTo(thread, index + 1);
  }
  ring->Release();
  return index < kMaxChunks;
}

void GoHome(ThreadState* thread, FrameMark* mark) {
  RingProducer* ring = &thread->ring;
  if (thread->chunk == 0 || ring->busy != 0) return;
  ring->Take(mark);
  if (ring->Backlog() <= ring->slot->bytes.load(std::memory_order_relaxed) / 2) MoveTo(thread, 0);
  ring->Release();
}

void ShrinkRing(ThreadState* thread) {
  if (thread->chunk != 0) MoveTo(thread, 0);
}

}  // namespace dlhook::inline runtime
