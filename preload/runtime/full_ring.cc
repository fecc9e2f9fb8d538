// Totals of calls for which rings have no room.
#include "preload/runtime/full_ring.h"

#include "preload/format/call_totals.h"
#include "preload/format/tap_line.h"
#include "preload/runtime/definitions.h"

namespace dlhook::inline runtime {
namespace {

// The parts of a record needed to add its call.
struct StagedCall {
  const RecordHeader* record;
  size_t bytes;  // of the call's description
  const void* key;
  size_t key_bytes;
  uint64_t duration;
  uint64_t start_ticks;
  uint64_t end_ticks;
  bool is_nested;
};

uint32_t TotalsOwner(const ThreadState* thread) {
  return kTotalsOwner + static_cast<uint32_t>(thread->ring.slot - thread->session->slots) + 1;
}

char* ChunkMemory(const SessionHeader* session, uint32_t index) {
  return const_cast<char*>(reinterpret_cast<const char*>(session)) + session->chunks_offset +
         index * session->chunk_bytes;
}

TotalsEntry* EntryAt(TotalsTable* table, uint32_t at) {
  return reinterpret_cast<TotalsEntry*>(reinterpret_cast<char*>(table) + at);
}

uint32_t BytesOf(const TotalsEntry& entry) {
  return static_cast<uint32_t>(sizeof entry.handed_over) + uint32_t{entry.record.header.words} * 8;
}

// False: the line does not describe a call.
bool Describe(const RecordHeader* record, StagedCall* call) {
  call->record = record;
  if (record->type == RecordType::kTapLine) {
    auto line = reinterpret_cast<const TapLineRecord*>(record);
    TapLine parsed = ParseTapLine(reinterpret_cast<const char*>(line + 1), line->text_bytes, nullptr);
    call->bytes = (sizeof *line + line->text_bytes + 7) / 8 * 8;
    call->key = parsed.identity.data;
    call->key_bytes = parsed.identity.size;
    call->duration = parsed.duration_ns;
    call->start_ticks = call->end_ticks = line->end_ticks;
    call->is_nested = line->parent_distance != 0;
    return parsed.is_call;
  }
  auto made = reinterpret_cast<const CallRecord*>(record);
  call->bytes = sizeof *made + 8u * record->shape_words;
  call->key = made + 1;
  call->key_bytes = 8u * record->shape_words;
  call->duration = made->end_ticks - made->start_ticks;
  call->start_ticks = made->start_ticks;
  call->end_ticks = made->end_ticks;
  call->is_nested = made->parent_distance != 0;
  return true;
}

uint32_t SourceOf(const RecordHeader* record) {
  return record->type == RecordType::kTapLine ? reinterpret_cast<const TapLineRecord*>(record)->source : 0;
}

bool IsSameOp(const StagedCall& one, const StagedCall& other) {
  const RecordHeader& a = *one.record;
  const RecordHeader& b = *other.record;
  return a.type == b.type && a.hook == b.hook && a.shape_words == b.shape_words && a.address_count == b.address_count &&
         SourceOf(&a) == SourceOf(&b) && one.key_bytes == other.key_bytes &&
         memcmp(one.key, other.key, one.key_bytes) == 0;
}

uint32_t HashOf(const StagedCall& call) {
  uint64_t hash = uint64_t{call.record->hook} << 8 | static_cast<uint64_t>(call.record->type);
  auto key = static_cast<const char*>(call.key);
  for (size_t at = 0; at < call.key_bytes; at += 8) {
    uint64_t word = 0;
    memcpy(&word, key + at, call.key_bytes - at < 8 ? call.key_bytes - at : 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash >> 32);
}

bool IsEmpty(const TotalsEntry& entry) { return entry.record.sums.count == 0; }

void Clear(TotalsEntry* entry) {
  entry->record.start_ticks = 0;
  entry->record.sums = {};
  std::atomic_signal_fence(std::memory_order_seq_cst);
  entry->handed_over = 0;
}

uint64_t EndOfTable(const SessionHeader* session) {
  uint64_t end = session->chunk_bytes - kStagingBytes;
  constexpr uint64_t kMost = 8 * UINT16_MAX;  // the largest offset that a place can hold
  return end < kMost ? end : kMost;
}

// The entry of this op in table `index`, created if it is new and there is room; null otherwise.
TotalsEntry* FindEntry(ThreadState* thread, uint32_t index, const StagedCall& call, uint32_t hash) {
  TotalsTable* table = thread->totals[index];
  for (uint32_t tries = 0; tries < TotalsTable::kPlaces / 2; ++tries) {
    uint16_t* place = &table->places[(hash + tries) % TotalsTable::kPlaces];
    if (*place != 0) {
      TotalsEntry* entry = EntryAt(table, uint32_t{*place} * 8);
      StagedCall first;
      if (Describe(reinterpret_cast<const RecordHeader*>(&entry->record + 1), &first) && IsSameOp(first, call) &&
          entry->record.thread_id == thread->thread_id) {
        return entry;
      }
      continue;
    }
    uint32_t at = table->used.load(std::memory_order_relaxed);
    auto bytes = static_cast<uint32_t>(sizeof(TotalsEntry) + call.bytes);
    if (at + bytes > EndOfTable(thread->session)) return nullptr;
    TotalsEntry* entry = EntryAt(table, at);
    memset(static_cast<void*>(entry), 0, sizeof *entry);
    entry->record.header = {
        static_cast<uint16_t>((bytes - sizeof entry->handed_over) / 8), RecordType::kCallTotals, 0, 0, 0, 0};
    entry->record.thread_id = thread->thread_id;
    memcpy(static_cast<void*>(&entry->record + 1), call.record, call.bytes);
    table->used.store(at + bytes, std::memory_order_release);
    *place = static_cast<uint16_t>(at / 8);
    return entry;
  }
  return nullptr;
}

void UseTable(ThreadState* thread, TotalsTable* table) {
  char* end = reinterpret_cast<char*>(table) + thread->session->chunk_bytes;
  thread->staging = reinterpret_cast<RecordHeader*>(end - kStagingBytes);
  thread->totals[thread->totals_count++] = table;
}

// Adds a table. False: there is no chunk for it.
bool AddTable(ThreadState* thread) {
  if (thread->totals_count == kMaxTotalsTables) return false;
  SessionHeader* session = thread->session;
  uint32_t index = TakeChunk(thread, true);
  if (index == kMaxChunks) return false;
  auto table = reinterpret_cast<TotalsTable*>(ChunkMemory(session, index));
  memset(static_cast<void*>(table), 0, sizeof *table);
  table->used.store(sizeof *table, std::memory_order_relaxed);
  session->chunks[index].owner.store(TotalsOwner(thread), std::memory_order_release);
  UseTable(thread, table);
  return true;
}

void Change(TotalsTable* table, TotalsEntry* entry, const StagedCall& call) {
  CallTotalsRecord& record = entry->record;
  table->sums_before = record.sums;
  table->end_ticks_before = record.end_ticks;
  auto at = static_cast<uint32_t>(reinterpret_cast<char*>(entry) - reinterpret_cast<char*>(table));
  table->changed.store(at, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  if (record.sums.count == 0) record.start_ticks = call.start_ticks;
  record.sums.Add(call.duration, call.is_nested);
  record.end_ticks = call.end_ticks;
  table->changed.store(0, std::memory_order_release);
}

// False: the ring has no room for it.
bool HandOver(ThreadState* thread, TotalsEntry* entry, FrameMark* mark) {
  RingProducer* ring = &thread->ring;
  uint32_t words = entry->record.header.words;
  RecordHeader* space = ring->ReserveAfterLook(words, mark);
  if (space == nullptr && GrowRing(thread, mark)) space = ring->ReserveAfterLook(words, mark);
  if (space == nullptr) return false;
  if (IsEmpty(*entry)) {  // a signal handler was faster
    ring->Release();
    return true;
  }
  memcpy(static_cast<void*>(space), &entry->record, words * 8u);
  entry->handed_over = ring->head + words * 8u;
  ring->Publish(space);
  Clear(entry);
  ring->Release();
  return true;
}

// While the ring is busy: between a look at `refuses_calls` and what follows from it a signal handler could change it.
// False: there is no chunk for a table.
bool BeginTotals(ThreadState* thread) {
  RingProducer* ring = &thread->ring;
  if (ring->refuses_calls) return true;
  if (thread->totals_count == 0 && !AddTable(thread)) return false;
  thread->resume_backlog = ring->Backlog() / 2;
  ring->RefuseCalls(true);
  return true;
}

template <typename Function>
void ForEachEntry(ThreadState* thread, Function function) {
  for (uint32_t i = 0; i < thread->totals_count; ++i) {
    TotalsTable* table = thread->totals[i];
    uint32_t used = table->used.load(std::memory_order_relaxed);
    for (uint32_t at = sizeof *table; at < used; at += BytesOf(*EntryAt(table, at))) {
      if (!function(EntryAt(table, at))) return;
    }
  }
}

}  // namespace

bool KeepTotals(ThreadState* thread, FrameMark* mark) {
  if (thread->ring.busy != 0) return false;
  thread->ring.Take(mark);
  bool can = BeginTotals(thread);
  thread->ring.Release();
  return can;
}

RecordHeader* StageCall(ThreadState* thread, FrameMark* mark) {
  if (thread->ring.busy != 0) return nullptr;
  thread->ring.Take(mark);
  if (BeginTotals(thread)) return thread->staging;
  thread->ring.Release();
  return nullptr;
}

void AddStagedCall(ThreadState* thread, const RecordHeader* record) {
  StagedCall call;
  if (!Describe(record, &call)) return;
  uint32_t hash = HashOf(call);
  for (uint32_t i = 0; i < thread->totals_count || AddTable(thread); ++i) {
    TotalsEntry* entry = FindEntry(thread, i, call, hash);
    if (entry != nullptr) return Change(thread->totals[i], entry, call);
  }
  thread->ring.CountDropped();
}

void HandOverTotals(ThreadState* thread, FrameMark* mark) {
  RingProducer* ring = &thread->ring;
  ForEachEntry(thread, [&](TotalsEntry* entry) { return IsEmpty(*entry) || HandOver(thread, entry, mark); });
  if (ring->busy != 0) return;
  ring->Take(mark);
  bool is_all = true;  // a signal handler may have added calls
  ForEachEntry(thread, [&](TotalsEntry* entry) { return is_all = IsEmpty(*entry); });
  if (is_all) ring->RefuseCalls(false);
  ring->Release();
}

void SettleTotals(ThreadState* thread) {
  for (uint32_t i = 0; i < thread->totals_count; ++i) {
    TotalsTable* table = thread->totals[i];
    uint32_t changed = table->changed.load(std::memory_order_relaxed);
    if (changed != 0) UndoChange(*table, &EntryAt(table, changed)->record);
    table->changed.store(0, std::memory_order_release);
  }
  ForEachEntry(thread, [&](TotalsEntry* entry) {
    if (entry->handed_over != 0 && entry->handed_over <= thread->ring.head) Clear(entry);
    entry->handed_over = 0;
    return true;
  });
}

void AdoptTotals(ThreadState* thread) {
  SessionHeader* session = thread->session;
  uint32_t owner = TotalsOwner(thread);
  for (uint32_t i = RecordChunks(*session); i < session->chunk_count && thread->totals_count < kMaxTotalsTables; ++i) {
    bool is_left = session->chunks[i].owner.load(std::memory_order_relaxed) == owner;
    if (is_left) UseTable(thread, reinterpret_cast<TotalsTable*>(ChunkMemory(session, i)));
  }
  if (thread->totals_count == 0) return;
  FrameMark mark;
  KeepTotals(thread, &mark);
  HandOverTotals(thread, &mark);
}

void GiveBackTotals(ThreadState* thread) {
  if (thread->totals_count == 0) return;
  FrameMark mark;
  if (IsKeepingTotals(thread)) HandOverTotals(thread, &mark);
  if (IsKeepingTotals(thread)) return;  // the slot's next thread, or the drain at the end, hands them over
  uint32_t owner = TotalsOwner(thread);
  thread->totals_count = 0;
  for (Chunk& chunk : thread->session->chunks) {
    if (chunk.owner.load(std::memory_order_relaxed) == owner) chunk.owner.store(0, std::memory_order_release);
  }
}

// Takes and leaves chunks.

namespace {

bool HasPages(const SessionHeader& session, uint32_t index) {
  ProcessState* process = GetProcess();
  ErrnoKeeper keeper;
  return process != nullptr &&
         AllocatePages(process, session.chunks_offset + index * session.chunk_bytes, session.chunk_bytes);
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
