// Makes code while it runs and describes it as LLVM does (GDB's "JIT Compilation Interface"): object files in memory, in a list
// whose head is a local symbol, as in wheels. The first function is taken off the list before the second is made.
//   victim_compiled MS: CPU time in each
#define _GNU_SOURCE
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct entry {
  struct entry *next, *previous;
  const void* object;
  uint64_t bytes;
};
static struct {
  uint32_t version, action;
  struct entry *relevant, *first;
} __jit_debug_descriptor __attribute__((used)) = {1, 0, NULL, NULL};

// Code that runs anywhere.
__attribute__((noinline, noclone)) static void spin(void) {
  for (volatile int i = 0; i < 100000; ++i)
    ;
}
enum { kCodeBytes = 64, kNameBytes = 64 };

struct object {
  Elf64_Ehdr header;
  Elf64_Shdr sections[4];
  Elf64_Sym symbols[2];
  char names[kNameBytes];
};

static void (*make(const char* name, struct entry* entry))(void) {
  void* code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) exit(1);
  memcpy(code, (const void*)&spin, kCodeBytes);
  struct object* object = calloc(1, sizeof *object);
  object->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                .e_type = ET_REL,
                                .e_machine = EM_X86_64,
                                .e_version = EV_CURRENT,
                                .e_shoff = offsetof(struct object, sections),
                                .e_ehsize = sizeof object->header,
                                .e_shentsize = sizeof object->sections[0],
                                .e_shnum = 4};
  object->sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addr = (uintptr_t)code, .sh_size = kCodeBytes};
  object->sections[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_offset = offsetof(struct object, symbols),
                                     .sh_size = sizeof object->symbols,
                                     .sh_link = 3};
  object->sections[3] =
      (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct object, names), .sh_size = sizeof object->names};
  object->symbols[1] =
      (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_size = kCodeBytes};
  strcpy(object->names + 1, name);
  *entry = (struct entry){__jit_debug_descriptor.first, NULL, object, sizeof *object};
  if (entry->next != NULL) entry->next->previous = entry;
  __jit_debug_descriptor.first = entry;
  return (void (*)(void))(uintptr_t)code;
}

static void run(void (*function)(void), int ms) {
  struct timespec now;
  do {
    function();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
}

int main(int argc, char** argv) {
  int ms = argc > 1 ? atoi(argv[1]) : 400;
  static struct entry kept, first, second;
  make("not_called", &kept);
  run(make("_Z5earlyd", &first), ms);
  __jit_debug_descriptor.first = first.next;
  memset(&first, 0, sizeof first);
  run(make("late", &second), 2 * ms);
  puts("done");
  return 0;
}
