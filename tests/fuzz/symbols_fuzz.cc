// The inputs of reports for naming native stacks: perf maps, jitdumps, mangled names, ELF files with
// and without DWARF. ELF files are read by libelf and libdw, which may fail on them: in a separate process, as in a
// report (analyzer/symbols/isolated.h).
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/isolated.h"
#include "analyzer/symbols/jit_symbols.h"
#include "analyzer/symbols/resolve_object.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

void LookUp(JitSymbols* symbols) {
  symbols->Finish();
  for (uint64_t address = 0x1000; address < 0x10000; address += 0x777) {
    const JitFunction* const function = symbols->Find(address);
    if (function == nullptr) continue;
    Require(address - function->start < function->size, "a function holds the addresses that it is found for");
  }
}

void ReadMap(absl::string_view text) {
  JitSymbols symbols;
  ReadPerfMap(text, &symbols);
  LookUp(&symbols);
}

void ReadDump(absl::string_view bytes) {
  JitSymbols symbols;
  ReadJitDump(bytes, 4711, &symbols);
  LookUp(&symbols);
}

void ReadName(absl::string_view name) {
  const std::string demangled = DemangleSymbol(name);
  const std::string folded = FoldFunction(demangled);
  Require(folded.size() <= demangled.size(), "folded names are no longer");
  Require(demangled.empty() || !folded.empty(), "a name stays a name");
  IsPlumbing(demangled);
}

void ReadObject(absl::string_view bytes) {
  static const std::string* const path = new std::string(absl::StrCat("/tmp/dlhook_symbols_fuzz_", getpid()));
  FILE* const file = fopen(path->c_str(), "wb");
  Require(file != nullptr && fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && fclose(file) == 0,
          "the file can be written");
  const ObjectRequest request = {*path, "", {0, 0x10, 0x240, 0x1000, 0x1139, 0x2000, uint64_t{1} << 47}};
  constexpr int kSeconds = 4;
  const std::vector<IsolatedResult> results =
      RunIsolated(1, kSeconds, [&](size_t) { return ResolveObject(request, {}).SerializeAsString(); });
  remove(path->c_str());
  Require(results.size() == 1, "each piece of work has a result");
  if (!results[0].failure.empty()) return;
  ObjectAnswer answer;
  Require(answer.ParseFromString(results[0].bytes), "an answer arrives whole");
  Require(!answer.refusal().empty() || answer.frames_size() == std::ssize(request.offsets),
          "every address has an answer, or the file a refusal");
}

}  // namespace
}  // namespace dlhook::analyzer

// ELF files are recognised by their magic; for the others the first letter selects the kind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlhook::analyzer;
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  switch (bytes.front()) {
    case '\x7f':
      ReadObject(bytes);
      break;
    case 'm':
      ReadMap(bytes.substr(1));
      break;
    case 'D':
      ReadDump(bytes);
      break;  // a jitdump's own first letter
    default:
      ReadName(bytes);
      break;
  }
  return 0;
}
