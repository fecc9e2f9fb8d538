#include "preload/track/cudnn_plan_facts.h"

#include "preload/link/library_api.h"
#include "preload/track/cudnn_backend.h"

namespace dlhook::inline track {
namespace {

// Queries the library about a plan, with descriptors created here for it to fill.
struct BackendApi {
  int (*create)(int type, void** descriptor);
  int (*destroy)(void* descriptor);
  int (*get)(const void* descriptor, int name, int type, int64_t requested, int64_t* returned, void* elements);
  void Load(const void* real) {
    create = reinterpret_cast<int (*)(int, void**)>(LibraryFunction(real, "cudnnBackendCreateDescriptor"));
    destroy = reinterpret_cast<int (*)(void*)>(LibraryFunction(real, "cudnnBackendDestroyDescriptor"));
    get = reinterpret_cast<int (*)(const void*, int, int, int64_t, int64_t*, void*)>(
        LibraryFunction(real, "cudnnBackendGetAttribute"));
  }
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

void AskPlan(const void* real, const void* plan, PlanFacts* facts) {
  const BackendApi* found = ApiOf<BackendApi>(real);
  if (found == nullptr || found->create == nullptr || found->destroy == nullptr || found->get == nullptr) return;
  const BackendApi& api = *found;
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
