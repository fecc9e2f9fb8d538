// The program `dlhook`. See analyzer/cli.
#include <malloc.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "analyzer/cli/command.h"

namespace {

// No exception: hash tables of Abseil are broken by one while they grow, noexcept functions end in abort().
[[noreturn]] void EndOutOfMemory() {
  static constexpr char kMessage[] =
      "dlhook: out of memory: it takes more than there is, or than this process may have (ulimit -v, ulimit -d)\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, strlen(kMessage));
  _exit(dlhook::analyzer::kExitBadInput);
}

[[gnu::constructor(101)]] void ExpectIt() { std::set_new_handler(EndOutOfMemory); }

}  // namespace

int main(int argc, char** argv) {
  // Freed memory is soon needed again: given back and taken anew it cost 3 % of reading a million steps.
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 128 << 20);
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  return dlhook::analyzer::Main(words);
}
