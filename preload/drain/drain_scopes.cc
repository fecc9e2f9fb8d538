// Scopes, Python stacks and modules in the drain.
#include "preload/drain/describe.h"
#include "preload/drain/drain.h"
#include "preload/format/definitions.h"
#include "preload/format/stack_nodes.h"
#include "preload/format/taps.h"

namespace dlhook::inline drain {
namespace {

constexpr uint32_t kMaxFrames = 1024;

template <size_t kBytes>
bool BeginsWith(const ScopeRecord& scope, const char (&text)[kBytes]) {
  return scope.name_bytes >= kBytes - 1 && memcmp(&scope + 1, text, kBytes - 1) == 0;
}

bool IsOperation(ScopeKind kind) {
  return kind == ScopeKind::kFrameworkOp || kind == ScopeKind::kBackwardNode || kind == ScopeKind::kGraphNode ||
         kind == ScopeKind::kTraceMe;
}

}  // namespace

bool Drain::EndsStep(const ScopeRecord& scope) {
  return scope.kind == ScopeKind::kUserRange && BeginsWith(scope, kOptimizerStep);
}

// Id of a string; defines it if it is new.
uint32_t Drain::NameOf(const void* text, uint32_t bytes) {
  const auto [iid, is_new] = interner_.names.Find(text, bytes);
  if (is_new) WriteStringDefinition(iid, static_cast<const char*>(text), bytes, &pending_strings_);
  return iid;
}

// … of a kText definition; 0 if none.
uint32_t Drain::DefinedNameOf(uint32_t number) {
  DefinedBytes text = FindDefinition(session_, mapping_bytes_, number, DefinitionKind::kText);
  return text.data == nullptr ? 0 : NameOf(text.data, text.bytes);
}

// `frame(i)`: from the innermost.
template <typename Frame>
void Drain::DefinePythonStack(uint32_t iid, bool is_cut, uint32_t count, Frame frame) {
  PacketWriter writer(&pending_);
  MessageScope message(&writer, fields::Interned::kPythonStack);
  fields::InternedPythonStack::Write({.iid = iid, .is_cut = is_cut}, &writer);
  for (uint32_t i = 0; i < count; ++i) {
    const fields::PythonFrame::Values values = frame(i);
    MessageScope mark(&writer, fields::InternedPythonStack::kFrame);
    fields::PythonFrame::Write(values, &writer);
  }
}

// Id of the stack in a definition, 0 if none.
uint32_t Drain::PythonStackOf(uint32_t number) {
  if (number == 0) return 0;
  DefinedBytes found = FindDefinition(session_, mapping_bytes_, number, DefinitionKind::kPythonStack);
  if (found.data == nullptr || found.bytes < sizeof(PythonStackDefinition)) return 0;
  const auto [iid, is_new] = interner_.python_stacks.Find(&number, sizeof number);
  if (!is_new) return iid;
  auto stack = reinterpret_cast<const PythonStackDefinition*>(found.data);
  auto frames = reinterpret_cast<const PythonFrameDefinition*>(stack + 1);
  size_t room = (found.bytes - sizeof *stack) / sizeof *frames;
  uint32_t count = stack->frame_count;
  if (count > room) count = static_cast<uint32_t>(room);
  if (count > kMaxFrames) count = kMaxFrames;
  DefinePythonStack(iid, stack->is_cut != 0, count, [&](uint32_t i) {
    const PythonFrameDefinition& frame = frames[i];
    return fields::PythonFrame::Values{.file_iid = DefinedNameOf(frame.file),
                                       .function_iid = DefinedNameOf(frame.function),
                                       .line = frame.line,
                                       .object = frame.object,
                                       .is_entry = frame.is_entry != 0};
  });
  return iid;
}

void Drain::Take(uint32_t slot, const ScopeRecord* record) {
  uint32_t thread_id = state_.thread_ids[slot];
  if (record->end_ticks > state_.last_record_ticks) state_.last_record_ticks = record->end_ticks;
  if (record->cut != 0) fields::Loss::WritePacket({LossReason::kRecordTooLong, thread_id, 1, 0, "scope"}, &out_);
  const bool is_range = record->kind == ScopeKind::kUserRange;
  if (is_range && BeginsWith(*record, kScopeWindowName)) TakeTapWindow(*record);
  if (state_.detail.steps == 0 && IsOperation(record->kind)) NoteOperation(thread_id);
  if (!KeepsDetail(record->end_ticks) && !EndsStep(*record)) {
    ++state_.left_out_scopes;
    return;
  }
  AddScope(thread_id, record + 1, record->name_bytes, *record);
}

void Drain::AddScope(uint32_t thread_id, const void* name, uint32_t name_bytes, const ScopeRecord& scope) {
  if (!scopes_.Takes(thread_id)) FlushBatch();
  const struct {
    uint32_t name_iid, python_stack_iid;
    uint64_t duration_ticks;
  } more = {NameOf(name, name_bytes), PythonStackOf(scope.python_stack), scope.end_ticks - scope.start_ticks};
  if (!scopes_.Add(thread_id, more, scope)) LoseForMemory();
}

// A mark of no length begins a window, a range ends it.
void Drain::TakeTapWindow(const ScopeRecord& window) {
  state_.detail.has_tap_windows = 1;
  state_.detail.tap_window_ticks = window.end_ticks == window.start_ticks ? window.start_ticks : 0;
}

// Native stacks in the drain: nodes of the session's tree -> Interned.stack. Samples, which are little else.
// Thread: the drain's. Trusts nothing in the mapping: a node is read once, and a chain of nodes is bounded.

namespace {

// More than the capture keeps (it marks the cut itself): only a corrupted mapping gets here.
constexpr uint32_t kMaxStackDepth = 1024;

void WriteNode(uint32_t iid, const StackNode& node, uint32_t address_iid, Buffer* out) {
  PacketWriter writer(out);
  MessageScope message(&writer, fields::Interned::kStack);
  fields::InternedStack::Write({.iid = iid,
                                .address_iid = address_iid,
                                .parent_iid = node.parent,
                                .cut = node.cut,
                                .is_signal_frame = node.is_signal_frame != 0},
                               &writer);
}

}  // namespace

// Id of the stack whose innermost node this is, 0 if none. A node's number is its id, unique in the session, so one bit
// per node records what was defined since the last Reset.
template <typename Find>
uint32_t Drain::DefineStack(uint32_t number, Find find) {
  uint32_t numbers[kMaxStackDepth];
  StackNode nodes[kMaxStackDepth];
  uint32_t depth = 0;
  for (uint32_t at = number; at != 0 && !interner_.HasStackNode(at);) {
    StackNode found;
    const bool is_there = find(at, &found);
    if (!is_there || depth == kMaxStackDepth) {
      if (depth == 0) return 0;
      StackNode& outermost = nodes[depth - 1];
      outermost.parent = 0;
      outermost.cut = is_there ? StackCut::kTooDeep : StackCut::kUnreadable;
      break;
    }
    nodes[depth] = found;
    if (nodes[depth].parent >= at) nodes[depth].parent = 0;  // changed since it was read
    numbers[depth] = at;
    at = nodes[depth++].parent;
  }
  while (depth-- > 0) {
    interner_.AddStackNode(numbers[depth]);
    WriteNode(numbers[depth], nodes[depth], interner_.Address(nodes[depth].address), &pending_);
  }
  return number;
}

uint32_t Drain::NativeStackOf(uint32_t number) {
  return DefineStack(number, [this](uint32_t at, StackNode* node) {
    const StackNode* found = FindStackNode(session_, mapping_bytes_, at);
    if (found != nullptr) memcpy(node, found, sizeof *node);
    return found != nullptr;
  });
}

uint32_t Drain::OutsideStackOf(const OutsideStacks& stacks, uint32_t number) {
  if (number == 0 || number > stacks.node_count) return 0;
  return DefineStack(kMaxStackNodes + number - 1, [&](uint32_t at, StackNode* node) {
    if (at < kMaxStackNodes || at - kMaxStackNodes >= stacks.node_count) return false;
    *node = stacks.nodes[at - kMaxStackNodes];
    if (node->parent != 0) node->parent += kMaxStackNodes - 1;
    return true;
  });
}

void Drain::Take(uint32_t slot, const SampleRecord* record) {
  uint32_t thread_id = state_.thread_ids[slot];
  if (record->ticks > state_.last_record_ticks) state_.last_record_ticks = record->ticks;
  if (!KeepsDetail(record->ticks)) {
    state_.left_out_samples += record->intervals;
    return;
  }
  if (!samples_.Takes(thread_id)) FlushBatch();
  const StackIids iids = {interner_.Address(record->address), NativeStackOf(record->native_stack),
                          PythonStackOf(record->python_stack)};
  if (!samples_.Add(thread_id, iids, record->header, *record)) return LoseForMemory();
  samples_.Set(fields::SampleBatch::kIntervalNs, session_->sample_interval_ns);
}

// Where threads were blocked, in the drain: packets of their own, because there are few.
// Thread: the drain's, of a launcher.

namespace {

constexpr uint32_t kOutsidePython = 0x80000000;  // a definition's number is less

}  // namespace

uint32_t Drain::OutsidePythonStackOf(const OutsideStacks& stacks, uint32_t number) {
  if (number == 0 || number > stacks.python_count) return 0;
  const uint32_t key = kOutsidePython + number;
  const auto [iid, is_new] = interner_.python_stacks.Find(&key, sizeof key);
  if (!is_new) return iid;
  const OutsidePythonStack& stack = stacks.python[number - 1];
  DefinePythonStack(iid, stack.is_cut, stack.count, [&](uint32_t i) {
    const OutsidePythonFrame& frame = stack.frames[i];
    return fields::PythonFrame::Values{
        .file_iid = NameOf(frame.file, static_cast<uint32_t>(strlen(frame.file))),
        .function_iid = NameOf(frame.function, static_cast<uint32_t>(strlen(frame.function))),
        .line = frame.line,
        .object = 0,
        .is_entry = frame.is_entry};
  });
  return iid;
}

void Drain::AddCode(uint64_t start, uint64_t end, const char* path, const void* build_id, uint32_t build_id_bytes) {
  fields::Mapping::WritePacket({.start = start,
                                .end = end,
                                .path = path,
                                .build_id = {static_cast<const char*>(build_id), build_id_bytes},
                                .role = fields::Mapping::Role::kCode,
                                .detail = {}},
                               &out_);
}

void Drain::AddWaits(uint32_t thread_id, const Wait* waits, uint32_t count, const OutsideStacks& stacks) {
  if (count == 0) return;
  if (!KeepsDetail(waits[count - 1].end_ticks)) {
    state_.left_out_readings += count;
    return;
  }
  ForgetIfNearlyFull();
  for (uint32_t i = 0; i < count && !waits_.full(); ++i) {
    const Wait& wait = waits[i];
    const struct { uint64_t start, ticks; } times = {wait.start_ticks, wait.end_ticks - wait.start_ticks};
    const StackIids iids = {interner_.Address(wait.address), OutsideStackOf(stacks, wait.native_stack),
                            OutsidePythonStackOf(stacks, wait.python_stack)};
    if (!waits_.Add(thread_id, times, iids, wait)) return LoseForMemory();
  }
  FlushBatch();  // the definitions first
  waits_.Flush(&out_);
}

}  // namespace dlhook::inline drain
