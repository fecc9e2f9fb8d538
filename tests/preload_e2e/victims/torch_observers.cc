// A small version of PyTorch's observers, with the names that the real ones export, of a release that does not exist yet.
// $FAULT: what this release does otherwise.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace c10 {
struct FunctionSchema;
}

namespace at {

enum class RecordScope : uint8_t { kFunction, kUserScope = 7, kCount = 10 };

struct ObserverContext {
  virtual ~ObserverContext() = default;
};
class RecordFunction;

struct RecordFunctionCallback {
  std::unique_ptr<ObserverContext> (*start)(const RecordFunction&);
  void (*end)(const RecordFunction&, ObserverContext*);
  double probability;
  std::array<bool, static_cast<size_t>(RecordScope::kCount)> scopes;
  bool needs_inputs, needs_outputs, needs_ids;
};

struct Registered {
  RecordFunctionCallback callback;
  bool enabled;
};
static std::vector<Registered> registered;  // by handle - 1

static bool Has(std::string_view fault) {
  const char* wanted = getenv("FAULT");
  return wanted != nullptr && fault == wanted;
}

uint64_t addGlobalCallback(RecordFunctionCallback callback) {
  registered.push_back({callback, true});
  return registered.size();
}
void disableCallback(uint64_t handle) { registered[handle - 1].enabled = Has("disable"); }
void reenableCallback(uint64_t handle) { registered[handle - 1].enabled = true; }
void removeCallback(uint64_t handle) { registered[handle - 1].enabled = false; }
bool hasCallbacks() { return Has("used"); }
bool isRecordFunctionEnabled() { return true; }

struct StepCallbacks {
  std::vector<RecordFunctionCallback> callbacks;
};

std::optional<StepCallbacks> getStepCallbacksUnlessEmpty(RecordScope scope) {
  StepCallbacks step;
  for (const Registered& one : registered) {
    if (one.enabled && one.callback.scopes[static_cast<size_t>(scope)] && !Has("silent")) {
      step.callbacks.push_back(one.callback);
    }
  }
  return step.callbacks.empty() ? std::nullopt : std::optional(step);
}

class RecordFunction {
 public:
  using Name = std::variant<std::string_view, std::reference_wrapper<const c10::FunctionSchema>>;
  explicit RecordFunction(RecordScope scope);
  virtual ~RecordFunction();
  void before(Name name, int64_t sequence_number);
  const char* name() const;
  bool isAsync() const;

 private:
  StepCallbacks step_;
  std::vector<std::unique_ptr<ObserverContext>> contexts_;
  std::string name_;
};

RecordFunction::RecordFunction(RecordScope scope) {
  if (auto step = getStepCallbacksUnlessEmpty(scope)) step_ = *step;
}
void RecordFunction::before(Name name, int64_t) {
  name_ = Has("name") ? "another" : std::get<std::string_view>(name);
  for (const RecordFunctionCallback& one : step_.callbacks) contexts_.push_back(one.start(*this));
}
RecordFunction::~RecordFunction() {
  for (size_t i = 0; i < contexts_.size(); ++i) step_.callbacks[i].end(*this, contexts_[i].get());
}
const char* RecordFunction::name() const { return name_.c_str(); }
bool RecordFunction::isAsync() const { return false; }

}  // namespace at

extern "C" uint64_t aoti_torch_abi_version() { return uint64_t{2} << 56 | uint64_t{99} << 48; }

// As every operator does.
extern "C" void RunOperator(const char* name) {
  if (!at::getStepCallbacksUnlessEmpty(at::RecordScope::kFunction)) return;
  at::RecordFunction guard(at::RecordScope::kFunction);
  guard.before(std::string_view(name), -1);
}
