// A process that forks, or ends, while it works. ends MODE COUNTER DELAY: copies of 1, 2, 3 … bytes and as many
// launches by a thread that counts finished copies in the file COUNTER; after DELAY microseconds the other thread acts
// according to MODE.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda.h"
#include "tell.h"

static volatile long* finished;
static void *device, *stream;
static char host[1 << 20];

static void Stub(void) { puts("not on a device"); }

static int Step(long i) {
  const dim3 one = {1, 1, 1};
  return cudaMemcpyAsync(device, host, (size_t)i, kHostToDevice, stream) +
         cudaLaunchKernel((void*)Stub, one, one, NULL, 0, stream);
}

static void* Work(void* unused) {
  for (long i = 1; i < (long)sizeof host; ++i) {
    Expect(Step(i), 0, "Step");
    *finished = i;
  }
  return unused;
}

// Both continue; the child with copies of 1000 and more bytes.
static int Fork(void) {
  for (long i = 1; i <= 20; ++i) Step(i);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (long i = 1001; i <= 1030; ++i) Step(i);
    _exit(5);
  }
  for (long i = 21; i <= 40; ++i) Step(i);
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));
  return 0;
}

int main(int argc, char** argv) {
  static int image;
  pthread_t thread;
  if (argc < 4) return 1;
  __cudaRegisterFunction(__cudaRegisterFatBinary(&image), (const char*)Stub, NULL, "step_kernel", -1, NULL, NULL, NULL,
                         NULL, NULL);
  const int file = open(argv[2], O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 4096) != 0) return 1;
  finished = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  QUIET(cudaMalloc, &device, sizeof host);
  QUIET(cudaStreamCreate, &stream);
  if (strcmp(argv[1], "fork") == 0) return Fork();
  pthread_create(&thread, NULL, Work, NULL);
  usleep((unsigned)atoi(argv[3]));
  if (strcmp(argv[1], "abort") == 0) abort();
  if (strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(argv[1], "_exit") == 0) _exit(6);
  exit(7);
}
