// A victim's report of its calls, counted by hand: a line "call FUNCTION KEY=VALUE…" before each call that dlhook
// should record, in order. KEY is the path in proto/op.proto, VALUE as in `dlhook dump`. cuda_e2e.py reads these lines.
#pragma once

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Facts about the next call's arguments.
static inline const char* Facts(const char* format, ...) {
  static __thread char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

static inline int Expect(int status, int expected, const char* function) {
  if (status != expected) {
    fprintf(stderr, "%s: %d instead of %d\n", function, status, expected);
    exit(90);
  }
  return status;
}

// A call that is recorded, with facts; without facts; one that fails with `code`; one that is not recorded.
#define DO_AS(name, facts, function, ...) (printf("call %s %s\n", name, facts), Expect(function(__VA_ARGS__), 0, name))
#define DO(facts, function, ...) DO_AS(#function, facts, function, __VA_ARGS__)
#define DO_PLAIN(function, ...) DO_AS(#function, "", function, __VA_ARGS__)
#define FAILS(code, facts, function, ...) \
  (printf("call %s status=%d %s\n", #function, code, facts), Expect(function(__VA_ARGS__), code, #function))
#define QUIET(function, ...) Expect(function(__VA_ARGS__), 0, #function)

static inline void* Open(const char* soname) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(91);
  }
  return library;
}

static inline void* Symbol(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "no %s\n", name);
    exit(92);
  }
  return symbol;
}

// Fills the function pointer `name`, like stream executors and dynamic loaders.
#define LOAD(library, name) (*(void**)&(name) = Symbol(library, #name))
