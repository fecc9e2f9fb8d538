// Walks over CPython's frames, in whatever memory they are: the process's own, read in place (OwnFrames); its own where it
// may be gone, by copies (interrupted_frames.cc); another process's (analyzer/io/outside_code.cc). A Memory has
//
//   const void* PointerAt(const void* object, size_t offset)   null: can't be read
//   const char* Frame(const void* frame)    all bytes of a frame that are read here, until the second next call; null: likewise
//   const char* Code(const void* object)    those of a code object; null: it is another kind of object
//
// Thread: any. Whoever calls sees to it that the frames stand still.
#pragma once

#include "preload/python/python_layout.h"

namespace dlhook::inline python {

struct OwnFrames {
  const void* code_type;

  static const void* PointerAt(const void* object, size_t offset) { return ReadAt<const void*>(object, offset); }
  static const char* Frame(const void* frame) { return static_cast<const char*>(frame); }
  const char* Code(const void* object) const {
    return ReadAt<const void*>(object, kPyTypeOffset) == code_type ? static_cast<const char*>(object) : nullptr;
  }
};

// The innermost frame of a thread state, or null.
template <typename Memory>
inline const void* PythonFrameOf(const PythonLayout& layout, Memory& memory, const void* thread_state) {
  const void* holder = memory.PointerAt(thread_state, layout.thread_frame);
  if (layout.holder_frame < 0 || holder == nullptr) return holder;
  return memory.PointerAt(holder, static_cast<size_t>(layout.holder_frame));
}

// From 3.13 on the interpreter puts a frame of its own below an __init__ that it calls without leaving its loop: its
// code's file has the same name as its function, and it has no line.
inline bool IsInterpretersOwn(const PythonLayout& layout, const void* code) {
  constexpr uint8_t kFirstMinor = 13;
  return layout.minor >= kFirstMinor && ReadAt<int32_t>(code, layout.code_first_line) == 0 &&
         ReadAt<const void*>(code, layout.code_file) == ReadAt<const void*>(code, layout.code_name);
}

// The interpreter's own frames, from 3.12 on.
inline bool IsShimFrame(const PythonLayout& layout, const char* frame) {
  return layout.frame_owner != 0 && ReadAt<uint8_t>(frame, layout.frame_owner) >= kFirstShimOwner;
}

// Calls visit(frame, code's bytes, byte of the instruction) from the innermost frame outwards until it returns false. False: a
// frame could not be read.
template <typename Memory, typename Visit>
inline bool VisitFrames(const PythonLayout& layout, Memory& memory, const void* frame, Visit visit) {
  for (const void* outer; frame != nullptr; frame = outer) {
    const char* bytes = memory.Frame(frame);
    if (bytes == nullptr) return false;
    outer = ReadAt<const void*>(bytes, layout.frame_previous);
    if (IsShimFrame(layout, bytes)) continue;
    uintptr_t reference = ReadAt<uintptr_t>(bytes, layout.frame_code) & ~uintptr_t{layout.tag_bits};
    const char* code = reference == 0 ? nullptr : memory.Code(reinterpret_cast<const void*>(reference));
    if (code == nullptr || __builtin_expect(IsInterpretersOwn(layout, code), 0)) continue;
    int64_t offset =
        layout.instruction_unit != 0
            ? int64_t{ReadAt<int32_t>(bytes, layout.frame_instruction)} * layout.instruction_unit
            : ReadAt<int64_t>(bytes, layout.frame_instruction) - static_cast<int64_t>(reference + layout.code_start);
    if (!visit(frame, code, offset)) return true;
  }
  return true;
}

// Whether a frame is the outermost one run by its call of the interpreter (_PyEval_EvalFrameDefault). From 3.12 on that
// call puts a frame of its own below it.
template <typename Memory>
inline bool IsEntryFrame(const PythonLayout& layout, Memory& memory, const void* frame) {
  const char* bytes = memory.Frame(frame);
  if (layout.frame_entry != 0) return ReadAt<uint8_t>(bytes, layout.frame_entry) != 0;
  if (layout.frame_owner == 0) return true;
  const void* outer = ReadAt<const void*>(bytes, layout.frame_previous);
  if (outer == nullptr) return true;
  const char* outer_bytes = memory.Frame(outer);
  return outer_bytes != nullptr && IsShimFrame(layout, outer_bytes);
}

// What the beginning of a string says of it.
struct PythonString {
  uint32_t kind;  // bytes of a code point: 1, 2, 4; another: none that is understood
  bool is_compact;
  size_t length;    // code points
  size_t contents;  // where they are in it; else, if it is not compact, their address
};
inline PythonString PythonStringOf(const PythonLayout& layout, const void* head) {
  uint32_t bits = TextBits(ReadAt<uint32_t>(head, kPyStringState), layout);
  bool is_compact = (bits & 8) != 0, is_ascii = (bits & 16) != 0;
  bool is_known = (bits & 7) == 1 || (bits & 7) == 2 || (bits & 7) == 4;
  return {is_known ? bits & 7 : 0, is_compact, ReadAt<size_t>(head, kPyStringLength),
          is_compact && is_ascii ? layout.ascii_bytes : layout.compact_bytes};
}

}  // namespace dlhook::inline python
