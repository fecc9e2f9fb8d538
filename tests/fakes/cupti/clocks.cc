// The clock of a fake libcupti's records: CLOCK_REALTIME, or the client's own, to which times are mapped.
#include <time.h>

#include "cupti.h"

namespace cupti {
namespace {

struct ClockMap {
  TimestampCallback callback = nullptr;
  int64_t real_ns = 0;
  uint64_t client = 0;
  double rate = 0;
};
std::mutex clock_lock;
ClockMap client_clock;

// The client's time in the middle of the shortest of several readings.
void ReadClocks(TimestampCallback callback, int64_t* real_ns, uint64_t* client) {
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const int64_t before = fake::RealTime();
    const uint64_t value = callback();
    const int64_t took = fake::RealTime() - before;
    if (took >= shortest) continue;
    shortest = took;
    *real_ns = before + took / 2;
    *client = value;
  }
}

}  // namespace

void RegisterTimestamp(TimestampCallback callback) {
  ClockMap map;
  map.callback = callback;
  if (callback != nullptr) ReadClocks(callback, &map.real_ns, &map.client);
  const std::lock_guard<std::mutex> guard(clock_lock);
  client_clock = map;
}

uint64_t Stamp(int64_t real_ns) {
  const std::lock_guard<std::mutex> guard(clock_lock);
  ClockMap& map = client_clock;
  if (map.callback == nullptr) return static_cast<uint64_t>(real_ns);
  constexpr int64_t kShortestBaseNs = 5000000;
  if (map.rate == 0) {  // measured once, over a time long enough
    int64_t now = fake::RealTime();
    const timespec pause = {0, kShortestBaseNs};
    if (now - map.real_ns < kShortestBaseNs) nanosleep(&pause, nullptr);
    uint64_t client = 0;
    ReadClocks(map.callback, &now, &client);
    map.rate = static_cast<double>(client - map.client) / static_cast<double>(now - map.real_ns);
  }
  const double passed = static_cast<double>(real_ns - map.real_ns) * map.rate;
  return map.client + static_cast<uint64_t>(static_cast<int64_t>(passed));
}

}  // namespace cupti
