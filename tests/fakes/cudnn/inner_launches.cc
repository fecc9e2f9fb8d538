// libcudnn: the kernels that it launches itself. They advance the clock; with DLHOOK_FAKE_NESTED they are launched
// visibly, as by the genuine library: through the runtime linked into it, which finds the driver with dlopen and the
// interposable dlsym and everything else with cuGetProcAddress_v2.
#include <dlfcn.h>

#include <cstring>

#include "cudnn.h"

namespace {

constexpr char kToNhwc[] =
    "_ZN5cudnn3ops16nchwToNhwcKernelI6__halfS2_fLb0ELb1EL19cudnnKernelDataType_t0EEEvNS0_"
    "18nchw2nhwc_params_tIT1_EEPKT_PT0_";
constexpr char kToNchw[] =
    "_ZN5cudnn3ops16nhwcToNchwKernelI6__halfS2_fLb1ELb0EL19cudnnKernelDataType_t0EEEvNS0_"
    "18nhwc2nchw_params_tIT1_EEPKT_PT0_";

class Driver {
 public:
  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    void* look_up = library != nullptr ? dlsym(library, "cuGetProcAddress_v2") : nullptr;
    if (look_up == nullptr) return;
    memcpy(&look_up_, &look_up, sizeof look_up);
    Find("cuLibraryLoadData", &load_);
    Find("cuLibraryGetKernel", &get_kernel_);
    Find("cuLaunchKernel", &launch_);
    if (load_ != nullptr) load_(&library_, kConvolutionKernel, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }

  void* Kernel(const char* name) const {
    void* kernel = nullptr;
    if (get_kernel_ != nullptr) get_kernel_(&kernel, library_, name);
    return kernel;
  }

  void Launch(void* kernel, void* stream) const {
    if (launch_ != nullptr) launch_(kernel, 8, 1, 1, 256, 1, 1, 0, stream, nullptr, nullptr);
  }

 private:
  template <class Function>
  void Find(const char* name, Function* function) {
    void* address = nullptr;
    int found = 0;
    look_up_(name, &address, FAKE_CUDA_VERSION, 0, &found);
    memcpy(function, &address, sizeof address);
  }

  int (*look_up_)(const char*, void**, int, uint64_t, int*) = nullptr;
  int (*load_)(void**, const void*, void*, void*, unsigned, void*, void*, unsigned) = nullptr;
  int (*get_kernel_)(void**, void*, const char*) = nullptr;
  int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                 void**) = nullptr;
  void* library_ = nullptr;
};

void LaunchSeen(void* stream, int64_t nanoseconds, bool channels_last) {
  static const Driver driver;
  static void* const to_nhwc = driver.Kernel(kToNhwc);
  static void* const main = driver.Kernel(kConvolutionKernel);
  static void* const to_nchw = driver.Kernel(kToNchw);
  if (!channels_last) driver.Launch(to_nhwc, stream);
  fake::NextKernelTakes(nanoseconds);
  driver.Launch(main, stream);
  if (!channels_last) driver.Launch(to_nchw, stream);
}

}  // namespace

void NoteNumbers(const char* name, const std::vector<int64_t>& numbers, const std::vector<int64_t>& strides) {
  std::string text;
  for (const auto* list : {&numbers, &strides}) {
    if (list->empty()) continue;
    if (list == &strides) text += ':';
    for (size_t i = 0; i < list->size(); ++i) text += (i > 0 ? "x" : "") + std::to_string((*list)[i]);
  }
  fake::Note("%s=%s", name, text.c_str());
}

void LaunchConvolution(void* handle, int64_t nanoseconds, bool channels_last) {
  void* stream = CudnnHandleOf(handle)->stream;
  if (fake::Switch("NESTED"))
    LaunchSeen(stream, nanoseconds, channels_last);
  else
    fake::Work(stream, nanoseconds, kConvolutionKernel);
}
