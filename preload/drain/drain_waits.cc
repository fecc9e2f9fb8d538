// Where threads were blocked, in the drain: packets of their own, because there are few.
// Thread: the drain's, of a launcher.
#include <stdio.h>

#include "preload/drain/describe.h"
#include "preload/drain/drain.h"

namespace dlhook::inline drain {
namespace {

constexpr uint32_t kOutsidePython = 0x80000000;  // a definition's number is less

}  // namespace

uint32_t Drain::OutsidePythonStackOf(const OutsideStacks& stacks, uint32_t number) {
  if (number == 0 || number > stacks.python_count) return 0;
  bool is_new = false;
  const uint32_t iid = interner_.PythonStack(kOutsidePython + number, &is_new);
  if (!is_new) return iid;
  const OutsidePythonStack& stack = stacks.python[number - 1];
  PacketWriter writer(&pending_stacks_);
  MessageScope message(&writer, fields::Interned::kPythonStack);
  fields::InternedPythonStack::Write({.iid = iid, .is_cut = stack.is_cut}, &writer);
  for (uint32_t i = 0; i < stack.count; ++i) {
    const OutsidePythonFrame& frame = stack.frames[i];
    MessageScope mark(&writer, fields::InternedPythonStack::kFrame);
    fields::PythonFrame::Write({.file_iid = NameOf(frame.file, static_cast<uint32_t>(strlen(frame.file))),
                                .function_iid = NameOf(frame.function, static_cast<uint32_t>(strlen(frame.function))),
                                .line = frame.line,
                                .object = 0,
                                .is_entry = frame.is_entry},
                               &writer);
  }
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
  if (!KeepsDetail(waits[count - 1].end_ticks)) {
    state_.left_out_readings += count;
    return;
  }
  ForgetIfNearlyFull();
  using enum fields::WaitBatch::Number;
  if (!waits_.Start()) return LoseForMemory();
  waits_.Set(kThreadId, thread_id);
  for (uint32_t i = 0; i < count && !waits_.full(); ++i) {
    const Wait& wait = waits[i];
    waits_.PutDelta(kStartDelta, wait.start_ticks);
    waits_.Put(kTicks, wait.end_ticks - wait.start_ticks);
    waits_.Put(kBlockedIn, static_cast<uint64_t>(wait.blocked_in));
    waits_.Put(kAddressIid, interner_.Address(wait.address));
    waits_.Put(kStackIid, OutsideStackOf(stacks, wait.native_stack));
    waits_.Put(kCut, static_cast<uint64_t>(wait.cut));
    waits_.Put(kPythonStackIid, OutsidePythonStackOf(stacks, wait.python_stack));
    waits_.EndRow();
  }
  FlushBatch();  // the definitions first
  waits_.Flush(&out_);
}

}  // namespace dlhook::inline drain
