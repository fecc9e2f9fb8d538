// State of a fake libcupti. ../README.md describes its behaviour.
//
// Thread: the program's; a worker thread for completed buffers. While a callback of the client runs, only the lock of
// the buffers may be held, while one is requested, as in the genuine library.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>

#include "../core/activity.h"
#include "records.h"

namespace cupti {

constexpr int kSuccess = 0, kInvalidParameter = 1, kInvalidOperation = 7, kMaxLimitReached = 12, kNotInitialized = 15,
              kInvalidKind = 21, kMultipleSubscribers = 39, kUnknown = 999;

// --- callback_ids.cc ---

enum Domain { kDriverApi = 1, kRuntimeApi = 2, kResource = 3, kSynchronize = 4, kDomains = 7 };
constexpr int kMostCallbacks = 1024;

int CallbackId(bool runtime, const char* function);   // 0: not known
const char* CallbackName(int domain, uint32_t cbid);  // null: not known

// --- buffers.cc ---

using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

void RegisterBufferCallbacks(BufferRequested requested, BufferCompleted completed);
bool HasBufferCallbacks();
void StartWorker();
void SetFlushPeriod(uint32_t milliseconds);

// `completes_ns`: when the work is over (fake::IsOver), 0: it is.
void AddRecord(const void* record, int64_t completes_ns);
template <class Record>
void Add(const Record& record, int64_t completes_ns = 0) {
  static_assert(sizeof(Record) <= kLongestRecord, "room for a record");
  char bytes[kLongestRecord] = {};
  memcpy(bytes, &record, sizeof record);
  AddRecord(bytes, completes_ns);
}
void Flush(bool forced);
size_t TakeDropped();
bool GetAttribute(int attribute, size_t* size, void* value);
bool SetAttribute(int attribute, const size_t* size, const void* value);

// --- session.cc; Ran and AddDevices: work_records.cc ---

class Session final : public fake::Observer {
 public:
  void Enter(fake::Api* api) override;
  void Exit(fake::Api* api) override;
  void Ran(const fake::Activity& activity) override;
  void Happened(const fake::ResourceEvent& event) override;
  void HasWaited(const fake::Waited& waited) override;

  using Callback = void (*)(void* user, int domain, uint32_t cbid, const void* data);
  int Subscribe(Callback callback, void* user, const char* name);
  int Unsubscribe(const void* handle);
  const char* subscriber_name() const { return name_; }
  void* handle() { return this; }
  int EnableCallback(bool enable, const void* handle, int domain, uint32_t cbid);
  int EnableDomain(bool enable, const void* handle, int domain);
  int EnableKind(uint32_t kind, bool enable);
  int EnableApi(bool runtime, uint32_t cbid, bool enable);
  void Finalize();
  bool IsEnabled(uint32_t kind) const { return kinds_[kind]; }

  std::atomic<bool> latency{false};
  std::atomic<bool> system_thread_ids{false};

 private:
  bool Attach();
  void Detach();  // if nothing is enabled
  void CallBack(int domain, uint32_t cbid, const void* data);
  void CallBackApi(fake::Api* api, int site);
  void AddExternal(uint32_t correlation);
  void AddDevices();

  std::mutex lock_;
  std::atomic<Callback> callback_{nullptr};
  std::atomic<void*> user_{nullptr};
  char name_[64] = "";
  std::atomic<bool> callbacks_[kDomains][kMostCallbacks] = {};
  std::atomic<bool> kinds_[kKinds] = {};
  std::atomic<bool> recorded_[2][kMostCallbacks] = {};  // calls of the driver, of the runtime
};

Session& TheSession();
bool Usable();  // there is a driver, and this is not a forked child

inline uint32_t ContextId(int device) { return static_cast<uint32_t>(device + 1); }

// --- clocks.cc ---

// The client's clock: CLOCK_REALTIME unless it has registered one.
using TimestampCallback = uint64_t (*)();
void RegisterTimestamp(TimestampCallback callback);
uint64_t Stamp(int64_t real_ns);

// --- session.cc ---

void PushExternal(uint32_t kind, uint64_t id);
bool PopExternal(uint32_t kind, uint64_t* id);

}  // namespace cupti
