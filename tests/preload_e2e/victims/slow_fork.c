// Preloaded into dlhook run: the child of its second fork, which makes the answer (the first is the program), creates the
// file SLOW_FORK and never ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

pid_t fork(void) {
  static int forks;
  int is_second = ++forks == 2;
  pid_t child = _Fork();
  if (child == 0 && is_second) {
    close(open(getenv("SLOW_FORK"), O_WRONLY | O_CREAT, 0600));
    for (volatile int i = 0;; ++i) {
    }
  }
  return child;
}
