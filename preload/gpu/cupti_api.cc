// See cupti_api.h. Takes the loader's lock, so must not be called with a lock that a thread inside the loader could
// want.
#include "preload/gpu/cupti_api.h"

#include <stdlib.h>

#include <initializer_list>
#include <string_view>

#include "preload/base/loaded_objects.h"
#include "preload/format/folders.h"
#include "preload/link/resolver.h"

namespace dlhook::inline gpu {
namespace {

constinit CuptiApi g_api;
bool g_is_loaded;
int g_version_result;

// Loaded objects that show where CUPTI is, by file name prefix.
struct MappedLibraries {
  char cupti[512];
  char runtime[512];
  char math[512];  // a wheel's runtime may be linked statically: the location of its other libraries
};

void NoteLibrary(const char* path, MappedLibraries* found) {
  const std::string_view base = BaseName(path);
  char(*place)[512] = base.starts_with("libcupti.so")    ? &found->cupti
                      : base.starts_with("libcudart.so") ? &found->runtime
                      : base.starts_with("libcublas.so") ? &found->math
                      : base.starts_with("libcudnn.so")  ? &found->math
                                                         : nullptr;
  if (place != nullptr && (*place)[0] == '\0') snprintf(*place, sizeof *place, "%s", path);
}

void* OpenFile(const char* path) {
  if (access(path, R_OK) != 0) return nullptr;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// The library with this major version in a folder. Until 11 its name includes the minor version.
void* OpenIn(const char* folder, int major) {
  char path[1200];
  snprintf(path, sizeof path, "%s/libcupti.so.%d", folder, major);
  void* library = OpenFile(path);
  for (int minor = 8; library == nullptr && major < 12 && minor >= 0; --minor) {
    snprintf(path, sizeof path, "%s/libcupti.so.%d.%d", folder, major, minor);
    library = OpenFile(path);
  }
  return library;
}

// Next to another CUDA library: in its folder, in the wheels' folders, in a toolkit's.
void* OpenBeside(const char* neighbour, int major) {
  char folder[1100];
  const char* slash = strrchr(neighbour, '/');
  if (slash == nullptr) return nullptr;
  auto length = static_cast<int>(slash - neighbour);
  for (const char* relative :
       {"", "/../../cuda_cupti/lib", "/../../cu13/lib", "/../extras/CUPTI/lib64", "/../../../extras/CUPTI/lib64"}) {
    snprintf(folder, sizeof folder, "%.*s%s", length, neighbour, relative);
    void* library = OpenIn(folder, major);
    if (library != nullptr) return library;
  }
  return nullptr;
}

void* OpenInToolkit(int major) {
  char folder[1100];
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = getenv(variable);
    if (root == nullptr || root[0] != '/') continue;
    for (const char* relative : {"extras/CUPTI/lib64", "lib64"}) {
      snprintf(folder, sizeof folder, "%.500s/%s", root, relative);
      void* library = OpenIn(folder, major);
      if (library != nullptr) return library;
    }
  }
  return nullptr;
}

void* OpenByName(int major) {
  char name[32];
  snprintf(name, sizeof name, "libcupti.so.%d", major);
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

// "libcudart.so.12" -> 12; 0 if the name has no version.
int MajorOf(const char* path) {
  const char* suffix = strstr(BaseName(path), ".so.");
  return suffix == nullptr ? 0 : atoi(suffix + 4);
}

void* OpenLibrary() {
  MappedLibraries mapped = {};
  AnyLoadedObject([&](const dl_phdr_info& info) { return NoteLibrary(info.dlpi_name, &mapped), false; });
  if (mapped.cupti[0] != '\0') return dlopen(mapped.cupti, RTLD_NOW | RTLD_LOCAL);
  constexpr int kNewest = 13;
  constexpr int kOldest = 10;
  int known = MajorOf(mapped.runtime);
  // Linked statically: any version not newer than the driver works; CUPTI itself reports that.
  int newest = known != 0 ? known : kNewest;
  int oldest = known != 0 ? known : kOldest;
  for (int major = newest; major >= oldest; --major) {
    void* library = OpenBeside(mapped.runtime, major);
    if (library == nullptr) library = OpenBeside(mapped.math, major);
    if (library == nullptr) library = OpenInToolkit(major);
    if (library == nullptr) library = OpenByName(major);
    if (library != nullptr) return library;
  }
  return nullptr;
}

bool Load(const char** reason) {
  void* library = OpenLibrary();
  if (library == nullptr) {
    *reason = "no libcupti was found beside the CUDA libraries in use, in CUDA_HOME or where the loader looks";
    return false;
  }
  g_api = CuptiApi({&RealDlsym, library});
  if (!g_api.is_complete()) {
    *reason = "this libcupti lacks a function that dlhook needs";
    return false;
  }
  const link_map* object = ObjectOf(reinterpret_cast<const void*>(g_api.get_version));
  snprintf(g_api.library, sizeof g_api.library, "%s", ObjectName(object));
  g_version_result = g_api.get_version(&g_api.version);
  g_is_loaded = true;
  return true;
}

}  // namespace

const CuptiApi* LoadCupti(const char** reason) {
  static char told[200];
  if (!g_is_loaded && !Load(reason)) return nullptr;
  // From 13.3 on this fails without a matching driver; before, only the subscription does.
  if (g_version_result == cupti::kSuccess && g_api.version != 0) return &g_api;
  snprintf(told, sizeof told, "CUPTI can't start (cuptiGetVersion: %s): no driver, or one that does not suit it",
           CuptiResultText(g_api, g_version_result).text);
  *reason = told;
  return nullptr;
}

const CuptiApi* LoadedCupti() { return g_is_loaded ? &g_api : nullptr; }

CuptiResultText::CuptiResultText(const CuptiApi& api, int result) {
  const char* name = nullptr;
  if (api.get_result_string == nullptr || api.get_result_string(result, &name) != cupti::kSuccess) name = nullptr;
  snprintf(text, sizeof text, "%s %d", name == nullptr ? "error" : name, result);
}

}  // namespace dlhook::inline gpu
