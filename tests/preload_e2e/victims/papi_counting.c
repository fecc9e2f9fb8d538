// A libpapi (version 7.0) whose one event, PAPI_TOT_INS, increases by 7 at every reading of a thread. Four event sets
// at a time. Like the real one it needs a fairly large stack; and it kills a forked child that uses its parent's event
// sets.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kVersion = 7 << 24, kNoEvent = -7, kNoMemory = -2, kMaxSets = 4 };

static _Thread_local long long count;
static int sets;
static int threads_told;
static int owner;

static int Enter(void) {
  volatile char room[100 << 10];
  for (size_t i = 0; i < sizeof room; i += 1024) room[i] = 1;
  if (owner == 0) owner = getpid();
  if (owner != getpid()) abort();
  return room[0];
}

int PAPI_library_init(int version) { return Enter() && version == kVersion ? kVersion : -1; }
int PAPI_set_domain(int domain) { return domain == 0xf ? 0 : -1; }
int PAPI_thread_init(unsigned long (*id)(void)) { return threads_told = id() != 0, 0; }
int PAPI_create_eventset(int* set) {
  Enter();
  if (!threads_told || __atomic_fetch_add(&sets, 1, __ATOMIC_RELAXED) >= kMaxSets) return kNoMemory;
  return *set = 1, 0;
}
int PAPI_add_named_event(int set, const char* name) {
  return set == 1 && strcmp(name, "PAPI_TOT_INS") == 0 ? 0 : kNoEvent;
}
int PAPI_start(int set) { return set == 1 ? 0 : -1; }
int PAPI_read(int set, long long* values) { return *values = count += 7, set == 1 && owner == getpid() ? 0 : -1; }
int PAPI_stop(int set, long long* values) { return *values = 0, set == 1 ? 0 : -1; }
int PAPI_cleanup_eventset(int set) { return set == 1 ? 0 : -1; }
int PAPI_destroy_eventset(int* set) { return *set = -1, __atomic_fetch_sub(&sets, 1, __ATOMIC_RELAXED), 0; }
int PAPI_unregister_thread(void) { return 0; }
char* PAPI_strerror(int error) { return error == kNoEvent ? "Event does not exist" : "Insufficient memory"; }
