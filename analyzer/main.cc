// The program `dlhook`. See analyzer/cli.
#include <string>
#include <vector>

#include "analyzer/cli/commands.h"

int main(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  return dlhook::analyzer::Main(words);
}
