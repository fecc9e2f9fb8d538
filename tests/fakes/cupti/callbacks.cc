// libcupti: the subscriber and its callbacks; names, versions, identifiers.
#include <cstdlib>

#include "functions.h"

using namespace cupti;

namespace {

// CUPTI_API_VERSION of 13.0, 12.8, 10.2.
constexpr uint32_t kVersion = FAKE_CUDA_VERSION >= 13000 ? 130001 : FAKE_CUDA_VERSION >= 12000 ? 26 : 12;

int Subscribe(void** handle, Session::Callback callback, void* user, const char* name) {
  if (handle == nullptr || callback == nullptr) return kInvalidParameter;
  const int status = TheSession().Subscribe(callback, user, name);
  if (status == kSuccess) *handle = TheSession().handle();
  return status;
}

}  // namespace

FAKE(int, cuptiGetVersion, uint32_t* version) {
  fake::Call call("cupti", "cuptiGetVersion");
  const char* wanted = fake::Setting("CUPTI_VERSION", "");
  if (call.failure() == 0) *version = *wanted != 0 ? static_cast<uint32_t>(atoi(wanted)) : kVersion;
  call.Status(call.failure());
  return call.failure();
}

FAKE(int, cuptiSubscribe, void** handle, Session::Callback callback, void* user) {
  return Entry("cuptiSubscribe").Answer([&] { return Subscribe(handle, callback, user, nullptr); });
}

FAKE(int, cuptiSubscribe_v2, void** handle, Session::Callback callback, void* user, SubscriberParameters* parameters) {
  return Entry("cuptiSubscribe_v2").Answer([&] {
    if (parameters != nullptr && parameters->size < sizeof *parameters) return kInvalidParameter;
    const char* name = parameters != nullptr ? parameters->name : nullptr;
    const int status = Subscribe(handle, callback, user, name);
    if (status == kMultipleSubscribers && parameters != nullptr && parameters->old_name != nullptr)
      strncpy(parameters->old_name, TheSession().subscriber_name(), parameters->old_name_bytes);
    return status;
  });
}

FAKE(int, cuptiUnsubscribe, void* handle) {
  return Entry("cuptiUnsubscribe").Answer([&] { return TheSession().Unsubscribe(handle); });
}

FAKE(int, cuptiEnableCallback, uint32_t enable, void* handle, int domain, uint32_t cbid) {
  return Entry("cuptiEnableCallback")
      .Number("enable", enable)
      .Number("domain", domain)
      .Number("cbid", cbid)
      .Answer([&] { return TheSession().EnableCallback(enable != 0, handle, domain, cbid); });
}

FAKE(int, cuptiEnableDomain, uint32_t enable, void* handle, int domain) {
  return Entry("cuptiEnableDomain").Number("enable", enable).Number("domain", domain).Answer([&] {
    return TheSession().EnableDomain(enable != 0, handle, domain);
  });
}

FAKE(int, cuptiEnableAllDomains, uint32_t enable, void* handle) {
  return Entry("cuptiEnableAllDomains").Number("enable", enable).Answer([&] {
    int status = kSuccess;
    for (int domain = 1; domain < kDomains && status == kSuccess; ++domain)
      status = TheSession().EnableDomain(enable != 0, handle, domain);
    return status;
  });
}

FAKE(int, cuptiGetCallbackName, int domain, uint32_t cbid, const char** name) {
  const char* known = CallbackName(domain, cbid);
  if (known == nullptr) return kInvalidParameter;
  *name = known;
  return kSuccess;
}

FAKE(int, cuptiGetResultString, int result, const char** text) {
  *text = result == kSuccess ? "CUPTI_SUCCESS" : "an error of the fake CUPTI";
  return kSuccess;
}

FAKE(int, cuptiFinalize, ) {
  return Entry("cuptiFinalize").Answer([] {
    TheSession().Finalize();
    return kSuccess;
  });
}

// --- identifiers ---

FAKE(int, cuptiGetDeviceId, const void* context, uint32_t* device) {
  const int found = fake::DeviceOfContext(context);
  if (found < 0) return 3;  // CUPTI_ERROR_INVALID_CONTEXT
  *device = static_cast<uint32_t>(found);
  return kSuccess;
}

FAKE(int, cuptiGetContextId, const void* context, uint32_t* id) {
  const int found = fake::DeviceOfContext(context);
  if (found < 0) return 3;
  *id = static_cast<uint32_t>(found + 1);
  return kSuccess;
}

FAKE(int, cuptiGetStreamIdEx, const void*, const void* stream, uint8_t per_thread, uint32_t* id) {
  const bool own = stream == nullptr && per_thread != 0;
  *id = fake::IdOfStream(own ? reinterpret_cast<const void*>(2) : stream);
  return kSuccess;
}

FAKE(int, cuptiGetStreamId, const void* context, const void* stream, uint32_t* id) {
  return behave_cuptiGetStreamIdEx(context, stream, 0, id);
}

FAKE(int, cuptiGetGraphNodeId, const void* node, uint64_t* id) {
  *id = static_cast<const fake::Node*>(node)->id;
  return kSuccess;
}

FAKE(int, cuptiGetGraphId, const void* graph, uint32_t* id) {
  *id = static_cast<const fake::Graph*>(graph)->activity_id;
  return kSuccess;
}

FAKE(int, cuptiGetGraphExecId, const void* graph, uint32_t* id) { return behave_cuptiGetGraphId(graph, id); }
