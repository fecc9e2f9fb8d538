#include <string.h>

#include "preload/base/own_memory.h"
#include "preload/python/python_runtime.h"

namespace dlhook::inline python {
namespace {

constexpr uint64_t kFrameBytes = 112;     // of a frame, all that a walk reads
constexpr uint64_t kCodeBytes = 200;      // of a code object, likewise
constexpr uint64_t kObjectBytes = 56;     // of a string or bytes object, before its contents
constexpr uint64_t kMostUnits = 1 << 20;  // of a string or line table
constexpr uint32_t kMostFrames = 136;     // kMaxPythonFrames and as many of the interpreter's own
constexpr uint32_t kWindowPages = 4;

template <typename T>
bool CopyAt(const void* address, T* to) {
  return CopyOwnMemory(reinterpret_cast<uint64_t>(address), to, sizeof *to) == sizeof *to;
}

// For VisitFrames. Frames lie one above the other, the innermost on top: a copy of a few pages holds several. What may be code
// objects is collected, not visited.
class FrameWindow {
 public:
  static const void* PointerAt(const void* object, size_t offset) {
    const void* value = nullptr;
    return CopyAt(static_cast<const char*>(object) + offset, &value) ? value : nullptr;
  }
  const char* Frame(const void* frame) {
    auto address = reinterpret_cast<uint64_t>(frame);
    if (frames_ == kMostFrames) return nullptr;
    if (address < start_ || address + kFrameBytes > end_) Copy(address);
    if (address < start_ || address + kFrameBytes > end_) return nullptr;
    ++frames_;
    return bytes_ + (address - low_);
  }
  const char* Code(const void* object) {
    codes_[count_++] = object;
    return nullptr;
  }

  bool is_full() const { return frames_ == kMostFrames; }
  const void* const* codes() const { return codes_; }
  uint32_t count() const { return count_; }

 private:
  // From the page that holds the frame's end downwards, until one is not there.
  void Copy(uint64_t address) {
    uint64_t top = (address + kFrameBytes - 1) & ~(kPageBytes - 1);
    low_ = top - (kWindowPages - 1) * kPageBytes;
    iovec local[kWindowPages], remote[kWindowPages];
    for (uint32_t i = 0; i < kWindowPages; ++i) {
      local[i] = {bytes_ + (kWindowPages - 1 - i) * kPageBytes, kPageBytes};
      remote[i] = {reinterpret_cast<void*>(top - i * kPageBytes), kPageBytes};
    }
    ErrnoKeeper keeper;
    ssize_t copied = process_vm_readv(static_cast<pid_t>(ProcessId()), local, kWindowPages, remote, kWindowPages, 0);
    uint64_t pages = copied < 0 ? 0 : static_cast<uint64_t>(copied) / kPageBytes;
    end_ = top + kPageBytes;
    start_ = end_ - pages * kPageBytes;
  }

  char bytes_[kWindowPages * kPageBytes];
  uint64_t low_ = 0;    // of the first byte in bytes_
  uint64_t start_ = 0;  // of the first byte that was copied
  uint64_t end_ = 0;
  const void* codes_[kMostFrames];
  uint32_t count_ = 0;
  uint32_t frames_ = 0;
};

// Can each of these ranges be read? One system call.
bool AreReadable(const iovec* ranges, uint32_t count, void* buffer, size_t size) {
  size_t wanted = 0;
  for (uint32_t i = 0; i < count; ++i) wanted += ranges[i].iov_len;
  return wanted <= size && CopyOwnPieces(ranges, count, buffer, wanted) == wanted;
}

// Everything that looks like an object's head where a frame's code should be. (Other kinds of objects are skipped.)
bool HaveTypes(const FrameWindow& frames) {
  iovec ranges[kMostFrames];
  uint64_t heads[kMostFrames];
  for (uint32_t i = 0; i < frames.count(); ++i)
    ranges[i] = {const_cast<char*>(static_cast<const char*>(frames.codes()[i])) + kPyTypeOffset, 8};
  return AreReadable(ranges, frames.count(), heads, sizeof heads);
}

// The names and the line table of the innermost frame's code, which the frame may just have let go.
bool IsWhole(const PythonRuntime& python, const void* code) {
  const PythonLayout& layout = python.layout;
  char copy[kCodeBytes];
  if (!CopyAt(code, &copy)) return false;
  if (ReadAt<const void*>(copy, kPyTypeOffset) != python.code_type) return true;
  char heads[3][kObjectBytes];
  iovec ranges[3];
  uint32_t count = 0;
  const void* lines = ReadAt<const void*>(copy, layout.code_lines);
  for (uint16_t offset : {layout.code_file, layout.code_name, layout.code_lines}) {
    auto object = ReadAt<char*>(copy, offset);
    if (object != nullptr) ranges[count++] = {object, kObjectBytes};
  }
  if (!AreReadable(ranges, count, heads, sizeof heads)) return false;
  // Memory is given back by the block: if the first and the last byte are there, so is the rest.
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t units = ReadAt<uint64_t>(heads[i], kPyStringLength);
    uint64_t unit_bytes = ranges[i].iov_base == lines ? 1 : PythonStringOf(layout, heads[i]).kind;
    if (units > kMostUnits) return false;
    ranges[i] = {static_cast<char*>(ranges[i].iov_base) + kPyBytesData + units * unit_bytes, 1};
  }
  return AreReadable(ranges, count, heads, sizeof heads);
}

}  // namespace

const void* ReadableFrameOf(const PythonRuntime& python, const void* thread_state) {
  FrameWindow frames;
  const void* first = PythonFrameOf(python.layout, frames, thread_state);
  const auto all = [](const void*, const char*, int64_t) { return true; };
  if (first == nullptr || !(VisitFrames(python.layout, frames, first, all) || frames.is_full())) return nullptr;
  if (frames.count() == 0) return first;
  return HaveTypes(frames) && IsWhole(python, frames.codes()[0]) ? first : nullptr;
}

}  // namespace dlhook::inline python
