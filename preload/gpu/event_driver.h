// The driver functions that event pairs need, from libcuda.so.1 itself: bypassing our hooks, and bypassing the runtime,
// whose last error belongs to the program. The driver's own errors are returned only to us.
// Thread: any; Load takes the loader's lock.
#pragma once

#include <cstdint>

namespace dlhook::inline gpu {

// CUresult
constexpr int kDriverSuccess = 0;
constexpr int kDriverNotReady = 600;
// CUstream of the default streams, distinct whatever the caller was compiled for.
constexpr uintptr_t kLegacyStream = 1;
constexpr uintptr_t kPerThreadStream = 2;

constexpr char kNoDriver[] = "the process has no usable libcuda.so.1";

struct EventDriver {
  int (*event_create)(void** event, unsigned flags);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event);
  int (*event_elapsed)(float* milliseconds, void* start, void* end);
  int (*stream_create)(void** stream, unsigned flags);
  int (*stream_destroy)(void* stream);
  int (*stream_context)(void* stream, void** context);  // null before CUDA 9.2
  int (*stream_is_capturing)(void* stream, int* status);
  int (*exchange_capture_mode)(int* mode);  // null before CUDA 10.1
  int (*context_current)(void** context);
  int (*context_push)(void* context);
  int (*context_pop)(void** context);
  int (*context_device)(int* device);

  // From the mapped libcuda.so.1. False if there is none yet, or if it lacks a required function.
  bool Load();
};

// While it exists, this thread may create and query events although another thread captures a stream: otherwise that
// would invalidate the capture (cuThreadExchangeStreamCaptureMode). A capture by this thread itself is not affected
// either.
class CaptureTolerant {
 public:
  explicit CaptureTolerant(const EventDriver& driver);
  ~CaptureTolerant();
  CaptureTolerant(const CaptureTolerant&) = delete;
  CaptureTolerant& operator=(const CaptureTolerant&) = delete;

 private:
  const EventDriver& driver_;
  int mode_;
  bool exchanged_;
};

// Makes a context current on this thread while it exists.
class CurrentContext {
 public:
  CurrentContext(const EventDriver& driver, void* context)
      : driver_(driver), pushed_(driver.context_push(context) == kDriverSuccess) {}
  ~CurrentContext() {
    void* own = nullptr;
    if (pushed_) driver_.context_pop(&own);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  bool ok() const { return pushed_; }

 private:
  const EventDriver& driver_;
  bool pushed_;
};

}  // namespace dlhook::inline gpu
