// Numbers and names of the functions that CUPTI calls back for.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "cupti.h"

namespace cupti {
namespace {

struct Names {
  std::map<std::string, int> numbers[2];  // of the driver, of the runtime
  std::map<uint32_t, std::string> names[2];
  std::map<std::string, int> versions;

  // For the generation, including newer functions of its major version.
  void Runtime(const char* function, int version, int number) {
    names[1][static_cast<uint32_t>(number)] = std::string(function) + "_v" + std::to_string(version);
    if (version / 1000 > FAKE_CUDA_VERSION / 1000 || version < versions[function]) return;
    versions[function] = version;
    numbers[1][function] = number;
  }
  void Driver(const char* function, int number) {
    names[0][static_cast<uint32_t>(number)] = function;
    numbers[0][function] = number;
  }
  Names() {
#define RUNTIME(function, version, number) Runtime(#function, version, number);
#define DRIVER(function, number) Driver(#function, number);
#include "callback_ids.inc"
#undef RUNTIME
#undef DRIVER
  }
};

const Names& All() {
  static const auto* all = new Names;
  return *all;
}

}  // namespace

int CallbackId(bool runtime, const char* function) {
  const auto& numbers = All().numbers[runtime];
  const auto entry = numbers.find(function);
  return entry != numbers.end() ? entry->second : 0;
}

const char* CallbackName(int domain, uint32_t cbid) {
  if (domain != kDriverApi && domain != kRuntimeApi) return nullptr;
  const auto& names = All().names[domain == kRuntimeApi];
  const auto entry = names.find(cbid);
  return entry != names.end() ? entry->second.c_str() : nullptr;
}

}  // namespace cupti
