// The libraries of functions, by dladdr and dladdr1: linked ones, ones of dlsym, a local one, none. where_from
// [LIBRARY].
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tiny_blas.h"

static void Say(const char* what, const void* address) {
  Dl_info info = {0}, more = {0};
  struct link_map* object = NULL;
  int known = dladdr(address, &info), known1 = dladdr1(address, &more, (void**)&object, RTLD_DL_LINKMAP);
  printf("%s: %d %s %s %d %s %s\n", what, known, known ? info.dli_fname : "-",
         known && info.dli_sname ? info.dli_sname : "-", known1, known1 ? more.dli_fname : "-",
         object ? object->l_name : "-");
}

int main(int argc, char** argv) {
  int local = 0;
  Say("linked", (void*)&cblas_sgemm);
  Say("default", dlsym(RTLD_DEFAULT, "cblas_sgemm"));
  Say("next", dlsym(RTLD_NEXT, "cblas_sgemm"));
  Say("library", dlsym(dlopen(argc > 1 ? argv[1] : NULL, RTLD_NOW), "cblas_sgemm"));
  const char* others[] = {"printf",  "getenv", "fflush",  "dlsym",     "dladdr",
                          "dlclose", "strlen", "unshare", "cudaMalloc"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) Say(others[i], dlsym(RTLD_DEFAULT, others[i]));
  Say("main", (void*)&main);
  Say("stack", &local);
  Say("heap", malloc(1));
  Say("null", NULL);
  TinyGemm(2, 3, 4);
  return 0;
}
