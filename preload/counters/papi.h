// PAPI, for counters that perf_event lacks: its presets ("PAPI_TOT_INS") and events of its components ("papi::NAME").
// Opened when one is requested; its header is not needed to build. Used by the shim, and by `dlhook counters` to try
// it. PAPI keeps its own memory and descriptors in the process, at numbers of its choice. A forked child would find its
// locks and events as they were.
// Thread: one opens it; an event set belongs to the thread that made it.
#pragma once

#include <pthread.h>

#include "preload/counters/counter_names.h"

namespace dlhook::inline counters {

struct Papi {
  int (*library_init)(int version);
  int (*set_domain)(int domain);
  int (*thread_init)(unsigned long (*thread_id)());
  int (*create_eventset)(int* set);
  int (*add_named_event)(int set, const char* name);
  int (*start)(int set);
  int (*read)(int set, long long* values);
  int (*stop)(int set, long long* values);
  int (*cleanup_eventset)(int set);
  int (*destroy_eventset)(int* set);
  int (*unregister_thread)();
  int (*enum_event)(int* code, int modifier);
  int (*query_event)(int code);
  int (*event_code_to_name)(int code, char* name);
  char* (*strerror)(int error);
};

constexpr int kPapiOk = 0;
// The soname may include the minor version.
constexpr const char* kPapiSonames[] = {"libpapi.so.7", "libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0",
                                        "libpapi.so.6", "libpapi.so.6.0", "libpapi.so"};

inline bool FindPapi(void* library, void* (*find)(void* library, const char* name), Papi* papi) {
  static constexpr const char* kNames[] = {"PAPI_library_init",
                                           "PAPI_set_domain",
                                           "PAPI_thread_init",
                                           "PAPI_create_eventset",
                                           "PAPI_add_named_event",
                                           "PAPI_start",
                                           "PAPI_read",
                                           "PAPI_stop",
                                           "PAPI_cleanup_eventset",
                                           "PAPI_destroy_eventset",
                                           "PAPI_unregister_thread",
                                           "PAPI_enum_event",
                                           "PAPI_query_event",
                                           "PAPI_event_code_to_name",
                                           "PAPI_strerror"};
  constexpr size_t kCount = sizeof kNames / sizeof kNames[0];
  static_assert(sizeof(Papi) == kCount * sizeof(void*));  // one name per pointer, in order
  void* functions[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    functions[i] = find(library, kNames[i]);
    if (functions[i] == nullptr) return false;
  }
  memcpy(papi, functions, sizeof *papi);
  return true;
}

// Null, or why it does not work: a clause. `version`: major << 8 | minor.
inline const char* StartPapi(void* library, void* (*find)(void* library, const char* name), Papi* papi, int* version) {
  constexpr int kAllDomains = 0xf;  // PAPI_DOM_ALL: without it switches and migrations read 0
  if (!FindPapi(library, find, papi)) return "it lacks functions that dlhook needs";
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
