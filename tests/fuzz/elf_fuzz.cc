// The input of `dlhook doctor` from a process: the memory of its ELF objects, with any contents, and the list of its
// mappings.
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/doctor/process_look.h"
#include "analyzer/io/jit_names.h"
#include "analyzer/io/outside_code.h"
#include "tests/analyzer/byte_memory.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;

void ReadObject(absl::string_view bytes) {
  const std::string functions = PerfMapOfObject(bytes);
  Require(functions.empty() || functions.back() == '\n', "functions are whole lines");
  static const NameSet* const wanted = new NameSet{"sgemm_", "dlsym", "getenv"};
  const absl::StatusOr<ElfImage> image = ReadElfImage(ByteMemory(kBase, std::string(bytes)), kBase, *wanted);
  if (!image.ok()) return Require(!image.status().message().empty(), "a refusal says why");
  for (const BoundSlot& slot : image->slots) Require(wanted->contains(slot.name), "slots are of wanted names");
  for (const ExportedSymbol& symbol : image->exports)
    Require(wanted->contains(symbol.name), "exports are of wanted names");
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
