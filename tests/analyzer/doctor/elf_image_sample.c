// A small shared library for elf_image_test: two functions, one of which calls another library.
#include <stdlib.h>

int sample_answer(void) { return 42; }

void* sample_allocate(void) { return malloc(16); }
