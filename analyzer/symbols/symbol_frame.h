// The symbol of one address of an object: plain data shared by the parts of symbols/.
#ifndef DLHOOK_ANALYZER_SYMBOLS_SYMBOL_FRAME_H_
#define DLHOOK_ANALYZER_SYMBOLS_SYMBOL_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

namespace dlhook::analyzer::inline symbols {

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

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_SYMBOL_FRAME_H_
