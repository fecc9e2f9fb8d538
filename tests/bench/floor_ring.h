// The ring of the floors (floor.c, floor_cuda.c): one per thread, a shared file mapping on tmpfs with 4 KiB pages, like
// dlhook's: records in anonymous memory with large pages are cheaper to store, but are lost with the process.
// FLOOR_RING_KIB: its size, a power of two. No depth, no switch, no check for a full ring.
// Thread: each its own.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct Ring {
  char* data;
  uint64_t mask;
  uint64_t head;
  uint64_t sequence;
};

static __thread struct Ring* t_ring __attribute__((tls_model("initial-exec")));

static struct Ring* MakeRing(void) {
  const char* kib = getenv("FLOOR_RING_KIB");
  uint64_t bytes = (kib != NULL ? strtoull(kib, NULL, 10) : 65536) << 10;
  int fd = memfd_create("floor", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) _exit(3);
  struct Ring* ring = calloc(1, sizeof *ring);
  ring->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (ring->data == MAP_FAILED) _exit(3);
  ring->mask = bytes - 1;
  close(fd);
  return t_ring = ring;
}

// A record that would cross the end starts over at the beginning, as far as a mask allows.
static inline uint64_t* Reserve(struct Ring* ring, uint64_t words) {
  if (__builtin_expect((ring->head & ring->mask) + words * 8 > ring->mask, 0)) ring->head = 0;
  return (uint64_t*)(ring->data + (ring->head & ring->mask));
}

static inline void Commit(struct Ring* ring, uint64_t words) {
  __atomic_store_n(&ring->head, ring->head + words * 8, __ATOMIC_RELEASE);
}
