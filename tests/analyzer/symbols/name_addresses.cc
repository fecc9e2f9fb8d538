// Prints what analyzer/symbols finds for addresses in a file, for comparison with addr2line of binutils and elfutils:
//   name_addresses [--cache FOLDER] [--build-id HEX] FILE <ADDRESSES
// Addresses are hexadecimal, one per line, as printed by nm. Prints "ADDRESS" for each, then a line
// "\tFUNCTION\tOFFSET\tFILE:LINE" for each frame, innermost first. "refused: REASON", "remark: TEXT" and "seconds: S"
// go to stderr.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "analyzer/render/escape.h"
#include "analyzer/symbols/resolve_object.h"

int main(int argc, char** argv) {
  using namespace dlhook::analyzer;
  SymbolOptions options;
  ObjectRequest request;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--cache" && i + 1 < argc) {
      options.cache_folder = argv[++i];
    } else if (argument == "--build-id" && i + 1 < argc) {
      request.build_id = absl::HexStringToBytes(argv[++i]);
    } else {
      request.path = argument;
    }
  }
  // The address of the file's first page is not known before opening it.
  const uint64_t first = ResolveObject(request, options).first_address();
  std::string line;
  uint64_t address = 0;
  while (std::getline(std::cin, line)) {
    if (absl::SimpleHexAtoi(line, &address)) request.offsets.push_back(address - first);
  }
  std::sort(request.offsets.begin(), request.offsets.end());
  const auto start = std::chrono::steady_clock::now();
  const ObjectAnswer answer = ResolveObject(request, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!answer.refusal().empty()) fprintf(stderr, "refused: %s\n", answer.refusal().c_str());
  if (!answer.remark().empty()) fprintf(stderr, "remark: %s\n", answer.remark().c_str());
  fprintf(stderr, "seconds: %.4f\n", seconds);
  for (int i = 0; i < answer.frames_size(); ++i) {
    printf("%lx\n", request.offsets[i] + first);
    for (const SymbolFrame& frame : answer.frames(i).frame()) {
      printf("\t%s\t%lx\t%s:%u\n", VisibleText(frame.function()).c_str(), frame.offset(),
             VisibleText(frame.file()).c_str(), frame.line());
    }
  }
  return answer.refusal().empty() ? 0 : 1;
}
