// A program that is a client of CUPTI itself. cupti_client linked|looked_up STEP…: one after the other,
//   work:N            N times a kernel, a copy and a set; the i-th of the program has i blocks, 1000 + i and 5000 + i bytes
//   enable_v2 disable_v2   of its subscriber's own
//   subscribe unsubscribe register enable disable flush finalize get_attribute:I set_attribute:I=VALUE
//   clock             times from a clock of its own, a year ahead of the usual one and twice as fast
//   push pop          external correlation, kind CUSTOM0
//   thread:STEP       on a thread of its own
//   at_exit:STEP      in a handler of exit
//   background, end   between them another thread launches kernels, with grids from 1 000 000 blocks on
//   wait:N            until that thread has launched N more
// Prints what CUPTI answered and every record that it was given, without what changes from run to run.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"
#include "tell.h"

enum { kCopy = 1, kSet = 2, kRuntime = 5, kKernel = 10, kExternal = 39 };

static int (*Subscribe)(void**, void*, void*);
static int (*Unsubscribe)(void*);
static int (*Register)(void*, void*);
static int (*RegisterClock)(void*);
static int (*Enable)(int);
static int (*Disable)(int);
static int (*EnableOwn)(void*, int, void*);
static int (*DisableOwn)(void*, int, void*);
static int (*Flush)(unsigned);
static int (*Finalize)(void);
static int (*Next)(uint8_t*, size_t, void**);
static int (*Push)(int, uint64_t);
static int (*Pop)(int, uint64_t*);
static int (*GetAttribute)(int, size_t*, void*);
static int (*SetAttribute)(int, size_t*, void*);

// What a linked program gets from the loader: through its own table of imports.
int cuptiSubscribe(void**, void*, void*);
int cuptiUnsubscribe(void*);
int cuptiActivityRegisterCallbacks(void*, void*);
int cuptiActivityRegisterTimestampCallback(void*);
int cuptiActivityEnable(int);
int cuptiActivityDisable(int);
int cuptiActivityEnable_v2(void*, int, void*);
int cuptiActivityDisable_v2(void*, int, void*);
int cuptiActivityFlushAll(unsigned);
int cuptiFinalize(void);
int cuptiActivityGetNextRecord(uint8_t*, size_t, void**);
int cuptiActivityPushExternalCorrelationId(int, uint64_t);
int cuptiActivityPopExternalCorrelationId(int, uint64_t*);
int cuptiActivityGetAttribute(int, size_t*, void*);
int cuptiActivitySetAttribute(int, size_t*, void*);

static void Find(int linked) {
  void* library = linked ? NULL : dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
#define FIND(variable, name) variable = linked ? (void*)name : dlsym(library, #name)
  FIND(Subscribe, cuptiSubscribe);
  FIND(Unsubscribe, cuptiUnsubscribe);
  FIND(Register, cuptiActivityRegisterCallbacks);
  FIND(RegisterClock, cuptiActivityRegisterTimestampCallback);
  FIND(Enable, cuptiActivityEnable);
  FIND(Disable, cuptiActivityDisable);
  FIND(EnableOwn, cuptiActivityEnable_v2);
  FIND(DisableOwn, cuptiActivityDisable_v2);
  FIND(Flush, cuptiActivityFlushAll);
  FIND(Finalize, cuptiFinalize);
  FIND(Next, cuptiActivityGetNextRecord);
  FIND(Push, cuptiActivityPushExternalCorrelationId);
  FIND(Pop, cuptiActivityPopExternalCorrelationId);
  FIND(GetAttribute, cuptiActivityGetAttribute);
  FIND(SetAttribute, cuptiActivitySetAttribute);
}

// ---- Records

static uint64_t own_clock_since;  // 0: the usual clock
static int lent;

static uint64_t Realtime(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)(now.tv_sec * 1000000000 + now.tv_nsec);
}

static uint64_t Now(void) {
  const uint64_t year = 365ull * 86400 * 1000000000;
  uint64_t now = Realtime();
  return own_clock_since == 0 ? now : now + year + (now - own_clock_since);
}

// Times converted between clocks are off by some nanoseconds.
static unsigned long long Rounded(uint64_t time) { return own_clock_since == 0 ? time : (time + 50) / 100 * 100; }

static uint64_t Word(const void* record, int offset) {
  uint64_t word;
  memcpy(&word, (const char*)record + offset, sizeof word);
  return word;
}

static unsigned Half(const void* record, int offset) { return (unsigned)Word(record, offset); }

// The clock of a time: off by more than an hour, it is another's.
static const char* Clock(uint64_t time) {
  uint64_t now = Now(), off = time > now ? time - now : now - time;
  return off < 3600ull * 1000000000 ? "own" : "ANOTHER";
}

static void Print(const void* record) {
  uint64_t duration = Word(record, 24) - Word(record, 16);
  switch (Half(record, 0)) {
    case kKernel:
      printf("record kernel %s blocks=%u ns=%llu clock=%s\n", (const char*)Word(record, 104), Half(record, 52),
             Rounded(duration), Clock(Word(record, 16)));
      return;
    case kCopy:
    case kSet:
      printf("record %s bytes=%llu ns=%llu clock=%s\n", Half(record, 0) == kCopy ? "copy" : "set",
             (unsigned long long)Word(record, 8), Rounded(duration), Clock(Word(record, 16)));
      return;
    case kRuntime:
      printf("record runtime function=%u clock=%s\n", Half(record, 4), Clock(Word(record, 8)));
      return;
    case kExternal:
      printf("record external kind=%u id=%llu\n", Half(record, 4), (unsigned long long)Word(record, 8));
      return;
    default:
      printf("record of kind %u, which was not enabled\n", Half(record, 0));
  }
}

static void OnRequest(uint8_t** buffer, size_t* bytes, size_t* most) {
  *bytes = 4096;
  *most = 0;
  *buffer = calloc(1, *bytes);
  __atomic_fetch_add(&lent, 1, __ATOMIC_SEQ_CST);
}

static void OnComplete(void* context, unsigned stream, uint8_t* buffer, size_t bytes, size_t valid) {
  (void)context, (void)stream, (void)bytes;
  void* record = NULL;
  while (valid != 0 && Next(buffer, valid, &record) == 0) Print(record);
  free(buffer);
  __atomic_fetch_sub(&lent, 1, __ATOMIC_SEQ_CST);
}

static void OnCallback(void* user, int domain, unsigned id, const void* data) {
  (void)user, (void)domain, (void)id, (void)data;
}

// ---- Steps

static void ScaleStub(void) { puts("not on a device"); }
static const char kScale[] = "_Z5scalePff";

static void RegisterKernel(void) {
  static int image;
  void** handle = __cudaRegisterFatBinary(&image);
  __cudaRegisterFunction(handle, (const char*)ScaleStub, (char*)kScale, kScale, -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
}

static int ends, launched;

static void* Background(void* stream) {
  dim3 grid = {1000000, 1, 1}, block = {32, 1, 1};
  cudaStreamCreate(&stream);
  for (; !__atomic_load_n(&ends, __ATOMIC_ACQUIRE); ++grid.x) {
    cudaLaunchKernel((void*)ScaleStub, grid, block, NULL, 0, stream);
    __atomic_fetch_add(&launched, 1, __ATOMIC_RELEASE);
    usleep(50);
  }
  return NULL;
}

static void Work(int times) {
  static int made;
  static void *device, *pinned, *stream;
  if (device == NULL) {
    cudaMalloc(&device, 1 << 20);
    cudaMallocHost(&pinned, 1 << 20);
    cudaStreamCreate(&stream);
  }
  for (; times > 0; --times) {
    ++made;
    dim3 grid = {(unsigned)made, 1, 1}, block = {32, 1, 1};
    cudaLaunchKernel((void*)ScaleStub, grid, block, NULL, 0, stream);
    cudaMemcpyAsync(device, pinned, 1000 + (size_t)made, kHostToDevice, stream);
    cudaMemsetAsync(device, 0, 5000 + (size_t)made, stream);
  }
  cudaStreamSynchronize(stream);
}

static void* subscriber;

// what: enable, disable; with _v2: of the subscriber.
static void SwitchAll(const char* what) {
  static const int kinds[] = {kKernel, kCopy, kSet, kRuntime, kExternal};
  int on = what[0] == 'e', is_own = strstr(what, "_v2") != NULL;
  for (int i = 0; i < 5; ++i) {
    int status = is_own ? (on ? EnableOwn : DisableOwn)(subscriber, kinds[i], NULL) : (on ? Enable : Disable)(kinds[i]);
    printf("%s %d: %d\n", what, kinds[i], status);
  }
}

static void Attribute(const char* which) {
  uint8_t value = 0xee;
  size_t bytes = sizeof value;
  const char* set = strchr(which, '=');
  if (set != NULL) value = (uint8_t)atoi(set + 1);
  int status = set != NULL ? SetAttribute(atoi(which), &bytes, &value) : GetAttribute(atoi(which), &bytes, &value);
  printf("attribute %s: %d, %u\n", which, status, value);
}

static void Step(const char* step);

static void* OnThread(void* step) {
  Step(step);
  return NULL;
}

static const char* step_at_exit;

static void AtExit(void) { Step(step_at_exit); }

static void Step(const char* step) {
  static pthread_t background;
  pthread_t thread;
  uint64_t last = 0;
  if (strcmp(step, "background") == 0) {
    pthread_create(&background, NULL, Background, NULL);
    return;
  }
  if (strcmp(step, "end") == 0) {
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    pthread_join(background, NULL);
    return;
  }
  if (strncmp(step, "wait:", 5) == 0) {
    int until = __atomic_load_n(&launched, __ATOMIC_ACQUIRE) + atoi(step + 5);
    while (__atomic_load_n(&launched, __ATOMIC_ACQUIRE) < until) sched_yield();
    return;
  }
  if (strncmp(step, "work:", 5) == 0) return Work(atoi(step + 5));
  if (strncmp(step, "enable", 6) == 0 || strncmp(step, "disable", 7) == 0) return SwitchAll(step);
  if (strncmp(step, "get_attribute:", 14) == 0 || strncmp(step, "set_attribute:", 14) == 0) return Attribute(step + 14);
  if (strncmp(step, "thread:", 7) == 0) {
    pthread_create(&thread, NULL, OnThread, (void*)(step + 7));
    pthread_join(thread, NULL);
    return;
  }
  if (strncmp(step, "at_exit:", 8) == 0) {
    step_at_exit = step + 8;
    atexit(AtExit);
    return;
  }
  if (strcmp(step, "clock") == 0) own_clock_since = Realtime();
  int status = strcmp(step, "subscribe") == 0     ? Subscribe(&subscriber, (void*)OnCallback, NULL)
               : strcmp(step, "unsubscribe") == 0 ? Unsubscribe(subscriber)
               : strcmp(step, "register") == 0    ? Register((void*)OnRequest, (void*)OnComplete)
               : strcmp(step, "clock") == 0       ? RegisterClock((void*)Now)
               : strcmp(step, "flush") == 0       ? Flush(1)
               : strcmp(step, "finalize") == 0    ? Finalize()
               : strcmp(step, "push") == 0        ? Push(3, 77)
               : strcmp(step, "pop") == 0         ? Pop(3, &last)
                                                  : 999;
  printf("%s: %d\n", step, status);
}

int main(int count, char** arguments) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  Find(strcmp(arguments[1], "linked") == 0);
  RegisterKernel();
  for (int i = 2; i < count; ++i) Step(arguments[i]);
  printf("%d buffers not given back\n", lent);
  return 0;
}
