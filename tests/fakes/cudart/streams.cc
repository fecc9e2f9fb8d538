// libcudart: streams and events.
#include "activity.h"

using fake::StreamOf;

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kInvalidHandle = 400, kNotReady = 600;

}  // namespace

FAKE(int, cudaStreamCreateWithPriority, void** stream, unsigned flags, int priority) {
  *stream = fake::NewStream(flags, priority);
  return kSuccess;
}

FAKE(int, cudaStreamCreateWithFlags, void** stream, unsigned flags) {
  return behave_cudaStreamCreateWithPriority(stream, flags, 0);
}
FAKE(int, cudaStreamCreate, void** stream) { return behave_cudaStreamCreateWithPriority(stream, 0, 0); }

FAKE(int, cudaStreamDestroy, void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return kInvalidValue;
  fake::DeleteStream(StreamOf(stream));
  return kSuccess;
}

FAKE(int, cudaStreamGetPriority, void* stream, int* priority) {
  *priority = StreamOf(stream)->priority;
  return kSuccess;
}

FAKE(int, cudaStreamGetFlags, void* stream, unsigned* flags) {
  *flags = StreamOf(stream)->flags;
  return kSuccess;
}

FAKE(int, cudaStreamGetDevice, void* stream, int* device) {
  *device = StreamOf(stream)->device;
  return kSuccess;
}

FAKE(int, cudaStreamWaitEvent, void* stream, void* event, unsigned) {
  fake::Wait(stream, static_cast<fake::Event*>(event));
  return kSuccess;
}

FAKE(int, cudaStreamSynchronize, void* stream) {
  fake::WaitForStream(stream);
  return kSuccess;
}

FAKE(int, cudaDeviceSynchronize, ) {
  fake::WaitForDevice();
  return kSuccess;
}

FAKE(int, cudaThreadSynchronize, ) { return behave_cudaDeviceSynchronize(); }

FAKE(int, cudaEventSynchronize, void* event) {
  fake::WaitForEvent(static_cast<fake::Event*>(event));
  return kSuccess;
}

FAKE(int, cudaStreamQuery, void* stream) { return fake::IsOver(StreamOf(stream)->completes_ns) ? kSuccess : kNotReady; }

FAKE(int, cudaEventQuery, void* event) {
  return fake::IsOver(static_cast<fake::Event*>(event)->completes_ns) ? kSuccess : kNotReady;
}

FAKE(int, cudaLaunchHostFunc, void* stream, void (*function)(void*), void* data) {
  fake::Node node;
  node.kind = fake::Node::kHost;
  node.host = function;
  node.host_data = data;
  fake::Enqueue(StreamOf(stream), node);
  return kSuccess;
}

FAKE(int, cudaLaunchHostFunc_v2, void* stream, void (*function)(void*), void* data, unsigned) {
  return behave_cudaLaunchHostFunc(stream, function, data);
}

FAKE(int, cudaStreamAddCallback, void* stream, void (*callback)(void*, int, void*), void* data, unsigned) {
  callback(stream, kSuccess, data);
  return kSuccess;
}

FAKE(int, cudaEventCreateWithFlags, void** event, unsigned flags) {
  auto* fresh = fake::New<fake::Event>();
  fresh->flags = flags;
  *event = fresh;
  return kSuccess;
}

FAKE(int, cudaEventCreate, void** event) { return behave_cudaEventCreateWithFlags(event, 0); }

FAKE(int, cudaEventDestroy, void* event) {
  fake::Delete(static_cast<fake::Event*>(event));
  return kSuccess;
}

FAKE(int, cudaEventRecord, void* event, void* stream) {
  fake::Record(static_cast<fake::Event*>(event), stream);
  return kSuccess;
}

FAKE(int, cudaEventRecordWithFlags, void* event, void* stream, unsigned) {
  return behave_cudaEventRecord(event, stream);
}

FAKE(int, cudaEventElapsedTime, float* milliseconds, void* begin, void* end) {
  const auto* first = static_cast<fake::Event*>(begin);
  const auto* last = static_cast<fake::Event*>(end);
  if (!first->recorded || !last->recorded) return kInvalidHandle;
  if (!fake::IsOver(last->completes_ns)) return kNotReady;
  *milliseconds = static_cast<float>(last->nanoseconds - first->nanoseconds) / 1e6f;
  fake::Note("ns=%lld", static_cast<long long>(last->nanoseconds - first->nanoseconds));
  return kSuccess;
}

FAKE(int, cudaEventElapsedTime_v2, float* milliseconds, void* begin, void* end) {
  return behave_cudaEventElapsedTime(milliseconds, begin, end);
}
