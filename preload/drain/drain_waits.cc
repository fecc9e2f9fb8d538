// Where threads were blocked, in the drain: packets of their own, because there are few.
// Thread: the drain's, of a launcher.
#include <stdio.h>
#include <string.h>

#include "preload/drain/describe.h"
#include "preload/drain/drain.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {
namespace {

constexpr uint32_t kOutsidePython = 0x80000000;  // a definition's number is less

template <typename Value>
void Column(uint32_t field, const Wait* waits, uint32_t count, PacketWriter* writer, Value value) {
  const size_t column = writer->Begin(field);
  for (uint32_t i = 0; i < count; ++i) writer->Varint(value(waits[i], i));
  writer->End(column);
}

}  // namespace

uint32_t Drain::OutsidePythonStackOf(const OutsideStacks& stacks, uint32_t number) {
  if (number == 0 || number > stacks.python_count) return 0;
  bool is_new = false;
  const uint32_t iid = interner_.PythonStack(kOutsidePython + number, &is_new);
  if (!is_new) return iid;
  const OutsidePythonStack& stack = stacks.python[number - 1];
  namespace f = fields::PythonFrame;
  PacketWriter writer(&pending_stacks_);
  const size_t message = writer.Begin(fields::Interned::kPythonStack);
  writer.UInt(fields::InternedPythonStack::kIid, iid);
  for (uint32_t i = 0; i < stack.count; ++i) {
    const OutsidePythonFrame& frame = stack.frames[i];
    const size_t mark = writer.Begin(fields::InternedPythonStack::kFrame);
    writer.UInt(f::kFileIid, NameOf(frame.file, static_cast<uint32_t>(strlen(frame.file))));
    writer.UInt(f::kFunctionIid, NameOf(frame.function, static_cast<uint32_t>(strlen(frame.function))));
    writer.UInt(f::kLine, frame.line);
    writer.UInt(f::kIsEntry, frame.is_entry);
    writer.End(mark);
  }
  writer.UInt(fields::InternedPythonStack::kIsCut, stack.is_cut);
  writer.End(message);
  return iid;
}

void Drain::AddCode(uint64_t start, uint64_t end, const char* path, const void* build_id, uint32_t build_id_bytes) {
  struct {
    MappingRecord record;
    char text[4096];
  } mapping = {};
  MappingRecord& record = mapping.record;
  if (build_id_bytes > sizeof record.build_id) return;
  const int size = snprintf(mapping.text, sizeof mapping.text, "%s", path);
  record.start = start;
  record.end = end;
  record.role = static_cast<uint32_t>(fields::Mapping::Role::kCode);
  record.text_bytes = static_cast<uint32_t>(size < int{sizeof mapping.text} ? size : int{sizeof mapping.text} - 1);
  memcpy(record.build_id, build_id, build_id_bytes);
  record.build_id_bytes = build_id_bytes;
  WriteMappingPacket(record, &out_);
}

void Drain::AddWaits(uint32_t thread_id, const Wait* waits, uint32_t count, const OutsideStacks& stacks) {
  if (count == 0) return;
  if (IsBeyondLimit()) {
    state_.left_out_readings += count;
    return;
  }
  ForgetIfNearlyFull();
  // Definitions have buffers of their own: the ids are found first, then the packet is written.
  uint32_t ids[kMostWaits][3];
  if (count > kMostWaits) count = kMostWaits;
  for (uint32_t i = 0; i < count; ++i) {
    ids[i][0] = interner_.Address(waits[i].address);
    ids[i][1] = OutsideStackOf(stacks, waits[i].native_stack);
    ids[i][2] = OutsidePythonStackOf(stacks, waits[i].python_stack);
  }
  FlushBatch();
  namespace f = fields::WaitBatch;
  PacketWriter writer(&out_);
  const size_t packet = writer.Begin(fields::Trace::kPacket);
  const size_t batch = writer.Begin(fields::Packet::kWaitBatch);
  writer.UInt(f::kThreadId, thread_id);
  Column(f::kStartDelta, waits, count, &writer, [&](const Wait& wait, uint32_t i) {
    return ZigZag(static_cast<int64_t>(wait.start_ticks - (i == 0 ? 0 : waits[i - 1].start_ticks)));
  });
  Column(f::kTicks, waits, count, &writer,
         [](const Wait& wait, uint32_t) { return wait.end_ticks - wait.start_ticks; });
  Column(f::kBlockedIn, waits, count, &writer,
         [](const Wait& wait, uint32_t) { return static_cast<uint64_t>(wait.blocked_in); });
  Column(f::kAddressIid, waits, count, &writer, [&](const Wait&, uint32_t i) { return ids[i][0]; });
  Column(f::kStackIid, waits, count, &writer, [&](const Wait&, uint32_t i) { return ids[i][1]; });
  Column(f::kCut, waits, count, &writer, [](const Wait& wait, uint32_t) { return static_cast<uint64_t>(wait.cut); });
  Column(f::kPythonStackIid, waits, count, &writer, [&](const Wait&, uint32_t i) { return ids[i][2]; });
  writer.End(batch);
  writer.End(packet);
}

}  // namespace dlhook::inline drain
