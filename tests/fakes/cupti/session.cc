// Passes the devices' events to a fake libcupti's client: callbacks of the subscriber, records of calls.
#include <pthread.h>
#include <unistd.h>

#include <vector>

#include "cupti.h"

namespace cupti {
namespace {

constexpr int kEnterSite = 0, kExitSite = 1;
constexpr int kExternalKinds = 6;

bool forked;
thread_local std::vector<uint64_t>* external[kExternalKinds];
thread_local uint32_t external_told;  // the last correlation id with a record of its external ones

uint32_t ThreadId() {
  return TheSession().system_thread_ids ? static_cast<uint32_t>(gettid()) : static_cast<uint32_t>(pthread_self());
}

void AddContext(int device) {
  ContextRecord record{};
  record.kind = kContext;
  record.context = ContextId(device);
  record.device = static_cast<uint32_t>(device);
  record.api = 1;  // CUDA
  record.null_stream = 7;
  Add(record);
}

}  // namespace

Session& TheSession() {
  static auto* session = new Session;
  return *session;
}

bool Usable() {
  static const bool at_fork = pthread_atfork(nullptr, nullptr, [] {
                                forked = true;
                                fake::RemoveObserver(&TheSession());
                              }) == 0;
  return at_fork && !forked && fake::DeviceCount() > 0;
}

// --- external correlation ---

void PushExternal(uint32_t kind, uint64_t id) {
  auto*& stack = external[kind % kExternalKinds];
  if (stack == nullptr) stack = new std::vector<uint64_t>;
  stack->push_back(id);
}

bool PopExternal(uint32_t kind, uint64_t* id) {
  auto* stack = external[kind % kExternalKinds];
  if (stack == nullptr || stack->empty()) return false;
  if (id != nullptr) *id = stack->back();
  stack->pop_back();
  return true;
}

void Session::AddExternal(uint32_t correlation) {
  if (!kinds_[kExternalCorrelation] || external_told == correlation) return;
  external_told = correlation;
  for (uint32_t kind = 0; kind < kExternalKinds; ++kind) {
    if (external[kind] == nullptr || external[kind]->empty()) continue;
    ExternalRecord record{};
    record.kind = kExternalCorrelation;
    record.external_kind = kind;
    record.external = external[kind]->back();
    record.correlation = correlation;
    Add(record);
  }
}

// --- attaching as the observer ---

bool Session::Attach() { return fake::SetObserver(this); }

void Session::Detach() {
  if (callback_ != nullptr) return;
  for (const auto& kind : kinds_) {
    if (kind) return;
  }
  for (const auto& calls : recorded_) {
    for (const auto& recorded : calls) {
      if (recorded) return;
    }
  }
  fake::RemoveObserver(this);
}

int Session::Subscribe(Callback callback, void* user, const char* name) {
  const std::lock_guard<std::mutex> guard(lock_);
  const char* taken = fake::Setting("CUPTI_SUBSCRIBER", "");
  if (*taken != 0) strncpy(name_, taken, sizeof name_ - 1);
  if (*taken != 0 || callback_ != nullptr || !Attach()) return kMultipleSubscribers;
  for (auto& domain : callbacks_) {
    for (auto& enabled : domain) enabled = false;
  }
  memset(name_, 0, sizeof name_);
  if (name != nullptr) strncpy(name_, name, sizeof name_ - 1);
  user_ = user;
  callback_ = callback;
  return kSuccess;
}

int Session::Unsubscribe(const void* handle) {
  const std::lock_guard<std::mutex> guard(lock_);
  if (handle != this || callback_ == nullptr) return kInvalidParameter;
  callback_ = nullptr;
  Detach();
  return kSuccess;
}

int Session::EnableCallback(bool enable, const void* handle, int domain, uint32_t cbid) {
  if (handle != this || callback_ == nullptr) return kInvalidParameter;
  if (domain < 1 || domain >= kDomains || cbid >= kMostCallbacks) return kInvalidParameter;
  callbacks_[domain][cbid] = enable;
  return kSuccess;
}

int Session::EnableDomain(bool enable, const void* handle, int domain) {
  if (handle != this || callback_ == nullptr) return kInvalidParameter;
  if (domain < 1 || domain >= kDomains) return kInvalidParameter;
  for (auto& enabled : callbacks_[domain]) enabled = enable;
  return kSuccess;
}

int Session::EnableKind(uint32_t kind, bool enable) {
  if (kind == 0 || kind >= kKinds) return kInvalidKind;
  const std::lock_guard<std::mutex> guard(lock_);
  if (enable && !Attach()) return kMultipleSubscribers;
  const bool was = kinds_[kind].exchange(enable);
  if (kind == kRuntime || kind == kDriver) {  // overrides settings of single functions
    for (auto& recorded : recorded_[kind == kRuntime]) recorded = enable;
  }
  if (!enable) Detach();
  if (!enable || was) return kSuccess;
  StartWorker();
  if (kind == kDevice) AddDevices();
  for (int device = 0; kind == kContext && device < fake::DeviceCount(); ++device) {
    if (fake::ContextExists(device)) AddContext(device);
  }
  return kSuccess;
}

int Session::EnableApi(bool runtime, uint32_t cbid, bool enable) {
  if (cbid >= kMostCallbacks) return kInvalidParameter;
  const std::lock_guard<std::mutex> guard(lock_);
  if (enable && !Attach()) return kMultipleSubscribers;
  recorded_[runtime][cbid] = enable;
  if (enable) StartWorker();
  Detach();
  return kSuccess;
}

void Session::Finalize() {
  const std::lock_guard<std::mutex> guard(lock_);
  callback_ = nullptr;
  for (auto& kind : kinds_) kind = false;
  for (auto& calls : recorded_) {
    for (auto& recorded : calls) recorded = false;
  }
  Detach();
}

// --- callbacks ---

void Session::CallBack(int domain, uint32_t cbid, const void* data) {
  const Callback callback = callback_;
  if (callback != nullptr && cbid < kMostCallbacks && callbacks_[domain][cbid]) callback(user_, domain, cbid, data);
}

void Session::CallBackApi(fake::Api* api, int site) {
  if (callback_ == nullptr) return;
  const int cbid = CallbackId(api->runtime, api->function);
  if (cbid == 0) return;
  const int device = fake::CurrentDevice();
  const bool exists = fake::ContextExists(device);
  CallbackData data{};
  data.site = site;
  data.function = api->function;
  data.parameters = api->parameters;
  data.status = &api->status;
  data.symbol = api->symbol;
  data.context = exists ? fake::ContextOf(device) : nullptr;
  data.context_id = exists ? ContextId(device) : 0;
  data.data = &api->data;
  data.correlation = api->correlation;
  CallBack(api->runtime ? kRuntimeApi : kDriverApi, static_cast<uint32_t>(cbid), &data);
}

void Session::Enter(fake::Api* api) { CallBackApi(api, kEnterSite); }

void Session::Exit(fake::Api* api) {
  CallBackApi(api, kExitSite);
  const Kind kind = api->runtime ? kRuntime : kDriver;
  if (api->start_ns == 0) return;
  const int cbid = CallbackId(api->runtime, api->function);
  if (cbid == 0 || !recorded_[api->runtime][cbid]) return;
  AddExternal(api->correlation);
  ApiRecord record{};
  record.kind = kind;
  record.cbid = static_cast<uint32_t>(cbid);
  record.start = Stamp(api->start_ns);
  record.end = Stamp(fake::RealTime());
  record.process = static_cast<uint32_t>(getpid());
  record.thread = ThreadId();
  record.correlation = api->correlation;
  record.status = static_cast<uint32_t>(api->status);
  Add(record);
}

void Session::Happened(const fake::ResourceEvent& event) {
  if (event.what == fake::Resource::kContextCreated && kinds_[kContext]) AddContext(event.device);
  GraphData graph{event.graph, event.original_graph, event.node, event.original_node, event.node_type,
                  nullptr,     event.executable};
  const bool of_graph = event.what >= fake::Resource::kGraphCreated;
  ResourceData data{fake::ContextOf(event.device), event.stream, of_graph ? &graph : nullptr};
  CallBack(kResource, static_cast<uint32_t>(event.what), &data);
}

void Session::HasWaited(const fake::Waited& waited) {
  SynchronizeData data{fake::ContextOf(waited.device), nullptr};
  if (waited.what == fake::Waiting::kStream) CallBack(kSynchronize, 1, &data);
  if (waited.what == fake::Waiting::kContext) CallBack(kSynchronize, 2, &data);
  if (!kinds_[kSynchronization]) return;
  SynchronizationRecord record{};
  record.kind = kSynchronization;
  record.type = static_cast<uint32_t>(waited.what);
  record.start = Stamp(waited.start_ns);
  record.end = Stamp(waited.end_ns);
  record.correlation = waited.correlation;
  record.context = ContextId(waited.device);
  record.stream = waited.stream;
  record.event = waited.event;
  Add(record);
}

}  // namespace cupti
