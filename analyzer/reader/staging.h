// Holds the calls and scopes of a thread until all of them, and the clock's samples, have been read.
#pragma once

#include <sys/mman.h>

#include "analyzer/model/beside.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline reader {

// Bounds the sum of a run's durations, so that no sum in a report can overflow, whatever a damaged trace contains.
class TimeBudget {
 public:
  // False, and nothing is taken: not enough is left.
  bool Take(int64_t ns) {
    if (ns < 0 || ns > left_ns_) return false;
    left_ns_ -= ns;
    return true;
  }

  // The durations of nested calls or scopes.
  template <typename Staged>
  bool TakeAll(const Staged& staged) {
    const int64_t before_ns = left_ns_;
    for (const auto& element : staged) {
      if (Take(element.duration)) continue;
      left_ns_ = before_ns;
      return false;
    }
    return true;
  }

 private:
  int64_t left_ns_ = int64_t{1} << 60;  // 36 years
};

// A call of one thread. Its fields change their meaning when the thread is nested (scope_nesting.h).
struct StagedCall {
  // As recorded                            | as nested
  int64_t time = 0;      // end, in ticks  | start, in nanoseconds
  int64_t duration = 0;  // as recorded    | nanoseconds
  uint64_t sequence = 0;
  uint32_t op = 0;      // op index, kTapCall added if it came from a tap | op index
  uint32_t parent = 0;  // parent_distance | place of the parent in this thread's calls, or kNone
};
static_assert(sizeof(StagedCall) == 32);
constexpr uint32_t kTapCall = 0x80000000;
// Of a call that its thread did not count: times alone say what is around it.
constexpr uint64_t kNoSequence = 0;

// A growing array of plain values that moves by remapping, not by copying, and returns what was read from its front or
// its back to the system, so that the calls of a thread are in memory at most one and a half times. Once large, it asks
// for huge pages, and touches the next ones on a second processor: clearing them took up to a third of reading a run.
template <typename T>
class StagingArray {
 public:
  StagingArray() = default;
  StagingArray(StagingArray&& other) noexcept { *this = std::move(other); }
  StagingArray& operator=(StagingArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(released_bytes_, other.released_bytes_);
    std::swap(touched_bytes_, other.touched_bytes_);
    std::swap(touching_, other.touching_);
    return *this;
  }
  ~StagingArray() {
    touching_ = {};
    if (data_ != nullptr) munmap(data_, capacity_ * sizeof(T));
  }

  // Room for `count` more; the caller fills it and calls Commit.
  T* Reserve(size_t count) {
    if (size_ + count > capacity_) Grow(size_ + count);
    return data_ + size_;
  }
  void Commit(size_t count) {
    size_ += count;
    if (size_ * sizeof(T) + kAheadBytes > touched_bytes_) TouchAhead();
  }

  size_t size() const { return size_; }
  absl::Span<T> values() { return {data_, size_}; }

  // The first `count` values are no longer needed.
  void ReleaseFront(size_t count) {
    const auto begin = reinterpret_cast<uintptr_t>(data_);
    const uintptr_t end = (begin + count * sizeof(T)) & ~(kLargePageBytes - 1);
    if (end <= begin + released_bytes_) return;
    madvise(reinterpret_cast<void*>(begin + released_bytes_), end - begin - released_bytes_, MADV_DONTNEED);
    released_bytes_ = end - begin;
  }

  // The last value; it is removed.
  T TakeLast() {
    const T last = data_[--size_];
    const auto begin = reinterpret_cast<uintptr_t>(data_);
    const uintptr_t end = (begin + size_ * sizeof(T) + kLargePageBytes - 1) & ~(kLargePageBytes - 1);
    if (end < begin + touched_bytes_) {
      touching_ = {};
      madvise(reinterpret_cast<void*>(end), begin + touched_bytes_ - end, MADV_DONTNEED);
      touched_bytes_ = end - begin;
    }
    return last;
  }

 private:
  static constexpr uintptr_t kLargePageBytes = uintptr_t{2} << 20;  // returned whole: a part would split it
  static constexpr size_t kAheadBytes = 2 * kLargePageBytes;
  static constexpr size_t kLargeBytes = 16 * kAheadBytes;  // smaller ones would take a large part more

  void TouchAhead() {
    touched_bytes_ = std::max(touched_bytes_, size_ * sizeof(T));
    if (touched_bytes_ < kLargeBytes) return;
    const auto begin = reinterpret_cast<uintptr_t>(data_);
    const uintptr_t from = (begin + touched_bytes_ + kLargePageBytes - 1) & ~(kLargePageBytes - 1);
    if (from + kAheadBytes > begin + capacity_ * sizeof(T)) return;
    touched_bytes_ = from + kAheadBytes - begin;
    // Linux before 5.14 refuses it: then pages are touched when they are used.
    touching_ = Beside([from] { madvise(reinterpret_cast<void*>(from), kAheadBytes, MADV_POPULATE_WRITE); });
  }

  void Grow(size_t needed) {
    touching_ = {};
    size_t capacity = capacity_ == 0 ? 128 : capacity_ * 2;
    while (capacity < needed) capacity *= 2;
    const size_t bytes = capacity * sizeof(T);
    void* data = data_ == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                  : mremap(data_, capacity_ * sizeof(T), bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) throw std::bad_alloc();  // like any container
    if (bytes >= 2 * kLargePageBytes) madvise(data, bytes, MADV_HUGEPAGE);
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t released_bytes_ = 0;   // of the front
  size_t touched_bytes_ = 0;    // beyond, the back was returned, or not touched yet
  std::future<void> touching_;  // waits for it when it is replaced
};

// The sequence numbers that a thread has used. Dense numbers need one bit each.
class SequenceSet {
 public:
  // False: it was there already.
  bool Insert(uint64_t sequence) {
    const uint64_t block = sequence / kBlockBits;
    if (words_ == nullptr || block != block_) {
      words_ = &blocks_[block];
      block_ = block;
    }
    uint64_t& word = (*words_)[sequence % kBlockBits / 64];
    const uint64_t bit = uint64_t{1} << (sequence % 64);
    const bool is_new = (word & bit) == 0;
    word |= bit;
    return is_new;
  }

 private:
  static constexpr uint64_t kBlockBits = 512;
  using Block = std::array<uint64_t, kBlockBits / 64>;

  absl::flat_hash_map<uint64_t, Block> blocks_;
  uint64_t block_ = 0;
  Block* words_ = nullptr;  // of block_; updated whenever the map changes
};

// A scope as it was recorded.
struct RecordedScope {
  uint64_t end_ticks = 0;
  uint64_t duration_ticks = 0;
  uint64_t first_sequence = 0;
  int64_t link = -1;
  uint32_t call_count = 0;
  NameIndex name = 0;
  StackIndex python_stack = kNone;
  uint32_t kind = 0;  // at most kMaxKind
  uint32_t look = 0;  // of one that was taken back: a number for name, stack and kind
};

// Written from first to last, read from last to first: 13 bytes each, which are given back meanwhile.
class StagedScopes {
 public:
  static constexpr uint32_t kMaxKind = 15;

  void Add(const RecordedScope& scope);
  size_t size() const { return packed_.size(); }
  RecordedScope TakeLast();

  // By their ends.
  void Sort();

 private:
  // Differences from the scope before, where neighbours are alike. What does not fit is in `wide_`.
  // Words instead of bit fields: reading a part of what was just stored would wait for the store.
  struct [[gnu::packed]] Packed {
    uint64_t end_duration_link = 0;  // 24 bits (kIsWide: it is the last one in wide_), 24, 16: kNoLink, or a difference
    uint32_t look_and_calls = 0;     // 24 bits, in looks_, 8
    int8_t sequence_delta = 0;
  };
  static_assert(sizeof(Packed) == 13);
  static constexpr uint64_t kIsWide = (uint64_t{1} << 24) - 1;
  static constexpr int64_t kNoLink = INT16_MIN;

  // What differences are from.
  struct Last {
    uint64_t end = 0;
    uint64_t sequence = 0;
    int64_t link = 0;
  };
  struct Wide {
    RecordedScope scope;
    Last before;
  };

  bool Pack(const RecordedScope& scope, Packed* packed);

  StagingArray<Packed> packed_;
  std::vector<Wide> wide_;
  RecurringKeys<ScopeLook> looks_;
  Last last_;
};

}  // namespace dlhook::analyzer::reader
