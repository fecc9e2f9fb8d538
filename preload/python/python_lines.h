// Maps an instruction to its line, and Python's strings to UTF-8. Pure functions over bytes.
// Thread: any; only for new stacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/python/python_layout.h"

namespace dlhook::inline python {

// The line of the instruction at this byte of the code; 0 if the table has none. An offset before the first instruction
// has the first line.
uint32_t PythonLine(PythonLines format, const uint8_t* table, size_t table_bytes, int32_t first_line,
                    int64_t instruction_offset);

// Encodes `length` code points of `kind` bytes each (1, 2, 4) as UTF-8, truncated between code points to `capacity`;
// returns the bytes used. Lone surrogates (undecodable bytes of file names) become U+FFFD.
size_t EncodeUtf8(const void* data, size_t length, uint32_t kind, char* text, size_t capacity);

}  // namespace dlhook::inline python
