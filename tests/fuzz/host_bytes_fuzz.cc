// Bytes of the host that the shim itself reads: line tables and strings of Python, its version, the command line, the
// DLHOOK_* variables. (Frames and modules of Python are the host's own live objects and are read in place: not an
// input.)
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "preload/format/identity.h"
#include "preload/python/python_layout.h"
#include "preload/runtime/config.h"
#include "tests/fuzz/input.h"

namespace dlhook {
namespace {

// On the heap with nothing after its end.
class Exact {
 public:
  explicit Exact(const std::string& bytes) : bytes_(std::make_unique<char[]>(bytes.size())), size_(bytes.size()) {
    memcpy(bytes_.get(), bytes.data(), bytes.size());
  }
  const char* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

void ReadLines(Input* input) {
  const auto format = static_cast<PythonLines>(input->Byte() % 3);
  const auto first_line = input->Number<int32_t>();
  const auto offset = input->Number<int16_t>();
  const Exact table(input->Rest());
  PythonLine(format, reinterpret_cast<const uint8_t*>(table.data()), table.size(), first_line, offset);
}

void ReadString(Input* input) {
  const uint32_t kind = 1u << input->Byte() % 3;
  const std::string bytes = input->Bytes(1024);
  const Exact text(bytes.substr(0, bytes.size() / kind * kind));
  char encoded[256];
  const size_t capacity = input->Byte();
  const size_t size = EncodeUtf8(text.data(), text.size() / kind, kind, encoded, capacity);
  Require(size <= capacity, "text is cut at its room");
}

void ReadVersion(Input* input) {
  const std::string version = input->Bytes(32);
  std::string offsets = input->Bytes(4096);
  offsets.resize(4096);  // a live interpreter's, complete
  PythonLayout layout;
  const char* reason = nullptr;
  const bool is_known = LayoutOfPython(version.c_str(), offsets.data(), &layout, &reason);
  Require(is_known || reason != nullptr, "a refusal says why");
}

void ReadCommandLine(Input* input) {
  const std::string text = input->Rest();
  std::vector<std::unique_ptr<Exact>> copies;
  std::vector<const char*> words;
  for (size_t at = 0; at < text.size(); at += strlen(text.c_str() + at) + 1) {
    copies.push_back(std::make_unique<Exact>(std::string(text.c_str() + at) + '\0'));
    words.push_back(copies.back()->data());
  }
  words.push_back(nullptr);
  char script[64];
  for (const char* program : {"python3", "perl", "sh", words[0] == nullptr ? "" : words[0]}) {
    FindScript(program, words.data(), &script);
    Require(strnlen(script, 64) < 64, "names end");
  }
}

std::string variable;  // the value of every DLHOOK_* variable

void ReadVariables(Input* input) {
  variable = input->Rest();
  const auto config = std::make_unique<Config>();
  ParseConfig([](const char*) { return variable.c_str(); }, config.get());
  Require(strnlen(config->out, sizeof config->out) < sizeof config->out, "paths end");
  Require(strnlen(config->complaint, sizeof config->complaint) < sizeof config->complaint, "sentences end");
}

constexpr void (*kReaders[])(Input*) = {ReadLines, ReadString, ReadVersion, ReadCommandLine, ReadVariables};

}  // namespace
}  // namespace dlhook

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlhook::Input input(data, size);
  const uint8_t reader = input.Byte();
  dlhook::kReaders[reader % (sizeof dlhook::kReaders / sizeof dlhook::kReaders[0])](&input);
  return 0;
}
