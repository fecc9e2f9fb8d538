// The interposed functions of the TraceMe tap: TraceMeRecorder::Record, Start (with the argument lists of all its
// releases) and Stop.
// Thread: any application thread. An event costs a clock read and a copy of its name; nothing is allocated.
#include <string_view>

#include "preload/base/dynamic_tables.h"
#include "preload/base/entry.h"
#include "preload/format/clock.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/scope.h"
#include "preload/tap/tap.h"
#include "preload/tap/trace_me.h"

namespace dlhook::inline tap {
namespace {

constexpr char kLevelName[] = "_ZN3tsl8profiler8internal13g_trace_levelE";
constexpr char kRecordName[] = "_ZN3tsl8profiler15TraceMeRecorder6RecordEONS1_5EventE";
constexpr int kDisabled = -1;  // TraceMeRecorder::kTracingDisabled
constexpr int kOurLevel = 2;   // nodes; 1: input pipeline and eager ops only; 3: shapes in the names

enum class Phase : uint32_t {
  kUnseen,   // no TensorFlow yet
  kArming,   // by one thread; others continue
  kArmed,    // events go to dlhook only
  kUsers,    // the user's own profiler runs: events go to it too
  kRefused,  // not readable; pending events are dropped until the program starts a session
  kPassOn,   // events go to TensorFlow
};

using Record = void (*)(TraceMeEvent*);

// The one armed recorder of the process.
struct Recorder {
  const link_map* object;
  std::atomic<int>* level;
  Record record;
};
Recorder g_recorder;
std::atomic<Phase> g_phase{Phase::kUnseen};
std::atomic<bool> g_checked{false};  // an event was seen and is valid
// Another library has a recorder of its own, in use.
std::atomic<bool> g_has_others{false};

int64_t RealtimeNs() { return static_cast<int64_t>(ClockNanoseconds(CLOCK_REALTIME)); }

// ---- Arming

// Whether the object calls `function` through its table of imports, so that the calls reach the shim. Otherwise events
// would pile up in TensorFlow's memory.
bool CallsThroughTable(const link_map* object, const void* function) {
  for (const ElfW(Dyn)* entry = object->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMBOLIC || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_SYMBOLIC) != 0))
      return false;
  }
  const DynamicTables tables(object);
  ElfW(Addr) value = reinterpret_cast<ElfW(Addr)>(function) - object->l_addr;
  for (const ElfW(Rela) & relocation : tables.functions) {
    if (tables.symbols[ELF64_R_SYM(relocation.r_info)].st_value == value) return true;
  }
  return false;
}

// Why the recorder found through `object` can't be armed, or null.
const char* FindRecorder(link_map* object, Recorder* found) {
  found->level = static_cast<std::atomic<int>*>(FindInObject(kLevelName, nullptr, object));
  found->record = reinterpret_cast<Record>(FindInObject(kRecordName, nullptr, object));
  if (found->level == nullptr || found->record == nullptr) return "TraceMe's recorder is not exported";
  found->object = ObjectOf(reinterpret_cast<void*>(found->record));
  bool reaches_us = CallsThroughTable(found->object, reinterpret_cast<void*>(found->record));
  return reaches_us ? nullptr : "TraceMe's calls stay inside the library";
}

// The recorder answers Start with "already started" while the level is not kDisabled.
bool RaiseLevel() {
  int disabled = kDisabled;
  return g_recorder.level->compare_exchange_strong(disabled, kOurLevel) || disabled == kOurLevel;
}

void LowerLevel() {
  int ours = kOurLevel;
  g_recorder.level->compare_exchange_strong(ours, kDisabled);
}

// The phase that follows kArming.
Phase Arm(link_map* object) {
  const char* name = ObjectName(object);
  if (IsLeftOut(kTraceMeTap, name)) return Phase::kPassOn;
  Recorder found = {};
  if (const char* reason = FindRecorder(object, &found)) {
    Report(kTraceMeTap, name, CapabilityState::kAbsent, reason);
    return Phase::kUnseen;  // another of TensorFlow's libraries may have it
  }
  g_recorder = found;
  if (!RaiseLevel()) {
    Report(kTraceMeTap, name, CapabilityState::kRefused, "TraceMe is in use already");
    return Phase::kPassOn;
  }
  Report(kTraceMeTap, ObjectName(found.object), CapabilityState::kOn, "");
  return Phase::kArmed;
}

void Refuse(const char* reason) {
  Phase armed = Phase::kArmed;
  if (g_phase.compare_exchange_strong(armed, Phase::kRefused)) {
    LowerLevel();
  } else {
    g_phase.store(Phase::kPassOn);  // in a user's session: the level is the user's
  }
  Report(kTraceMeTap, ObjectName(g_recorder.object), CapabilityState::kRefused, reason);
}

// ---- Events

// The first event shows whether the class has the expected layout.
bool CheckFirst(const TraceMeEvent& event) {
  if (IsPlausibleEvent(event, RealtimeNs())) {
    g_checked.store(true, std::memory_order_relaxed);
    return true;
  }
  Refuse("TraceMe's events have another layout");
  return false;
}

// When an event ended. It may be recorded long after that: its thread lost its processor meanwhile. Placed by when it is recorded,
// it would begin after what is inside of it.
uint64_t EndTicks(const TraceMeEvent& event, ClockKind clock, double ticks_per_ns) {
  constexpr int kTries = 3;
  constexpr double kReadsNs = 1000;  // that both clocks' readings may be apart
  uint64_t ticks = 0;
  int64_t late_ns = 0;
  for (int i = 0; i < kTries; ++i) {
    uint64_t before = ReadTicks(clock);
    late_ns = RealtimeNs() - event.end_ns;
    ticks = ReadTicks(clock);
    if (static_cast<double>(ticks - before) < kReadsNs * ticks_per_ns) break;
  }
  bool is_plausible = late_ns > 0 && late_ns < 60'000'000'000;  // else the clock was set
  return ticks - (is_plausible ? static_cast<uint64_t>(static_cast<double>(late_ns) * ticks_per_ns) : 0);
}

void Tell(const TraceMeEvent& event) {
  if (!IsWholeEvent(event)) return;  // marks, and halves, which are useless without the other one
  ThreadState* thread = ScopeThread(FamilyBit<kTraceMeTap>());
  if (thread == nullptr) return;
  TraceMeName name = ParseTraceMeName(event.name, event.name_bytes);
  double ticks_per_ns = static_cast<double>(TicksPerSecond(*thread->session)) * 1e-9;
  auto duration_ticks = static_cast<uint64_t>(static_cast<double>(event.end_ns - event.start_ns) * ticks_per_ns);
  RecordEndedScope(thread, name.kind, event.name, name.bytes, duration_ticks,
                   EndTicks(event, thread->clock, ticks_per_ns));
}

// The function to which the caller's event would go without dlhook.
Record RealRecord(const char* name, void* own, void* caller) {
  if (g_recorder.record != nullptr && !g_has_others.load(std::memory_order_relaxed)) return g_recorder.record;
  return reinterpret_cast<Record>(FindReal(name, nullptr, own, caller));
}

void OnRecord(const char* name, void* own, void* caller, TraceMeEvent* event) {
  Phase phase = g_phase.load(std::memory_order_acquire);
  bool ours = phase == Phase::kArmed || phase == Phase::kUsers;
  Record real = nullptr;
  if (__builtin_expect(g_has_others.load(std::memory_order_relaxed), 0)) {
    real = RealRecord(name, own, caller);
    ours = ours && real == g_recorder.record;
  }
  if (ours) {
    ErrnoKeeper keeper;
    bool is_known = g_checked.load(std::memory_order_relaxed) || CheckFirst(*event);
    if (is_known) Tell(*event);
    // Not the user's: dropped; the caller destroys its name. (TensorFlow leaves out events that began before the user's
    // session.)
    if (phase == Phase::kArmed) return;
  }
  if (phase == Phase::kRefused) return;
  if (real == nullptr) real = RealRecord(name, own, caller);
  if (real != nullptr) real(event);
}

// ---- The user's own profiler

// Yields to the user's session. True: EndUsersSession must follow.
bool BeginUsersSession(const void* real) {
  if (ObjectOf(real) != g_recorder.object) {
    g_has_others.store(true);
    return false;
  }
  Phase armed = Phase::kArmed;
  // First the phase: an event of the user's must not be mistaken for the tap's. Start itself discards those that come
  // too early.
  if (!g_phase.compare_exchange_strong(armed, Phase::kUsers)) return false;
  LowerLevel();
  return true;
}

void EndUsersSession() {
  Phase users = Phase::kUsers;
  if (!g_phase.compare_exchange_strong(users, Phase::kArmed)) return;  // refused meanwhile
  bool again = RaiseLevel();
  const char* reason = again ? "" : "the program's own profiler holds TraceMe";
  CapabilityState state = again ? CapabilityState::kOn : CapabilityState::kLost;
  Report(kTraceMeTap, ObjectName(g_recorder.object), state, reason);
}

void NoteUsersLevel(int level) {
  if (level >= kOurLevel) return;
  Report(kTraceMeTap, ObjectName(g_recorder.object), CapabilityState::kLost,
         "no nodes: the program's own profiler runs at level 1 or 0");
}

// A look-up of one of TensorFlow's variables, or a start of its profiler, by `caller`: arms the tap if that is
// TensorFlow. Not before its library's data exist, and before its first op.
void NoticeTensorFlow(void* caller) {
  Phase unseen = Phase::kUnseen;
  if (g_phase.load(std::memory_order_relaxed) != unseen) return;
  link_map* object = ObjectOf(caller);
  const char* name = ObjectName(object);
  const std::string_view file = name;
  bool is_tensorflow = file.starts_with("libtensorflow") || file.starts_with("_pywrap_tensorflow");
  bool is_jax = file.starts_with("libjax_common") || file.starts_with("xla_extension");
  if (!is_tensorflow && !is_jax) return;
  ErrnoKeeper keeper;
  if (is_jax) {
    Report(kTraceMeTap, name, CapabilityState::kAbsent, "TraceMe's recorder is not exported");
  } else if (g_phase.compare_exchange_strong(unseen, Phase::kArming)) {
    g_phase.store(Arm(object), std::memory_order_release);
  }
}

bool OnGetenv(const char*, void* caller, char**) {
  NoticeTensorFlow(caller);
  return false;
}
DLHOOK_GETENV_TAP(kGetenvTap, "TF_", &OnGetenv);

template <typename... Arguments>
bool OnStart(const char* name, void* own, void* caller, int level, Arguments... arguments) {
  NoticeTensorFlow(caller);
  auto real = reinterpret_cast<bool (*)(int, Arguments...)>(FindReal(name, nullptr, own, caller));
  if (real == nullptr) return false;
  Phase refused = Phase::kRefused;
  g_phase.compare_exchange_strong(refused, Phase::kPassOn);
  bool ours = g_recorder.object != nullptr && BeginUsersSession(reinterpret_cast<void*>(real));
  bool started = real(level, arguments...);
  ErrnoKeeper keeper;
  if (ours && !started) EndUsersSession();
  if (ours && started) NoteUsersLevel(level);
  return started;
}

// `events`: where the caller wants the vector that Stop returns.
void* OnStop(const char* name, void* own, void* caller, void* events) {
  auto real = reinterpret_cast<void* (*)(void*)>(FindReal(name, nullptr, own, caller));
  if (real == nullptr) return events;
  bool ours = g_recorder.object != nullptr && ObjectOf(reinterpret_cast<void*>(real)) == g_recorder.object;
  Phase phase = g_phase.load(std::memory_order_acquire);
  ours = ours && (phase == Phase::kArmed || phase == Phase::kUsers);
  // A Stop without a Start has nothing to stop.
  if (ours && phase == Phase::kArmed) LowerLevel();
  void* result = real(events);
  ErrnoKeeper keeper;
  if (ours && phase == Phase::kUsers) EndUsersSession();
  if (ours && phase == Phase::kArmed) RaiseLevel();
  return result;
}

}  // namespace

}  // namespace dlhook::inline tap

extern "C" {

DLHOOK_EXPORT void _ZN3tsl8profiler15TraceMeRecorder6RecordEONS1_5EventE(dlhook::TraceMeEvent* event) {
  dlhook::OnRecord(DLHOOK_CALLED(_ZN3tsl8profiler15TraceMeRecorder6RecordEONS1_5EventE), event);
}

DLHOOK_EXPORT bool _ZN3tsl8profiler15TraceMeRecorder5StartEi(int level) {
  return dlhook::OnStart(DLHOOK_CALLED(_ZN3tsl8profiler15TraceMeRecorder5StartEi), level);
}

DLHOOK_EXPORT bool _ZN3tsl8profiler15TraceMeRecorder5StartEim(int level, uint64_t filter) {
  return dlhook::OnStart(DLHOOK_CALLED(_ZN3tsl8profiler15TraceMeRecorder5StartEim), level, filter);
}

// From 2026 on.
DLHOOK_EXPORT bool _ZN3tsl8profiler15TraceMeRecorder5StartEimb(int level, uint64_t filter, bool flag) {
  return dlhook::OnStart(DLHOOK_CALLED(_ZN3tsl8profiler15TraceMeRecorder5StartEimb), level, filter, flag);
}

DLHOOK_EXPORT void* _ZN3tsl8profiler15TraceMeRecorder4StopEv(void* events) {
  return dlhook::OnStop(DLHOOK_CALLED(_ZN3tsl8profiler15TraceMeRecorder4StopEv), events);
}

}  // extern "C"
