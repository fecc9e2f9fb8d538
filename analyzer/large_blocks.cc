// Huge pages for large blocks of the program `dlhook`, and the same blocks again: a report of millions of calls spent half
// of its time on touching small pages, and then a quarter on having large ones cleared. Replaces the global operator new,
// so it is linked only into the program, never into a library or a test.
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace {

constexpr size_t kLargePageBytes = size_t{2} << 20;
constexpr size_t kLeastLarge = 2 * kLargePageBytes;

// Freed large blocks, to be given out again while their pages are still there.
class KeptBlocks {
 public:
  // Null: none fits. One of up to twice the size does.
  void* Take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block* best = nullptr;
    for (Block& block : blocks_) {
      const bool fits = block.bytes >= bytes && block.bytes / 2 <= bytes;
      if (fits && (best == nullptr || block.bytes < best->bytes)) best = &block;
    }
    return best == nullptr ? nullptr : Remove(*best).start;
  }

  void Keep(void* start, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > kMostBytes) return std::free(start);
    std::free(Remove(blocks_[next_]).start);
    ReduceTo(kMostBytes - bytes);
    blocks_[next_] = {start, bytes};
    bytes_ += bytes;
    next_ = (next_ + 1) % blocks_.size();
  }

  // A new block takes the place of old ones: what is kept never adds to the program's largest size.
  void MakeRoom(size_t bytes) {
    const std::lock_guard lock(mutex_);
    ReduceTo(bytes_ - std::min(bytes, bytes_));
  }

 private:
  struct Block {
    void* start = nullptr;
    size_t bytes = 0;
  };
  static constexpr size_t kMostBytes = size_t{256} << 20;

  // The oldest ones first.
  void ReduceTo(size_t bytes) {
    for (size_t i = 0; bytes_ > bytes; ++i) std::free(Remove(blocks_[(next_ + i) % blocks_.size()]).start);
  }

  Block Remove(Block& block) {
    bytes_ -= block.bytes;
    return std::exchange(block, Block());
  }

  std::mutex mutex_;
  std::array<Block, 16> blocks_;
  size_t next_ = 0;  // place of the oldest one; empty if it was taken
  size_t bytes_ = 0;
};

constinit KeptBlocks kept;

// Otherwise malloc takes large blocks from its heap, which cannot be given back from below its top, once one was freed.
const int always_mapped = mallopt(M_MMAP_THRESHOLD, kLeastLarge);
// Otherwise what one thread freed is not there for the others: it took 50 MB more.
const int one_heap = mallopt(M_ARENA_MAX, 1);

void* LargeBlock(size_t bytes) {
  bytes = (bytes + kLargePageBytes - 1) & ~(kLargePageBytes - 1);
  if (void* const block = kept.Take(bytes)) return block;
  kept.MakeRoom(bytes);
  void* const block = std::aligned_alloc(kLargePageBytes, bytes);
  // Only a hint: without support, pages remain small.
  if (block != nullptr) madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

}  // namespace

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return bytes >= kLeastLarge ? LargeBlock(bytes) : std::malloc(bytes == 0 ? 1 : bytes);
}

void* operator new(size_t bytes) {
  for (;;) {
    if (void* const block = operator new(bytes, std::nothrow)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* block) noexcept {
  const bool may_be_large = block != nullptr && reinterpret_cast<uintptr_t>(block) % kLargePageBytes == 0;
  const size_t bytes = may_be_large ? malloc_usable_size(block) : 0;
  bytes >= kLeastLarge ? kept.Keep(block, bytes) : std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }
