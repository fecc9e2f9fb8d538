// Calls functions by name: reads lines "LIBRARY FUNCTION RETURNED ARGUMENT…" from its input. An argument is a number,
// 0.5 (a double), 0.5f, or @N: the address of byte N of a buffer of zeros. Prints the result of each: void, status or
// size_t.
#include <inttypes.h>

#include "tell.h"

typedef uint64_t (*Function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t, uint64_t, uint64_t, double, double);

static char buffer[1 << 16];

int main(void) {
  char line[1024];
  while (fgets(line, sizeof line, stdin) != NULL) {
    uint64_t words[13] = {0};
    double reals[2] = {0};
    int word = 0, real = 0;
    char* rest = line;
    const char* library = strsep(&rest, " \n");
    const char* name = strsep(&rest, " \n");
    const char* returned = strsep(&rest, " \n");
    for (char* text; (text = strsep(&rest, " \n")) != NULL;) {
      float single = strtof(text, NULL);
      if (*text == '\0') continue;
      if (strchr(text, 'f') != NULL) {
        memcpy(&reals[real++], &single, sizeof single);
      } else if (strchr(text, '.') != NULL) {
        reals[real++] = atof(text);
      } else {
        words[word++] = *text == '@' ? (uint64_t)(uintptr_t)&buffer[atoi(text + 1)] : strtoull(text, NULL, 0);
      }
    }
    Function function = (Function)Symbol(Open(library), name);
    const uint64_t* w = words;
    uint64_t result =
        function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], reals[0], reals[1]);
    if (strcmp(returned, "size_t") != 0) result = strcmp(returned, "void") == 0 ? 0 : (uint32_t)result;
    printf("%s %" PRIu64 "\n", name, result);
  }
  return 0;
}
