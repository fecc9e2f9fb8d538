#include "preload/python/python_lines.h"

namespace dlhook::inline python {
namespace {

// Lines are counted as unsigned: a table may add anything to them, and signed overflow is undefined.

// Pairs of a byte count of code and a line delta.
uint32_t LineFromLnotab(const uint8_t* table, size_t bytes, uint32_t line, int64_t offset) {
  int64_t address = 0;
  for (size_t i = 0; i + 1 < bytes; i += 2) {
    address += table[i];
    if (address > offset) break;
    line += static_cast<uint32_t>(static_cast<int8_t>(table[i + 1]));
  }
  return line;
}

// Pairs of a byte count of code and a line delta; -128: no line.
uint32_t LineFromPairs(const uint8_t* table, size_t bytes, uint32_t line, int64_t offset) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < bytes; i += 2) {
    end += table[i];
    int8_t delta = static_cast<int8_t>(table[i + 1]);
    if (delta != -128) line += static_cast<uint32_t>(delta);
    if (offset < end) return delta == -128 ? 0 : line;
  }
  return 0;
}

// Six bits per byte, lowest first; bit 6: more follows. The sign is the lowest bit.
int32_t ReadSigned(const uint8_t* at, const uint8_t* end) {
  uint32_t value = 0;
  uint32_t shift = 0;
  while (at < end && shift < 32) {
    value |= static_cast<uint32_t>(*at & 63) << shift;
    shift += 6;
    if ((*at++ & 64) == 0) break;
  }
  return (value & 1) != 0 ? -static_cast<int32_t>(value >> 1) : static_cast<int32_t>(value >> 1);
}

// An entry begins with a byte whose highest bit is set: kind (4 bits), number of code units - 1 (3 bits).
uint32_t LineFromLocations(const uint8_t* table, size_t bytes, uint32_t line, int64_t offset) {
  const uint8_t* at = table;
  const uint8_t* limit = table + bytes;
  int64_t end = 0;
  while (at < limit) {
    uint32_t kind = (*at >> 3) & 15;
    end += ((*at & 7) + 1) * 2;
    if (kind == 13 || kind == 14)
      line += static_cast<uint32_t>(ReadSigned(at + 1, limit));  // without columns, with long ones
    if (kind >= 10 && kind <= 12) line += kind - 10;
    if (offset < end) return kind == 15 ? 0 : line;
    for (++at; at < limit && (*at & 128) == 0;) ++at;
  }
  return 0;
}

uint32_t CodePoint(const void* data, size_t i, uint32_t kind) {
  if (kind == 1) return static_cast<const uint8_t*>(data)[i];
  if (kind == 2) return static_cast<const uint16_t*>(data)[i];
  return static_cast<const uint32_t*>(data)[i];
}

}  // namespace

uint32_t PythonLine(PythonLines format, const uint8_t* table, size_t table_bytes, int32_t first_line,
                    int64_t instruction_offset) {
  auto line = static_cast<uint32_t>(first_line);
  if (instruction_offset < 0) return line;
  if (format == PythonLines::kLnotab) return LineFromLnotab(table, table_bytes, line, instruction_offset);
  if (format == PythonLines::kLineTable) return LineFromPairs(table, table_bytes, line, instruction_offset);
  return LineFromLocations(table, table_bytes, line, instruction_offset);
}

size_t EncodeUtf8(const void* data, size_t length, uint32_t kind, char* text, size_t capacity) {
  size_t used = 0;
  for (size_t i = 0; i < length; ++i) {
    uint32_t c = CodePoint(data, i, kind);
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff) c = 0xfffd;
    uint32_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (used + bytes > capacity) break;
    if (bytes == 1) {
      text[used++] = static_cast<char>(c);
      continue;
    }
    constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    text[used++] = static_cast<char>(kLead[bytes] | (c >> (6 * (bytes - 1))));
    for (uint32_t left = bytes - 1; left > 0; --left) {
      text[used++] = static_cast<char>(0x80 | ((c >> (6 * (left - 1))) & 63));
    }
  }
  return used;
}

}  // namespace dlhook::inline python
