// Serializes frames: for the pipe from the process that looked them up, and for the cache.
#ifndef DLHOOK_ANALYZER_SYMBOLS_FRAME_CODEC_H_
#define DLHOOK_ANALYZER_SYMBOLS_FRAME_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/symbols/symbol_frame.h"

namespace dlhook::analyzer::inline symbols {

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

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_FRAME_CODEC_H_
