// The table of descriptors and the memory of their nodes.
#include "preload/track/cudnn_nodes.h"

#include <initializer_list>

#include "preload/link/library_api.h"

namespace dlhook::inline track {
namespace {

constexpr size_t kSmallest = 512;
constexpr size_t kPagesAtOnce = 256 << 10;
static_assert(sizeof(BackendNode) <= kSmallest);

const void* Tombstone() { return reinterpret_cast<const void*>(uintptr_t{1}); }

uint64_t HashOfDescriptor(const void* descriptor) {
  return (reinterpret_cast<uint64_t>(descriptor) * 0x9e3779b97f4a7c15u) >> 24;
}

int SizeClass(size_t bytes) {
  int size_class = 0;
  for (size_t size = kSmallest; size < bytes; size *= 2) ++size_class;
  return size_class;
}

uint64_t Mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0xff51afd7ed558ccdu ^ (hash >> 31); }

// Equal for descriptors with the same contents.
uint64_t HashContents(const BackendNode& node) {
  uint64_t hash = Mix(0x9e3779b97f4a7c15u, static_cast<uint64_t>(node.type));
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < node.counts[row]; ++i) hash = Mix(hash, static_cast<uint64_t>(node.numbers[row][i]));
  }
  for (int64_t value : {int64_t{node.data_type}, int64_t{node.mode}, node.uid, int64_t{node.is_virtual}}) {
    hash = Mix(hash, static_cast<uint64_t>(value));
  }
  ForEachChild(node, [&](int32_t attribute, const BackendNode& child) {
    hash = Mix(Mix(hash, static_cast<uint64_t>(attribute)), HashContents(child));
  });
  return hash;
}

// Queries the library about a plan, with descriptors created here for it to fill.
struct BackendApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*create)(int type, void** descriptor) = Find("cudnnBackendCreateDescriptor");
  int (*destroy)(void* descriptor) = Find("cudnnBackendDestroyDescriptor");
  int (*get)(const void* descriptor, int name, int type, int64_t requested, int64_t* returned,
             void* elements) = Find("cudnnBackendGetAttribute");
};

// A descriptor created here, destroyed at the end of its scope.
class OwnDescriptor {
 public:
  OwnDescriptor(const BackendApi& api, int type) : api_(api) {
    if (api.create(type, &descriptor_) != 0) descriptor_ = nullptr;
  }
  ~OwnDescriptor() {
    if (descriptor_ != nullptr) api_.destroy(descriptor_);
  }
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;
  void* get() const { return descriptor_; }
  // Lets the library fill it with attribute `name` of `parent`.
  bool Fill(const void* parent, int name) {
    int64_t returned = 0;
    return descriptor_ != nullptr && api_.get(parent, name, kTypeDescriptor, 1, &returned, &descriptor_) == 0 &&
           returned > 0;
  }

 private:
  const BackendApi& api_;
  void* descriptor_ = nullptr;
};

template <typename T>
uint32_t GetList(const BackendApi& api, const void* descriptor, int name, int type, T* values, uint32_t capacity) {
  int64_t returned = 0;
  if (api.get(descriptor, name, type, capacity, &returned, values) != 0 || returned < 0) return 0;
  return returned < capacity ? static_cast<uint32_t>(returned) : capacity;
}

void AskKnobs(const BackendApi& api, const void* configuration, PlanFacts* facts) {
  constexpr uint32_t kMax = sizeof facts->knob_types / sizeof *facts->knob_types;
  void* choices[kMax];
  uint32_t created = 0;
  while (created < kMax && api.create(kBackendKnobChoice, &choices[created]) == 0) ++created;
  uint32_t count = GetList(api, configuration, kConfigurationKnobs, kTypeDescriptor, choices, created);
  for (uint32_t i = 0; i < count; ++i) {
    int32_t type = -1;
    int64_t value = 0;
    GetList(api, choices[i], kKnobType, kTypeKnob, &type, 1);
    GetList(api, choices[i], kKnobValue, kTypeInt64, &value, 1);
    facts->knob_types[facts->knobs] = type;
    facts->knob_values[facts->knobs++] = value;
  }
  for (uint32_t i = 0; i < created; ++i) api.destroy(choices[i]);
}

}  // namespace

char* NodeTable::Allocate(size_t bytes) {
  int size_class = SizeClass(bytes);
  if (size_class >= kSizeClasses) return nullptr;
  if (void* block = free_[size_class]) {
    memcpy(&free_[size_class], block, sizeof(void*));
    return static_cast<char*>(block);
  }
  size_t size = kSmallest << size_class;
  if (size > pages_left_) {
    size_t wanted = size > kPagesAtOnce ? size : kPagesAtOnce;
    auto pages = static_cast<char*>(MapOwnPages(wanted));
    if (pages == nullptr) return nullptr;
    pages_ = pages;
    pages_left_ = wanted;
  }
  char* memory = pages_;
  pages_ += size;
  pages_left_ -= size;
  return memory;
}

void NodeTable::Free(char* memory, size_t bytes) {
  if (memory == nullptr) return;
  void*& first = free_[SizeClass(bytes)];
  memcpy(memory, &first, sizeof first);
  first = memory;
}

bool NodeTable::Grow() {
  // Full tables may mostly contain tombstones.
  uint64_t live = 0;
  for (uint64_t i = 0; i < capacity_; ++i) live += entries_[i].node != nullptr;
  uint64_t capacity = capacity_ == 0 ? 4096 : live * 4 <= capacity_ ? capacity_ : capacity_ * 2;
  auto larger = static_cast<Entry*>(MapOwnPages(capacity * sizeof(Entry)));
  if (larger == nullptr) return false;
  count_ = 0;
  for (uint64_t i = 0; i < capacity_; ++i) {
    if (entries_[i].node == nullptr) continue;
    uint64_t at = HashOfDescriptor(entries_[i].descriptor);
    while (larger[at & (capacity - 1)].descriptor != nullptr) ++at;
    larger[at & (capacity - 1)] = entries_[i];
    ++count_;
  }
  if (entries_ != nullptr) munmap(entries_, capacity_ * sizeof(Entry));
  entries_ = larger;
  capacity_ = capacity;
  return true;
}

bool NodeTable::Insert(const void* descriptor, int32_t type) {
  Remove(descriptor);  // destroyed unseen by the hooks
  if (count_ + 1 > capacity_ / 2 && !Grow()) return false;
  auto node = reinterpret_cast<BackendNode*>(Allocate(sizeof(BackendNode)));
  if (node == nullptr) return false;
  memset(static_cast<void*>(node), 0, sizeof *node);
  node->type = type;
  node->references = 1;
  node->data_type = node->mode = node->heuristic_mode = node->heuristic_rank = -1;
  uint64_t at = HashOfDescriptor(descriptor);
  while (entries_[at & (capacity_ - 1)].node != nullptr) ++at;
  Entry& entry = entries_[at & (capacity_ - 1)];
  if (entry.descriptor == nullptr) ++count_;
  entry = {descriptor, node};
  return true;
}

BackendNode* NodeTable::Find(const void* descriptor) {
  if (capacity_ == 0 || descriptor == nullptr) return nullptr;
  for (uint64_t at = HashOfDescriptor(descriptor);; ++at) {
    Entry& entry = entries_[at & (capacity_ - 1)];
    if (entry.descriptor == descriptor) return entry.node;
    if (entry.descriptor == nullptr) return nullptr;
  }
}

void NodeTable::Remove(const void* descriptor) {
  if (capacity_ == 0 || descriptor == nullptr) return;
  for (uint64_t at = HashOfDescriptor(descriptor);; ++at) {
    Entry& entry = entries_[at & (capacity_ - 1)];
    if (entry.descriptor == nullptr) return;
    if (entry.descriptor != descriptor) continue;
    Unreference(entry.node);
    entry = {Tombstone(), nullptr};
    return;
  }
}

// Graphs are a few nodes deep (plan, configuration, engine, graph, operation, tensor), and a descriptor can only be set after it
// was finalized, so there are no cycles.
void NodeTable::Unreference(BackendNode* node) {
  if (--node->references > 0) return;
  DropChildren(node, kAllAttributes);
  Free(node->serialized, node->serialized_capacity);
  Free(reinterpret_cast<char*>(node), sizeof *node);
}

void NodeTable::Adopt(BackendNode* parent, int32_t attribute, BackendNode* child) {
  if (parent->child_count == parent->child_capacity) {
    const uint32_t capacity =
        parent->child_capacity == 0 ? kSmallest / sizeof(BackendChild) : 2 * parent->child_capacity;
    auto larger = reinterpret_cast<BackendChild*>(Allocate(capacity * sizeof(BackendChild)));
    if (larger == nullptr) return;
    for (uint32_t i = 0; i < parent->child_count; ++i) larger[i] = parent->children[i];
    FreeChildren(parent);
    parent->children = larger;
    parent->child_capacity = capacity;
  }
  parent->children[parent->child_count++] = {attribute, child};
  ++child->references;
}

void NodeTable::FreeChildren(BackendNode* parent) {
  Free(reinterpret_cast<char*>(parent->children), parent->child_capacity * sizeof(BackendChild));
  parent->children = nullptr;
  parent->child_capacity = 0;
}

void NodeTable::DropChildren(BackendNode* parent, int32_t attribute) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < parent->child_count; ++i) {
    if (attribute == kAllAttributes || parent->children[i].attribute == attribute) {
      Unreference(parent->children[i].node);
    } else {
      parent->children[kept++] = parent->children[i];
    }
  }
  parent->child_count = kept;
  if (kept == 0) FreeChildren(parent);
}

void NodeTable::SetChildren(BackendNode* parent, int32_t attribute, const void* const* descriptors, int64_t count) {
  DropChildren(parent, attribute);
  for (int64_t i = 0; i < count; ++i) {
    BackendNode* child = Find(descriptors[i]);
    if (child != nullptr && child != parent) Adopt(parent, attribute, child);
  }
}

void NodeTable::CountFailure(const BackendNode& graph) {
  uint64_t hash = HashContents(graph);
  for (Failures& failures : failures_) {
    if (failures.graph == hash && failures.count > 0) {
      ++failures.count;
      return;
    }
  }
  failures_[next_failure_++ % kFailures] = {hash, 1};
}

uint32_t NodeTable::FailuresOf(const BackendNode& graph) const {
  if (next_failure_ == 0) return 0;
  uint64_t hash = HashContents(graph);
  for (const Failures& failures : failures_) {
    if (failures.graph == hash) return failures.count;
  }
  return 0;
}

void AskPlan(const void* real, const void* plan, PlanFacts* facts) {
  const BackendApi& api = ApiOf<BackendApi>(real);
  if (api.create == nullptr || api.destroy == nullptr || api.get == nullptr) return;
  GetList(api, plan, kPlanWorkspace, kTypeInt64, &facts->workspace_bytes, 1);
  OwnDescriptor configuration(api, kBackendEngineConfig);
  if (!configuration.Fill(plan, kPlanConfiguration)) return;
  AskKnobs(api, configuration.get(), facts);
  OwnDescriptor engine(api, kBackendEngine);
  if (!engine.Fill(configuration.get(), kConfigurationEngine)) return;
  GetList(api, engine.get(), kEngineIndex, kTypeInt64, &facts->engine, 1);
  facts->numerical_note_count =
      GetList(api, engine.get(), kEngineNumericalNote, kTypeNumericalNote, facts->numerical_notes, 32);
  facts->behavior_note_count =
      GetList(api, engine.get(), kEngineBehaviorNote, kTypeBehaviorNote, facts->behavior_notes, 32);
}

}  // namespace dlhook::inline track
