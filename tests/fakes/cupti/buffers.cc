// The client's buffers: requested when a record needs one, returned when they are full or flushed. Unfinished work
// waits in a queue here.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "cupti.h"

namespace cupti {
namespace {

constexpr int kPerThreadBuffer = 9;  // CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
constexpr long kWorkerPauseNs = 5000000;

struct Pending {
  char bytes[kLongestRecord];
  int64_t completes_ns;
  uint64_t thread;
};

struct Buffer {
  uint8_t* data = nullptr;
  size_t size = 0, used = 0, most_records = 0;
  std::vector<size_t> records;  // where they begin
};

struct State {
  std::mutex lock;                  // of everything here; held while a buffer is requested
  std::recursive_mutex completing;  // held while buffers are returned: so a flush ends after them
  std::deque<Pending> pending;
  std::map<uint64_t, Buffer> current;  // by thread, 0: of all
  std::vector<Buffer> full;
  size_t dropped = 0;
  std::map<int, std::string> attributes;
  std::atomic<uint32_t> period_ms{0};
  std::atomic<BufferRequested> requested{nullptr};
  std::atomic<BufferCompleted> completed{nullptr};
  const bool reversed = fake::Switch("CUPTI_REVERSED");
  const bool unknown = fake::Switch("CUPTI_UNKNOWN");
};

State& The() {
  static auto* state = new State;
  return *state;
}

uint32_t KindOf(const void* record) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  return kind;
}

bool PerThread(const State& state) {
  const auto entry = state.attributes.find(kPerThreadBuffer);
  if (entry != state.attributes.end()) return entry->second[0] != 0;
  return FAKE_CUDA_VERSION >= 13000;
}

void Append(Buffer* buffer, const void* record) {
  const size_t size = SizeOf(KindOf(record));
  memcpy(buffer->data + buffer->used, record, size);
  buffer->records.push_back(buffer->used);
  buffer->used += size;
}

bool Fits(const Buffer& buffer, size_t size) {
  return buffer.size - buffer.used >= size && (buffer.most_records == 0 || buffer.records.size() < buffer.most_records);
}

bool Request(State* state, Buffer* buffer) {
  *buffer = Buffer{};
  const BufferRequested requested = state->requested;
  if (requested == nullptr) return false;
  requested(&buffer->data, &buffer->size, &buffer->most_records);
  if (buffer->data == nullptr) return false;
  const uint32_t unknown[kLongestRecord / 4] = {kUnknownKind};
  if (state->unknown && Fits(*buffer, SizeOf(kUnknownKind))) Append(buffer, unknown);
  return true;
}

void Write(State* state, const char* record, uint64_t thread) {
  Buffer& buffer = state->current[PerThread(*state) ? thread : 0];
  const size_t size = SizeOf(KindOf(record));
  if (buffer.data != nullptr && !Fits(buffer, size)) {
    state->full.push_back(buffer);
    buffer = Buffer{};
  }
  if ((buffer.data == nullptr && !Request(state, &buffer)) || !Fits(buffer, size)) {
    ++state->dropped;
    return;
  }
  Append(&buffer, record);
}

// Written by a forced flush for unfinished work.
void WriteIncomplete(State* state, Pending* record) {
  const uint32_t kind = KindOf(record->bytes);
  uint64_t times[2];
  char* place = record->bytes + (kind == kGraphTrace ? 8 : 16);
  memcpy(times, place, sizeof times);
  const bool begun = times[0] <= Stamp(fake::RealTime());
  times[0] = begun ? times[0] : 0;
  times[1] = 0;
  memcpy(place, times, sizeof times);
  Write(state, record->bytes, record->thread);
}

void Collect(State* state, bool forced) {
  std::deque<Pending> rest;
  for (Pending& record : state->pending) {
    if (fake::IsOver(record.completes_ns))
      Write(state, record.bytes, record.thread);
    else if (forced)
      WriteIncomplete(state, &record);
    else
      rest.push_back(record);
  }
  state->pending.swap(rest);
}

void Reverse(Buffer* buffer) {
  std::vector<uint8_t> copy(buffer->data, buffer->data + buffer->used);
  size_t used = 0;
  for (auto place = buffer->records.rbegin(); place != buffer->records.rend(); ++place) {
    const size_t size = SizeOf(KindOf(&copy[*place]));
    memcpy(buffer->data + used, &copy[*place], size);
    used += size;
  }
}

void Complete(State* state) {
  const std::lock_guard<std::recursive_mutex> in_order(state->completing);
  std::vector<Buffer> full;
  {
    const std::lock_guard<std::mutex> guard(state->lock);
    full.swap(state->full);
  }
  if (state->reversed) {
    std::reverse(full.begin(), full.end());
    for (Buffer& buffer : full) Reverse(&buffer);
  }
  for (const Buffer& buffer : full) {
    const BufferCompleted completed = state->completed;
    if (completed != nullptr) completed(nullptr, 0, buffer.data, buffer.size, buffer.used);
  }
}

// The genuine library reserves a place in the buffer for unfinished work, and keeps such a buffer until it is full.
bool HasIncomplete(const State& state, uint64_t thread) {
  return std::any_of(state.pending.begin(), state.pending.end(),
                     [thread](const Pending& record) { return thread == 0 || record.thread == thread; });
}

// Started again in each process: a forked child has none.
void* Work(void*) {
  State& state = The();
  int64_t flushed_ns = fake::RealTime();
  for (;;) {
    const timespec pause = {0, kWorkerPauseNs};
    nanosleep(&pause, nullptr);
    {
      const std::lock_guard<std::mutex> guard(state.lock);
      Collect(&state, false);
    }
    const int64_t now = fake::RealTime();
    const int64_t period_ns = int64_t{state.period_ms} * 1000000;
    const bool due = period_ns != 0 && now - flushed_ns >= period_ns;
    if (due) flushed_ns = now;
    if (due)
      Flush(false);
    else if (!state.reversed)
      Complete(&state);
  }
  return nullptr;
}

uint64_t ThisThread() {
  static thread_local const auto id = static_cast<uint64_t>(gettid());
  return id;
}

}  // namespace

void RegisterBufferCallbacks(BufferRequested requested, BufferCompleted completed) {
  The().requested = requested;
  The().completed = completed;
}

bool HasBufferCallbacks() { return The().requested != nullptr; }

void StartWorker() {
  static std::atomic<bool> started{false};
  if (started.exchange(true)) return;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Work, nullptr) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void SetFlushPeriod(uint32_t milliseconds) { The().period_ms = milliseconds; }

void AddRecord(const void* bytes, int64_t completes_ns) {
  State& state = The();
  Pending record;
  memcpy(record.bytes, bytes, sizeof record.bytes);
  record.completes_ns = completes_ns;
  record.thread = ThisThread();
  const std::lock_guard<std::mutex> guard(state.lock);
  if (completes_ns == 0)
    Write(&state, record.bytes, record.thread);
  else
    state.pending.push_back(record);
}

void Flush(bool forced) {
  State& state = The();
  const int64_t start = fake::RealTime();
  {
    const std::lock_guard<std::mutex> guard(state.lock);
    Collect(&state, forced);
    for (auto& [thread, buffer] : state.current) {
      if (buffer.used == 0 || HasIncomplete(state, thread)) continue;
      state.full.push_back(buffer);
      buffer = Buffer{};
    }
  }
  Complete(&state);
  if (!TheSession().IsEnabled(kOverhead)) return;
  const int64_t end = fake::RealTime();
  fake::Note("overhead=%lld-%lld", static_cast<long long>(start), static_cast<long long>(end));
  OverheadRecord record{};
  record.kind = kOverhead;
  record.overhead_kind = 1 << 16;  // CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH
  record.object_kind = 2;          // a thread
  record.process = static_cast<uint32_t>(getpid());
  record.thread = static_cast<uint32_t>(gettid());
  record.start = Stamp(start);
  record.end = Stamp(end);
  Add(record);
}

size_t TakeDropped() {
  State& state = The();
  const std::lock_guard<std::mutex> guard(state.lock);
  const size_t dropped = state.dropped;
  state.dropped = 0;
  return dropped;
}

bool GetAttribute(int attribute, size_t* size, void* value) {
  State& state = The();
  const std::lock_guard<std::mutex> guard(state.lock);
  const std::string text =
      attribute == kPerThreadBuffer ? std::string(1, static_cast<char>(PerThread(state))) : state.attributes[attribute];
  if (*size < text.size()) return false;
  memset(value, 0, *size);
  memcpy(value, text.data(), text.size());
  *size = text.size();
  return true;
}

bool SetAttribute(int attribute, const size_t* size, const void* value) {
  State& state = The();
  if (*size == 0 || *size > 64) return false;
  const std::lock_guard<std::mutex> guard(state.lock);
  state.attributes[attribute].assign(static_cast<const char*>(value), *size);
  return true;
}

}  // namespace cupti
