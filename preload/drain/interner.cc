// Hash tables of the drain.
#include "preload/drain/interner.h"

namespace dlhook::inline drain {
namespace {

uint64_t HashBytes(const void* data, uint32_t bytes) {
  const char* p = static_cast<const char*>(data);
  uint64_t hash = bytes * 0x9e3779b97f4a7c15u;
  while (bytes >= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    p += 8;
    bytes -= 8;
  }
  uint64_t word = 0;
  memcpy(&word, p, bytes);
  hash = (hash ^ word) * 0xc4ceb9fe1a85ec53u;
  return hash ^ (hash >> 29);
}

}  // namespace

bool KeyTable::Init() {
  memory_.Resize(sizeof(Entry) * capacity_);
  return memory_.data() != nullptr && keys_.Reserve(4096);
}

void KeyTable::Clear() {
  if (count_ == 0) return;  // pages not touched yet remain so
  memset(memory_.data(), 0, memory_.size());
  keys_.Clear();
  count_ = 0;
}

KeyTable::Found KeyTable::Find(const void* key, uint32_t key_bytes) {
  uint64_t hash = HashBytes(key, key_bytes);
  auto entries = reinterpret_cast<Entry*>(memory_.data());
  for (uint32_t i = static_cast<uint32_t>(hash >> 40);; ++i) {
    Entry& entry = entries[i & (capacity_ - 1)];
    if (entry.iid == 0) {
      const auto offset = static_cast<uint32_t>(keys_.size());
      if (!keys_.Append(key, key_bytes)) return {0, false};
      entry = {hash, offset, key_bytes, ++count_};
      return {entry.iid, true};
    }
    if (entry.hash == hash && entry.key_bytes == key_bytes &&
        memcmp(keys_.data() + entry.key_offset, key, key_bytes) == 0) {
      return {entry.iid, false};
    }
  }
}

bool Interner::Init() {
  address_memory_.Resize(sizeof(AddressEntry) * kAddressCapacity);
  addresses_ = reinterpret_cast<AddressEntry*>(address_memory_.data());
  stack_nodes_.Resize(kMaxNodes / 8);
  return addresses_ != nullptr && stack_nodes_.data() != nullptr && ops.Init() && names.Init() &&
         python_stacks.Init() && gpu_kernels.Init();
}

void Interner::Clear() {
  ops.Clear();
  names.Clear();
  python_stacks.Clear();
  gpu_kernels.Clear();
  if (address_count_ > 0) memset(address_memory_.data(), 0, address_memory_.size());
  if (has_stack_nodes_) memset(stack_nodes_.data(), 0, stack_nodes_.size());
  has_stack_nodes_ = false;
  memset(hints_, 0, sizeof hints_);
  address_count_ = 0;
  ClearNewAddresses();
}

uint32_t Interner::AddAddress(AddressEntry* entry, uint64_t address) {
  *entry = {address, ++address_count_};
  new_addresses_.Append(&address, sizeof address);
  return entry->iid;
}

}  // namespace dlhook::inline drain
