/* Pushes ranges of NVTX around products and prints what NVTX returns. nvtx ranges|threads|deep|many|quiet|fork */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "blas.h"

static void product(int n) {
  static float a[64 * 64], c[64 * 64];
  float one = 1, zero = 0;
  sgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
}

static nvtxEventAttributes_t message(nvtxMessageType_t type, nvtxMessageValue_t value) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = type;
  attributes.message = value;
  return attributes;
}

static void ranges(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxMessageValue_t value = {.registered = nvtxDomainRegisterStringA(domain, "registered")};
  nvtxEventAttributes_t registered = message(NVTX_MESSAGE_TYPE_REGISTERED, value);
  value.unicode = L"größe";
  nvtxEventAttributes_t wide = message(NVTX_MESSAGE_TYPE_UNICODE, value);
  nvtxMarkA("a mark");
  int depths = nvtxRangePushA("outer");
  product(8);
  depths += nvtxDomainRangePushEx(domain, &registered);
  depths += nvtxRangePushW(L"inner");
  product(16);
  depths += nvtxRangePop();
  depths += nvtxDomainRangePop(domain);
  depths += nvtxRangePushEx(&wide);
  depths += nvtxRangePop();
  depths += nvtxRangePop();
  depths += nvtxRangePop(); /* one too many */
  nvtxRangeId_t first = nvtxRangeStartA("first"), second = nvtxDomainRangeStartEx(domain, &registered);
  product(24);
  nvtxRangeEnd(first);
  product(32);
  nvtxDomainRangeEnd(domain, second);
  nvtxRangeEnd(second);
  nvtxRangeEnd(12345);
  printf("%d\n", depths);
}

static void* ends(void* id) {
  nvtxRangeEnd(*(nvtxRangeId_t*)id);
  nvtxRangePushA("worker");
  product(8);
  nvtxRangePop();
  return NULL;
}

static void threads(void) {
  nvtxRangeId_t id = nvtxRangeStartA("wanderer");
  pthread_t thread;
  pthread_create(&thread, NULL, ends, &id);
  pthread_join(thread, NULL);
}

/* More than are recorded; the inner ones are lost, the outer ones and later ones are not. */
static void deep(int depth) {
  char name[16];
  for (int i = 0; i < depth; ++i) {
    snprintf(name, sizeof name, "level %d", i);
    nvtxRangePushA(name);
  }
  for (int i = depth; i > 0; --i) {
    if (i == 50) product(8);
    nvtxRangePop();
  }
  nvtxRangePushA("after");
  nvtxRangePop();
}

static void many(int count) {
  char name[64];
  for (int i = 0; i < count; ++i) {
    snprintf(name, sizeof name, "name %d", i);
    nvtxRangePushA(name);
    nvtxRangePop();
  }
  char* longer = malloc(5001);
  memset(longer, 'x', 5000);
  longer[5000] = '\0';
  nvtxRangePushA(longer);
  nvtxRangePop();
  free(longer);
}

static void forks(void) {
  nvtxRangePushA("parent");
  product(8);
  fflush(stdout);
  if (fork() == 0) {
    nvtxRangePop(); /* pushed in the parent */
    nvtxRangePushA("child");
    product(16);
    nvtxRangePop();
    exit(0);
  }
  wait(NULL);
  nvtxRangePop();
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "ranges") == 0) ranges();
  if (strcmp(mode, "threads") == 0) threads();
  if (strcmp(mode, "deep") == 0) deep(200);
  if (strcmp(mode, "many") == 0) many(argc > 2 ? atoi(argv[2]) : 1000);
  if (strcmp(mode, "fork") == 0) forks();
  puts(mode);
  return 0;
}
