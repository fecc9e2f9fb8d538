// See gpu_devices.h. The driver's functions are looked up in the mapped libcuda.so.1; none of those used here needs a
// context.
#include "preload/gpu/gpu_devices.h"

#include <ctype.h>
#include <stdio.h>

#include "preload/base/function_table.h"
#include "preload/format/gpu_records.h"
#include "preload/gpu/activity_buffers.h"
#include "preload/gpu/gpu_state.h"
#include "preload/gpu/gpu_time.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"

namespace dlhook::inline gpu {
namespace {

constexpr size_t kNameBytes = 96;
constexpr size_t kBusIdBytes = 32;

// CUdevice_attribute
enum DeviceAttribute : int {
  kClockKhz = 13,
  kMultiprocessors = 16,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kComputeMajor = 75,
  kComputeMinor = 76,
};

struct DeviceDriver : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*get)(int* device, int ordinal) = Find("cuDeviceGet");
  int (*name)(char* name, int bytes, int device) = Find("cuDeviceGetName");
  int (*attribute)(int* value, int attribute, int device) = Find("cuDeviceGetAttribute");
  int (*memory)(size_t* bytes, int device) = Find("cuDeviceTotalMem_v2");
  // The first: for an instance of a partitioned GPU its own.
  int (*uuid)(void* uuid, int device) = Find("cuDeviceGetUuid_v2", "cuDeviceGetUuid");
  int (*bus_id)(char* id, int bytes, int device) = Find("cuDeviceGetPCIBusId");
};

uint32_t AttributeOf(const DeviceDriver& driver, int device, DeviceAttribute attribute) {
  int value = 0;
  return driver.attribute(&value, attribute, device) == 0 && value > 0 ? static_cast<uint32_t>(value) : 0;
}

// Superchips have a link of their own to their processor, which PCI does not describe: 450 GB/s in one direction, by NVIDIA.
bool IsSuperchip(const char* name) {
  return strstr(name, "GH200") != nullptr || strstr(name, "GB200") != nullptr || strstr(name, "GB300") != nullptr;
}

void AskLink(const char* bus_id, const char* name, GpuDeviceRecord* device) {
  constexpr uint64_t kSuperchipBytesPerSecond = 450'000'000'000;
  if (IsSuperchip(name)) {
    device->link_bytes_per_second = kSuperchipBytesPerSecond;
    return;
  }
  char folder[128], lower[kBusIdBytes] = "";
  for (size_t i = 0; bus_id[i] != '\0' && i + 1 < sizeof lower; ++i) lower[i] = static_cast<char>(tolower(bus_id[i]));
  snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", lower);
  PciLink link = SlowestLink(folder);
  device->link_generation = link.generation;
  device->link_width = link.width;
  device->link_bytes_per_second = link.bytes_per_second;
}

void AskDriver(const DeviceDriver& driver, uint32_t ordinal, GpuDeviceRecord* device, char (&name)[kNameBytes]) {
  int handle = 0;
  if (driver.get == nullptr || driver.attribute == nullptr) return;
  if (driver.get(&handle, static_cast<int>(ordinal)) != 0) return;
  device->multiprocessors = AttributeOf(driver, handle, kMultiprocessors);
  device->clock_khz = AttributeOf(driver, handle, kClockKhz);
  device->compute_capability =
      AttributeOf(driver, handle, kComputeMajor) * 10 + AttributeOf(driver, handle, kComputeMinor);
  // Two transfers per clock.
  device->memory_bytes_per_second = uint64_t{AttributeOf(driver, handle, kMemoryClockKhz)} * 1000 * 2 *
                                    AttributeOf(driver, handle, kMemoryBusBits) / 8;
  size_t bytes = 0;
  if (driver.memory != nullptr && driver.memory(&bytes, handle) == 0) device->memory_bytes = bytes;
  if (driver.uuid != nullptr && driver.uuid(device->uuid, handle) != 0) memset(device->uuid, 0, sizeof device->uuid);
  if (driver.name == nullptr || driver.name(name, sizeof name, handle) != 0) name[0] = '\0';
  if (strstr(name, " MIG ") != nullptr) device->is_partition = 1;
  char bus_id[kBusIdBytes] = "";
  if (driver.bus_id != nullptr && driver.bus_id(bus_id, sizeof bus_id, handle) == 0) AskLink(bus_id, name, device);
}

// CUPTI's information takes precedence over the driver's.
void Tell(ThreadState* own, uint32_t ordinal, const cupti::DeviceRecord* record, uint32_t cupti_version) {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state == nullptr || ordinal >= 64) return;
  uint64_t bit = uint64_t{1} << ordinal;
  if ((state->known_devices.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  ErrnoKeeper keeper;
  char name[kNameBytes] = "";
  GpuDeviceRecord device = {};
  device.header = {sizeof device / 8, RecordType::kGpuDevice, 0, 0, 0, 0};
  device.ordinal = ordinal;
  // Closed after its functions were used, because the program may close it meanwhile. Null: the process has no driver.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const DeviceDriver driver = library == nullptr ? DeviceDriver() : DeviceDriver({&RealDlsym, library});
  AskDriver(driver, ordinal, &device, name);
  if (library != nullptr) RealDlclose(library);
  if (record != nullptr) ReadDevice(*record, cupti_version, &device);
  device.name_bytes = static_cast<uint32_t>(strnlen(name, sizeof name));
  WriteGpuRecord(own, &device.header, false, name, device.name_bytes);
}

}  // namespace

void NoteGpuDevice(ThreadState* own, uint32_t ordinal) { Tell(own, ordinal, nullptr, 0); }

void NoteCuptiDevice(ThreadState* own, const cupti::DeviceRecord& record, uint32_t cupti_version) {
  if (cupti_version >= cupti::kVersionGraphIds && record.is_visible == 0) return;
  Tell(own, record.id, &record, cupti_version);
}

}  // namespace dlhook::inline gpu
