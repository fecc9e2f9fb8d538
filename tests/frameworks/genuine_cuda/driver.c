/* A libcuda.so.1 without a device, for cuDNN's runtime-compiled engines: they load the driver when a plan is finalized,
   compile with NVRTC, and pass the result to it. Initialization fails as it does without a device; loading a library
   succeeds, so that finalizing a plan does. Signatures: cuda.h of CUDA 13. The returned addresses are never followed.
   */
#include <stddef.h>

enum { kSuccess = 0, kNoDevice = 100 };
static char g_thing;

#define NO_DEVICE(name) \
  int name(void);       \
  int name(void) { return kNoDevice; }

// clang-format off
NO_DEVICE(cuInit) NO_DEVICE(cuDeviceGet) NO_DEVICE(cuCtxGetLimit) NO_DEVICE(cuStreamGetCtx)
NO_DEVICE(cuLaunchKernel) NO_DEVICE(cuLaunchCooperativeKernel) NO_DEVICE(cuLaunchKernelEx)
NO_DEVICE(cuOccupancyMaxPotentialClusterSize) NO_DEVICE(cuLinkCreate_v2) NO_DEVICE(cuLinkAddData_v2)
NO_DEVICE(cuLinkCreate) NO_DEVICE(cuLinkAddData) NO_DEVICE(cuLinkComplete) NO_DEVICE(cuLinkDestroy)
NO_DEVICE(cuLibraryLoadFromFile) NO_DEVICE(cuCtxPushCurrent) NO_DEVICE(cuCtxPopCurrent) NO_DEVICE(cuCtxGetCurrent)
NO_DEVICE(cuDeviceGetCount) NO_DEVICE(cuStreamSynchronize) NO_DEVICE(cuModuleUnload) NO_DEVICE(cuModuleLoadFatBinary)
NO_DEVICE(cuModuleLoadData) NO_DEVICE(cuModuleGetGlobal_v2) NO_DEVICE(cuModuleGetFunction) NO_DEVICE(cuMemcpyDtoH_v2)
NO_DEVICE(cuFuncSetAttribute) NO_DEVICE(cuFuncGetAttribute) NO_DEVICE(cuDevicePrimaryCtxRetain)
NO_DEVICE(cuDevicePrimaryCtxReset) NO_DEVICE(cuDevicePrimaryCtxRelease) NO_DEVICE(cuDeviceGetAttribute)
NO_DEVICE(cuCtxGetDevice)
    // clang-format on

    int cuDriverGetVersion(int* version);
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

static int Say(const char** text) {
  *text = "no device";
  return kSuccess;
}
int cuGetErrorString(int error, const char** text);
int cuGetErrorString(int error, const char** text) {
  (void)error;
  return Say(text);
}
int cuGetErrorName(int error, const char** text);
int cuGetErrorName(int error, const char** text) {
  (void)error;
  return Say(text);
}

int cuLibraryLoadData(void** library);
int cuLibraryLoadData(void** library) {
  *library = &g_thing;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel);
int cuLibraryGetKernel(void** kernel) {
  *kernel = &g_thing;
  return kSuccess;
}
int cuLibraryUnload(void* library);
int cuLibraryUnload(void* library) {
  (void)library;
  return kSuccess;
}
int cuKernelSetAttribute(void);
int cuKernelSetAttribute(void) { return kSuccess; }
int cuKernelGetAttribute(int* value);
int cuKernelGetAttribute(int* value) {
  *value = 0;
  return kSuccess;
}
