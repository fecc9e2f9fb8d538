// libcuda.so.1: functions used by torch, NVRTC users and programs with a static runtime.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "activity.h"

using fake::Dim3;
using fake::Kernel;
using fake::StreamOf;

// From preload/api/cuda.api (generated): which exported function cuGetProcAddress returns for a base name from which
// version on.
struct DriverVariant {
  const char* base;
  int since;
  bool per_thread_stream;
  const char* symbol;
};
extern const DriverVariant fake_driver_variants[];
extern const int fake_driver_variant_count;

extern "C" int64_t fake_return_zero();  // a function of any signature that does nothing

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kInvalidDevice = 101, kNotFound = 500;
constexpr uint64_t kPerThreadStream = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

thread_local void* current_context;
thread_local std::vector<std::pair<void*, int>> pushed_over;  // contexts and devices

bool Valid(int device) { return device >= 0 && device < fake::DeviceCount(); }

const char* VariantOf(const char* base, int version, bool per_thread) {
  const DriverVariant* best = nullptr;
  for (int i = 0; i < fake_driver_variant_count; ++i) {
    const DriverVariant& variant = fake_driver_variants[i];
    if (strcmp(variant.base, base) != 0 || variant.since > version || (variant.per_thread_stream && !per_thread))
      continue;
    const bool more_apt = best == nullptr || variant.per_thread_stream > best->per_thread_stream ||
                          (variant.per_thread_stream == best->per_thread_stream && variant.since > best->since);
    if (more_apt) best = &variant;
  }
  return best != nullptr ? best->symbol : base;
}

void* Own(const char* symbol) {
  static void* self = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&VariantOf), &info) != 0 ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)
                                                                   : nullptr;
  }();
  return self != nullptr ? dlsym(self, symbol) : nullptr;
}

}  // namespace

// --- looking functions up ---

// For a name of the driver that these fakes lack, returns a function that does nothing: the callers insist on getting
// one.
FAKE(int, cuGetProcAddress_v2, const char* base, void** function, int version, uint64_t flags, int* found) {
  const char* symbol = VariantOf(base, version, (flags & kPerThreadStream) != 0);
  const bool known_prefix = strncmp(base, "cu", 2) == 0;
  *function = known_prefix ? Own(symbol) : nullptr;
  if (*function == nullptr && known_prefix) *function = reinterpret_cast<void*>(&fake_return_zero);
  fake::Note("symbol=%s", *function == reinterpret_cast<void*>(&fake_return_zero) ? "-" : symbol);
  if (found != nullptr) *found = *function != nullptr ? 0 : 1;
  return *function != nullptr ? kSuccess : kNotFound;
}

FAKE(int, cuGetProcAddress, const char* base, void** function, int version, uint64_t flags) {
  return behave_cuGetProcAddress_v2(base, function, version, flags, nullptr);
}

// --- devices and contexts ---

FAKE(int, cuDriverGetVersion, int* version) {
  *version = FAKE_CUDA_VERSION;
  return kSuccess;
}

FAKE(int, cuDeviceGetCount, int* count) {
  *count = fake::DeviceCount();
  return kSuccess;
}

FAKE(int, cuDeviceGet, int* device, int ordinal) {
  if (!Valid(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

FAKE(int, cuDeviceGetName, char* name, int length, int device) {
  snprintf(name, static_cast<size_t>(length), "dlhook fake GPU %d", device);
  return kSuccess;
}

FAKE(int, cuDeviceTotalMem_v2, size_t* bytes, int device) {
  size_t free = 0;
  fake::DeviceMemory(device, &free, bytes);
  return kSuccess;
}

FAKE(int, cuDeviceGetAttribute, int* value, int attribute, int device) {
  if (!Valid(device)) return kInvalidDevice;
  switch (attribute) {
    case 1:
      *value = 1024;
      break;
    case 10:
      *value = 32;
      break;
    case 16:
      *value = 132;
      break;
    case 39:
      *value = 2048;
      break;
    case 41:
      *value = 1;
      break;
    case 13:  // clock, kHz
      *value = 1980000;
      break;
    case 33:  // PCI bus
      *value = 0x10 + device;
      break;
    case 36:  // memory clock, kHz
      *value = 2619000;
      break;
    case 37:  // memory bus, bits
      *value = 5120;
      break;
    case 75:
      *value = 9;
      break;
    case 76:
      *value = 0;
      break;
    default:
      *value = 0;
  }
  return kSuccess;
}

FAKE(int, cuDeviceGetPCIBusId, char* id, int length, int device) {
  snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", 0x10 + device);
  return kSuccess;
}

FAKE(int, cuDeviceGetUuid_v2, void* uuid, int device) {
  if (!Valid(device)) return kInvalidDevice;
  fake::DeviceUuid(device, uuid);
  return kSuccess;
}

FAKE(int, cuDeviceGetUuid, void* uuid, int device) { return behave_cuDeviceGetUuid_v2(uuid, device); }

FAKE(int, cuDevicePrimaryCtxGetState, int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return kSuccess;
}

FAKE(int, cuDevicePrimaryCtxRetain, void** context, int device) {
  if (!Valid(device)) return kInvalidDevice;
  fake::UseContext(device);
  *context = fake::ContextOf(device);
  return kSuccess;
}

FAKE(int, cuCtxGetCurrent, void** context) {
  *context = current_context != nullptr ? current_context : fake::ContextOf(fake::CurrentDevice());
  return kSuccess;
}

FAKE(int, cuCtxSetCurrent, void* context) {
  current_context = context;
  if (context != nullptr) fake::SetCurrentDevice(fake::DeviceOfContext(context));
  return kSuccess;
}

FAKE(int, cuCtxCreate_v2, void** context, unsigned, int device) {
  if (behave_cuDevicePrimaryCtxRetain(context, device) != kSuccess) return kInvalidDevice;
  return behave_cuCtxSetCurrent(*context);
}

FAKE(int, cuCtxDestroy_v2, void* context) {
  fake::DestroyContext(fake::DeviceOfContext(context));
  if (current_context == context) current_context = nullptr;
  return kSuccess;
}

FAKE(int, cuCtxPushCurrent_v2, void* context) {
  pushed_over.push_back({current_context, fake::CurrentDevice()});
  return behave_cuCtxSetCurrent(context);
}

FAKE(int, cuCtxPopCurrent_v2, void** context) {
  if (context != nullptr) *context = current_context;
  if (pushed_over.empty()) return behave_cuCtxSetCurrent(nullptr);
  current_context = pushed_over.back().first;
  fake::SetCurrentDevice(pushed_over.back().second);
  pushed_over.pop_back();
  return kSuccess;
}

FAKE(int, cuCtxGetDevice, int* device) {
  *device = fake::CurrentDevice();
  return kSuccess;
}

FAKE(int, cuGetErrorString, int error, const char** text) {
  *text = error == kSuccess ? "no error" : "an error of the fake CUDA driver";
  return kSuccess;
}

FAKE(int, cuGetErrorName, int error, const char** text) { return behave_cuGetErrorString(error, text); }
