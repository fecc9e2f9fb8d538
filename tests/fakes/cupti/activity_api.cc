// libcupti: the activity API.
#include "functions.h"

using namespace cupti;

namespace {

uint32_t KindAt(const uint8_t* record) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  return kind;
}

}  // namespace

// Also without a driver.
FAKE(int, cuptiActivityRegisterCallbacks, BufferRequested requested, BufferCompleted completed) {
  fake::Call call("cupti", "cuptiActivityRegisterCallbacks");
  const bool is_complete = requested != nullptr && completed != nullptr;
  const int status = call.failure() != 0 ? call.failure() : is_complete ? kSuccess : kInvalidParameter;
  if (status == kSuccess) RegisterBufferCallbacks(requested, completed);
  call.Status(status);
  return status;
}

FAKE(int, cuptiActivityEnable, uint32_t kind) {
  return Entry("cuptiActivityEnable").Number("kind", kind).Answer([&] { return TheSession().EnableKind(kind, true); });
}

FAKE(int, cuptiActivityEnableAndDump, uint32_t kind) {
  return Entry("cuptiActivityEnableAndDump").Number("kind", kind).Answer([&] {
    return TheSession().EnableKind(kind, true);
  });
}

FAKE(int, cuptiActivityDisable, uint32_t kind) {
  return Entry("cuptiActivityDisable").Number("kind", kind).Answer([&] {
    return TheSession().EnableKind(kind, false);
  });
}

// Kinds of a subscriber's own; the session has one subscriber.
FAKE(int, cuptiActivityEnable_v2, void* subscriber, uint32_t kind, const void*) {
  return Entry("cuptiActivityEnable_v2").Pointer("subscriber", subscriber).Number("kind", kind).Answer([&] {
    return TheSession().EnableKind(kind, true);
  });
}

FAKE(int, cuptiActivityDisable_v2, void* subscriber, uint32_t kind, const void*) {
  return Entry("cuptiActivityDisable_v2").Pointer("subscriber", subscriber).Number("kind", kind).Answer([&] {
    return TheSession().EnableKind(kind, false);
  });
}

FAKE(int, cuptiActivityEnableContext, const void* context, uint32_t kind) {
  return Entry("cuptiActivityEnableContext").Pointer("context", context).Number("kind", kind).Answer([&] {
    return TheSession().EnableKind(kind, true);
  });
}

FAKE(int, cuptiActivityDisableContext, const void* context, uint32_t kind) {
  return Entry("cuptiActivityDisableContext").Pointer("context", context).Number("kind", kind).Answer([&] {
    return TheSession().EnableKind(kind, false);
  });
}

FAKE(int, cuptiActivityEnableRuntimeApi, uint32_t cbid, uint8_t enable) {
  return Entry("cuptiActivityEnableRuntimeApi").Number("cbid", cbid).Number("enable", enable).Answer([&] {
    return TheSession().EnableApi(true, cbid, enable != 0);
  });
}

FAKE(int, cuptiActivityEnableDriverApi, uint32_t cbid, uint8_t enable) {
  return Entry("cuptiActivityEnableDriverApi").Number("cbid", cbid).Number("enable", enable).Answer([&] {
    return TheSession().EnableApi(false, cbid, enable != 0);
  });
}

FAKE(int, cuptiActivityFlushAll, uint32_t flag) {
  return Entry("cuptiActivityFlushAll").Number("flag", flag).Answer([&] {
    if (!HasBufferCallbacks()) return kInvalidOperation;
    Flush((flag & 1) != 0);
    return kSuccess;
  });
}

FAKE(int, cuptiActivityFlush, const void*, uint32_t, uint32_t flag) { return behave_cuptiActivityFlushAll(flag); }

FAKE(int, cuptiActivityFlushPeriod, uint32_t milliseconds) {
  return Entry("cuptiActivityFlushPeriod").Number("time", milliseconds).Answer([&] {
    SetFlushPeriod(milliseconds);
    return kSuccess;
  });
}

// Not in the log, as it only looks into a buffer.
FAKE(int, cuptiActivityGetNextRecord, uint8_t* buffer, size_t valid, uint8_t** record) {
  uint8_t* next = *record == nullptr ? buffer : *record + SizeOf(KindAt(*record));
  if (next >= buffer + valid) return kMaxLimitReached;
  if (KindAt(next) == 0) return kInvalidKind;
  *record = next;
  return kSuccess;
}

FAKE(int, cuptiActivityGetNumDroppedRecords, const void*, uint32_t, size_t* dropped) {
  return Entry("cuptiActivityGetNumDroppedRecords").Answer([&] {
    *dropped = TakeDropped();
    return kSuccess;
  });
}

FAKE(int, cuptiActivityPushExternalCorrelationId, uint32_t kind, uint64_t id) {
  return Entry("cuptiActivityPushExternalCorrelationId")
      .Number("kind", kind)
      .Number("id", static_cast<int64_t>(id))
      .Answer([&] {
        PushExternal(kind, id);
        return kSuccess;
      });
}

FAKE(int, cuptiActivityPopExternalCorrelationId, uint32_t kind, uint64_t* id) {
  return Entry("cuptiActivityPopExternalCorrelationId").Number("kind", kind).Answer([&] {
    constexpr int kQueueEmpty = 18;
    return PopExternal(kind, id) ? kSuccess : kQueueEmpty;
  });
}

FAKE(int, cuptiActivitySetAttribute, int attribute, size_t* size, void* value) {
  return Entry("cuptiActivitySetAttribute").Number("attribute", attribute).Answer([&] {
    return SetAttribute(attribute, size, value) ? kSuccess : kInvalidParameter;
  });
}

FAKE(int, cuptiActivityGetAttribute, int attribute, size_t* size, void* value) {
  return Entry("cuptiActivityGetAttribute").Number("attribute", attribute).Answer([&] {
    return GetAttribute(attribute, size, value) ? kSuccess : kInvalidParameter;
  });
}

FAKE(int, cuptiActivityConfigureUnifiedMemoryCounter, const void*, uint32_t count) {
  return Entry("cuptiActivityConfigureUnifiedMemoryCounter").Number("count", count).Answer([] { return kSuccess; });
}

FAKE(int, cuptiActivityEnableLatencyTimestamps, uint8_t enable) {
  return Entry("cuptiActivityEnableLatencyTimestamps").Number("enable", enable).Answer([&] {
    TheSession().latency = enable != 0;
    return kSuccess;
  });
}

FAKE(int, cuptiActivityEnableCudaEventDeviceTimestamps, uint8_t enable) {
  return Entry("cuptiActivityEnableCudaEventDeviceTimestamps").Number("enable", enable).Answer([] { return kSuccess; });
}

FAKE(int, cuptiActivityRegisterTimestampCallback, TimestampCallback callback) {
  return Entry("cuptiActivityRegisterTimestampCallback").Answer([&] {
    if (callback == nullptr) return kInvalidParameter;
    RegisterTimestamp(callback);
    return kSuccess;
  });
}

FAKE(int, cuptiGetTimestamp, uint64_t* timestamp) {
  fake::Call call("cupti", "cuptiGetTimestamp");
  *timestamp = Stamp(fake::RealTime());
  call.Status(kSuccess);
  return kSuccess;
}

FAKE(int, cuptiSetThreadIdType, int type) {
  return Entry("cuptiSetThreadIdType").Number("type", type).Answer([&] {
    TheSession().system_thread_ids = type == 1;
    return kSuccess;
  });
}

FAKE(int, cuptiGetThreadIdType, int* type) {
  *type = TheSession().system_thread_ids ? 1 : 0;
  return kSuccess;
}
