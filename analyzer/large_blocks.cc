// Asks for huge pages for large blocks of the program `dlhook`: a report of millions of calls spent half of its time on
// touching small pages. Replaces the global operator new, so it is linked only into the program, never into a library
// or a test.
#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace {

constexpr size_t kLargePageBytes = size_t{2} << 20;

void* LargeBlock(size_t bytes) {
  void* block = std::aligned_alloc(kLargePageBytes, (bytes + kLargePageBytes - 1) & ~(kLargePageBytes - 1));
  // Only a hint: without support, pages remain small.
  if (block != nullptr) madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

}  // namespace

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return bytes >= 2 * kLargePageBytes ? LargeBlock(bytes) : std::malloc(bytes == 0 ? 1 : bytes);
}

void* operator new(size_t bytes) {
  void* block = operator new(bytes, std::nothrow);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
