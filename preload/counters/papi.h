// PAPI, for counters that perf_event lacks: its presets ("PAPI_TOT_INS") and events of its components ("papi::NAME").
// Opened when one is requested; its header is not needed to build. Used by the shim, and by `dlhook counters` to try
// it. PAPI keeps its own memory and descriptors in the process, at numbers of its choice. A forked child would find its
// locks and events as they were.
// Thread: one opens it; an event set belongs to the thread that made it.
#pragma once

#include <pthread.h>

#include "preload/base/function_table.h"
#include "preload/counters/counter_names.h"

namespace dlhook::inline counters {

struct Papi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*library_init)(int version) = Need("PAPI_library_init");
  int (*set_domain)(int domain) = Need("PAPI_set_domain");
  int (*thread_init)(unsigned long (*thread_id)()) = Need("PAPI_thread_init");
  int (*create_eventset)(int* set) = Need("PAPI_create_eventset");
  int (*add_named_event)(int set, const char* name) = Need("PAPI_add_named_event");
  int (*start)(int set) = Need("PAPI_start");
  int (*read)(int set, long long* values) = Need("PAPI_read");
  int (*stop)(int set, long long* values) = Need("PAPI_stop");
  int (*cleanup_eventset)(int set) = Need("PAPI_cleanup_eventset");
  int (*destroy_eventset)(int* set) = Need("PAPI_destroy_eventset");
  int (*unregister_thread)() = Need("PAPI_unregister_thread");
  char* (*strerror)(int error) = Need("PAPI_strerror");
};

constexpr int kPapiOk = 0;
// The soname may include the minor version.
constexpr const char* kPapiSonames[] = {"libpapi.so.7", "libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0",
                                        "libpapi.so.6", "libpapi.so.6.0", "libpapi.so"};

// Null, or why it does not work: a clause. `version`: major << 8 | minor.
inline const char* StartPapi(void* library, void* (*find)(void* library, const char* name), Papi* papi, int* version) {
  constexpr int kAllDomains = 0xf;  // PAPI_DOM_ALL: without it switches and migrations read 0
  *papi = Papi({find, library});
  if (!papi->is_complete()) return "it lacks functions that dlhook needs";
  // It accepts only its own version, that of the header used to build a program.
  for (int tried = 0x709; tried >= 0x500; tried -= tried & 0xff ? 1 : 0xf7) {
    if (papi->library_init(tried << 16) != tried << 16) continue;
    *version = tried;
    papi->set_domain(kAllDomains);
    return papi->thread_init(&pthread_self) == kPapiOk ? nullptr : "it can't tell threads apart";
  }
  return "it refuses to start for a program of version 5.0 to 7.9";
}

// "papi::NAME" is PAPI's name NAME of a component's event; presets are called PAPI_….
inline const char* PapiName(const CounterSpec& spec) {
  return strncmp(spec.name, "papi::", 6) == 0 ? spec.name + 6 : spec.name;
}

inline void DropPapiSet(const Papi& papi, int set) {
  papi.cleanup_eventset(set);
  papi.destroy_eventset(&set);
}

// A running set of the calling thread with these counters, or PAPI's error. Some events are refused only when started.
inline int MakePapiSet(const Papi& papi, const CounterSpec* const* specs, uint32_t count, int* set) {
  *set = -1;  // PAPI_NULL
  int error = papi.create_eventset(set);
  if (error != kPapiOk) return error;
  for (uint32_t i = 0; i < count && error == kPapiOk; ++i) {
    error = papi.add_named_event(*set, PapiName(*specs[i]));
  }
  if (error == kPapiOk) error = papi.start(*set);
  if (error != kPapiOk) DropPapiSet(papi, *set);
  return error;
}

inline void StopPapiSet(const Papi& papi, int set) {
  long long last[kMaxCountersOfSet];
  papi.stop(set, last);
  DropPapiSet(papi, set);
}

}  // namespace dlhook::inline counters
