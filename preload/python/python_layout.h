// Where CPython stores the parts of a stack, per version. Determined once per process; plain data afterwards.
// Thread: any. Reads nothing of the interpreter but what its own symbols point to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook::inline python {

enum class PythonLines : uint8_t {
  kLnotab,     // 3.9: co_lnotab
  kLineTable,  // 3.10: co_linetable, pairs
  kLocations,  // from 3.11: co_linetable, entries of variable length
};

// Offsets in bytes.
struct PythonLayout {
  uint16_t thread_frame;  // in PyThreadState: the frame, or its holder
  int16_t holder_frame;   // 3.11, 3.12: in the _PyCFrame that thread_frame points to; -1: none
  uint16_t frame_previous;
  uint16_t frame_code;
  uint16_t frame_instruction;  // until 3.10 a number (int32_t), then a pointer into the code
  uint16_t frame_owner;        // 0: frames have none, and each has its own call of the interpreter
  uint16_t frame_locals;
  uint16_t code_file;
  uint16_t code_name;  // co_qualname, co_name until 3.10
  uint16_t code_first_line;
  uint16_t code_lines;
  uint16_t code_start;   // of the instructions, from 3.11
  uint16_t ascii_bytes;  // sizeof(PyASCIIObject), PyCompactUnicodeObject
  uint16_t compact_bytes;
  uint8_t instruction_unit;  // until 3.10: bytes per unit of frame_instruction; 0: it is a pointer
  uint8_t tag_bits;          // 3.14: references in frames carry tags here
  uint8_t text_shift;        // at most, of kind, compact and ascii in the state of a string: TextBits
  PythonLines lines;
  uint8_t minor;        // of the release: 11 for 3.11
  uint8_t frame_entry;  // 3.11: the frame's flag for an entry; 0: no such flag
};

// The same in every supported version.
constexpr size_t kPyTypeOffset = 8;
constexpr size_t kPyStringLength = 16;
constexpr size_t kPyStringHash = 24;
constexpr size_t kPyStringState = 32;
constexpr size_t kPyBytesLength = 16;
constexpr size_t kPyBytesData = 32;
constexpr size_t kPyCellContent = 16;
constexpr size_t kPyTypeName = 24;
constexpr size_t kPyTypeMembers = 240;
constexpr uint8_t kFirstShimOwner = 3;  // the interpreter's own frames (from 3.12) have this owner or a greater one

template <typename T>
inline T ReadAt(const void* object, size_t offset) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(object) + offset);
}

// Kind (3 bits, never 0), compact and ascii of a string with this state; the bits above are not initialized. 3.14.0 moved them
// from bit 2 to bit 16, behind 16 bits of which two are in use, and a later 3.14 back.
inline uint32_t TextBits(uint32_t state, const PythonLayout& layout) {
  bool is_moved = layout.text_shift > 2 && (state & 0x1c) == 0;
  return state >> (is_moved ? layout.text_shift : 2);
}

// The layout of the release that Py_GetVersion() names ("3.11.7 (main, …"). `debug_offsets`: the beginning of
// _PyRuntime, from 3.13 on. False with a reason if that release is not supported: too old or too new, before its final
// release, free-threaded. Pure: unit-tested.
bool LayoutOfPython(const char* version, const void* debug_offsets, PythonLayout* layout, const char** reason);

// Whether this interpreter's own description of its code objects (PyCode_Type's table of members) matches the layout:
// forks of CPython (without a GIL, with other frames) keep the version they come from. `type_type`: PyType_Type. Pure:
// unit-tested.
bool LayoutAgrees(const PythonLayout& layout, const void* code_type, const void* type_type);

// The line of the instruction at this byte of the code; 0 if the table has none. An offset before the first instruction
// has the first line.
uint32_t PythonLine(PythonLines format, const uint8_t* table, size_t table_bytes, int32_t first_line,
                    int64_t instruction_offset);

// Encodes `length` code points of `kind` bytes each (1, 2, 4) as UTF-8, truncated between code points to `capacity`;
// returns the bytes used. Lone surrogates (undecodable bytes of file names) become U+FFFD.
size_t EncodeUtf8(const void* data, size_t length, uint32_t kind, char* text, size_t capacity);

}  // namespace dlhook::inline python
