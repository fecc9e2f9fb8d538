// Contexts of the fake devices, one each, and the initialization of the driver: loads it and the tool that
// CUDA_INJECTION64_PATH names, once, and calls the tool.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "activity.h"

namespace fake {
namespace {

char contexts[kMostDevices];  // the context of device d is &contexts[d]
std::atomic<bool> exists[kMostDevices];

}  // namespace

void* ContextOf(int device) { return &contexts[device % kMostDevices]; }

int DeviceOfContext(const void* context) {
  const auto* place = static_cast<const char*>(context);
  return place >= contexts && place < contexts + kMostDevices ? static_cast<int>(place - contexts) : -1;
}

bool ContextExists(int device) { return exists[device % kMostDevices]; }

void UseContext(int device) {
  if (exists[device % kMostDevices].exchange(true)) return;
  ResourceEvent event;
  event.device = device;
  Tell(event);
}

void DestroyContext(int device) {
  if (!exists[device % kMostDevices].exchange(false)) return;
  ResourceEvent event;
  event.what = Resource::kContextDestroyed;
  event.device = device;
  Tell(event);
}

void DeviceUuid(int device, void* uuid) {
  auto* bytes = static_cast<unsigned char*>(uuid);
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<unsigned char>(0xd0 + i);
  bytes[15] = static_cast<unsigned char>(device);
}

void Initialize() {
  static std::atomic<bool> done{false};
  if (done.exchange(true) || DeviceCount() == 0) return;
  dlopen("libcuda.so.1", RTLD_NOW);  // like the runtime
  const char* path = getenv("CUDA_INJECTION64_PATH");
  void* tool = path != nullptr && *path != 0 ? dlopen(path, RTLD_NOW) : nullptr;
  void* entry = tool != nullptr ? dlsym(tool, "InitializeInjection") : nullptr;
  if (entry != nullptr) reinterpret_cast<int (*)()>(entry)();
  ResourceEvent event;
  event.what = Resource::kInitialized;
  Tell(event);
}

}  // namespace fake
