// Reads and writes a file through io_uring while it calls. uring FILE [poll]: 200 rounds with registered buffers and
// files, each of a write, a call, a read back; then every descriptor from 3 to 99 is closed through the ring, and 50
// more calls. `poll`: a thread of the kernel takes the requests. Exit code 77: io_uring is not available.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tiny_blas.h"

enum { kBytes = 4096 };
static int ring;
static struct io_uring_params params;
static char *queue, *done;
static struct io_uring_sqe* requests;
static _Alignas(kBytes) char buffer[2 * kBytes];

static void* Map(size_t bytes, off_t offset) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset);
}

static unsigned* At(char* base, uint32_t offset) { return (unsigned*)(base + offset); }

static int SetUp(unsigned flags, int file) {
  params.flags = flags;
  params.sq_thread_idle = 50;
  ring = (int)syscall(SYS_io_uring_setup, 8, &params);
  if (ring < 0) return 0;
  queue = Map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  done = Map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
  requests = Map(params.sq_entries * sizeof *requests, IORING_OFF_SQES);
  struct iovec memory = {buffer, sizeof buffer};
  return syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &memory, 1) == 0 &&
         syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &file, 1) == 0;
}

static int Request(int operation, int file, char* memory, unsigned bytes, off_t offset, int flags) {
  unsigned *tail = At(queue, params.sq_off.tail), *head = At(done, params.cq_off.head);
  unsigned index = *tail & *At(queue, params.sq_off.ring_mask);
  requests[index] = (struct io_uring_sqe){.opcode = (uint8_t)operation,
                                          .fd = file,
                                          .addr = (uintptr_t)memory,
                                          .len = bytes,
                                          .off = (uint64_t)offset,
                                          .flags = (uint8_t)flags};
  At(queue, params.sq_off.array)[index] = index;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  unsigned enter = IORING_ENTER_GETEVENTS | (params.flags & IORING_SETUP_SQPOLL ? IORING_ENTER_SQ_WAKEUP : 0);
  syscall(SYS_io_uring_enter, ring, 1, 1, enter, NULL, 0);
  while (*head == __atomic_load_n(At(done, params.cq_off.tail), __ATOMIC_ACQUIRE)) usleep(10);
  struct io_uring_cqe* results = (struct io_uring_cqe*)(done + params.cq_off.cqes);
  int result = results[*head & *At(done, params.cq_off.ring_mask)].res;
  __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
  return result;
}

int main(int argc, char** argv) {
  int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600), bad = 0;
  if (!SetUp(argc > 2 ? IORING_SETUP_SQPOLL : 0, file)) return 77;
  for (int i = 0; i < 200; ++i) {
    memset(buffer, i, kBytes);
    bad += Request(IORING_OP_WRITE_FIXED, 0, buffer, kBytes, (off_t)i * kBytes, IOSQE_FIXED_FILE) != kBytes;
    TinyGemm(3, 4, 5);
    bad += Request(IORING_OP_READ_FIXED, 0, buffer + kBytes, kBytes, (off_t)i * kBytes, IOSQE_FIXED_FILE) != kBytes;
    bad += memcmp(buffer, buffer + kBytes, kBytes) != 0;
  }
  for (int i = 3; i < 100; ++i) {
    if (i != ring) Request(IORING_OP_CLOSE, i, NULL, 0, 0, 0);
  }
  for (int i = 0; i < 50; ++i) TinyGemm(3, 4, 5);
  printf("%d bad\n", bad);
  return 3;
}
