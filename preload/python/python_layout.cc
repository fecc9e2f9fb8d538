#include "preload/python/python_layout.h"

#include <stdlib.h>
#include <string.h>

#include <initializer_list>

namespace dlhook::inline python {
namespace {

// Measured with offsetof on the headers of 3.9.18, 3.10.13, 3.11.2, 3.11.7 and 3.12.1; structures do not change after a
// final release.
constexpr PythonLayout kPython39 = {
    24, -1, 24, 32, 104, 0, 360, 104, 112, 40, 120, 0, 48, 72, 1, 0, 2, PythonLines::kLnotab, 9, 0};
constexpr PythonLayout kPython310 = {
    24, -1, 24, 32, 96, 0, 352, 104, 112, 40, 120, 0, 48, 72, 2, 0, 2, PythonLines::kLineTable, 10, 0};
constexpr PythonLayout kPython311 = {
    56, 8, 48, 32, 56, 69, 72, 112, 128, 72, 136, 184, 48, 72, 0, 0, 2, PythonLines::kLocations, 11, 68};
constexpr PythonLayout kPython312 = {
    56, 0, 8, 0, 56, 70, 72, 112, 128, 68, 136, 192, 40, 56, 0, 0, 2, PythonLines::kLocations, 12, 0};

// From 3.13 on _PyRuntime begins with a table of offsets, all uint64_t: cookie, version, free_threaded, then groups.
// Indexes of those needed, counted from the cookie. A newer release is refused although it has a table, too: the table has
// other groups in each release, and what it does not say changes as well (which frames are the interpreter's own, the tags in
// pointers to code, the bits of a string's kind), so that no check would find all of it.
struct OffsetIndex {
  uint32_t minor;
  uint8_t thread_frame, frame_previous, frame_code, frame_instruction, frame_locals, frame_owner;
  uint8_t code_file, code_name, code_lines, code_first_line, code_start;
  uint8_t string_state, string_length, ascii_bytes;
  uint8_t tag_bits, text_shift;
};
constexpr OffsetIndex kOffsetIndex[] = {
    {13, 23, 29, 30, 31, 32, 33, 35, 37, 38, 39, 43, 68, 69, 70, 0, 2},
    {14, 26, 32, 33, 34, 35, 36, 40, 42, 43, 44, 48, 78, 79, 80, 3, 16},
    {15, 26, 40, 41, 42, 43, 44, 48, 50, 51, 52, 56, 90, 91, 92, 3, 2},
};

bool LayoutFromTable(const OffsetIndex& index, uint32_t version, const uint64_t* table, PythonLayout* layout,
                     const char** reason) {
  if (table == nullptr || memcmp(table, "xdebugpy", 8) != 0 || (table[1] >> 16) != version) {
    *reason = "this Python's table of offsets is not where it should be";
    return false;
  }
  if (table[2] != 0) {
    *reason = "free-threaded Python is not supported";
    return false;
  }
  auto at = [table](uint8_t i) { return static_cast<uint16_t>(table[i]); };
  bool plausible = table[index.string_state] == kPyStringState && table[index.string_length] == kPyStringLength;
  const uint8_t used[] = {index.thread_frame, index.frame_code, index.frame_instruction, index.frame_locals,
                          index.frame_owner,  index.code_file,  index.code_name,         index.code_lines,
                          index.code_start,   index.ascii_bytes};
  for (uint8_t i : used) plausible = plausible && table[i] < 4096;
  if (!plausible) {
    *reason = "this Python's table of offsets is not understood";
    return false;
  }
  *layout = {at(index.thread_frame),
             -1,
             at(index.frame_previous),
             at(index.frame_code),
             at(index.frame_instruction),
             at(index.frame_owner),
             at(index.frame_locals),
             at(index.code_file),
             at(index.code_name),
             at(index.code_first_line),
             at(index.code_lines),
             at(index.code_start),
             at(index.ascii_bytes),
             static_cast<uint16_t>(at(index.ascii_bytes) + 16),
             0,
             index.tag_bits,
             index.text_shift,
             PythonLines::kLocations,
             static_cast<uint8_t>(index.minor),
             0};
  *reason = "";
  return true;
}

// PyMemberDef.
struct PythonMember {
  const char* name;
  int type;
  ptrdiff_t offset;
  int flags;
  const char* doc;
};

bool MemberIsAt(const PythonMember* member, const char* name, uint16_t offset) {
  while (member->name != nullptr && strcmp(member->name, name) != 0) ++member;
  return member->name != nullptr && member->offset == offset;
}

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

bool LayoutOfPython(const char* version, const void* debug_offsets, PythonLayout* layout, const char** reason) {
  char* end = nullptr;
  *reason = "this version of Python is not supported";
  const unsigned long minor = strncmp(version, "3.", 2) == 0 ? strtoul(version + 2, &end, 10) : 0;
  if (end == nullptr || *end != '.') return false;
  strtoul(end + 1, &end, 10);
  for (const char* sign : {"a", "b", "rc"}) {
    if (strncmp(end, sign, strlen(sign)) != 0) continue;
    *reason = "this is a Python before its final release";
    return false;
  }
  for (const PythonLayout* known : {&kPython39, &kPython310, &kPython311, &kPython312}) {
    if (known->minor != minor) continue;
    *layout = *known;
    *reason = "";
    return true;
  }
  for (const OffsetIndex& index : kOffsetIndex) {
    if (index.minor != minor) continue;
    auto table = static_cast<const uint64_t*>(debug_offsets);
    return LayoutFromTable(index, 0x300 + index.minor, table, layout, reason);
  }
  return false;
}

bool LayoutAgrees(const PythonLayout& layout, const void* code_type, const void* type_type) {
  // If objects begin differently (free-threaded, or with lists of all objects), the other offsets of a type are wrong
  // too.
  if (ReadAt<const void*>(code_type, kPyTypeOffset) != type_type) return false;
  auto members = ReadAt<const PythonMember*>(code_type, kPyTypeMembers);
  return members != nullptr && MemberIsAt(members, "co_filename", layout.code_file) &&
         MemberIsAt(members, layout.minor < 11 ? "co_name" : "co_qualname", layout.code_name) &&
         MemberIsAt(members, "co_firstlineno", layout.code_first_line);
}

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
    constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (uint32_t at = bytes; at-- > 1; c >>= 6) text[used + at] = static_cast<char>(0x80 | (c & 63));
    text[used] = static_cast<char>(kLead[bytes] | c);
    used += bytes;
  }
  return used;
}

}  // namespace dlhook::inline python
