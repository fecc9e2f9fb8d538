// PAPI, as far as one thread's event set goes. Constants of papi.h, which is not needed to build.
#include "preload/counters/counter_papi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "preload/base/own_stack.h"
#include "preload/base/process_id.h"
#include "preload/counters/counter_plan.h"
#include "preload/link/resolver.h"

namespace dlhook {
namespace {

constexpr int kOk = 0;
constexpr int kNull = -1;
constexpr int kNoMemory = -2;
constexpr int kAllDomains = 0xf;  // PAPI_DOM_MAX: user, kernel, other, supervisor

struct Papi {
  int (*library_init)(int version);
  int (*set_domain)(int domain);
  int (*thread_init)(unsigned long (*thread_id)());
  int (*event_name_to_code)(const char* name, int* code);
  int (*create_eventset)(int* set);
  int (*add_event)(int set, int code);
  int (*start)(int set);
  int (*read)(int set, long long* values);
  int (*stop)(int set, long long* values);
  int (*cleanup_eventset)(int set);
  int (*destroy_eventset)(int* set);
  int (*unregister_thread)();
  char* (*strerror)(int error);
};

struct Function {
  const char* name;
  void** function;
};

Papi g_papi;
enum class PapiState : uint8_t { kUntried, kReady, kNone };
PapiState g_state;
uint32_t g_process;  // that has opened it
char g_reason[160];

bool FindFunctions(void* library) {
  const Function functions[] = {
      {"PAPI_library_init", reinterpret_cast<void**>(&g_papi.library_init)},
      {"PAPI_set_domain", reinterpret_cast<void**>(&g_papi.set_domain)},
      {"PAPI_thread_init", reinterpret_cast<void**>(&g_papi.thread_init)},
      {"PAPI_event_name_to_code", reinterpret_cast<void**>(&g_papi.event_name_to_code)},
      {"PAPI_create_eventset", reinterpret_cast<void**>(&g_papi.create_eventset)},
      {"PAPI_add_event", reinterpret_cast<void**>(&g_papi.add_event)},
      {"PAPI_start", reinterpret_cast<void**>(&g_papi.start)},
      {"PAPI_read", reinterpret_cast<void**>(&g_papi.read)},
      {"PAPI_stop", reinterpret_cast<void**>(&g_papi.stop)},
      {"PAPI_cleanup_eventset", reinterpret_cast<void**>(&g_papi.cleanup_eventset)},
      {"PAPI_destroy_eventset", reinterpret_cast<void**>(&g_papi.destroy_eventset)},
      {"PAPI_unregister_thread", reinterpret_cast<void**>(&g_papi.unregister_thread)},
      {"PAPI_strerror", reinterpret_cast<void**>(&g_papi.strerror)},
  };
  for (const Function& wanted : functions) {
    *wanted.function = RealDlsym(library, wanted.name);
    if (*wanted.function == nullptr) return false;
  }
  return true;
}

// It takes only the version that it is itself: major and minor number.
bool Initialize(int major) {
  for (int minor = 0; minor < 10; ++minor) {
    int version = major << 24 | minor << 16;
    if (g_papi.library_init(version) == version) return true;
  }
  return false;
}

bool Start(void* library, int major) {
  if (!FindFunctions(library)) {
    snprintf(g_reason, sizeof g_reason, "this PAPI lacks a function that dlhook needs");
    return false;
  }
  if (!Initialize(major)) {
    snprintf(g_reason, sizeof g_reason, "PAPI %d refuses to start", major);
    return false;
  }
  g_papi.set_domain(kAllDomains);  // in its default domain switches of context are none
  return g_papi.thread_init(&pthread_self) == kOk;
}

bool IsReady() {
  if (g_state == PapiState::kReady) return true;
  if (g_state == PapiState::kNone) return false;
  g_state = PapiState::kNone;
  g_process = ProcessId();
  snprintf(g_reason, sizeof g_reason, "needs PAPI (libpapi.so.7 or .so.6), which is not installed");
  for (const char* soname :
       {"libpapi.so.7", "libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.6", "libpapi.so.6.0"}) {
    void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    if (Start(library, soname[strlen("libpapi.so.")] - '0')) g_state = PapiState::kReady;
    break;
  }
  return g_state == PapiState::kReady;
}

void Destroy(int set) {
  g_papi.cleanup_eventset(set);
  g_papi.destroy_eventset(&set);
}

// "papi::NAME" is PAPI's own name of an event of a component; presets are called PAPI_….
const char* PapiName(const CounterSpec& spec) {
  const char* name = spec.name;
  return strncmp(name, "papi::", 6) == 0 ? name + 6 : name;
}

// A running set with these events, or PAPI's error.
int MakeSet(const CounterSpec* const* specs, uint32_t count, int* set) {
  *set = kNull;
  int error = g_papi.create_eventset(set);
  if (error != kOk) return error;
  for (uint32_t i = 0; i < count && error == kOk; ++i) {
    int code = 0;
    error = g_papi.event_name_to_code(PapiName(*specs[i]), &code);
    if (error == kOk) error = g_papi.add_event(*set, code);
  }
  if (error == kOk) error = g_papi.start(*set);
  if (error != kOk) Destroy(*set);
  return error;
}

}  // namespace

bool PlanPapi(const CounterSpec* spec) {
  int set = kNull;
  if (!IsReady()) {
    ReportCounter(spec->name, CapabilityState::kAbsent, g_reason);
    return false;
  }
  int error = MakeSet(&spec, 1, &set);
  if (error != kOk) {
    char reason[200];
    snprintf(reason, sizeof reason, "PAPI can't count it here: %s", g_papi.strerror(error));
    ReportCounter(spec->name, CapabilityState::kRefused, reason);
    return false;
  }
  ClosePapiSet(set);
  return true;
}

int OpenPapiSet(const CounterSpec* const* specs, uint32_t count, const char** reason) {
  struct Making {
    const CounterSpec* const* specs;
    uint32_t count;
    int set;
    int error;
  } making = {specs, count, kNull, kNoMemory};
  if (g_process != ProcessId()) {
    *reason = "PAPI does not survive a fork: not of this process, its parent has opened it";
    return -1;
  }
  CallOnOwnStack(
      [](void* argument) {
        auto making = static_cast<Making*>(argument);
        making->error = MakeSet(making->specs, making->count, &making->set);
      },
      &making);
  if (making.error == kOk) return making.set;
  *reason = g_papi.strerror(making.error);
  return -1;
}

bool ReadPapiSet(int set, uint32_t count, uint64_t* values) {
  long long found[kMaxCountersOfSet] = {};
  if (g_papi.read(set, found) != kOk) return false;
  for (uint32_t i = 0; i < count; ++i) values[i] = static_cast<uint64_t>(found[i]);
  return true;
}

void ClosePapiSet(int set) {
  long long last[kMaxCountersOfSet] = {};
  g_papi.stop(set, last);
  Destroy(set);
  g_papi.unregister_thread();
}

}  // namespace dlhook
