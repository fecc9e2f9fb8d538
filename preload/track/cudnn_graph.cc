#include "preload/track/cudnn_graph.h"

#include <initializer_list>
#include <new>

#include "preload/abi/arguments.h"
#include "preload/link/library_api.h"
#include "preload/runtime/config.h"
#include "preload/runtime/definitions.h"
#include "preload/track/cuda_state.h"
#include "preload/track/cudnn_nodes.h"

namespace dlhook::inline track {
namespace {

// In memory that is wiped in a forked child: at the fork the lock may be held, and the table half changed.
struct Tracker {
  SpinLock lock;
  NodeTable nodes;
};
std::atomic<Tracker*> g_tracker{nullptr};
// Changes when a plan is destroyed: threads then look known plans up again.
std::atomic<uint32_t> g_plan_generation{1};

Tracker* GetTracker() { return OneForEachProcess(&g_tracker); }

// function(&nodes) under the lock, if there is memory for the tracker.
template <typename Function>
void WithNodes(Function function) {
  Tracker* tracker = GetTracker();
  if (tracker == nullptr) return;
  SpinLockHolder holder(&tracker->lock);
  function(&tracker->nodes);
}

uint32_t CudnnFamilyBit() {
  static std::atomic<uint32_t> known{0};
  uint32_t bit = known.load(std::memory_order_relaxed);
  if (bit == 0) known.store(bit = FamilyBitOf("cudnn"), std::memory_order_relaxed);
  return bit;
}

// The calling thread, ready to record: after building a plan or a variant pack it is about to execute it. Null if cuDNN
// is not recorded.
ThreadState* RecordingThread() {
  ThreadState* thread = dlhook_thread;
  return thread != nullptr && thread->active != 0 ? thread : AttachThread(CudnnFamilyBit());
}

uint64_t Ticks() {
  const ThreadState* thread = RecordingThread();
  return thread == nullptr ? 0 : ReadTicks(thread->clock);
}

int64_t NumberAt(const BackendSetArgs& args) {
  // Enumerators are four bytes, numbers eight, booleans one.
  if (args.attribute_type == kTypeInt64) return *static_cast<const int64_t*>(args.elements);
  if (args.attribute_type == kTypeBoolean) return *static_cast<const uint8_t*>(args.elements);
  return *static_cast<const int32_t*>(args.elements);
}

void SetNumbers(BackendNode* node, int row, const BackendSetArgs& args) {
  int64_t count = args.count < kBackendDims ? args.count : kBackendDims;
  if (args.attribute_type != kTypeInt64) count = 0;  // fractions of resampling are not tracked
  node->counts[row] = static_cast<uint8_t>(count);
  memcpy(node->numbers[row], args.elements, static_cast<size_t>(count) * sizeof(int64_t));
}

// Attributes that are lists of numbers, and where they are stored.
struct NumberList {
  int32_t name;
  int row;
};
constexpr NumberList kNumberLists[] = {
    {902, 0},  {903, 1},                          // tensor: dimensions, strides
    {105, 0},  {104, 1},  {103, 2},  {102, 3},    // convolution: pads, strides, dilations
    {1704, 0}, {1703, 1}, {1705, 2}, {1706, 3}};  // resampling: the same and its window

void SetNumber(BackendNode* node, const BackendSetArgs& args) {
  int64_t value = NumberAt(args);
  auto number = static_cast<int32_t>(value);
  auto is = [&](std::initializer_list<int32_t> names) {
    for (int32_t name : names) {
      if (name == args.name) return true;
    }
    return false;
  };
  // Tensor, then compute types: convolution, pointwise, matmul, reduction, resampling.
  if (is({901, 100, 1, 1500, 1601, 1701})) node->data_type = number;
  // Modes: convolution, pointwise, reduction, resampling, normalization.
  if (is({101, 0, 1600, 1700, 2000, 2100})) node->mode = number;
  if (is({904})) node->vector_count = static_cast<uint32_t>(value);
  if (is({905})) node->vectorized_dim = static_cast<uint32_t>(value);
  if (is({906})) node->uid = value;
  if (is({907})) node->is_virtual = value != 0;
  if (is({908})) node->by_value = value != 0;
  if (is({kHeuristicMode})) node->heuristic_mode = number;
}

// The library's payload is the kernels themselves in base64, up to 128 KiB, at the end: left out.
size_t WithoutPayload(const char* json, size_t size, char* out) {
  constexpr char kPayload[] = ",\"payload\":";
  constexpr char kEnd[] = "}}";  // of "engine" and of the whole
  auto payload = static_cast<const char*>(memmem(json, size, kPayload, sizeof kPayload - 1));
  size_t kept = payload == nullptr ? size : static_cast<size_t>(payload - json);
  memcpy(out, json, kept);
  if (payload == nullptr) return kept;
  memcpy(out + kept, kEnd, sizeof kEnd - 1);
  return kept + sizeof kEnd - 1;
}

void SetJson(NodeTable* nodes, BackendNode* plan, const BackendSetArgs& args) {
  nodes->Free(plan->serialized, plan->serialized_capacity);
  plan->serialized_bytes = 0;
  constexpr int64_t kMaxBytes = 1 << 20;
  plan->serialized_capacity = static_cast<uint32_t>(args.count < kMaxBytes ? args.count : kMaxBytes);
  plan->serialized = nodes->Allocate(plan->serialized_capacity);
  if (plan->serialized == nullptr) return;
  size_t size = WithoutPayload(static_cast<const char*>(args.elements), plan->serialized_capacity, plan->serialized);
  plan->serialized_bytes = static_cast<uint32_t>(size);
}

BackendNode* FindPlan(NodeTable* nodes, const void* descriptor) {
  BackendNode* node = nodes->Find(descriptor);
  return node != nullptr && node->type == kBackendPlan ? node : nullptr;
}

void StorePlan(NodeTable* nodes, BackendNode* plan, PlanFacts* facts, uint64_t now) {
  facts->build_ticks = plan->configured_ticks != 0 ? now - plan->configured_ticks : 0;
  facts->number = nodes->NextPlanNumber();
  const BackendNode* graph = GraphOfConfiguration(ChildOf(*plan, kPlanConfiguration));
  if (graph != nullptr) facts->failed_before = nodes->FailuresOf(*graph);
  facts->json = plan->serialized;
  facts->json_bytes = plan->serialized_bytes;
  Buffer* out = nodes->scratch();
  SerializePlan(plan, *facts, out);
  nodes->Free(plan->serialized, plan->serialized_capacity);
  plan->serialized_bytes = plan->serialized_capacity = static_cast<uint32_t>(out->size());
  plan->finalized = true;
  plan->serialized = nodes->Allocate(out->size());
  if (plan->serialized != nullptr) memcpy(plan->serialized, out->data(), out->size());
  // The text contains the graph now.
  nodes->DropChildren(plan, NodeTable::kAllAttributes);
}

void NewPack(const void* descriptor) {
  ThreadState* thread = RecordingThread();
  if (thread == nullptr) return;
  VariantPack* pack = &thread->packs[VariantPackIndex(descriptor)];
  pack->descriptor = descriptor;
  pack->owner = thread->thread_id;
  pack->executions = pack->uid_count = pack->pointer_count = 0;
}

// Looks a plan up that this thread has not executed yet (or not since a plan was destroyed).
void LearnPlan(const void* plan, KnownPlan* known) {
  known->plan = plan;
  known->definition = 0;
  known->uid_count = 0;
  WithNodes([&](NodeTable* nodes) {
    BackendNode* node = nodes->Find(plan);
    if (node == nullptr || !node->finalized || node->serialized == nullptr) return;
    if (node->definition == 0)
      node->definition = Define(DefinitionKind::kCudnnPlan, node->serialized, node->serialized_bytes);
    known->definition = node->definition;
    known->uid_count = node->main_uid_count;
    memcpy(known->uids, node->main_uids, sizeof known->uids);
  });
}

const KnownPlan& PlanOf(ThreadState* thread, const void* plan) {
  uint32_t generation = g_plan_generation.load(std::memory_order_acquire);
  KnownPlan& known = thread->plans[(reinterpret_cast<uint64_t>(plan) * 0x9e3779b97f4a7c15u) >> 58];
  static_assert(kKnownPlans == 64);
  if (known.plan != plan || known.generation != generation) {
    known.generation = generation;
    LearnPlan(plan, &known);
  }
  return known;
}

const void* PointerOf(const VariantPack& pack, int64_t uid) {
  uint32_t count = pack.uid_count < pack.pointer_count ? pack.uid_count : pack.pointer_count;
  for (uint32_t i = 0; i < count; ++i) {
    if (pack.uids[i] == uid) return pack.pointers[i];
  }
  return nullptr;
}

}  // namespace

void TrackBackendCreate(const BackendCreateArgs& args) {
  if (args.status != 0 || args.descriptor == nullptr || *args.descriptor == nullptr) return;
  if (args.type == kBackendVariantPack) return NewPack(*args.descriptor);
  // The address may be that of this thread's pack that another thread has destroyed.
  if (VariantPack* stale = FindPack(*args.descriptor)) stale->descriptor = nullptr;
  WithNodes([&](NodeTable* nodes) { nodes->Insert(*args.descriptor, args.type); });
}

void TrackBackendSetSlow(const BackendSetArgs& args) {
  if (args.status != 0 || args.elements == nullptr || args.count <= 0) return;
  uint64_t now = args.name == kPlanConfiguration || args.name == kPlanJson ? Ticks() : 0;
  WithNodes([&](NodeTable* nodes) {
    BackendNode* node = nodes->Find(args.descriptor);
    if (node == nullptr) return;
    if (now != 0) node->configured_ticks = now;
    if (args.name == kPlanJson) return SetJson(nodes, node, args);
    if (args.attribute_type == kTypeDescriptor) {
      return nodes->SetChildren(node, args.name, static_cast<const void* const*>(args.elements), args.count);
    }
    for (const NumberList& list : kNumberLists) {
      if (list.name == args.name) return SetNumbers(node, list.row, args);
    }
    SetNumber(node, args);
  });
}

// The heuristics' results: configurations that the caller created empty and the library filled.
void TrackBackendGet(const BackendGetArgs& args) {
  if (args.name != kHeuristicResults || args.status != 0 || args.elements == nullptr) return;
  int64_t count = args.returned != nullptr && *args.returned < args.requested ? *args.returned : args.requested;
  WithNodes([&](NodeTable* nodes) {
    const BackendNode* heuristic = nodes->Find(args.descriptor);
    if (heuristic == nullptr) return;
    BackendNode* graph = ChildOf(*heuristic, kHeuristicGraph);
    for (int64_t rank = 0; rank < count; ++rank) {
      BackendNode* configuration = nodes->Find(static_cast<const void* const*>(args.elements)[rank]);
      if (configuration == nullptr) continue;
      configuration->heuristic_mode = heuristic->heuristic_mode;
      configuration->heuristic_rank = static_cast<int32_t>(rank);
      configuration->heuristic_requested = static_cast<uint32_t>(args.requested);
      configuration->heuristic_results = static_cast<uint32_t>(count);
      nodes->DropChildren(configuration, kHeuristicGraph);
      if (graph != nullptr) nodes->Adopt(configuration, kHeuristicGraph, graph);
    }
  });
}

void TrackBackendFinalizeSlow(const BackendFinalizeArgs& args) {
  bool is_plan = false;
  WithNodes([&](NodeTable* nodes) {
    const BackendNode* plan = FindPlan(nodes, args.descriptor);
    is_plan = plan != nullptr;
    const BackendNode* graph = is_plan ? GraphOfConfiguration(ChildOf(*plan, kPlanConfiguration)) : nullptr;
    if (args.status != 0 && graph != nullptr) nodes->CountFailure(*graph);
  });
  if (!is_plan || args.status != 0) return;
  uint64_t now = Ticks();
  PlanFacts facts;
  AskPlan(args.real, args.descriptor, &facts);  // without the lock: it calls the library
  WithNodes([&](NodeTable* nodes) {
    if (BackendNode* plan = FindPlan(nodes, args.descriptor)) StorePlan(nodes, plan, &facts, now);
  });
}

void TrackBackendDestroySlow(const BackendDestroyArgs& args) {
  WithNodes([&](NodeTable* nodes) {
    if (FindPlan(nodes, args.descriptor) != nullptr) g_plan_generation.fetch_add(1, std::memory_order_acq_rel);
    nodes->Remove(args.descriptor);
  });
}

void DecodePlan(const PlanArgs& args, CallRecord* record) {
  ThreadState* thread = dlhook_thread;
  PlanShape shape = {};
  uint64_t* addresses = record->addresses();
  addresses[0] = addresses[1] = addresses[2] = 0;
  if (thread != nullptr) {
    const KnownPlan& known = PlanOf(thread, args.plan);
    shape.plan = known.definition;
    if (VariantPack* pack = FindPack(args.variant_pack)) {
      shape.pack_seen_before = pack->executions++ > 0;
      for (uint32_t i = 0; i < known.uid_count && i < 3; ++i) addresses[i] = Address(PointerOf(*pack, known.uids[i]));
    }
    shape.captured = args.into_graph || IsHandleCaptured(&StreamApi::cudnn, args.handle, args.real);
  }
  new (record->shape()) PlanShape(shape);
}

}  // namespace dlhook::inline track
