// libcudnn, graph API: descriptors that store attributes, heuristics that fill engine
// configurations, plans.
#include "backend_contents.h"

using namespace backend;

namespace {

constexpr int kSuccess = 0, kBadParameter = 2000, kNotSupported = 3000;

struct Descriptor {
  Shared contents;
};

Descriptor* Of(const void* descriptor) { return static_cast<Descriptor*>(const_cast<void*>(descriptor)); }

std::string Json(const Shared& plan) {
  std::string kinds;
  PlanTime(plan, &kinds);
  return "{\"engine\":{\"engineId\":" + std::to_string(Number(EngineOf(plan), kEngineIndex, -1)) +
         "},\"operations\":\"" + kinds + "\"}";
}

// --- attributes that the library computes ---

int FinalizePlan(const Shared& plan) {
  const int64_t engine = Number(EngineOf(plan), kEngineIndex, -1);
  fake::Note("engine=%lld", static_cast<long long>(engine));
  if (!Finalizable(engine)) return kNotSupported;
  PutInt64(plan.get(), kPlanWorkspace, WorkspaceOf(engine));
  const std::string json = Json(plan);
  PutBytes(plan.get(), kPlanJson, kChar, static_cast<int64_t>(json.size() + 1), json.c_str());
  return kSuccess;
}

// An engine made from its index by the user lacks the attributes that MakeConfig sets.
void FinalizeConfig(const Shared& config) {
  const Shared engine = Child(config, kConfigEngine);
  if (engine == nullptr || Find(config, kConfigWorkspace) != nullptr) return;
  PutInt64(config.get(), kConfigWorkspace, WorkspaceOf(Number(engine, kEngineIndex, 0)));
}

// Descriptors are filled, not created: the caller passes finalized ones of the right kind.
int FillDescriptors(const std::vector<Shared>& children, int64_t requested, int64_t* count, void* elements) {
  const auto available = static_cast<int64_t>(children.size());
  if (elements == nullptr || requested == 0) {
    if (count != nullptr) *count = available;
    return kSuccess;
  }
  const int64_t given = requested < available ? requested : available;
  if (count != nullptr) *count = given;
  void** descriptors = static_cast<void**>(elements);
  for (int64_t i = 0; i < given; ++i) Of(descriptors[i])->contents = children[static_cast<size_t>(i)];
  return kSuccess;
}

}  // namespace

FAKE(int, cudnnBackendCreateDescriptor, int kind, void** out) {
  auto* descriptor = fake::New<Descriptor>();
  descriptor->contents = std::make_shared<Contents>();
  descriptor->contents->kind = kind;
  *out = descriptor;
  return kSuccess;
}

FAKE(int, cudnnBackendDestroyDescriptor, void* descriptor) {
  fake::Delete(Of(descriptor));
  return kSuccess;
}

FAKE(int, cudnnBackendSetAttribute, void* descriptor, int name, int type, int64_t count, const void* elements) {
  if (descriptor == nullptr || (elements == nullptr && count > 0)) return kBadParameter;
  Contents* contents = Of(descriptor)->contents.get();
  if (type != kDescriptor) {
    PutBytes(contents, name, type, count, elements);
    return kSuccess;
  }
  std::vector<Shared> children;
  for (int64_t i = 0; i < count; ++i) children.push_back(Of(static_cast<void* const*>(elements)[i])->contents);
  PutChildren(contents, name, children);
  return kSuccess;
}

FAKE(int, cudnnBackendGetAttribute, const void* descriptor, int name, int type, int64_t requested, int64_t* count,
     void* elements) {
  const Shared& contents = Of(descriptor)->contents;
  if (name == kHeuristicResults) return FillDescriptors(Recommend(contents), requested, count, elements);
  const Value* value = Find(contents, name);
  if (value == nullptr) return kNotSupported;
  if (type == kDescriptor) return FillDescriptors(value->children, requested, count, elements);
  const int64_t given = elements == nullptr || requested == 0 ? 0 : requested < value->count ? requested : value->count;
  if (count != nullptr) *count = given == 0 ? value->count : given;
  if (given > 0) memcpy(elements, value->bytes.data(), static_cast<size_t>(given) * ElementBytes(value->type));
  return kSuccess;
}

FAKE(int, cudnnBackendFinalize, void* descriptor) {
  const Shared& contents = Of(descriptor)->contents;
  fake::Note("kind=%d", contents->kind);
  if (contents->kind == kEngineConfig) FinalizeConfig(contents);
  return contents->kind == kPlan ? FinalizePlan(contents) : kSuccess;
}

FAKE(int, cudnnBackendExecute, void* handle, void* plan, void*) {
  const Shared& contents = Of(plan)->contents;
  std::string kinds;
  const int64_t nanoseconds = PlanTime(contents, &kinds);
  fake::Note("engine=%lld operations=%s ns=%lld", static_cast<long long>(Number(EngineOf(contents), kEngineIndex, -1)),
             kinds.c_str(), static_cast<long long>(nanoseconds));
  NoteConvolution(contents);
  LaunchConvolution(handle, nanoseconds, ChannelsLast(contents));
  return kSuccess;
}

FAKE(int, cudnnBackendPopulateCudaGraph, void*, void* plan, void*, void* graph) {
  std::string kinds;
  fake::Node node;
  node.kind = fake::Node::kKernel;
  node.nanoseconds = PlanTime(Of(plan)->contents, &kinds);
  node.name = kConvolutionKernel;
  node.grid = {132, 1, 1};
  node.block = {256, 1, 1};
  fake::AddNode(static_cast<fake::Graph*>(graph), node);
  return kSuccess;
}
