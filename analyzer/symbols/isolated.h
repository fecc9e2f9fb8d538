// Runs work in a child process: libraries that read arbitrary files may crash, hang or exhaust memory, and a mapped
// file that is replaced meanwhile kills its reader (SIGBUS). None of this may affect a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline symbols {

// Serializes frames: for the pipe from the process that looked them up, and for the cache.

// The symbol of one address of an object: plain data shared by the parts of symbols/.
struct SymbolFrame {
  std::string function;     // demangled; empty: not known
  uint64_t offset = 0;      // of the address in the function; 0 if inlined
  std::string file;         // empty: not known
  uint32_t line = 0;        // 0: not known
  bool is_inlined = false;  // into the next frame
};
using SymbolFrames = std::vector<SymbolFrame>;  // innermost first; empty: nothing is known

// Addresses in one mapped file.
struct ObjectRequest {
  std::string path;
  std::string build_id;           // at most 20 bytes; empty: not recorded
  std::vector<uint64_t> offsets;  // from the first page of the file's first segment; ascending, distinct
};

struct ObjectAnswer {
  std::vector<SymbolFrames> frames;  // one per offset; empty if the file was refused
  uint64_t first_address = 0;        // address in the file + first_address = the address that addr2line and nm use
  std::string refusal;               // why the file was not used, as the end of a sentence; empty: it was
  std::string remark;                // another note for the user; empty: none
};

void AppendNumber(uint64_t number, std::string* bytes);
void AppendText(absl::string_view text, std::string* bytes);
void AppendFrames(const SymbolFrames& frames, std::string* bytes);

// Parses them. Never reads out of bounds, whatever the bytes are; `ok` becomes false at the first incomplete element.
class FrameReader {
 public:
  explicit FrameReader(absl::string_view bytes) : rest_(bytes) {}
  uint64_t Number();
  std::string Text();
  SymbolFrames Frames();
  bool ok() const { return ok_; }
  bool done() const { return rest_.empty(); }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

std::string EncodeAnswer(const ObjectAnswer& answer);
// False: damaged.
bool DecodeAnswer(absl::string_view bytes, ObjectAnswer* answer);

struct IsolatedResult {
  std::string bytes;    // the result
  std::string failure;  // why there is no result: "it crashed (SIGSEGV)", "it took more than 60 s"; empty: there is one
};

// kBounded: 8 GiB, for readers of files. kFree: for drivers of devices, which map more.
enum class IsolatedMemory : uint8_t { kBounded, kFree };

// work(0) to work(count - 1), in order. A failed one does not prevent the next. For single-threaded programs.
std::vector<IsolatedResult> RunIsolated(size_t count, int seconds_each, absl::FunctionRef<std::string(size_t)> work,
                                        IsolatedMemory memory = IsolatedMemory::kBounded);

}  // namespace dlhook::analyzer::symbols
