// Parses DLHOOK_FAKE_*, and stores the current device of each thread. Read once, at the first use.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "fake.h"

namespace fake {
namespace {

thread_local int current_device;
thread_local int last_runtime_error;

// "cudaMemcpyAsync:3:700,cublasLtMatmul:*:15": which call of a function fails (the third; each), and its status.
struct Failure {
  int64_t which = 0;  // 0: each
  int status = 0;
  int64_t calls = 0;
};

std::multimap<std::string, Failure> ReadFailures() {
  std::multimap<std::string, Failure> failures;
  std::string rest = Setting("FAIL", "");
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string entry = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const size_t first = entry.find(':');
    const size_t second = entry.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      fprintf(stderr, "DLHOOK_FAKE_FAIL: found '%s', expected FUNCTION:COUNT:STATUS\n", entry.c_str());
      abort();
    }
    Failure failure;
    failure.which = atoll(entry.c_str() + first + 1);
    failure.status = atoi(entry.c_str() + second + 1);
    failures.emplace(entry.substr(0, first), failure);
  }
  return failures;
}

}  // namespace

const char* Setting(const char* name, const char* otherwise) {
  const char* value = getenv((std::string("DLHOOK_FAKE_") + name).c_str());
  return value != nullptr ? value : otherwise;
}

bool Switch(const char* name) {
  const char* value = Setting(name, "0");
  return *value != 0 && strcmp(value, "0") != 0;
}

int FailureOf(const char* function) {
  static std::mutex lock;
  static auto* failures = new std::multimap<std::string, Failure>(ReadFailures());
  if (failures->empty()) return 0;
  const std::lock_guard<std::mutex> guard(lock);
  int status = 0;
  auto [begin, end] = failures->equal_range(function);
  for (auto entry = begin; entry != end; ++entry) {
    Failure& failure = entry->second;
    ++failure.calls;
    if (failure.which == 0 || failure.which == failure.calls) status = failure.status;
  }
  return status;
}

int DeviceCount() {
  static const int count = [] {
    const int wanted = atoi(Setting("DEVICES", "1"));
    if (wanted < 0 || wanted > kMostDevices) {
      fprintf(stderr, "DLHOOK_FAKE_DEVICES: found %d, expected 0 to %d\n", wanted, kMostDevices);
      abort();
    }
    return wanted;
  }();
  return count;
}

int CurrentDevice() { return current_device; }
void SetCurrentDevice(int device) { current_device = device; }

int LastRuntimeError() { return last_runtime_error; }
void SetLastRuntimeError(int error) { last_runtime_error = error; }

}  // namespace fake
