#include <link.h>

#include "preload/format/hook_table.h"
#include "preload/hook_arguments.h"
#include "preload/link/dlsym.h"
#include "preload/link/library_api.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline link {
namespace {

constexpr uint64_t kPerThreadStream =
    2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, cudaEnablePerThreadDefaultStream

struct RuntimeApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*version)(int* version) = Find("cudaRuntimeGetVersion");
};

// For a version newer than the table the driver may return a variant with another argument list. It is the table's if
// the loader finds it under that name, or if the driver returns the same function for the newest version that the table
// knows.
bool IsOfTable(const DriverEntryArgs& args, int hook) {
  if (LibraryFunction(*args.out, kHookNames[hook].name) == *args.out) return true;
  using GetProcAddress = int (*)(const char* symbol, void** out, int version, uint64_t flags, int* found);
  auto get = reinterpret_cast<GetProcAddress>(LibraryFunction(*args.out, "cuGetProcAddress_v2"));
  void* known = nullptr;
  int found = 0;
  return get != nullptr && get(args.symbol, &known, kNewestDriverVersion, args.flags, &found) == 0 &&
         known == *args.out;
}

}  // namespace

void* FindInObject(const char* name, const char* version, const link_map* object) {
  if (object == nullptr || object->l_name == nullptr || object->l_name[0] == '\0') return nullptr;
  void* handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = version == nullptr ? RealDlsym(handle, name) : RealDlvsym(handle, name, version);
  RealDlclose(handle);
  return found;
}

void* LibraryFunction(const void* real, const char* name) {
  ErrnoKeeper keeper;
  return FindInObject(name, nullptr, ObjectOf(real));
}

uint32_t CudaRuntimeVersion(const void* real) {
  int version = 0;
  bool known = Query(ApiOf<RuntimeApi>(real).version, &version) && version > 0;
  return known ? static_cast<uint32_t>(version) : 0;
}

int FindDriverVariant(const char* name, uint32_t version, bool per_thread_stream) {
  int found = -1;
  for (int i = 0; i < kDriverVariantCount; ++i) {
    const DriverVariant& variant = kDriverVariants[i];
    int order = strcmp(variant.name, name);
    if (order > 0) break;
    if (order < 0 || variant.since > version) continue;
    // The legacy kind comes first; the per-thread one, if any, replaces it.
    if (variant.per_thread_stream != 0 && !per_thread_stream) continue;
    found = variant.hook;
  }
  return found;
}

bool IsVendorObject(const link_map* object) {
  static const char* const kPrefixes[] = {"libcudart.so", "libcuda.so", "libcupti.so", "libcudnn",
                                          "libnvidia-",   "libnvperf",  "libcublas",   "libcheckpoint.so"};
  const char* name = ObjectName(object);
  for (const char* prefix : kPrefixes) {
    if (strncmp(name, prefix, strlen(prefix)) == 0) return true;
  }
  return false;
}

void TrackDriverEntry(const DriverEntryArgs& args) {
  if (args.status != 0 || args.symbol == nullptr || args.out == nullptr || *args.out == nullptr) return;
  const link_map* caller = ObjectOf(args.caller);
  const char* name = ObjectName(caller);
  bool seen_already = strncmp(name, "libcudart.so", 12) == 0 || strncmp(name, "libcupti.so", 11) == 0 ||
                      strncmp(name, "libcuda.so", 10) == 0;
  if (seen_already) return;
  uint32_t version = args.version > 0 ? static_cast<uint32_t>(args.version) : CudaRuntimeVersion(args.real);
  int hook = FindDriverVariant(args.symbol, version, (args.flags & kPerThreadStream) != 0);
  if (hook < 0) return;
  if (version > kNewestDriverVersion && !IsOfTable(args, hook)) return CountPlainPointer();
  *args.out = HookFor(static_cast<HookId>(hook), *args.out, caller);
}

}  // namespace dlhook::inline link
