// The launched kernel does nothing; the driver compiles it from PTX. Functions are looked up, so that no CUDA header is
// needed.
#include <dlfcn.h>

#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

constexpr int kGpuChildSeconds = 15;  // the first initialization of a driver takes seconds
constexpr double kGpuSeconds = 0.2;
constexpr size_t kCopyBytes = 64 << 20;
constexpr int kLaunches = 500;  // fewer than the driver's queue holds
constexpr char kNoGpu[] = "there is no GPU: libcuda.so.1 is not there";
constexpr char kKernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

using Address = unsigned long long;

// Functions of the driver; `library`: null: of none.
struct Driver {
  explicit Driver(void* of) : library(of) {}

  template <typename... Parameters>
  struct Function {
    Function(Driver* driver, const char* name) {
      if (driver->library != nullptr) address = reinterpret_cast<int (*)(Parameters...)>(dlsym(driver->library, name));
      driver->has_all &= address != nullptr;
    }
    int operator()(Parameters... parameters) const { return address(parameters...); }
    int (*address)(Parameters...) = nullptr;
  };

  void* library;
  bool has_all = true;
  Function<unsigned> init{this, "cuInit"};
  Function<char*, int, int> get_name{this, "cuDeviceGetName"};
  Function<void**, int> retain{this, "cuDevicePrimaryCtxRetain"};
  Function<void*> set_current{this, "cuCtxSetCurrent"};
  Function<> synchronize{this, "cuCtxSynchronize"};
  Function<Address*, size_t> allocate{this, "cuMemAlloc_v2"};
  Function<void**, size_t, unsigned> allocate_pinned{this, "cuMemHostAlloc"};
  Function<Address, const void*, size_t> to_device{this, "cuMemcpyHtoD_v2"};
  Function<void*, Address, size_t> to_host{this, "cuMemcpyDtoH_v2"};
  Function<Address, Address, size_t> inside{this, "cuMemcpyDtoD_v2"};
  Function<void**, const void*> load{this, "cuModuleLoadData"};
  Function<void**, void*, const char*> get_function{this, "cuModuleGetFunction"};
  Function<void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**> launch{
      this, "cuLaunchKernel"};
};

void MeasureLaunches(const Driver& driver, Calibration* results) {
  void *module = nullptr, *kernel = nullptr;
  int status = driver.load(&module, kKernel);
  if (status == 0) status = driver.get_function(&kernel, module, "nothing");
  const auto launch = [&] { return driver.launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); };
  if (status == 0) status = launch();
  if (status == 0) status = driver.synchronize();
  if (status != 0) {
    results->not_measured.push_back({kGpuLaunch, absl::StrCat("the driver refuses a kernel: status ", status)});
    return;
  }
  const auto each = [&](int count) {
    return TimeOfEach(count, kGpuSeconds, [&] {
      for (int i = 0; i < count; ++i) launch();
      driver.synchronize();
    });
  };
  results->measured.push_back({each(kLaunches), kGpuLaunch, 0, "ns", "an empty kernel, 500 in a row"});
  results->measured.push_back({each(1), "gpu launch and wait", 0, "ns", "an empty kernel, waited for"});
}

// `in_a_row`: copies between two waits, so that waiting is no part of a short one's time.
void MeasureCopy(const char* what, const char* method, const Driver& driver, int in_a_row,
                 absl::FunctionRef<int()> copy, Calibration* results) {
  int status = copy();
  if (status == 0) status = driver.synchronize();
  if (status != 0) {
    results->not_measured.push_back({what, absl::StrCat("the driver refuses it: status ", status)});
    return;
  }
  const Spread rates = RateOf(static_cast<double>(in_a_row * kCopyBytes), kGpuSeconds, [&] {
    for (int i = 0; i < in_a_row; ++i) copy();
    driver.synchronize();
  });
  results->measured.push_back({rates, what, 0, "GB/s", absl::StrCat(method, ", 64 MiB")});
}

void MeasureCopies(const Driver& driver, Calibration* results) {
  Address device = 0, other = 0;
  void* pinned = nullptr;
  const auto pageable = std::make_unique<char[]>(kCopyBytes);  // zeroed, so its pages are allocated
  int status = driver.allocate(&device, kCopyBytes);
  if (status == 0) status = driver.allocate(&other, kCopyBytes);
  if (status == 0) status = driver.allocate_pinned(&pinned, kCopyBytes, 0);
  if (status != 0) {
    results->not_measured.push_back({"gpu copies", absl::StrCat("the driver refuses memory: status ", status)});
    return;
  }
  const auto to_device = [&](const void* from) {
    return [&, from] { return driver.to_device(device, from, kCopyBytes); };
  };
  MeasureCopy("gpu copy to device", "from pinned memory", driver, 1, to_device(pinned), results);
  MeasureCopy("gpu copy to device, pageable", "from pageable memory", driver, 1, to_device(pageable.get()), results);
  MeasureCopy(
      "gpu copy to host", "to pinned memory", driver, 1, [&] { return driver.to_host(pinned, device, kCopyBytes); },
      results);
  MeasureCopy(
      "gpu copy inside", "bytes copied; each is read and written; 16 in a row", driver, 16,
      [&] { return driver.inside(other, device, kCopyBytes); }, results);
}

Calibration MeasureInThisProcess() {
  Calibration results;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const Driver driver(library);
  void* context = nullptr;
  char name[128] = "";
  if (library == nullptr) {
    results.not_measured.push_back({"gpu", kNoGpu});
  } else if (!driver.has_all) {
    results.not_measured.push_back({"gpu", "libcuda.so.1 lacks functions of CUDA 7"});
  } else if (const int status = driver.init(0); status != 0) {
    results.not_measured.push_back({"gpu", absl::StrCat("the driver finds none: cuInit returns ", status)});
  } else if (driver.get_name(name, sizeof name - 1, 0) != 0 || driver.retain(&context, 0) != 0 ||
             driver.set_current(context) != 0) {
    results.not_measured.push_back({"gpu", "the driver gives no context on its first GPU"});
  } else {
    results.gpu = name;
    MeasureLaunches(driver, &results);
    MeasureCopies(driver, &results);
  }
  return results;
}

}  // namespace

Calibration MeasureGpu(const std::vector<int>& processors) {
  return MeasureInChild(processors, kGpuChildSeconds, "gpu", &MeasureInThisProcess);
}

}  // namespace dlhook::analyzer::calibrate
