// The program `dlhook`. See analyzer/cli.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "analyzer/cli/commands.h"

namespace {

bool IsMemoryOver() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
  return malloc(size_t{1} << 20) == nullptr;  // not even for an exception
}

// What Main can't catch, because it happened before main, or where nothing may be thrown.
[[noreturn]] void EndWithMessage() {
  static constexpr char kMessage[] =
      "dlhook: out of memory: there is no more, or this process may have no more (ulimit -v, ulimit -d)\n";
  if (IsMemoryOver() && write(STDERR_FILENO, kMessage, strlen(kMessage)) >= 0) _exit(dlhook::analyzer::kExitBadInput);
  abort();
}

[[gnu::constructor(101)]] void ExpectTheEnd() { std::set_terminate(EndWithMessage); }

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  return dlhook::analyzer::Main(words);
}
