// dlerror() after look-ups and around other calls. loader_errors LIBRARY SYMBOL.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tiny_blas.h"

static void Say(const char* what) {
  const char* error = dlerror();
  printf("%s: %s\n", what, error ? error : "no error");
}

// As in the manual page of dlsym; also with an earlier error pending.
static void LookUp(const char* scope, void* handle, const char* name, const char* version) {
  char what[200];
  snprintf(what, sizeof what, "%s %s %s", scope, name, version ? version : "");
  for (int pending = 0; pending < 2; ++pending) {
    dlerror();
    if (pending) dlopen("/nowhere/pending", RTLD_NOW);
    void* found = version ? dlvsym(handle, name, version) : dlsym(handle, name);
    Say(what);
    printf("%s\n", found ? "found" : "null");
  }
}

static void Around(const char* what, void (*call)(void)) {
  dlopen("/nowhere/around", RTLD_NOW);
  call();
  Say(what);
  call();
  Say("and then");
}

static void Print(void) { printf("printed %d\n", 1); }
static void Flush(void) { fflush(stdout); }
static void Get(void) { printf("%s\n", getenv("HOME") ? "a home" : "no home"); }
static void GetVerbose(void) { printf("%s\n", getenv("ONEDNN_VERBOSE") ? "verbose" : "not verbose"); }
static void Multiply(void) { TinyGemm(2, 3, 4); }

int main(int argc, char** argv) {
  dlopen("/nowhere/first", RTLD_NOW);
  printf("first %s\n", dlerror());
  void* library = dlopen(argv[1], RTLD_NOW);
  const char* names[] = {argv[2], "cudaMalloc", "no_such_thing", "getenv", "dnnl_set_verbose"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    LookUp("default", RTLD_DEFAULT, names[i], NULL);
    LookUp("next", RTLD_NEXT, names[i], NULL);
    LookUp("program", dlopen(NULL, RTLD_NOW), names[i], NULL);
    LookUp("library", library, names[i], NULL);
    LookUp("default", RTLD_DEFAULT, names[i], "GLIBC_2.2.5");
    LookUp("library", library, names[i], "NO_1");
  }
  Around("gemm", Multiply);
  Around("printf", Print);
  Around("fflush", Flush);
  Around("getenv", Get);
  Around("getenv of oneDNN's", GetVerbose);
  dlclose(library);
  Say("dlclose");
  static union {
    struct link_map object;
    char rest[4096];
  } never_opened = {.object = {.l_name = "never opened"}};
  printf("%d ", dlclose(&never_opened) != 0);
  Say("dlclose of nothing");
  return 0;
}
