// What is read of a process: an ELF object that its JIT compiler registered, and the list of its mappings.
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/doctor/process_look.h"
#include "analyzer/io/jit_names.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

void ReadObject(absl::string_view bytes) {
  const std::string functions = PerfMapOfObject(bytes);
  Require(functions.empty() || functions.back() == '\n', "functions are whole lines");
}

void ReadMaps(absl::string_view maps) {
  for (const MappedFile& file : MappedFiles(maps)) Require(!file.path.empty(), "mapped files have names");
}

}  // namespace
}  // namespace dlhook::analyzer

// ELF objects begin as such; anything else is a list of mappings.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty() && bytes[0] == '\x7f') {
    dlhook::analyzer::ReadObject(bytes);
  } else {
    dlhook::analyzer::ReadMaps(bytes);
  }
  return 0;
}
