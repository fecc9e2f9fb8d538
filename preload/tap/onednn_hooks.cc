// The interposed functions of the oneDNN tap: printf, __printf_chk, fflush and the two run-time switches of the log;
// and its answer to getenv (environment_hooks.cc). printf and __printf_chk are assembly stubs (onednn_stubs.S) that
// come here only with a line from oneDNN.
// Thread: any application thread; getenv may be called before any constructor.
#include <link.h>
#include <stdarg.h>
#include <stdio.h>

#include "preload/base/entry.h"
#include "preload/base/spin_lock.h"
#include "preload/format/tap_line.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/tap/onednn.h"
#include "preload/tap/tap.h"
#include "preload/unwind/native_stack.h"

extern "C" {
DLHOOK_EXPORT int dnnl_set_verbose(int level);
DLHOOK_EXPORT int mkldnn_set_verbose(int level);
DLHOOK_EXPORT int _ZN5torch7verbose19_mkldnn_set_verboseEi(int level);

int __vprintf_chk(int flag, const char* format, va_list arguments);  // in stdio.h only for fortified code

// Set on first use; read by the stubs.
void* dlhook_real_printf __attribute__((visibility("hidden"))) = nullptr;
void* dlhook_real_printf_chk __attribute__((visibility("hidden"))) = nullptr;
// The last line that this thread printed for oneDNN has not ended yet. Read by the stubs.
__thread uint8_t dlhook_line_continues __attribute__((visibility("hidden"))) = 0;
}

namespace dlhook::inline tap {
namespace {

constexpr uint32_t kMaxHeaderLines = 16;

// A loaded copy of oneDNN that reports to the tap, by the object that contains it.
struct Source {
  const link_map* object;
  std::atomic<uint32_t> user_lines;  // VerboseLines that the user requested
  char name[64];
  char version[64];
  char template_fields[256];
  char unfinished[128];  // a line's beginning
  // Info lines are printed once per process. Swallowed ones are kept until the user requests lines.
  char header[2048];
  std::atomic<uint32_t> header_kept;
};

SpinLock g_lock;
Source g_sources[kMaxTapSources];
std::atomic<uint32_t> g_source_count{0};

// The object whose line continues.
__thread const link_map* t_unfinished_of;

// The fflush that follows a swallowed line: this object's next call on this thread.
__thread const link_map* t_swallow_flush_of;

// Index, or kMaxTapSources if the object is not a source.
uint32_t FindSource(const link_map* object) {
  uint32_t count = g_source_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (g_sources[i].object == object) return i;
  }
  return kMaxTapSources;
}

// The same, adding it if it is new. kMaxTapSources: there are too many.
uint32_t SourceOf(const link_map* object) {
  uint32_t found = FindSource(object);
  if (found != kMaxTapSources) return found;
  SpinLockHolder holder(&g_lock);
  found = FindSource(object);
  uint32_t count = g_source_count.load(std::memory_order_relaxed);
  if (found != kMaxTapSources || count == kMaxTapSources) return found;
  g_sources[count].object = object;
  snprintf(g_sources[count].name, sizeof g_sources[count].name, "%s", ObjectName(object));
  g_source_count.store(count + 1, std::memory_order_release);
  return count;
}

std::atomic<int (*)(FILE*)> g_real_fflush{nullptr};

const char* const kVerboseVariables[] = {"ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE"};

// The variable that a copy of oneDNN asking for `name` will use: the first one set, starting there. One that asks for
// DNNL_VERBOSE although ONEDNN_VERBOSE is set does not know that name yet (before 2.5). Its name, or null.
const char* UsersVariable(const char* name) {
  bool found = false;
  for (const char* variable : kVerboseVariables) {
    found = found || strcmp(variable, name) == 0;
    if (found && RealGetenv(variable) != nullptr) return variable;
  }
  return nullptr;
}

// PyTorch's ideep copies the answer for MKLDNN_VERBOSE into the environment.
bool CopiesAnswer(const char* name, const char* object_name) {
  return name[0] == 'M' && strncmp(object_name, "libtorch", 8) == 0;
}

bool MayArm(const char* object_name, const Config& config) {
  if (config.onednn == OneDnnMode::kOff) {
    Report(kOneDnnTap, object_name, CapabilityState::kOff, "DLHOOK_ONEDNN=off");
    return false;
  }
  if (IsLeftOut(kOneDnnTap, object_name)) return false;
  if (config.onednn == OneDnnMode::kAuto && !IsKnownOneDnnCarrier(object_name)) {
    Report(kOneDnnTap, object_name, CapabilityState::kRefused,
           "this build of oneDNN is not known to work while it logs");
    return false;
  }
  return true;
}

// What the current setting hides from the tap, for the report.
const char* LimitOf(const char* setting, int level) {
  if (strstr(setting, "filter") != nullptr) return "only what the user's own filter in ONEDNN_VERBOSE lets through";
  bool lacks_creations = level == 2 && (LinesOfSetting(setting) & kCreationLines) == 0;
  return lacks_creations ? "executions only: the user's own ONEDNN_VERBOSE=1" : "";
}

void CopyUpTo(char* to, size_t size, const char* from, char end) {
  size_t i = 0;
  for (; i + 1 < size && from[i] != '\0' && from[i] != '\n' && from[i] != end; ++i) to[i] = from[i];
  to[i] = '\0';
}

// "…,info,oneDNN v3.12.0 (commit …)" ("MKL-DNN v1.0.4", "DNNL v1.3.0") and "…,primitive,info,template:operation,engine,…".
void LearnFromInfoLine(Source* source, const char* text) {
  const char* version = strstr(text, "DNN v");
  if (version == nullptr) version = strstr(text, "NNL v");
  if (version != nullptr) CopyUpTo(source->version, sizeof source->version, version + 4, ' ');
  const char* fields = strstr(text, "template:");
  bool of_primitives = fields != nullptr && strstr(text, ",graph,") == nullptr;
  if (of_primitives) CopyUpTo(source->template_fields, sizeof source->template_fields, fields + 9, '\0');
}

// The session's copy of the data needed by the drain to parse this source's lines.
void ShareSource(SessionHeader* session, uint32_t index) {
  TapSource& shared = session->tap_sources[index];
  const Source& source = g_sources[index];
  bool nothing_known =
      source.template_fields[0] == '\0' && source.version[0] == '\0';  // before 2.1 there is no template
  if (shared.ready.load(std::memory_order_relaxed) != 0 || nothing_known) return;
  SpinLockHolder holder(&g_lock);
  memcpy(shared.object, source.name, sizeof shared.object);
  memcpy(shared.version, source.version, sizeof shared.version);
  memcpy(shared.template_fields, source.template_fields, sizeof shared.template_fields);
  shared.ready.store(1, std::memory_order_release);
}

// A line's last field is its duration in milliseconds.
bool IsStackWanted(const char* text, size_t size) {
  const Config& config = GetConfig();
  if ((config.stack_families & FamilyBit<kOneDnnTap>()) == 0) return false;
  if (config.stacks_min_ns == 0) return true;
  while (size > 0 && text[size - 1] == '\n') --size;
  size_t start = size;
  while (start > 0 && text[start - 1] != ',') --start;
  uint64_t duration_ns = 0;
  return ParseMilliseconds({text + start, size - start}, &duration_ns) && duration_ns >= config.stacks_min_ns;
}

void RecordLine(uint32_t index, const char* text, size_t size) {
  ThreadState* thread = ScopeThread(FamilyBit<kOneDnnTap>());
  if (thread == nullptr) return;
  uint64_t end_ticks = ReadTicks(thread->clock);
  DropStaleOpenCalls(thread, reinterpret_cast<uintptr_t>(&end_ticks));
  ShareSource(thread->session, index);
  if (thread->depth == 0 && !NotePythonOfCall(thread)) return thread->ring.CountDropped();
  uint32_t cut = size > kMaxTapTextBytes;
  if (cut != 0) size = kMaxTapTextBytes;
  uint32_t words = static_cast<uint32_t>((sizeof(TapLineRecord) + size + 7) / 8);
  uint64_t sequence = TakeSequence(thread);
  uint32_t native_stack = IsStackWanted(text, size) ? CaptureNativeStack(thread) : 0;
  FrameMark mark;
  RecordHeader* header = ReserveCall(thread, words, &mark);
  if (header == nullptr) return;
  uint64_t parent = EnclosingSequence(thread);
  auto record = reinterpret_cast<TapLineRecord*>(header);
  record->header = {static_cast<uint16_t>(words), RecordType::kTapLine, static_cast<uint8_t>(thread->depth), 0, 0, 0};
  record->end_ticks = end_ticks;
  record->sequence = sequence;
  record->parent_distance = parent == 0 ? 0 : static_cast<uint32_t>(sequence - parent);
  record->text_bytes = static_cast<uint32_t>(size);
  record->source = index;
  record->cut = cut;
  record->native_stack = native_stack;
  record->reserved = 0;
  memcpy(record + 1, text, size);
  CommitRecord(thread, header);
}

void KeepHeaderLine(Source* source, const char* text) {
  SpinLockHolder holder(&g_lock);
  size_t used = strlen(source->header);
  snprintf(source->header + used, sizeof source->header - used, "%s", text);
  source->header_kept.store(1, std::memory_order_release);
}

// Handles a complete line of this source. True: the user does not want to see it.
bool TakeWholeLine(uint32_t index, VerboseLines kind, const char* text, size_t size) {
  Source& source = g_sources[index];
  if (kind == kInfoLines) LearnFromInfoLine(&source, text);
  if (kind == kExecutionLines || kind == kCreationLines) RecordLine(index, text, size);
  if ((source.user_lines.load(std::memory_order_relaxed) & kind) == 0) {
    if (kind == kInfoLines) KeepHeaderLine(&source, text);
    t_swallow_flush_of = source.object;
    return true;
  }
  if (kind != kInfoLines && source.header_kept.exchange(0) != 0) fputs(source.header, stdout);
  return false;
}

// Handles output of an object that looks like a line of oneDNN's, or continues one. True: the user does not want to see
// it. Lines of objects that the tap did not arm are the program's own (it may print a log file).
bool TakeLine(const char* text, size_t size, void* caller) {
  const link_map* object = ObjectOf(caller);
  uint32_t index = FindSource(object);
  bool continues = dlhook_line_continues != 0 && t_unfinished_of == object;
  dlhook_line_continues = 0;
  if (index == kMaxTapSources) return false;
  Source& source = g_sources[index];
  char joined[sizeof source.unfinished + sizeof source.template_fields];
  if (continues) {
    size_t length = static_cast<size_t>(snprintf(joined, sizeof joined, "%s%s", source.unfinished, text));
    text = joined;
    size = length < sizeof joined ? length : sizeof joined - 1;
  }
  VerboseLines kind = KindOfLine(text);
  if (size == 0 || text[size - 1] == '\n' || size >= sizeof source.unfinished)
    return TakeWholeLine(index, kind, text, size);
  memcpy(source.unfinished, text, size + 1);
  t_unfinished_of = object;
  dlhook_line_continues = 1;
  return (source.user_lines.load(std::memory_order_relaxed) & kind) == 0;
}

// What printf does, and with a flag __printf_chk. A line's text is truncated here, the user's own copy of it is complete.
int Print(int flag, const char* format, va_list arguments, void* caller) {
  char text[kMaxTapTextBytes + 64];
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(text, sizeof text, format, arguments);
  size_t size = length < 0 ? 0 : static_cast<size_t>(length);
  if (size >= sizeof text) size = sizeof text - 1;
  int result = TakeLine(text, size, caller) ? static_cast<int>(size) : __vprintf_chk(flag, format, again);
  va_end(again);
  return result;
}

// torch::verbose::_mkldnn_set_verbose, dnnl_set_verbose and mkldnn_set_verbose: remembers the user's request, sets the
// library to the union of both.
int SetVerbose(const char* name, void* own, void* caller, void* looked_up, int level) {
  using Set = int (*)(int);
  auto real = reinterpret_cast<Set>(looked_up != nullptr ? looked_up : FindReal(name, nullptr, own, caller));
  if (real == nullptr) return 0;
  const link_map* object = ObjectOf(reinterpret_cast<void*>(real));
  const Config& config = GetConfig();
  uint32_t index = object != nullptr && MayArm(ObjectName(object), config) ? SourceOf(object) : kMaxTapSources;
  if (index == kMaxTapSources) return real(level);
  Report(kOneDnnTap, g_sources[index].name, CapabilityState::kOn, "");
  g_sources[index].user_lines.store(LinesOfLevel(level), std::memory_order_relaxed);
  const ThreadState* thread = dlhook_thread;
  bool is_attached = thread != nullptr && thread->active != 0;
  bool stopped = is_attached && (thread->session->enabled_families.load() & FamilyBit<kOneDnnTap>()) == 0;
  int ours = stopped ? 0 : config.onednn_level;
  return real(level > ours ? level : ours);
}

// MKLDNN_VERBOSE: 0.x and 1.0 know no other; 1.1 to 2.4 first ask for it and then for DNNL_VERBOSE, which takes
// precedence.
bool OnGetenv(const char* name, void* caller, char** answer) {
  bool is_ours = false;
  for (const char* variable : kVerboseVariables) is_ours = is_ours || strcmp(name, variable) == 0;
  if (!is_ours) return false;
  const link_map* object = ObjectOf(caller);
  const Config& config = GetConfig();
  const char* users = UsersVariable(name);
  bool asked_for_it = users == nullptr || strcmp(users, name) == 0;
  if (object == nullptr || !asked_for_it || CopiesAnswer(name, ObjectName(object))) return false;
  ErrnoKeeper keeper;
  uint32_t index = MayArm(ObjectName(object), config) ? SourceOf(object) : kMaxTapSources;
  if (index == kMaxTapSources) return false;
  Source& source = g_sources[index];
  const char* users_value = users == nullptr ? nullptr : RealGetenv(users);
  source.user_lines.store(LinesOfSetting(users_value), std::memory_order_relaxed);
  static char composed[256];
  *answer = const_cast<char*>(SettingToAnswer(users_value, config.onednn_level, composed, sizeof composed));
  Report(kOneDnnTap, source.name, CapabilityState::kOn, LimitOf(*answer, config.onednn_level));
  return true;
}
DLHOOK_GETENV_TAP(kOneDnnVerbose, "ONEDNN_VERBOSE", &OnGetenv);
DLHOOK_GETENV_TAP(kDnnlVerbose, "DNNL_VERBOSE", &OnGetenv);
DLHOOK_GETENV_TAP(kMklDnnVerbose, "MKLDNN_VERBOSE", &OnGetenv);

DLHOOK_LOOKED_UP(kDnnlSetVerbose, dnnl_set_verbose);
DLHOOK_LOOKED_UP(kMklDnnSetVerbose, mkldnn_set_verbose);
DLHOOK_LOOKED_UP(kTorchSetVerbose, _ZN5torch7verbose19_mkldnn_set_verboseEi);

}  // namespace
}  // namespace dlhook::inline tap

extern "C" {

__attribute__((visibility("hidden"))) void dlhook_init_printf() {
  dlhook_real_printf = dlhook::RealDlsym(RTLD_NEXT, "printf");
  dlhook_real_printf_chk = dlhook::RealDlsym(RTLD_NEXT, "__printf_chk");
}

// The stubs jump here with a line from oneDNN.
__attribute__((visibility("hidden"))) int dlhook_tap_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int result = dlhook::Print(0, format, arguments, __builtin_return_address(0));
  va_end(arguments);
  return result;
}

__attribute__((visibility("hidden"))) int dlhook_tap_printf_chk(int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int result = dlhook::Print(flag, format, arguments, __builtin_return_address(0));
  va_end(arguments);
  return result;
}

DLHOOK_EXPORT int fflush(FILE* stream) {
  using namespace dlhook;
  const link_map* expected = t_swallow_flush_of;
  if (__builtin_expect(expected != nullptr, 0)) {
    t_swallow_flush_of = nullptr;
    // Up to 1.6 oneDNN calls fflush(0).
    bool is_its_own = stream == stdout || stream == nullptr;
    if (is_its_own && ObjectOf(__builtin_return_address(0)) == expected) return 0;
  }
  return RealOf("fflush", &g_real_fflush)(stream);
}

#define DLHOOK_SET_VERBOSE(name)                                      \
  DLHOOK_ENTRY(name);                                                 \
  int DLHOOK_BODY(name)(int level) {                                  \
    void* looked_up = dlhook::LookedUpFunction();                     \
    return dlhook::SetVerbose(DLHOOK_CALLED(name), looked_up, level); \
  }
DLHOOK_SET_VERBOSE(_ZN5torch7verbose19_mkldnn_set_verboseEi)  // torch.backends.mkldnn.verbose(…)
DLHOOK_SET_VERBOSE(dnnl_set_verbose)
DLHOOK_SET_VERBOSE(mkldnn_set_verbose)

}  // extern "C"
