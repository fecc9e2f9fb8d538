// The interposed functions of libcupti that change its state, and yielding to them: dlhook releases CUPTI before the
// real function runs, and may use it again when the application no longer holds any of it. Functions that only query,
// or only concern the application's own subscription, are not interposed. Our own calls use the real functions
// directly.
// Thread: any application thread; also inside CUPTI's callbacks. Not on the path of launches.
#include "preload/gpu/cupti_hooks.h"

#include "preload/base/entry.h"
#include "preload/format/clock.h"
#include "preload/gpu/cupti_api.h"
#include "preload/gpu/cupti_callbacks.h"
#include "preload/gpu/gpu_time.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"

namespace dlhook::inline gpu {
namespace {

constexpr char kReason[] = "the program uses CUPTI itself";
constexpr int kNotInitialized = 15;  // CUPTI_ERROR_NOT_INITIALIZED
const char* const kSonames[] = {"libcupti.so", nullptr};

// All take at most six integers and addresses, and return a CUptiResult: passed on unchanged.
using CuptiFunction = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
using RequestBuffer = CuptiApi::RequestBuffer;
using CompleteBuffer = CuptiApi::CompleteBuffer;

CuptiApplication g_application(&ResumeGpuTime);

// ---- The application's buffer functions, per copy of libcupti

struct BufferFunctions {
  std::atomic<CuptiFunction> register_callbacks;  // of this copy; null: free
  std::atomic<RequestBuffer> request;
  std::atomic<CompleteBuffer> complete;
};
constexpr uint32_t kCopies = 4;
BufferFunctions g_buffer_functions[kCopies];

template <uint32_t kCopy>
void OnRequest(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  g_buffer_functions[kCopy].request.load(std::memory_order_acquire)(buffer, bytes, most_records);
  if (buffer != nullptr && *buffer != nullptr) g_application.LendBuffer();
}

template <uint32_t kCopy>
void OnComplete(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes) {
  if (TakeOwnBuffer(buffer, valid_bytes)) return;
  g_buffer_functions[kCopy].complete.load(std::memory_order_acquire)(context, stream, buffer, bytes, valid_bytes);
  g_application.TakeBuffer();
}

const RequestBuffer kOnRequest[kCopies] = {&OnRequest<0>, &OnRequest<1>, &OnRequest<2>, &OnRequest<3>};
const CompleteBuffer kOnComplete[kCopies] = {&OnComplete<0>, &OnComplete<1>, &OnComplete<2>, &OnComplete<3>};

template <typename Function>
uint64_t WordOf(Function function) {
  return reinterpret_cast<uint64_t>(function);
}

int RegisterOurs(uint32_t copy, CuptiFunction real) {
  return real(WordOf(kOnRequest[copy]), WordOf(kOnComplete[copy]), 0, 0, 0, 0);
}

// The copy's index, or kCopies.
uint32_t PlaceOfCopy(CuptiFunction real) {
  for (uint32_t copy = 0; copy < kCopies; ++copy) {
    CuptiFunction found = nullptr;
    bool is_new = g_buffer_functions[copy].register_callbacks.compare_exchange_strong(found, real);
    if (is_new || found == real) return copy;
  }
  return kCopies;
}

// Installs our functions between CUPTI and the application's, to count lent buffers. If no place is left, they are not
// counted, as if none were lent.
int RegisterBufferFunctions(CuptiFunction real, const uint64_t* arguments) {
  auto request = reinterpret_cast<RequestBuffer>(arguments[0]);
  auto complete = reinterpret_cast<CompleteBuffer>(arguments[1]);
  uint32_t copy = request == nullptr || complete == nullptr ? kCopies : PlaceOfCopy(real);
  if (copy == kCopies) return real(arguments[0], arguments[1], 0, 0, 0, 0);
  g_buffer_functions[copy].request.store(request, std::memory_order_release);
  g_buffer_functions[copy].complete.store(complete, std::memory_order_release);
  return RegisterOurs(copy, real);
}

// ---- The application's source of times, from the copy that it set last

std::atomic<CuptiFunction> g_register_timestamps{nullptr};
std::atomic<uint64_t> g_timestamps{0};

uint64_t RealtimeNs() { return ClockNanoseconds(CLOCK_REALTIME); }

int RegisterTimestamps(CuptiFunction real, uint64_t function) {
  int status = real(function, 0, 0, 0, 0, 0);
  if (status != 0) return status;
  g_timestamps.store(function);
  g_register_timestamps.store(real);
  return status;
}

// ---- Calls

int CallReal(CuptiFunction real, const CuptiCall& call) {
  const uint64_t* arguments = call.arguments;
  if (call.role == CuptiRole::kCallbacks) return RegisterBufferFunctions(real, arguments);
  if (call.role == CuptiRole::kTimestamps) return RegisterTimestamps(real, arguments[0]);
  return real(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

// Forgets what was registered with this copy of CUPTI.
void ForgetCopy(CuptiFunction finalize) {
  ForgetPushedCalls();
  const link_map* copy = ObjectOf(reinterpret_cast<void*>(finalize));
  auto forget = [copy](std::atomic<CuptiFunction>* known) {
    CuptiFunction real = known->load();
    if (real != nullptr && ObjectOf(reinterpret_cast<void*>(real)) == copy) known->store(nullptr);
  };
  for (BufferFunctions& functions : g_buffer_functions) forget(&functions.register_callbacks);
  forget(&g_register_timestamps);
}

int OnCall(const char* name, void* own, void* caller, void* looked_up, const CuptiCall& call) {
  if (looked_up == nullptr) looked_up = FindReal(name, kSonames, own, caller);
  auto real = reinterpret_cast<CuptiFunction>(looked_up);
  if (real == nullptr) return kNotInitialized;
  g_application.Enter();
  if (CuptiApplication::NeedsAll(call.role)) YieldGpuTime(kReason);
  int status = CallReal(real, call);
  if (call.role == CuptiRole::kFinalize && status == 0) ForgetCopy(real);
  g_application.Leave(call, status);
  return status;
}

}  // namespace

CuptiApplication::Use ApplicationCupti() { return g_application.Now(); }

void ReturnApplicationBuffer(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes) {
  const CuptiApi* api = LoadedCupti();
  for (uint32_t copy = 0; api != nullptr && buffer != nullptr && copy < kCopies; ++copy) {
    CuptiFunction real = g_buffer_functions[copy].register_callbacks.load();
    if (WordOf(real) == WordOf(api->register_callbacks)) kOnComplete[copy](context, stream, buffer, bytes, valid_bytes);
  }
}

void UseOwnTimestamps() {
  if (CuptiFunction real = g_register_timestamps.load()) real(WordOf(&RealtimeNs), 0, 0, 0, 0, 0);
}

void RestoreApplicationCupti() {
  for (uint32_t copy = 0; copy < kCopies; ++copy) {
    if (CuptiFunction real = g_buffer_functions[copy].register_callbacks.load()) RegisterOurs(copy, real);
  }
  if (CuptiFunction real = g_register_timestamps.load()) real(g_timestamps.load(), 0, 0, 0, 0, 0);
}

}  // namespace dlhook::inline gpu

// name, role, group. Getters of settings that we may have changed are included: the application must read its own.
#define DLHOOK_CUPTI_FUNCTIONS(X)                                         \
  X(cuptiSubscribe, kSubscribe, 0)                                        \
  X(cuptiSubscribe_v2, kSubscribe, 0)                                     \
  X(cuptiUnsubscribe, kUnsubscribe, 0)                                    \
  X(cuptiFinalize, kFinalize, 0)                                          \
  X(cuptiActivityRegisterCallbacks, kCallbacks, 0)                        \
  X(cuptiActivityRegisterTimestampCallback, kTimestamps, 0)               \
  X(cuptiActivityEnable, kEnable, 0)                                      \
  X(cuptiActivityEnableAndDump, kEnable, 0)                               \
  X(cuptiActivityDisable, kDisable, 0)                                    \
  X(cuptiActivityEnableContext, kEnableContext, 0)                        \
  X(cuptiActivityDisableContext, kDisableContext, 0)                      \
  X(cuptiActivityEnableDriverApi, kEnableApi, dlhook::kDriverFunctions)   \
  X(cuptiActivityEnableRuntimeApi, kEnableApi, dlhook::kRuntimeFunctions) \
  X(cuptiActivityFlush, kFlush, 0)                                        \
  X(cuptiActivityFlushAll, kFlush, 0)                                     \
  X(cuptiActivityGetAttribute, kSetting, 0)                               \
  X(cuptiActivitySetAttribute, kSetting, 0)                               \
  X(cuptiActivityFlushPeriod, kSetting, 0)                                \
  X(cuptiActivityConfigureUnifiedMemoryCounter, kSetting, 0)              \
  X(cuptiActivityEnableAllSyncRecords, kSetting, 0)                       \
  X(cuptiActivityEnableAllocationSource, kSetting, 0)                     \
  X(cuptiActivityEnableCudaEventDeviceTimestamps, kSetting, 0)            \
  X(cuptiActivityEnableDeviceGraph, kSetting, 0)                          \
  X(cuptiActivityEnableHWTrace, kSetting, 0)                              \
  X(cuptiActivityEnableLatencyTimestamps, kSetting, 0)                    \
  X(cuptiActivityEnableLaunchAttributes, kSetting, 0)                     \
  X(cuptiGetThreadIdType, kSetting, 0)                                    \
  X(cuptiSetThreadIdType, kSetting, 0)                                    \
  X(cuptiSetEventCollectionMode, kSetting, 0)                             \
  X(cuptiActivityConfigurePCSampling, kSetting, 0)                        \
  X(cuptiEventGroupEnable, kBegin, 2)                                     \
  X(cuptiEventGroupDisable, kEnd, 2)                                      \
  X(cuptiEventGroupSetEnable, kBegin, 3)                                  \
  X(cuptiEventGroupSetDisable, kEnd, 3)                                   \
  X(cuptiEnableKernelReplayMode, kBegin, 4)                               \
  X(cuptiDisableKernelReplayMode, kEnd, 4)                                \
  X(cuptiPCSamplingEnable, kBegin, 5)                                     \
  X(cuptiPCSamplingDisable, kEnd, 5)                                      \
  X(cuptiPmSamplingEnable, kBegin, 6)                                     \
  X(cuptiPmSamplingDisable, kEnd, 6)                                      \
  X(cuptiProfilerBeginSession, kBegin, 7)                                 \
  X(cuptiProfilerEndSession, kEnd, 7)                                     \
  X(cuptiRangeProfilerEnable, kBegin, 8)                                  \
  X(cuptiRangeProfilerDisable, kEnd, 8)                                   \
  X(cuptiSassMetricsEnable, kBegin, 9)                                    \
  X(cuptiSassMetricsDisable, kEnd, 9)                                     \
  X(cuptiActivityEnable_v2, kOfSubscriber, 0)                             \
  X(cuptiActivityEnableAndDump_v2, kOfSubscriber, 0)                      \
  X(cuptiActivityEnableDriverApi_v2, kOfSubscriber, 0)                    \
  X(cuptiActivityEnableRuntimeApi_v2, kOfSubscriber, 0)                   \
  X(cuptiActivityEnableRawTimestamps_v2, kSetting, 0)                     \
  X(cuptiActivityRegisterCallbacks_v2, kOfSubscriber, 0)                  \
  X(cuptiActivityDisable_v2, kSetting, 0)                                 \
  X(cuptiActivityGetAttribute_v2, kSetting, 0)                            \
  X(cuptiActivitySetAttribute_v2, kSetting, 0)

extern "C" {

// A subscriber's own activities (CUDA 13.3) last until it unsubscribes, also when all their kinds are off: meanwhile CUPTI
// refuses what dlhook would use beside a subscription (cuptiGetTimestamp: CUPTI_ERROR_NOT_COMPATIBLE).
#define DLHOOK_CUPTI_WRAPPER(name, role, group)                                                                  \
  DLHOOK_EXPORT void name();                                                                                     \
  DLHOOK_ENTRY(name);                                                                                            \
  int DLHOOK_BODY(name)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {                \
    void* looked_up = dlhook::LookedUpFunction();                                                                \
    return dlhook::OnCall(DLHOOK_CALLED(name), looked_up, {dlhook::CuptiRole::role, group, {a, b, c, d, e, f}}); \
  }                                                                                                              \
  namespace dlhook::inline gpu {                                                                                 \
  DLHOOK_LOOKED_UP(kLookedUp_##name, name);                                                                      \
  }
DLHOOK_CUPTI_FUNCTIONS(DLHOOK_CUPTI_WRAPPER)

}  // extern "C"
