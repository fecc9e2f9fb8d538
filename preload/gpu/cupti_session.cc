// See cupti_session.h. When CUPTI's functions may be called: README.md.
#include "preload/gpu/cupti_session.h"

#include <stdio.h>

#include <initializer_list>

#include "preload/format/clock.h"
#include "preload/gpu/cupti_callbacks.h"
#include "preload/gpu/cupti_hooks.h"
#include "preload/gpu/injection.h"
#include "preload/runtime/config.h"

namespace dlhook::inline gpu {
namespace {

// The first is required; a version may lack others.
constexpr uint32_t kKinds[] = {cupti::kConcurrentKernel, cupti::kMemcpy, cupti::kMemcpyPeer, cupti::kMemset};

void SetByteAttribute(const CuptiApi& api, cupti::Attribute attribute, uint8_t value, uint8_t* before) {
  size_t size = sizeof value;
  if (api.set_attribute == nullptr) return;
  if (before != nullptr) {
    if (api.get_attribute == nullptr || api.get_attribute(attribute, &size, before) != cupti::kSuccess) return;
  }
  size = sizeof value;
  api.set_attribute(attribute, &size, &value);
}

// One buffer for all threads: idle threads then hold no records back, and few buffers suffice. CUPTI need not clear
// them on the launching thread.
void SetUp(const CuptiApi& api, GpuState* state) {
  state->per_thread_buffers_before = 1;
  state->zeroed_buffers_before = 0;
  SetByteAttribute(api, cupti::kPerThreadBuffers, 0, &state->per_thread_buffers_before);
  SetByteAttribute(api, cupti::kZeroedBuffers, 1, &state->zeroed_buffers_before);
}

void PutBack(const CuptiApi& api, const GpuState& state) {
  SetByteAttribute(api, cupti::kPerThreadBuffers, state.per_thread_buffers_before, nullptr);
  SetByteAttribute(api, cupti::kZeroedBuffers, state.zeroed_buffers_before, nullptr);
}

int Subscribe(const CuptiApi& api, void** subscriber, char (&holder)[cupti::kSubscriberNameBytes]) {
  cupti::SubscriberParams parameters = {sizeof parameters, "dlhook", holder, sizeof holder};
  int result = cupti::kInvalidParameter;
  if (api.subscribe_v2 != nullptr) result = api.subscribe_v2(subscriber, &OnCuptiCallback, nullptr, &parameters);
  // The structure is that of 13.0; a newer library may require more (13.3 has another field).
  return result != cupti::kInvalidParameter ? result : api.subscribe(subscriber, &OnCuptiCallback, nullptr);
}

void SwitchWorkCallbacks(const CuptiApi& api, void* subscriber, bool is_on) {
  for (const CallbackRange& range : kWorkCallbacks) {
    for (uint32_t id = range.first; id <= range.last; ++id) api.enable_callback(is_on, subscriber, range.domain, id);
  }
}

void EnableCallbacks(const CuptiApi& api, void* subscriber) {
  SwitchWorkCallbacks(api, subscriber, true);
  for (uint32_t id : {cupti::kModuleUnloadStarting, cupti::kGraphNodeCreated, cupti::kGraphNodeCloned}) {
    api.enable_callback(1, subscriber, cupti::kDomainResource, id);
  }
  if (IsInjected()) EnableInjectedCallbacks(api, subscriber);
}

int EnableKinds(const CuptiApi& api) {
  // Devices are reported when the driver starts; if it has already started, only if CUPTI supports asking for them.
  bool are_told = api.enable_and_dump != nullptr && api.enable_and_dump(cupti::kDevice) == cupti::kSuccess;
  if (!are_told) api.enable(cupti::kDevice);
  int result = cupti::kSuccess;
  for (uint32_t kind : kKinds) {
    int kind_result = api.enable(kind);
    if (kind == kKinds[0]) result = kind_result;
  }
  if (GetConfig().gpu_graphs == GpuGraphs::kGraph) api.enable(cupti::kGraphTrace);  // CUPTI then tells of no nodes
  return result;
}

void DisableKinds(const CuptiApi& api) {
  for (uint32_t kind : kKinds) api.disable(kind);
  api.disable(cupti::kDevice);
  if (GetConfig().gpu_graphs == GpuGraphs::kGraph) api.disable(cupti::kGraphTrace);
}

// Offset from CUPTI's times to CLOCK_REALTIME. 0 if it is that clock, as documented for all platforms.
int64_t ClockOffsetNs(const CuptiApi& api) {
  constexpr int64_t kSameClockNs = 1000 * 1000;
  uint64_t best_ns = UINT64_MAX;
  int64_t offset_ns = 0;
  for (int i = 0; i < 5 && api.get_timestamp != nullptr; ++i) {
    uint64_t before_ns = ClockNanoseconds(CLOCK_REALTIME), timestamp = 0;
    if (api.get_timestamp(&timestamp) != cupti::kSuccess || timestamp == 0) return 0;
    uint64_t took_ns = ClockNanoseconds(CLOCK_REALTIME) - before_ns;
    if (took_ns >= best_ns) continue;
    best_ns = took_ns;
    offset_ns = static_cast<int64_t>(before_ns + took_ns / 2 - timestamp);
  }
  bool is_same = offset_ns > -kSameClockNs && offset_ns < kSameClockNs;
  return is_same ? 0 : offset_ns;
}

// Why CUPTI may not be called now, because of the program; else null.
const char* WhyNotNow(const CuptiApi& api, const CuptiApplication::Use& application) {
  bool is_gone = application.has_finalized && api.version < cupti::kVersionFinalizeTwice;
  if (is_gone) return "the program has finalized CUPTI, which this version does not survive";
  return application.holds ? "the program uses CUPTI itself" : nullptr;
}

void TellRefusal(const CuptiApi& api, const char* what, int result, GpuReason& reason) {
  bool by_permission = result == cupti::kInsufficientPrivileges || result == cupti::kVirtualizedInsufficientPrivileges;
  snprintf(reason, sizeof reason, "CUPTI refuses %s: %s%s", what, CuptiResultText(api, result).text,
           by_permission ? " (see NVIDIA's NVreg_RestrictProfilingToAdminUsers)" : "");
}

CuptiAnswer BecomeSubscriber(const CuptiApi& api, GpuState* state, GpuReason& reason) {
  char holder[cupti::kSubscriberNameBytes] = "";
  int result = Subscribe(api, &state->subscriber, holder);
  if (result == cupti::kSuccess) return CuptiAnswer::kOn;
  state->subscriber = nullptr;
  if (result == cupti::kMultipleSubscribers) {
    holder[sizeof holder - 1] = '\0';
    snprintf(reason, sizeof reason, "another tool uses CUPTI%s%s", holder[0] == '\0' ? "" : ": ", holder);
  } else {
    TellRefusal(api, "a subscription", result, reason);
  }
  return CuptiAnswer::kRefused;
}

CuptiAnswer Refuse(const CuptiApi& api, GpuState* state, int result, GpuReason& reason) {
  TellRefusal(api, "to record kernels", result, reason);
  CloseCupti(api, state, true);
  return CuptiAnswer::kRefused;
}

}  // namespace

CuptiAnswer OpenCupti(const CuptiApi& api, GpuState* state, GpuReason& reason) {
  const CuptiApplication::Use application = ApplicationCupti();
  if (const char* why = WhyNotNow(api, application)) {
    snprintf(reason, sizeof reason, "%s", why);
    return CuptiAnswer::kTaken;
  }
  CuptiAnswer answer = CuptiAnswer::kOn;
  if (!application.is_subscribed) answer = BecomeSubscriber(api, state, reason);
  if (answer != CuptiAnswer::kOn) return answer;
  SetUp(api, state);
  UseOwnTimestamps();
  state->clock_offset_ns = ClockOffsetNs(api);
  int result = api.register_callbacks(&OnBufferRequested, &OnBufferCompleted);
  if (result == cupti::kSuccess) result = EnableKinds(api);
  if (result != cupti::kSuccess) return Refuse(api, state, result, reason);
  if (state->subscriber != nullptr) {
    EnableCallbacks(api, state->subscriber);
  } else {
    state->beside.store(StartExternalCorrelation(api) ? kBeside : kNeverBeside);
  }
  return CuptiAnswer::kOn;
}

void SwitchCupti(const CuptiApi& api, const GpuState& state, bool is_on) {
  if (!is_on) DisableKinds(api);
  // Those of an injection tell calls, too.
  if (state.subscriber != nullptr && !IsInjected()) SwitchWorkCallbacks(api, state.subscriber, is_on);
  if (is_on) EnableKinds(api);
}

void CloseCupti(const CuptiApi& api, GpuState* state, bool hand_over) {
  state->is_closing.store(1);
  DisableKinds(api);
  if (state->beside.load() == kBeside) {
    state->beside.store(kWasBeside);
    StopExternalCorrelation(api);
  }
  api.flush_all(cupti::kFlushForced);
  state->is_closing.store(0);
  CountDroppedRecords();
  state->is_to_be_handed_over = 1;
  if (hand_over) HandOverCupti(state);
}

void HandOverCupti(GpuState* state) {
  const CuptiApi* api = LoadedCupti();
  if (state->is_to_be_handed_over == 0 || api == nullptr) return;
  state->is_to_be_handed_over = 0;
  PutBack(*api, *state);
  if (state->subscriber != nullptr) api->unsubscribe(state->subscriber);
  state->subscriber = nullptr;
  RestoreApplicationCupti();
}

}  // namespace dlhook::inline gpu
