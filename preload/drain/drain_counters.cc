// Counter readings in the drain.
// Thread: the drain's. Trusts nothing in the mapping.
#include <stdio.h>

#include "preload/drain/describe.h"
#include "preload/drain/drain.h"
#include "preload/format/definitions.h"

namespace dlhook::inline drain {
namespace {

// `names`, separated by commas, one after another; false at their end.
bool NextName(const char** names, const char* end, const char** name, uint32_t* bytes) {
  if (*names >= end) return false;
  auto comma = static_cast<const char*>(memchr(*names, ',', static_cast<size_t>(end - *names)));
  const char* stop = comma == nullptr ? end : comma;
  *name = *names;
  *bytes = static_cast<uint32_t>(stop - *names);
  *names = comma == nullptr ? end : comma + 1;
  return true;
}

}  // namespace

void Drain::NameCounters(const char* names, size_t size, CounterBatchKey* key) {
  const char* at = names;
  const char* name;
  uint32_t bytes;
  key->count = 0;
  while (key->count < kMaxCountersOfSet && NextName(&at, names + size, &name, &bytes)) {
    key->name_iids[key->count++] = NameOf(name, bytes);
  }
}

void Drain::TakeCounters(uint32_t slot, const CounterRecord* record) {
  DefinedBytes names = FindDefinition(session_, mapping_bytes_, record->set, DefinitionKind::kText);
  uint32_t count = record->header.shape_words;
  if (names.data == nullptr || count > kMaxCountersOfSet) return;
  bool is_process = record->is_process != 0;
  if (!is_process && state_.thread_ids[slot] == 0) return;  // belongs to no thread
  if (record->ticks > state_.last_record_ticks) state_.last_record_ticks = record->ticks;
  CounterBatchKey key = {0, 0, ReadingKind::kBoundary, record->source, 0, {}};
  if (!is_process) key.thread_id = state_.thread_ids[slot];
  if (!is_process) key.tid = tids_[slot];
  NameCounters(names.data, names.bytes, &key);
  if (key.count != count) return;  // changed since its header was read
  CounterReading reading = {record->ticks, record->enabled_ns, record->running_ns, {}};
  memcpy(reading.values, record + 1, count * sizeof reading.values[0]);
  AddReading(key, reading);
}

void Drain::AddReading(const CounterBatchKey& key, const CounterReading& reading) {
  if (key.kind == ReadingKind::kBoundary && key.thread_id != 0 && !KeepsDetail(reading.ticks)) {
    ++state_.left_out_readings;
    return;
  }
  CounterBatch* batch = counters_.For(key);
  if (batch == nullptr) {
    FlushBatch();
    batch = counters_.For(key);
  }
  if (!batch->Add(reading)) LoseForMemory();
}

void Drain::AddSamples(uint32_t thread_id, uint32_t tid, ReadingKind kind, CounterSource source, const char* names,
                       const CounterReading* readings, uint32_t count) {
  CounterBatchKey key = {thread_id, tid, kind, source, 0, {}};
  NameCounters(names, strlen(names), &key);
  for (uint32_t i = 0; i < count; ++i) AddReading(key, readings[i]);
}

void Drain::AddThread(uint32_t thread_id, uint32_t tid, const char (&name)[16]) {
  fields::ThreadInfo::WritePacket(
      {.thread_id = thread_id, .tid = tid, .name = {name, strnlen(name, sizeof name)}, .handle = 0}, &out_);
}

void Drain::AddCapability(const char* name, uint32_t state, const char* reason) {
  struct {
    CapabilityRecord record;
    char text[kMaxRecordBytes / 8];
  } capability = {};
  int size = snprintf(capability.text, sizeof capability.text, "%s%c%c%s", name, '\0', '\0', reason);
  capability.record.ticks = NowTicks();
  capability.record.value = state;
  capability.record.text_bytes = static_cast<uint32_t>(size);
  WriteCapabilityPacket(capability.record, &out_);
}

}  // namespace dlhook::inline drain
