// The JAX tap: a thread of dlhook's own that runs jaxlib's profiler in windows, through the interpreter.
// Thread: dlhook-jax, with the GIL where it uses Python. OnExit, OnUsersSession and OnUsersServer run on threads of the
// program that have the GIL. All state but the atomics is protected by it.
#include <stdio.h>
#include <sys/prctl.h>

#include "preload/base/own_thread.h"
#include "preload/base/spin_lock.h"
#include "preload/format/clock.h"
#include "preload/link/resolver.h"
#include "preload/runtime/scope.h"
#include "preload/runtime/undisturbed.h"
#include "preload/tap/jax_session.h"
#include "preload/tap/jax_windows.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

constexpr char kObject[] = "libjax_common.so";
// Releases 0.9.0 to 0.12.0.1 were tried. Before, a session that doesn't begin on the main thread may wait for itself, with the
// GIL (PythonHookContext): a check would stop the program, so these are refused. Newer ones are checked.
constexpr unsigned kFirstMinor = 9, kLastMinor = 12;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLookNs = 100 * kMs;
constexpr uint64_t kLooksOfPause = 100;                 // at least, between two; by processor time
constexpr uint64_t kSettledNs = 500 * kMs;              // no program was compiled for that long
constexpr uint64_t kLongestUnsettledNs = 15'000 * kMs;  // a program that always compiles has windows, too
constexpr int kLongestExitSteps = 5000;
constexpr size_t kStackBytes = 4 << 20;  // jaxlib's code runs on it

void Nap(uint64_t ns) { FutexWait(&g_jax.ends, 0, TimespecOf(ns)); }

char g_untried[80];  // the release, if it was not tried

enum class Look : uint32_t { kNotYet, kUsers, kRefused, kPrograms, kReady };

void CopyText(const Ref& text, char* copy, size_t bytes) {
  const char* found = text ? g_python_api.TextAsUtf8(text.get()) : nullptr;
  if (found == nullptr) g_python_api.ErrClear();
  snprintf(copy, bytes, "%s", found == nullptr ? "?" : found);
}

// jax.profiler's, or None.
Ref UsersSession() {
  const Ref profile = AttributeOfModule("jax._src.profiler", "_profile_state");
  Ref before_0_12 = Attribute(profile.get(), "profile_session");
  return before_0_12 ? std::move(before_0_12) : Attribute(profile.get(), "session");
}

// What the tap uses and a newer release does not have; null: it has all.
const char* MissingPart() {
  constexpr const char* kParts[][3] = {
      {"jaxlib._profiler", "start_server", nullptr},
      {"jaxlib._profiler", "ProfilerSession", "stop"},
      {"jaxlib._profiler", "ProfileOptions", "python_tracer_level"},
      {"jaxlib._profiler", "ProfileOptions", "host_tracer_level"},
      {"jaxlib._profiler", "ProfileOptions", "enable_hlo_proto"},
      {"jax._src.profiler", "_profiler_server", nullptr},
  };
  for (const auto& [module, name, attribute] : kParts) {
    const Ref found = AttributeOfModule(module, name);
    if (!found || (attribute != nullptr && !Attribute(found.get(), attribute)))
      return attribute != nullptr ? attribute : name;
  }
  return UsersSession() ? nullptr : "session";
}

// Why jaxlib is not asked at all; empty: nothing is known against it.
void FindRefusal(char* reason, size_t bytes) {
  char version[32];
  CopyText(AttributeOfModule("jaxlib.version", "__version__"), version, sizeof version);
  unsigned major = 0, minor = 0;
  sscanf(version, "%u.%u", &major, &minor);
  if (major == 0 && minor < kFirstMinor) {
    snprintf(reason, bytes, "jaxlib %s: its profiler is not safe on a thread of dlhook's before 0.9", version);
  } else if (major > 0 || minor > kLastMinor) {
    if (const char* missing = MissingPart())
      snprintf(reason, bytes, "jaxlib %s: its profiler lacks %s", version, missing);
    snprintf(g_untried, sizeof g_untried, "jaxlib %s; %s %u.%u", version, kNotTriedWith, major, minor);
  }
}

// There, a session of jaxlib's would take CUPTI from dlhook, and XLA runs no CUDA graphs while it is open.
bool HasGpu(const Ref& backends) {
  size_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (g_python_api.DictNext(backends.get(), &position, &key, &value) != 0) {
    const char* name = g_python_api.TextAsUtf8(key);
    if (name == nullptr) g_python_api.ErrClear();
    if (name == nullptr || strcmp(name, "cpu") != 0) return true;
  }
  return false;
}

bool IsUsersTurn() {
  const Ref server = AttributeOfModule("jax._src.profiler", "_profiler_server");
  const Ref session = UsersSession();
  return !server || !session || !server.IsNone() || !session.IsNone();
}

bool IsSettled() {
  const Ref programs = JaxPrograms();
  ptrdiff_t count = programs ? g_python_api.ListSize(programs.get()) : 0;
  uint64_t now_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  if (count <= 0) return false;
  if (g_jax.unsettled_since_ns == 0) g_jax.unsettled_since_ns = now_ns;
  if (count != g_jax.programs) g_jax.settled_since_ns = now_ns;
  g_jax.programs = count;
  return now_ns - g_jax.settled_since_ns >= kSettledNs || now_ns - g_jax.unsettled_since_ns > kLongestUnsettledNs;
}

PyObject* OnExit(PyObject*, PyObject*) {
  if (IsJaxOwnProcess()) {
    g_jax.ends.store(1);
    FutexWake(&g_jax.ends, INT32_MAX);
    for (int step = 0; step < kLongestExitSteps && g_jax.done.load() == 0; ++step) StepAside();
    g_jax.closed.store(1);
    while (g_jax.inside.load() != 0) StepAside();
  }
  return NewNone();
}
PyMethodDef g_jax_exit = {"interpreter_ends", {&OnExit}, PyMethodDef::kNoArguments, nullptr};

Look LookAtJax(char* reason, size_t bytes) {
  NoCollection no_collection;
  if (!g_jax.has_exit)
    g_jax.has_exit = static_cast<bool>(CallPython(AttributeOfModule("atexit", "register"), NewFunction(&g_jax_exit)));
  for (const char* module : {"jaxlib._profiler", "jaxlib.version", "jax._src.profiler", "jax._src.xla_bridge"}) {
    if (ImportedModule(module) == nullptr) return Look::kNotYet;
  }
  const Ref backends = AttributeOfModule("jax._src.xla_bridge", "_backends");
  if (!g_jax.has_exit || !backends) return Look::kNotYet;
  FindRefusal(reason, bytes);
  if (reason[0] != '\0') return Look::kRefused;
  ListenToJaxCompilations();
  const bool has_gpu = HasGpu(backends);
  if (!has_gpu && IsUsersTurn()) return Look::kUsers;
  if (!IsSettled()) return Look::kNotYet;
  return has_gpu ? Look::kPrograms : Look::kReady;
}

// ---- The thread

bool IsRecording() { return ScopeThread(FamilyBit<kJaxTap>()) != nullptr; }

void RunWindow(WindowPlan* plan) {
  if (!WithGil([] {
        NoCollection no_collection;
        if (!IsUsersTurn()) OpenJaxWindow();
      })) {
    return;
  }
  if (g_jax.window.load() == JaxWindow::kNone) return;
  if (plan->windows == 0) Report(kJaxTap, kObject, CapabilityState::kOn, g_untried);
  uint64_t opened_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  Nap(plan->window_ns);
  uint64_t window_ns = ClockNanoseconds(CLOCK_MONOTONIC) - opened_ns;
  uint64_t before_ns = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID);
  WithGil([] {
    while (g_jax.window.load() == JaxWindow::kClosing) StepAside();  // for the program's own profiler
    if (g_jax.window.load() == JaxWindow::kOpen) StopJaxWindow();
  });
  uint64_t stop_ns = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID) - before_ns;
  size_t bytes = WriteJaxResult();
  if (bytes == 0) Report(kJaxTap, kObject, CapabilityState::kLost, "a window of jaxlib's profiler had no result");
  WriteJaxPrograms();
  PlanNextWindow(bytes, window_ns, stop_ns, plan);
}

void ReportOnce(const char* limit) {
  if (!g_jax.has_limit) Report(kJaxTap, kObject, CapabilityState::kOn, limit);
  g_jax.has_limit = true;
}

// How long to rest after what began at this processor time.
uint64_t RestSince(uint64_t before_ns) {
  uint64_t rest_ns = (ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID) - before_ns) * kLooksOfPause;
  return rest_ns < kLookNs ? kLookNs : rest_ns;
}

// How long to wait before the next look; 0: the tap ends.
uint64_t Turn(WindowPlan* plan) {
  char reason[160] = "";
  Look look = Look::kNotYet;
  uint64_t before_ns = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID);
  if (!WithGil([&] { look = LookAtJax(reason, sizeof reason); })) return 0;
  uint64_t look_ns = RestSince(before_ns);
  if (look == Look::kRefused) {
    Report(kJaxTap, kObject, CapabilityState::kRefused, reason);
    return 0;
  }
  if (look == Look::kUsers) ReportOnce("not while the program's own profiler ran");
  if (look < Look::kPrograms || !IsRecording()) return look_ns;
  WriteJaxPrograms();  // there is little time for it when the program ends
  if (look == Look::kPrograms) {
    ReportOnce("compiled programs only, because JAX runs on a GPU: CUPTI times what they run there");
    return RestSince(before_ns);
  }
  RunWindow(plan);
  g_jax.unsettled_since_ns = 0;
  return plan->pause_ns > look_ns ? plan->pause_ns : look_ns;
}

// Another thread may be looking for it.
bool HasPython() {
  for (int tries = 0; tries < 50 && g_jax.ends.load() == 0; ++tries) {
    FindPython();
    if (CurrentPython() != nullptr) return true;
    Nap(kLookNs);
  }
  return false;
}

void* JaxThreadMain(void*) {
  UncountedThread uncounted;
  prctl(PR_SET_NAME, "dlhook-jax");
  if (!HasPython() || !g_python_api.is_complete()) {
    Report(kJaxTap, kObject, CapabilityState::kRefused, "this Python can't be used");
  } else {
    WindowPlan plan;
    while (g_jax.ends.load() == 0) {
      uint64_t wait_ns = Turn(&plan);
      if (wait_ns == 0) break;
      Nap(wait_ns);
    }
    if (g_jax.programs > 0 && IsRecording()) WriteJaxPrograms();
  }
  g_jax.done.store(1);
  return nullptr;
}

// A forked child keeps what it inherited of an open window, so that its own profiler gets the session out of the way.
void ResetForProcess() {
  g_jax.ends.store(0);
  g_jax.done.store(0);
  g_jax.closed.store(0);
  g_jax.inside.store(0);
  g_jax.has_exit = false;
  g_jax.programs = 0;
  g_jax.profiles = 0;
  g_jax.settled_since_ns = g_jax.unsettled_since_ns = 0;
  ForgetJaxPrograms();
}

// XLA looks these variables up when it makes its client, in the process that will use it.
bool OnGetenv(const char*, void* caller, char**) {
  uint32_t before = g_jax.pid.load(std::memory_order_relaxed);
  if (before == ProcessId() || strcmp(ObjectName(ObjectOf(caller)), kObject) != 0) return false;
  ErrnoKeeper keeper;
  if (g_jax.pid.compare_exchange_strong(before, ProcessId()) && !IsLeftOut(kJaxTap, kObject)) {
    Undisturbed undisturbed;
    static void* stack = nullptr;
    pthread_t thread;
    ResetForProcess();
    if (StartOwnThread(&stack, kStackBytes, &JaxThreadMain, nullptr, &thread)) pthread_detach(thread);
  }
  return false;
}
DLHOOK_GETENV_TAP(kFlagsTap, "XLA_FLAGS", &OnGetenv);
DLHOOK_GETENV_TAP(kClientTap, "PJRT_NPROC", &OnGetenv);

}  // namespace
}  // namespace dlhook::inline tap
