// Scopes, Python stacks and modules in the drain.

#include "preload/drain/describe.h"
#include "preload/drain/drain.h"
#include "preload/format/definitions.h"
#include "preload/format/taps.h"

namespace dlhook::inline drain {
namespace {

constexpr uint32_t kMaxFrames = 1024;

template <size_t kBytes>
bool BeginsWith(const ScopeRecord& scope, const char (&text)[kBytes]) {
  return scope.name_bytes >= kBytes - 1 && memcmp(&scope + 1, text, kBytes - 1) == 0;
}

}  // namespace

// Id of a string; defines it if it is new.
uint32_t Drain::NameOf(const void* text, uint32_t bytes) {
  bool is_new = false;
  uint32_t iid = interner_.Name(text, bytes, &is_new);
  if (is_new) WriteStringDefinition(iid, static_cast<const char*>(text), bytes, &pending_strings_);
  return iid;
}

// … of a kText definition; 0 if none.
uint32_t Drain::DefinedNameOf(uint32_t number) {
  DefinedBytes text = FindDefinition(session_, mapping_bytes_, number, DefinitionKind::kText);
  return text.data == nullptr ? 0 : NameOf(text.data, text.bytes);
}

// Id of the stack in a definition, 0 if none.
uint32_t Drain::PythonStackOf(uint32_t number) {
  if (number == 0) return 0;
  DefinedBytes found = FindDefinition(session_, mapping_bytes_, number, DefinitionKind::kPythonStack);
  if (found.data == nullptr || found.bytes < sizeof(PythonStackDefinition)) return 0;
  bool is_new = false;
  uint32_t iid = interner_.PythonStack(number, &is_new);
  if (!is_new) return iid;
  auto stack = reinterpret_cast<const PythonStackDefinition*>(found.data);
  auto frames = reinterpret_cast<const PythonFrameDefinition*>(stack + 1);
  size_t room = (found.bytes - sizeof *stack) / sizeof *frames;
  uint32_t count = stack->frame_count;
  if (count > room) count = static_cast<uint32_t>(room);
  if (count > kMaxFrames) count = kMaxFrames;
  PacketWriter writer(&pending_stacks_);
  MessageScope message(&writer, fields::Interned::kPythonStack);
  fields::InternedPythonStack::Write({.iid = iid, .is_cut = stack->is_cut != 0}, &writer);
  for (uint32_t i = 0; i < count; ++i) {
    MessageScope frame(&writer, fields::InternedPythonStack::kFrame);
    fields::PythonFrame::Write({.file_iid = DefinedNameOf(frames[i].file),
                                .function_iid = DefinedNameOf(frames[i].function),
                                .line = frames[i].line,
                                .object = frames[i].object,
                                .is_entry = frames[i].is_entry != 0},
                               &writer);
  }
  return iid;
}

void Drain::TakeScope(uint32_t slot, const ScopeRecord* record) {
  if (sizeof *record + uint64_t{record->name_bytes} > uint64_t{record->header.words} * 8) return;
  uint32_t thread_id = state_.thread_ids[slot];
  if (record->end_ticks > state_.last_record_ticks) state_.last_record_ticks = record->end_ticks;
  if (record->cut != 0) fields::Loss::WritePacket({LossReason::kRecordTooLong, thread_id, 1, 0, "scope"}, &out_);
  const bool is_range = record->kind == ScopeKind::kUserRange;
  const bool ends_step = is_range && BeginsWith(*record, kOptimizerStep);
  if (is_range && BeginsWith(*record, kScopeWindowName)) TakeTapWindow(*record);
  if (!KeepsDetail(record->end_ticks) && !ends_step) {
    ++state_.left_out_scopes;
    return;
  }
  if (scopes_.MustFlushBefore(thread_id)) FlushBatch();
  uint32_t name = NameOf(record + 1, record->name_bytes);
  if (!scopes_.Add(thread_id, name, PythonStackOf(record->python_stack), *record)) LoseForMemory();
  if (ends_step) EndStep(thread_id, *record);
}

// A mark of no length begins a window, a range ends it.
void Drain::TakeTapWindow(const ScopeRecord& window) {
  state_.detail.has_tap_windows = 1;
  state_.detail.tap_window_ticks = window.end_ticks == window.start_ticks ? window.start_ticks : 0;
}

void Drain::TakePythonModule(const PythonModuleRecord* record) {
  if (sizeof *record + uint64_t{record->text_bytes} > uint64_t{record->header.words} * 8) return;
  WritePythonModulePacket(*record, &out_);
}

}  // namespace dlhook::inline drain
