// A program that overwrites its command line before its first call, like setproctitle: title WORDS… It leaves its third
// word in place.
#include <stdio.h>
#include <string.h>

#include "tiny_blas.h"

int main(int argc, char** argv) {
  memset(argv[0], 0, strlen(argv[0]));
  memset(argv[1], 0, strlen(argv[1]));
  memcpy(argv[1], "x", 1);
  TinyGemm(2, 3, 4);
  puts("called");
  return 0;
}
