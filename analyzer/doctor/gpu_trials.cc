// Functions are looked up at run time, so that no CUDA header is needed.
#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "analyzer/doctor/machine.h"
#include "analyzer/symbols/isolated_json.h"
#include "preload/base/function_table.h"

namespace dlhook::analyzer::inline doctor {

// What the child finds.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuMachine, has_driver, driver_status, driver_version, devices, cupti, cupti_version)

namespace {

constexpr int kSeconds = 20;  // the first initialization of a driver takes seconds
constexpr size_t kNameBytes = 128;
constexpr int kMaxDevices = 64;

struct GpuDriver : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*init)(unsigned) = Find("cuInit");
  int (*version)(int* version) = Find("cuDriverGetVersion");
  int (*count)(int* count) = Find("cuDeviceGetCount");
  int (*name)(char* name, int bytes, int device) = Find("cuDeviceGetName");
};

void AskDriver(GpuMachine* machine) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  machine->has_driver = library != nullptr;
  if (!machine->has_driver) return;
  const GpuDriver driver({&dlsym, library});
  machine->driver_status = driver.init == nullptr ? -1 : driver.init(0);
  if (driver.version == nullptr || driver.version(&machine->driver_version) != 0) machine->driver_version = 0;
  int count = 0;
  if (machine->driver_status != 0 || driver.count == nullptr || driver.name == nullptr || driver.count(&count) != 0)
    return;
  for (int device = 0; device < std::min(count, kMaxDevices); ++device) {
    char name[kNameBytes] = "";
    if (driver.name(name, kNameBytes - 1, device) == 0) machine->devices.emplace_back(name);
  }
}

std::vector<std::string> CuptiNames() {
  std::vector<std::string> names = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", "libcupti.so.10.2"};
  std::vector<std::string> homes = {"/usr/local/cuda"};
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* home = getenv(variable); home != nullptr && *home != '\0') homes.insert(homes.begin(), home);
  }
  for (const std::string& home : homes) names.push_back(home + "/extras/CUPTI/lib64/libcupti.so");
  return names;
}

void AskCupti(GpuMachine* machine) {
  for (const std::string& name : CuptiNames()) {
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto get_version = reinterpret_cast<int (*)(uint32_t*)>(dlsym(library, "cuptiGetVersion"));
    if (get_version == nullptr || get_version(&machine->cupti_version) != 0) machine->cupti_version = 0;
    struct link_map* map = nullptr;
    const bool is_known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0';
    machine->cupti = is_known ? map->l_name : name;
    return;
  }
}

bool HasMps() {
  if (const char* folder = getenv("CUDA_MPS_PIPE_DIRECTORY"); folder != nullptr && *folder != '\0') return true;
  std::error_code error;
  return std::filesystem::exists("/tmp/nvidia-mps/control", error);
}

Finding DriverFinding(const GpuMachine& machine) {
  if (!machine.trouble.empty()) {
    return {"gpu", Level::kNote, "", absl::StrCat("which GPUs there are is not known: ", machine.trouble, ".")};
  }
  if (!machine.has_driver) return {"gpu", Level::kOk, "", "no CUDA driver: only work on the CPU is observed."};
  if (machine.driver_status != 0 || machine.devices.empty()) {
    return {"gpu", Level::kNote, "", "the CUDA driver is installed but finds no device."};
  }
  return {"gpu", Level::kOk, "",
          absl::StrCat("the CUDA driver works (for CUDA ", machine.driver_version / 1000, ".",
                       machine.driver_version % 1000 / 10, "): ", absl::StrJoin(machine.devices, ", "), ".")};
}

Finding TimesFinding(const GpuMachine& machine) {
  if (machine.cupti.empty()) {
    return {
        "gpu-times", Level::kNote, "",
        "no CUPTI where the loader or CUDA_HOME has libraries. Programs that bring their own (PyTorch's and "
        "TensorFlow's packages) get times of kernels and copies from it; for others, pairs of events time whole calls.",
        "Install CUPTI of the program's CUDA version (pip install nvidia-cuda-cupti), or put it on LD_LIBRARY_PATH."};
  }
  if (machine.cupti_version == 0) {
    return {"gpu-times", Level::kWarning, machine.cupti,
            "finds no driver that it can work with: GPU times are then taken from CUDA events, or missing.",
            "Use CUPTI of a CUDA version that the driver supports."};
  }
  return {"gpu-times", Level::kOk, machine.cupti,
          absl::StrCat("is CUPTI of CUDA ", CudaOfCupti(machine.cupti_version),
                       ": times of kernels and copies come from it, unless the program has another.")};
}

void AddSharingFinding(const GpuMachine& machine, std::vector<Finding>* findings) {
  std::vector<std::string> words;
  if (machine.has_mps) {
    words.emplace_back(
        "MPS runs kernels of several processes at once: a kernel's time then includes the slowdown by others");
  }
  const bool has_mig =
      absl::c_any_of(machine.devices, [](const std::string& name) { return absl::StrContains(name, "MIG "); });
  if (has_mig) words.emplace_back("a MIG instance is a part of a GPU: its peaks are not the whole device's");
  if (words.empty()) return;
  findings->push_back({"gpu-shared", Level::kNote, "", absl::StrCat(absl::StrJoin(words, "; "), ".")});
}

}  // namespace

GpuMachine LookAtGpus() {
  GpuMachine machine;
  const auto ask = [] {
    GpuMachine found;
    AskDriver(&found);
    if (found.has_driver) AskCupti(&found);
    return found;
  };
  const std::string failure = AskIsolated(kSeconds, ask, &machine, IsolatedMemory::kFree);
  machine.trouble = absl::StrReplaceAll(failure, {{"reading it", "asking the driver"}});
  machine.has_mps = HasMps();
  return machine;
}

std::vector<Finding> GpuFindings(const GpuMachine& machine) {
  std::vector<Finding> findings = {DriverFinding(machine)};
  if (!machine.has_driver || machine.driver_status != 0 || machine.devices.empty()) return findings;
  findings.push_back(TimesFinding(machine));
  AddSharingFinding(machine, &findings);
  return findings;
}

std::string CudaOfCupti(uint32_t version) {
  constexpr uint32_t kFirst = 13;  // as listed in cupti_version.h
  constexpr const char* kVersions[] = {"11.0", "11.1", "11.2", "11.5", "11.6", "11.8", "12.0", "12.2",
                                       "12.3", "12.4", "12.5", "12.6", "12.7", "12.8", "12.9", "12.9"};
  if (version >= 100000) return absl::StrCat(version / 10000, ".", version % 10000 / 100);
  const bool is_listed = version >= kFirst && version - kFirst < std::size(kVersions);
  return is_listed ? kVersions[version - kFirst] : "an unknown version";
}

}  // namespace dlhook::analyzer::doctor
