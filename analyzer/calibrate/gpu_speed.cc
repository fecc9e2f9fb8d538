// The launched kernel does nothing; the driver compiles it from PTX. Functions are looked up, so that no CUDA header is
// needed.
#include <dlfcn.h>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

constexpr int kGpuChildSeconds = 15;  // the first initialization of a driver takes seconds
constexpr double kGpuSeconds = 0.2;
constexpr size_t kCopyBytes = 64 << 20;
constexpr int kLaunches = 500;  // fewer than the driver's queue holds
constexpr char kNoGpu[] = "there is no GPU: libcuda.so.1 is not there";
constexpr char kNamePrefix[] = "name ";
constexpr char kKernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

using Address = unsigned long long;

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*get_name)(char*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*allocate)(Address*, size_t) = nullptr;
  int (*allocate_pinned)(void**, size_t, unsigned) = nullptr;
  int (*to_device)(Address, const void*, size_t) = nullptr;
  int (*to_host)(void*, Address, size_t) = nullptr;
  int (*inside)(Address, Address, size_t) = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindDriver(void* library, Driver* driver) {
  return Find(library, "cuInit", &driver->init) && Find(library, "cuDeviceGetName", &driver->get_name) &&
         Find(library, "cuDevicePrimaryCtxRetain", &driver->retain) &&
         Find(library, "cuCtxSetCurrent", &driver->set_current) &&
         Find(library, "cuCtxSynchronize", &driver->synchronize) && Find(library, "cuMemAlloc_v2", &driver->allocate) &&
         Find(library, "cuMemHostAlloc", &driver->allocate_pinned) &&
         Find(library, "cuMemcpyHtoD_v2", &driver->to_device) && Find(library, "cuMemcpyDtoH_v2", &driver->to_host) &&
         Find(library, "cuMemcpyDtoD_v2", &driver->inside) && Find(library, "cuModuleLoadData", &driver->load) &&
         Find(library, "cuModuleGetFunction", &driver->get_function) &&
         Find(library, "cuLaunchKernel", &driver->launch);
}

void MeasureLaunches(const Driver& driver, Measurements* results) {
  void *module = nullptr, *kernel = nullptr;
  int status = driver.load(&module, kKernel);
  if (status == 0) status = driver.get_function(&kernel, module, "nothing");
  const auto launch = [&] { return driver.launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); };
  if (status == 0) status = launch();
  if (status == 0) status = driver.synchronize();
  if (status != 0) {
    results->missing.push_back({kGpuLaunch, absl::StrCat("the driver refuses a kernel: status ", status)});
    return;
  }
  std::vector<double> each, whole;
  for (const double time : TimesOf(kGpuSeconds, [&] {
         for (int i = 0; i < kLaunches; ++i) launch();
         driver.synchronize();
       })) {
    each.push_back(time / kLaunches * 1e9);
  }
  for (const double time : TimesOf(kGpuSeconds, [&] {
         launch();
         driver.synchronize();
       })) {
    whole.push_back(time * 1e9);
  }
  results->measured.push_back({kGpuLaunch, 0, "ns", SpreadOf(each, false), "an empty kernel, 500 in a row"});
  results->measured.push_back({"gpu launch and wait", 0, "ns", SpreadOf(whole, false), "an empty kernel, waited for"});
}

// `in_a_row`: copies between two waits, so that waiting is no part of a short one's time.
void MeasureCopy(const char* what, const char* method, const Driver& driver, int in_a_row,
                 absl::FunctionRef<int()> copy, Measurements* results) {
  int status = copy();
  if (status == 0) status = driver.synchronize();
  if (status != 0) {
    results->missing.push_back({what, absl::StrCat("the driver refuses it: status ", status)});
    return;
  }
  std::vector<double> rates;
  for (const double time : TimesOf(kGpuSeconds, [&] {
         for (int i = 0; i < in_a_row; ++i) copy();
         driver.synchronize();
       })) {
    rates.push_back(static_cast<double>(in_a_row * kCopyBytes) / time / 1e9);
  }
  results->measured.push_back({what, 0, "GB/s", SpreadOf(rates, true), absl::StrCat(method, ", 64 MiB")});
}

void MeasureCopies(const Driver& driver, Measurements* results) {
  Address device = 0, other = 0;
  void* pinned = nullptr;
  const auto pageable = std::make_unique<char[]>(kCopyBytes);  // zeroed, so its pages are allocated
  int status = driver.allocate(&device, kCopyBytes);
  if (status == 0) status = driver.allocate(&other, kCopyBytes);
  if (status == 0) status = driver.allocate_pinned(&pinned, kCopyBytes, 0);
  if (status != 0) {
    results->missing.push_back({"gpu copies", absl::StrCat("the driver refuses memory: status ", status)});
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

Measurements MeasureInThisProcess() {
  Measurements results;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  Driver driver;
  void* context = nullptr;
  char name[128] = "";
  if (library == nullptr) {
    results.missing.push_back({"gpu", kNoGpu});
  } else if (!FindDriver(library, &driver)) {
    results.missing.push_back({"gpu", "libcuda.so.1 lacks functions of CUDA 7"});
  } else if (const int status = driver.init(0); status != 0) {
    results.missing.push_back({"gpu", absl::StrCat("the driver finds none: cuInit returns ", status)});
  } else if (driver.get_name(name, sizeof name - 1, 0) != 0 || driver.retain(&context, 0) != 0 ||
             driver.set_current(context) != 0) {
    results.missing.push_back({"gpu", "the driver gives no context on its first GPU"});
  } else {
    results.missing.push_back({"gpu", absl::StrCat(kNamePrefix, name)});
    MeasureLaunches(driver, &results);
    MeasureCopies(driver, &results);
  }
  return results;
}

}  // namespace

GpuMeasurements MeasureGpu(const std::vector<int>& processors) {
  GpuMeasurements gpu = {.name = "",
                         .results = MeasureInChild(processors, kGpuChildSeconds, "gpu", &MeasureInThisProcess)};
  std::vector<NotMeasured>& missing = gpu.results.missing;
  const auto named = absl::c_find_if(
      missing, [](const NotMeasured& one) { return one.what == "gpu" && absl::StartsWith(one.reason, kNamePrefix); });
  if (named == missing.end()) return gpu;
  gpu.name = std::string(absl::StripPrefix(named->reason, kNamePrefix));
  missing.erase(named);
  return gpu;
}

}  // namespace dlhook::analyzer::calibrate
