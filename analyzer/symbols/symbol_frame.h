// What one address of an object is, as files tell it: plain data that the parts of symbols/ hand to each other.
#ifndef DLHOOK_ANALYZER_SYMBOLS_SYMBOL_FRAME_H_
#define DLHOOK_ANALYZER_SYMBOLS_SYMBOL_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

namespace dlhook::analyzer::inline symbols {

struct SymbolFrame {
  std::string function;     // demangled; empty: not known
  uint64_t offset = 0;      // of the address in the function; of an inlined one 0
  std::string file;         // empty: not known
  uint32_t line = 0;        // 0: not known
  bool is_inlined = false;  // into the next frame
};
using SymbolFrames = std::vector<SymbolFrame>;  // innermost first; empty: nothing is known

// Addresses in one mapped file.
struct ObjectRequest {
  std::string path;
  std::string build_id;           // bytes, at most 20 of them; empty: the run told none
  std::vector<uint64_t> offsets;  // from the first page of the file's first segment; ascending, distinct
};

struct ObjectAnswer {
  std::vector<SymbolFrames> frames;  // one for each offset; empty where the file was refused
  uint64_t first_address = 0;        // address in the file + first_address = what addr2line and nm call it
  std::string refusal;               // why the file was not used, as the end of a sentence; empty: it was
  std::string remark;                // something else that people should know; empty: nothing
};

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_SYMBOL_FRAME_H_
