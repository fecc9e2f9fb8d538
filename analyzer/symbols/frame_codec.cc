// Numbers are base-128 varints; strings and lists are preceded by their length.
#include "analyzer/symbols/frame_codec.h"

#include <utility>

namespace dlhook::analyzer::inline symbols {

void AppendNumber(uint64_t number, std::string* bytes) {
  for (; number >= 0x80; number >>= 7) bytes->push_back(static_cast<char>(number | 0x80));
  bytes->push_back(static_cast<char>(number));
}

void AppendText(absl::string_view text, std::string* bytes) {
  AppendNumber(text.size(), bytes);
  bytes->append(text.data(), text.size());
}

void AppendFrames(const SymbolFrames& frames, std::string* bytes) {
  AppendNumber(frames.size(), bytes);
  for (const SymbolFrame& frame : frames) {
    AppendText(frame.function, bytes);
    AppendNumber(frame.offset, bytes);
    AppendText(frame.file, bytes);
    AppendNumber(uint64_t{frame.line} << 1 | (frame.is_inlined ? 1 : 0), bytes);
  }
}

uint64_t FrameReader::Number() {
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) break;
    const uint8_t byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    number |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return number;
  }
  ok_ = false;
  rest_ = {};
  return 0;
}

std::string FrameReader::Text() {
  const uint64_t size = Number();
  if (size > rest_.size()) {
    ok_ = false;
    rest_ = {};
    return "";
  }
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

SymbolFrames FrameReader::Frames() {
  constexpr uint64_t kMinBytes = 4;
  SymbolFrames frames;
  const uint64_t count = Number();
  if (count > rest_.size() / kMinBytes) ok_ = false;
  for (uint64_t i = 0; i < count && ok_; ++i) {
    SymbolFrame frame;
    frame.function = Text();
    frame.offset = Number();
    frame.file = Text();
    const uint64_t line = Number();
    frame.line = static_cast<uint32_t>(line >> 1);
    frame.is_inlined = (line & 1) != 0;
    frames.push_back(std::move(frame));
  }
  return ok_ ? frames : SymbolFrames{};
}

std::string EncodeAnswer(const ObjectAnswer& answer) {
  std::string bytes;
  AppendText(answer.refusal, &bytes);
  AppendText(answer.remark, &bytes);
  AppendNumber(answer.first_address, &bytes);
  for (const SymbolFrames& frames : answer.frames) AppendFrames(frames, &bytes);
  return bytes;
}

bool DecodeAnswer(absl::string_view bytes, ObjectAnswer* answer) {
  FrameReader reader(bytes);
  answer->refusal = reader.Text();
  answer->remark = reader.Text();
  answer->first_address = reader.Number();
  while (reader.ok() && !reader.done()) answer->frames.push_back(reader.Frames());
  return reader.ok();
}

}  // namespace dlhook::analyzer::symbols
