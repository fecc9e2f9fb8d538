// A libpapi (version 7.1) with one event that works, or that misbehaves as VICTIM_PAPI says.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kVersion = 7 << 24 | 1 << 16, kNoEvent = -7 };

static int Is(const char* mode) {
  const char* value = getenv("VICTIM_PAPI");
  return value != NULL && strcmp(value, mode) == 0;
}

int PAPI_library_init(int version) {
  printf("noise on stdout\n");
  fprintf(stderr, "noise on stderr\n");
  fflush(stdout);
  if (Is("crash")) raise(SIGSEGV);
  if (Is("exit")) exit(3);
  return version == kVersion && !Is("refuse") ? kVersion : -1;
}
int PAPI_set_domain(int domain) { return domain == 0xf ? 0 : -1; }
int PAPI_create_eventset(int* set) { return *set = 1, 0; }
int PAPI_add_named_event(int set, const char* name) {
  return set == 1 && strcmp(name, "PAPI_TOT_INS") == 0 ? 0 : kNoEvent;
}
int PAPI_start(int set) { return set == 1 ? 0 : -1; }
int PAPI_stop(int set, long long* values) { return *values = 1, set == 1 ? 0 : -1; }
int PAPI_read(int set, long long* values) { return *values = 1, set == 1 ? 0 : -1; }
int PAPI_thread_init(unsigned long (*id)(void)) { return id() != 0 ? 0 : -1; }
int PAPI_unregister_thread(void) { return 0; }
int PAPI_cleanup_eventset(int set) { return set == 1 ? 0 : -1; }
int PAPI_destroy_eventset(int* set) { return *set = -1, 0; }
char* PAPI_strerror(int error) { return error == kNoEvent ? "Event does not exist" : "?"; }
