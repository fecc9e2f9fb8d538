// By the shim's own walk (preload/python/python_frames.h), over copies. Trusts nothing: what does not look like a frame ends it.
#include "analyzer/io/outside_python.h"

#include <string.h>

#include <algorithm>
#include <iterator>

#include "preload/python/python_frames.h"
#include "preload/python/python_layout.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr size_t kMostFrames = 64, kMostVisited = 256;
constexpr size_t kFrameBytes = 128, kCodeBytes = 256;
constexpr size_t kMostStacks = 1 << 14;
constexpr size_t kMostText = 1024;  // code points of a name
constexpr size_t kMostLineBytes = 1 << 20;

}  // namespace

bool OutsidePython::ReadLayout() {
  const uint64_t code_type = view_.code_type.load(std::memory_order_acquire);
  if (code_type == 0 || code_type == code_type_) return code_type != 0;
  memcpy(&layout_, view_.layout, sizeof layout_);
  for (const uint16_t offset : {layout_.frame_previous, layout_.frame_code, layout_.frame_instruction,
                                layout_.frame_owner, uint16_t{layout_.frame_entry}}) {
    if (offset + 8u > kFrameBytes) return false;
  }
  for (const uint16_t offset : {layout_.code_file, layout_.code_name, layout_.code_first_line, layout_.code_lines}) {
    if (offset + 8u > kCodeBytes) return false;
  }
  code_type_ = code_type;
  return true;
}

// For VisitFrames.
struct OutsidePython::Frames {
  const void* PointerAt(const void* object, size_t offset) const {
    return reinterpret_cast<const void*>(
        python.Word<uint64_t>(reinterpret_cast<uint64_t>(object) + offset).value_or(0));
  }
  const char* Frame(const void* frame) {
    for (const Copy& copy : copies) {
      if (copy.frame == frame) return copy.bytes;
    }
    Copy& copy = copies[visited % std::size(copies)];
    copy.frame = nullptr;
    const bool is_read =
        ++visited <= kMostVisited && python.memory_.Read(reinterpret_cast<uint64_t>(frame), copy.bytes, kFrameBytes);
    if (is_read) copy.frame = frame;
    return is_read ? copy.bytes : nullptr;
  }
  const char* Code(const void* object) {
    code = python.CodeAt(reinterpret_cast<uint64_t>(object));
    return code == nullptr ? nullptr : code->bytes.data();
  }

  struct Copy {
    const void* frame = nullptr;
    alignas(8) char bytes[kFrameBytes];
  };
  OutsidePython& python;
  OutsidePython::Code* code = nullptr;  // of the frame that is visited
  Copy copies[2] = {};
  size_t visited = 0;
};

// Truncated; empty: not known.
const char* OutsidePython::TextAt(uint64_t string) {
  alignas(8) char head[64];
  std::string text;
  if (string != 0 && memory_.Read(string, head, sizeof head)) {
    const PythonString shape = PythonStringOf(layout_, head);
    const size_t length = std::min(shape.length, kMostText);
    std::vector<char> units(length * shape.kind);
    char encoded[4 * kMostText];
    if (shape.is_compact && shape.kind != 0 && memory_.Read(string + shape.contents, units.data(), units.size()))
      text.assign(encoded, EncodeUtf8(units.data(), length, shape.kind, encoded, sizeof encoded));
  }
  const auto known = texts_.try_emplace(std::move(text), nullptr).first;
  return known->second = known->first.c_str();
}

// Null: no code object.
OutsidePython::Code* OutsidePython::CodeAt(uint64_t address) {
  constexpr size_t kAfterCount = 8;  // its references' number, which changes
  std::vector<char> bytes(kCodeBytes);
  if (!memory_.Read(address, bytes.data(), bytes.size()) || ReadAt<uint64_t>(bytes.data(), kPyTypeOffset) != code_type_)
    return nullptr;
  Code& code = codes_[address];
  if (code.bytes.empty() ||
      memcmp(code.bytes.data() + kAfterCount, bytes.data() + kAfterCount, kCodeBytes - kAfterCount) != 0) {
    code = {};
    code.file = TextAt(ReadAt<uint64_t>(bytes.data(), layout_.code_file));
    code.function = TextAt(ReadAt<uint64_t>(bytes.data(), layout_.code_name));
    code.bytes = std::move(bytes);
  }
  return &code;
}

uint32_t OutsidePython::LineOf(Code* code, int64_t offset) {
  const auto [place, is_new] = code->lines.try_emplace(offset, 0);
  if (!is_new) return place->second;
  const auto table = ReadAt<uint64_t>(code->bytes.data(), layout_.code_lines);
  const size_t size = Word<size_t>(table + kPyBytesLength).value_or(0);
  std::vector<uint8_t> bytes(std::min(size, kMostLineBytes));
  if (!memory_.Read(table + kPyBytesData, bytes.data(), bytes.size())) return 0;
  const auto first = ReadAt<int32_t>(code->bytes.data(), layout_.code_first_line);
  return place->second = PythonLine(layout_.lines, bytes.data(), bytes.size(), first, offset);
}

bool OutsidePython::ReadFrames(uint64_t thread_state, std::vector<Frame>* frames, bool* is_cut) {
  Frames memory = {.python = *this};
  const void* const first = PythonFrameOf(layout_, memory, reinterpret_cast<const void*>(thread_state));
  return VisitFrames(layout_, memory, first, [&](const void* frame, const char*, int64_t offset) {
    *is_cut = frames->size() == kMostFrames;
    if (*is_cut) return false;
    Code* const code = memory.code;
    const bool is_entry = IsEntryFrame(layout_, memory, frame);
    frames->push_back({code->file, code->function, LineOf(code, offset), is_entry});
    return true;
  });
}

// A state begins with its neighbours in the list, and somewhere has the kernel's number of its thread: where, the known one tells.
uint64_t OutsidePython::StateOf(uint32_t tid, const Known& known) {
  constexpr size_t kStateWords = 64, kMostStates = 4096;
  uint64_t state[kStateWords];
  if (known.thread_state == 0 || !memory_.Read(known.thread_state, state, sizeof state)) return 0;
  if (tid_offset_ == 0) {
    const auto* const found = std::find(state + 2, state + kStateWords, uint64_t{known.tid});
    if (found == state + kStateWords) return 0;
    tid_offset_ = static_cast<size_t>(found - state);
  }
  for (const size_t direction : {0, 1}) {
    uint64_t at = known.thread_state;
    for (size_t count = 0; at != 0 && count < kMostStates && memory_.Read(at, state, sizeof state); ++count) {
      if (state[tid_offset_] == tid) return at;
      at = state[direction];
    }
  }
  return 0;
}

uint32_t OutsidePython::StackOf(uint64_t thread_state) {
  std::vector<Frame> frames;
  bool is_cut = false;
  if (thread_state == 0 || !ReadLayout() || !ReadFrames(thread_state, &frames, &is_cut) || frames.empty()) return 0;
  const auto [place, is_new] = numbers_.try_emplace({frames, is_cut}, 0);
  if (!is_new) return place->second;
  if (stacks_.size() == kMostStacks) return 0;
  std::vector<OutsidePythonFrame>& kept = frames_.emplace_back();
  for (const Frame& frame : frames) kept.push_back({frame.file, frame.function, frame.line, frame.is_entry});
  stacks_.push_back({kept.data(), static_cast<uint32_t>(kept.size()), is_cut});
  return place->second = static_cast<uint32_t>(stacks_.size());
}

}  // namespace dlhook::analyzer::io
