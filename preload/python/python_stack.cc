// The calling thread's Python stack: see CapturePythonStack of runtime/parts.h.

#include <string_view>

#include "preload/base/own_pages.h"
#include "preload/format/compiler_files.h"
#include "preload/python/python_exit.h"
#include "preload/python/python_modules.h"
#include "preload/runtime/config.h"
#include "preload/runtime/definitions.h"
#include "preload/runtime/full_ring.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline python {

std::atomic<uint32_t> g_python_for_calls{0};
std::atomic<bool> g_is_between_windows{false};

// A thread's cache of its stacks. Direct-mapped: of two with the same place the later one stays.
struct PythonThread {
  struct Stack {
    uint64_t key;
    uint32_t definition;
    uint32_t used;
  };
  struct Object {
    const void* object;
    const void* type;
    uint32_t generation;
    uint32_t number;
    uint32_t used;
    uint32_t is_searched;  // its name is known, or can't be found
  };
  static constexpr uint32_t kStacks = 4096;
  static constexpr uint32_t kObjects = 1024;

  std::atomic<uint32_t> reading;  // python/python_exit.h
  uint32_t thread_id;             // of the thread that these belong to: slots are reused
  uint32_t is_watched;
  uint32_t recorded;  // the stack of the last PythonStackRecord; 0: none yet
  Stack stacks[kStacks];
  Object objects[kObjects];
};

namespace {

constexpr uint32_t kMaxPythonFrames = 64;

constexpr size_t kMaxTextBytes = 1024;

std::atomic<uint32_t> g_several_interpreters{0};

uint64_t Rotate(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

// File names of generated code differ in their last characters, and may reuse a freed one's memory.
uint64_t TextKey(const PythonRuntime& python, const void* string) {
  if (string == nullptr) return 0;
  auto text = static_cast<const char*>(string);
  size_t length = ReadAt<size_t>(text, kPyStringLength);
  uint64_t key = reinterpret_cast<uint64_t>(string) + ReadAt<uint64_t>(text, kPyStringHash) * 3 + length;
  if (length < 8 || !PythonStringOf(python.layout, string).is_compact) return key;
  return key ^ (ReadAt<uint64_t>(text, python.layout.ascii_bytes + length - 8) << 1);
}

uint64_t FrameKey(const PythonRuntime& python, const void* code, int64_t offset) {
  const PythonLayout& layout = python.layout;
  uint64_t key = reinterpret_cast<uint64_t>(code) * 0x9e3779b97f4a7c15u;
  key += TextKey(python, ReadAt<const void*>(code, layout.code_file)) * 0xc2b2ae3d27d4eb4fu;
  key += ReadAt<uint64_t>(code, layout.code_name) * 0x165667b19e3779f9u;
  uint64_t first_line = ReadAt<uint32_t>(code, layout.code_first_line);
  return key + ((first_line << 32) ^ static_cast<uint64_t>(offset)) * 0xd6e8feb86659fd93u;
}

// 0xffffffff: not numbered yet.
constexpr uint32_t kUnknownObject = 0xffffffff;

uint32_t NumberOf(PythonProcess* process, PythonThread* memory, const void* object, bool* is_unsearched) {
  const void* type = ReadAt<const void*>(object, kPyTypeOffset);
  uint32_t generation = process->object_generation.load(std::memory_order_acquire);
  uint64_t place = reinterpret_cast<uint64_t>(object) * 0x9e3779b97f4a7c15u >> 54;
  PythonThread::Object& known = memory->objects[place % PythonThread::kObjects];
  if (known.used != 0 && known.object == object && known.type == type && known.generation == generation) {
    *is_unsearched = *is_unsearched || known.is_searched == 0;
    return known.number;
  }
  SpinLockHolder holder(&process->lock);
  uint32_t number = FindObject(*process, object);
  bool is_new = number == 0 && process->object_count < kMaxPythonObjects;
  bool is_unseen = number != 0 && (process->objects[number].flags.load() & kObjectSeen) == 0;
  if (is_new || is_unseen) return kUnknownObject;
  uint32_t is_searched = number == 0 || (process->objects[number].flags.load() & kObjectSearched) != 0;
  known = {object, type, generation, number, 1, is_searched};
  *is_unsearched = *is_unsearched || is_searched == 0;
  return number;
}

// A stack as it is read: of the thread's own call into dlhook, or where a signal interrupted it.
struct ReadStack {
  const void* first;
  // An interrupted frame may just begin or end: its arguments are not read. Instructions of one line make one stack.
  bool is_interrupted;

  bool IsTorn(const void* frame) const { return is_interrupted && frame == first; }
};

const void* ModuleOf(const PythonRuntime& python, const ReadStack& stack, const void* frame, const void* code) {
  return stack.IsTorn(frame) ? nullptr : ModuleOfFrame(python, frame, code);
}

uint32_t LineOf(const PythonRuntime& python, const void* code, int64_t offset) {
  const PythonLayout& layout = python.layout;
  auto table = ReadAt<const void*>(code, layout.code_lines);
  if (table == nullptr) return 0;
  auto bytes = static_cast<const uint8_t*>(table) + kPyBytesData;
  int32_t first_line = ReadAt<int32_t>(code, layout.code_first_line);
  return PythonLine(layout.lines, bytes, ReadAt<size_t>(table, kPyBytesLength), first_line, offset);
}

struct StackKey {
  uint64_t key;
  bool has_unknown_object;
  bool has_unsearched_object;
};

StackKey KeyOf(const PythonRuntime& python, PythonProcess* process, PythonThread* memory, const ReadStack& stack) {
  uint64_t key = 0;
  uint32_t count = 0;
  bool unknown = false;
  bool unsearched = false;
  VisitFrames(python, stack.first, [&](const void* frame, const void* code, int64_t offset) {
    if (++count > kMaxPythonFrames) return false;
    if (__builtin_expect(stack.IsTorn(frame), 0)) offset = -int64_t{LineOf(python, code, offset)};
    key = (Rotate(key, 7) ^ (FrameKey(python, code, offset) + IsEntryFrame(python, frame))) * 0x9fb21c651e98df25u;
    const void* module = ModuleOf(python, stack, frame, code);
    if (__builtin_expect(module == nullptr, 1)) return true;
    uint32_t number = NumberOf(process, memory, module, &unsearched);
    unknown = unknown || number == kUnknownObject;
    key = (key ^ number) * 0x9fb21c651e98df25u;
    return true;
  });
  key ^= key >> 32;
  return {key + count, unknown, unsearched};
}

uint32_t DefineText(const PythonRuntime& python, PythonProcess* process, const void* string) {
  char text[kMaxTextBytes];
  size_t size = PythonText(python, string, text, sizeof text);
  // Every call of a compiled function passes through this file of PyTorch's.
  bool calls_compiled = std::string_view(text, size).ends_with("/torch/_dynamo/eval_frame.py");
  if (calls_compiled) process->compiles.store(1, std::memory_order_relaxed);
  return process->texts.Define(DefinitionKind::kText, text, size);
}

PythonFrameDefinition DescribeFrame(const PythonRuntime& python, PythonProcess* process, const ReadStack& stack,
                                    const void* frame, const void* code, int64_t offset) {
  const PythonLayout& layout = python.layout;
  PythonFrameDefinition described = {};
  described.file = DefineText(python, process, ReadAt<const void*>(code, layout.code_file));
  described.function = DefineText(python, process, ReadAt<const void*>(code, layout.code_name));
  described.line = LineOf(python, code, offset);
  described.is_entry = IsEntryFrame(python, frame);
  const void* module = ModuleOf(python, stack, frame, code);
  if (module != nullptr) described.object = FindObject(*process, module);
  return described;
}

uint32_t DescribeStack(const PythonRuntime& python, PythonProcess* process, const ReadStack& stack) {
  struct {
    PythonStackDefinition head;
    PythonFrameDefinition frames[kMaxPythonFrames];
  } described;
  described.head = {};
  VisitFrames(python, stack.first, [&](const void* frame, const void* code, int64_t offset) {
    if (described.head.frame_count == kMaxPythonFrames) {
      described.head.is_cut = 1;
      return false;
    }
    described.frames[described.head.frame_count++] = DescribeFrame(python, process, stack, frame, code, offset);
    return true;
  });
  size_t size = sizeof described.head + described.head.frame_count * sizeof described.frames[0];
  return Define(DefinitionKind::kPythonStack, &described, size);
}

// Not in this thread's cache: another thread's stack, one that was replaced, or new to the process.
uint32_t LookUpStack(const PythonRuntime& python, PythonProcess* process, uint64_t key, const ReadStack& stack) {
  SpinLockHolder holder(&process->lock);
  auto entry = process->stacks.Find(key);
  if (entry != nullptr && entry->used != 0) return entry->definition;
  uint32_t definition = DescribeStack(python, process, stack);
  if (entry != nullptr) process->stacks.Fill(entry, key, definition);  // a refused one too: no retry
  return definition;
}

PythonThread* MemoryOf(ThreadState* thread) {
  PythonThread* memory = thread->python;
  if (memory == nullptr) {
    memory = static_cast<PythonThread*>(MapOwnPages(sizeof(PythonThread)));
    if (memory == nullptr) return nullptr;
    __atomic_store_n(&thread->python, memory, __ATOMIC_RELEASE);
  }
  if (__builtin_expect(memory->thread_id != thread->thread_id, 0)) {
    memory->thread_id = thread->thread_id;
    memory->recorded = 0;
  }
  return memory;
}

// Names are requested while the model is in its frames, and so alive. Records that could not be written are written by
// any thread.
void SeeToNames(PythonProcess* process, ThreadState* thread, const StackKey& stack) {
  NamesState state = process->names_state.load(std::memory_order_relaxed);
  if (__builtin_expect(state == NamesState::kNone, 1)) return;
  if (stack.has_unsearched_object || state == NamesState::kUnwritten) AdvanceNames(process, thread);
}

bool IsHalfFull(const ThreadState& thread) {
  return thread.session->definitions_bytes.load(std::memory_order_relaxed) >= kDefinitionsCapacity / 2;
}

// A compiler that goes through a large network has many thousand stacks of its own: once half of the definitions' room is
// used, what is defined of them is the compiler's outermost frame and what is around it.
ReadStack ToDefine(const PythonRuntime& python, const PythonProcess& process, const ThreadState& thread,
                   const ReadStack& stack) {
  if (process.compiles.load(std::memory_order_relaxed) == 0 || !IsHalfFull(thread)) return stack;
  const void* outermost = stack.first;
  uint32_t count = 0;
  VisitFrames(python, stack.first, [&](const void* frame, const void* code, int64_t) {
    char file[kMaxTextBytes];
    size_t size = PythonText(python, ReadAt<const void*>(code, python.layout.code_file), file, sizeof file - 1);
    file[size] = '\0';
    if (IsCompilersFile(file)) outermost = frame;
    return ++count < kMaxVisitedFrames;
  });
  return {outermost, stack.is_interrupted};
}

uint32_t CaptureFrom(const PythonRuntime& python, PythonProcess* process, ThreadState* thread, PythonThread* memory,
                     const void* first) {
  const ReadStack stack = {first, false};
  StackKey found = KeyOf(python, process, memory, stack);
  PythonThread::Stack* known = &memory->stacks[found.key % PythonThread::kStacks];
  if (__builtin_expect(known->used != 0 && known->key == found.key && !found.has_unknown_object, 1)) {
    SeeToNames(process, thread, found);
    return known->definition;
  }
  NoteModuleCodes(python, first);
  RegisterModules(python, process, thread, first);
  found = KeyOf(python, process, memory, stack);
  known = &memory->stacks[found.key % PythonThread::kStacks];
  const ReadStack defined = ToDefine(python, *process, *thread, stack);
  uint64_t key = defined.first == first ? found.key : KeyOf(python, process, memory, defined).key;
  *known = {found.key, LookUpStack(python, process, key, defined), 1};
  if (process->compiles.load(std::memory_order_relaxed) != 0) WatchCompilersExit();
  SeeToNames(process, thread, found);
  return known->definition;
}

// Only reads: modules get their numbers where calls are recorded, and only there the interpreter is asked for anything.
uint32_t CaptureInterruptedFrom(const PythonRuntime& python, PythonProcess* process, const ThreadState& thread,
                                PythonThread* memory, const void* first) {
  const ReadStack stack = {first, true};
  uint64_t key = KeyOf(python, process, memory, stack).key;
  PythonThread::Stack* known = &memory->stacks[key % PythonThread::kStacks];
  if (known->used != 0 && known->key == key) return known->definition;
  if (IsHalfFull(thread)) return 0;  // the rest is left to the stacks of calls
  *known = {key, LookUpStack(python, process, key, stack), 1};
  return known->definition;
}

// With several interpreters the thread state found may belong to another one than the running code.
bool HasOneInterpreter(const PythonRuntime& python) {
  uint32_t several = python.newest_interpreter() != python.main_interpreter();
  if (__builtin_expect(g_several_interpreters.load(std::memory_order_relaxed) == several, 1)) return several == 0;
  if (g_several_interpreters.exchange(several) != several) {
    ReportCapability("python-frames", "", several != 0 ? CapabilityState::kLost : CapabilityState::kOn,
                     several != 0 ? "there are several interpreters" : "there is one interpreter again");
  }
  return several == 0;
}

// For the launcher, which reads frames of blocked threads. Once a thread; stores only.
void ShowThreadState(const PythonRuntime& python, const ThreadState* thread, const void* state) {
  std::atomic<uint64_t>& shown = thread->ring.slot->python_state;
  const auto address = reinterpret_cast<uint64_t>(state);
  if (__builtin_expect(shown.load(std::memory_order_relaxed) == address, 1)) return;
  PythonView* view = &thread->session->python;
  static_assert(sizeof view->layout >= sizeof python.layout);
  memcpy(view->layout, &python.layout, sizeof python.layout);
  view->code_type.store(reinterpret_cast<uint64_t>(python.code_type), std::memory_order_release);
  shown.store(address, std::memory_order_release);
}

bool IsWanted() {
  return GetConfig().python != PythonMode::kOff && (GetConfig().families & FamilyBitOf("python")) != 0;
}

void DecideForCalls() {
  uint32_t for_calls = CurrentPython() != nullptr && GetConfig().python == PythonMode::kOn;
  g_python_for_calls.store(for_calls, std::memory_order_relaxed);
}

}  // namespace

uint32_t CapturePythonStack(ThreadState* thread) {
  const PythonRuntime* python = CurrentPython();
  if (__builtin_expect(python == nullptr, 0)) {
    if (g_python_state.load(std::memory_order_relaxed) != PythonState::kUnknown) return 0;
    RefreshPython();
    python = CurrentPython();
    if (python == nullptr) return 0;
  }
  const void* state = python->thread_state();
  PythonThread* memory = state == nullptr ? nullptr : MemoryOf(thread);
  if (memory == nullptr || !EnterPython(&memory->reading)) return 0;
  uint32_t definition = 0;
  if (python->is_finalizing() == 0 && HasOneInterpreter(*python)) {
    ShowThreadState(*python, thread, state);
    const void* first = PythonFrameOf(*python, state);
    PythonProcess* process = first == nullptr ? nullptr : GetPythonProcess();
    if (process != nullptr) definition = CaptureFrom(*python, process, thread, memory, first);
  }
  LeavePython(&memory->reading);
  if (__builtin_expect(memory->is_watched == 0, 0)) memory->is_watched = WatchPythonExit();
  return definition;
}

uint32_t CaptureInterruptedPythonStack(ThreadState* thread, uint64_t address) {
  if (CurrentPython() == nullptr) {
    FindPythonAt(address);
    DecideForCalls();
  }
  const PythonRuntime* python = CurrentPython();
  if (python == nullptr || python->is_finalizing() != 0) return 0;
  const void* state = python->thread_state();
  PythonThread* memory = state == nullptr ? nullptr : MemoryOf(thread);
  bool is_busy = memory == nullptr || memory->reading.load(std::memory_order_relaxed) != 0;
  if (is_busy || !EnterPython(&memory->reading)) return 0;
  uint32_t definition = 0;
  if (python->newest_interpreter() == python->main_interpreter()) {
    ShowThreadState(*python, thread, state);
    const void* first = ReadableFrameOf(*python, state);
    PythonProcess* process = first == nullptr ? nullptr : GetPythonProcess();
    if (process != nullptr) definition = CaptureInterruptedFrom(*python, process, *thread, memory, first);
  }
  LeavePython(&memory->reading);
  return definition;
}

bool IsAnyThreadReading() {
  ProcessState* process = GetProcess();
  if (process == nullptr) return false;
  for (const ThreadState& thread : process->threads) {
    const PythonThread* memory = __atomic_load_n(&thread.python, __ATOMIC_ACQUIRE);
    if (memory != nullptr && memory->reading.load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

void RefreshPython() {
  PythonState state = g_python_state.load(std::memory_order_relaxed);
  if (state != PythonState::kUnknown && state != PythonState::kAbsent) return;
  if (IsWanted()) {
    FindPython();
  } else if (g_python_state.compare_exchange_strong(state, PythonState::kOff)) {
    ReportCapability("python-frames", "", CapabilityState::kOff, "not asked for");
  }
  DecideForCalls();
}

void RecordPythonOfCalls(bool is_wanted) { g_is_between_windows.store(!is_wanted, std::memory_order_relaxed); }

bool RecordPythonStack(ThreadState* thread) {
  bool is_wanted = !g_is_between_windows.load(std::memory_order_relaxed);
  uint32_t definition = is_wanted ? CapturePythonStack(thread) : 0;
  if (thread->python == nullptr) return true;  // no stack was ever captured on this slot
  PythonThread* memory = MemoryOf(thread);
  if (definition == memory->recorded) return true;
  if (IsKeepingTotals(thread)) return true;  // totals have no callers
  FrameMark mark;
  RecordHeader* header = ReserveDescription(thread, sizeof(PythonStackRecord) / 8, &mark);
  if (header == nullptr) return KeepTotals(thread, &mark);
  auto record = reinterpret_cast<PythonStackRecord*>(header);
  record->header = {sizeof(PythonStackRecord) / 8, RecordType::kPythonStack, 0, 0, 0, 0};
  record->python_stack = definition;
  record->reserved = 0;
  CommitRecord(thread, header);
  memory->recorded = definition;
  return true;
}

}  // namespace dlhook::inline python
