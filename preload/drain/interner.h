// Dictionaries of the drain: op keys, names, Python stacks, GPU kernels and addresses to small ids. Bounded: when one
// is full the drain sends a Reset and all start over.
// Thread: the drain's.
#pragma once

#include "preload/base/buffer.h"
#include "preload/drain/outside_stacks.h"
#include "preload/format/stack_nodes.h"

namespace dlhook::inline drain {

// Keys of any length -> ids from 1 upward. Open addressing; the owner keeps it from filling up.
class KeyTable {
 public:
  explicit KeyTable(uint32_t capacity) : capacity_(capacity) {}  // a power of two
  bool Init();
  void Clear();
  struct Found {
    uint32_t iid;  // 0: out of memory
    bool is_new;   // it was not known
  };
  Found Find(const void* key, uint32_t key_bytes);
  bool NearlyFull() const { return count_ > capacity_ * 3 / 4 || keys_.size() > (4u << 20); }

 private:
  struct Entry {
    uint64_t hash;
    uint32_t key_offset;
    uint32_t key_bytes;
    uint32_t iid;  // 0: free
  };

  uint32_t capacity_;
  uint32_t count_ = 0;
  Buffer memory_;
  Buffer keys_;
};

class Interner {
 public:
  static constexpr uint32_t kAddressCapacity = 1 << 16;
  static constexpr uint32_t kHintShapeWords = 8;  // of a matrix product
  static constexpr uint32_t kMaxNodes = kMaxStackNodes + kMaxOutsideNodes;

  bool Init();
  void Clear();
  // True if there may be no room for the definitions of one more record (a native stack: some 1 000 addresses, for
  // which the last quarter of their table is reserved).
  bool NearlyFull() const {
    return ops.NearlyFull() || names.NearlyFull() || python_stacks.NearlyFull() || gpu_kernels.NearlyFull() ||
           address_count_ > kAddressCapacity * 3 / 4 - 8;
  }

  KeyTable ops{1 << 14};
  KeyTable names{1 << 15};          // strings: scopes' names, files
  KeyTable python_stacks{1 << 14};  // by their definitions' numbers
  KeyTable gpu_kernels{1 << 14};    // with their launch parameters

  // Nodes of native stacks that were defined: numbers of the process's own, then of those that the launcher read.
  bool HasStackNode(uint32_t number) const {
    return number < kMaxNodes && (stack_nodes_.data()[number / 8] >> (number % 8) & 1) != 0;
  }
  void AddStackNode(uint32_t number) {
    stack_nodes_.data()[number / 8] |= static_cast<char>(1 << (number % 8));
    has_stack_nodes_ = true;
  }
  // Id of an address; 0 for 0.
  uint32_t Address(uint64_t address) {
    if (address == 0) return 0;
    for (uint32_t i = AddressHash(address);; ++i) {
      AddressEntry& entry = addresses_[i & (kAddressCapacity - 1)];
      if (entry.address == address) return entry.iid;
      if (entry.address == 0) return AddAddress(&entry, address);
    }
  }

  // The last op with a given hash of its shape: most calls repeat, and comparing nine words in place is faster than a
  // look-up. `head`: what distinguishes ops besides the shape (type, hook, numbers of words).
  struct OpHint {
    uint64_t head;  // 0: empty
    uint64_t shape[kHintShapeWords];
    uint32_t iid;
  };
  OpHint* Hint(uint64_t head, const uint64_t* shape) {
    uint64_t mix = head ^ (shape[0] * 0xd6e8feb86659fd93u) ^ (shape[1] * 0x9e3779b97f4a7c15u) ^
                   (shape[2] * 0xff51afd7ed558ccdu) ^ (shape[3] * 0xc4ceb9fe1a85ec53u);
    return &hints_[(mix >> 50) & (kHints - 1)];
  }
  static bool Matches(const OpHint& hint, uint64_t head, const uint64_t* shape) {
    uint64_t difference = hint.head ^ head;
    for (uint32_t i = 0; i < kHintShapeWords; ++i) difference |= hint.shape[i] ^ shape[i];
    return difference == 0;
  }

  // Addresses that got an id since the last ClearNewAddresses, 8 bytes each.
  const Buffer& new_addresses() const { return new_addresses_; }
  uint32_t first_new_address_iid() const { return first_new_address_iid_; }
  void ClearNewAddresses() {
    new_addresses_.Clear();
    first_new_address_iid_ = address_count_ + 1;
  }

 private:
  struct AddressEntry {
    uint64_t address;
    uint32_t iid;
  };

  static uint32_t AddressHash(uint64_t address) { return static_cast<uint32_t>((address * 0x9e3779b97f4a7c15u) >> 40); }
  uint32_t AddAddress(AddressEntry* entry, uint64_t address);

  static constexpr uint32_t kHints = 512;
  OpHint hints_[kHints] = {};
  Buffer address_memory_;
  Buffer new_addresses_;
  Buffer stack_nodes_;  // one bit each
  bool has_stack_nodes_ = false;
  AddressEntry* addresses_ = nullptr;
  uint32_t address_count_ = 0;
  uint32_t first_new_address_iid_ = 1;
};

}  // namespace dlhook::inline drain
