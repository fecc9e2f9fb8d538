// Memory of the fake devices: host memory in arenas at fixed addresses, so that every run sees the same pointers and an
// address identifies its kind (README.md). Allocation is first fit by address; freed memory reads as zeros again, like
// fresh memory.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "fake.h"

namespace fake {
namespace {

// Below the kernel's own mappings, and where the sanitizers allow some.
constexpr uintptr_t kHandles = 0x7e8000000000;
constexpr uintptr_t kPinned = 0x7e9000000000;
constexpr uintptr_t kManaged = 0x7ea000000000;
constexpr uintptr_t kDevices = 0x7eb000000000;
constexpr uintptr_t kPerDevice = 0x001000000000;
constexpr size_t kArenaBytes = size_t{16} << 30;
constexpr size_t kUnit = 512;  // as cudaMalloc aligns

std::mutex lock;

class Arena {
 public:
  explicit Arena(uintptr_t base) : base_(base) {}

  void* Allocate(size_t bytes) {
    if (!Reserve()) return nullptr;
    const size_t size = bytes == 0 ? kUnit : (bytes + kUnit - 1) / kUnit * kUnit;
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < size) continue;
      const auto [address, length] = *gap;
      gaps_.erase(gap);
      if (length > size) gaps_[address + size] = length - size;
      taken_[address] = size;
      used_ += size;
      return reinterpret_cast<void*>(address);
    }
    return nullptr;
  }

  bool Free(uintptr_t address) {
    const auto entry = taken_.find(address);
    if (entry == taken_.end()) return false;
    const size_t size = entry->second;
    taken_.erase(entry);
    used_ -= size;
    Clear(address, size);
    auto after = gaps_.emplace(address, size).first;
    const auto next = std::next(after);
    if (next != gaps_.end() && address + size == next->first) {
      after->second += next->second;
      gaps_.erase(next);
    }
    if (after != gaps_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == address) {
        before->second += after->second;
        gaps_.erase(after);
      }
    }
    return true;
  }

  bool Contains(uintptr_t address) const { return address >= base_ && address < base_ + kArenaBytes; }
  size_t used() const { return used_; }

 private:
  bool Reserve() {
    if (reserved_) return true;
    void* wanted = reinterpret_cast<void*>(base_);
    void* memory = mmap(wanted, kArenaBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != wanted) {
      fprintf(stderr, "dlhook fakes: the address %p is taken\n", wanted);
      return false;
    }
    gaps_[base_] = kArenaBytes;
    return reserved_ = true;
  }

  static void Clear(uintptr_t address, size_t size) {
    constexpr size_t kPage = 4096;
    const uintptr_t first = (address + kPage - 1) / kPage * kPage;
    const uintptr_t last = (address + size) / kPage * kPage;
    if (first >= last) {
      memset(reinterpret_cast<void*>(address), 0, size);
      return;
    }
    memset(reinterpret_cast<void*>(address), 0, first - address);
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    memset(reinterpret_cast<void*>(last), 0, address + size - last);
  }

  uintptr_t base_;
  bool reserved_ = false;
  size_t used_ = 0;
  std::map<uintptr_t, size_t> gaps_, taken_;
};

// Never destroyed: libraries free memory in destructors that run later.
struct Arenas {
  Arena handles{kHandles}, pinned{kPinned}, managed{kManaged};
  Arena devices[kMostDevices] = {Arena(kDevices), Arena(kDevices + kPerDevice), Arena(kDevices + 2 * kPerDevice),
                                 Arena(kDevices + 3 * kPerDevice)};
  std::map<uintptr_t, size_t> registered;             // pinned by the user
  std::map<size_t, std::vector<void*>> free_handles;  // by size; the last freed is reused first
};

Arenas& All() {
  static auto* arenas = new Arenas;
  return *arenas;
}

int DeviceOf(uintptr_t address) {
  for (int device = 0; device < kMostDevices; ++device) {
    if (All().devices[device].Contains(address)) return device;
  }
  return -1;
}

}  // namespace

void* AllocateDevice(int device, size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  return device >= 0 && device < kMostDevices ? All().devices[device].Allocate(bytes) : nullptr;
}

void* AllocatePinned(size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  return All().pinned.Allocate(bytes);
}

void* AllocateManaged(size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  return All().managed.Allocate(bytes);
}

bool Free(void* memory) {
  if (memory == nullptr) return true;
  const std::lock_guard<std::mutex> guard(lock);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const int device = DeviceOf(address);
  if (device >= 0) return All().devices[device].Free(address);
  return All().pinned.Free(address) || All().managed.Free(address);
}

void RegisterPinned(const void* memory, size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  All().registered[reinterpret_cast<uintptr_t>(memory)] = bytes;
}

void UnregisterPinned(const void* memory) {
  const std::lock_guard<std::mutex> guard(lock);
  All().registered.erase(reinterpret_cast<uintptr_t>(memory));
}

Memory Classify(const void* memory, int* device) {
  const std::lock_guard<std::mutex> guard(lock);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const int owner = DeviceOf(address);
  if (device != nullptr) *device = owner < 0 ? CurrentDevice() : owner;
  if (owner >= 0) return Memory::kDevice;
  if (All().managed.Contains(address)) return Memory::kManaged;
  if (All().pinned.Contains(address)) return Memory::kPinned;
  auto above = All().registered.upper_bound(address);
  if (above != All().registered.begin()) {
    --above;
    if (address < above->first + above->second) return Memory::kPinned;
  }
  return Memory::kPageable;
}

void DeviceMemory(int device, size_t* free, size_t* total) {
  const std::lock_guard<std::mutex> guard(lock);
  *total = kArenaBytes;
  *free = kArenaBytes - All().devices[device].used();
}

void* AllocateHandle(size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  std::vector<void*>& unused = All().free_handles[bytes];
  if (unused.empty()) return All().handles.Allocate(bytes);
  void* handle = unused.back();
  unused.pop_back();
  memset(handle, 0, bytes);
  return handle;
}

void FreeHandle(void* handle, size_t bytes) {
  const std::lock_guard<std::mutex> guard(lock);
  All().free_handles[bytes].push_back(handle);
}

bool IsHandle(const void* handle) { return All().handles.Contains(reinterpret_cast<uintptr_t>(handle)); }

}  // namespace fake
