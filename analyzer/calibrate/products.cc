// Each library is tested briefly with all processors; then the fastest of each type is measured. Functions are those of
// the shim's tables (preload/api/blas.api, onednn.api).
#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "analyzer/calibrate/measuring.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSonames[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libblis.so.4", "libblas.so.3",
                                    "libdnnl.so.3",     "libdnnl.so.2",   "libdnnl.so.1"};

std::string PythonInPath() {
  const char* path = getenv("PATH");
  std::error_code error;
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    const std::string python = absl::StrCat(folder, "/python3");
    if (fs::exists(python, error)) return python;
  }
  return "";
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  absl::c_sort(entries);
  return entries;
}

void AddPackages(const fs::path& packages, std::vector<std::string>* libraries) {
  std::error_code error;
  const fs::path torch = packages / "torch/lib/libtorch_cpu.so";
  if (fs::exists(torch, error)) libraries->push_back(torch.string());
  for (const fs::path& library : EntriesOf(packages / "numpy.libs")) {
    if (absl::StrContains(library.filename().string(), "openblas")) libraries->push_back(library.string());
  }
}

constexpr double kTrialSeconds = 0.06;
constexpr double kProductSeconds = 0.35;
constexpr double kCallSeconds = 0.02;  // of a call: well above the start of threads, well below a time slice
constexpr double kSearchSeconds = 9;   // for trials of all libraries
constexpr int kProductChildSeconds = 10;
constexpr int64_t kSmallest = 192, kLargest = 6144;

enum class Abi : uint8_t { kFortran, kFortranInt8, kOneDnn, kOneDnnInt8 };

struct Function {
  absl::string_view type;
  const char* symbol;
  Abi abi;
  size_t element_bytes;
};

constexpr Function kFunctions[] = {{"f32", "sgemm_", Abi::kFortran, 4},
                                   {"f32", "scipy_sgemm_64_", Abi::kFortran, 4},
                                   {"f32", "sgemm_64_", Abi::kFortran, 4},
                                   {"f32", "dnnl_sgemm", Abi::kOneDnn, 4},
                                   {"f64", "dgemm_", Abi::kFortran, 8},
                                   {"f64", "scipy_dgemm_64_", Abi::kFortran, 8},
                                   {"f64", "dgemm_64_", Abi::kFortran, 8},
                                   {"bf16", "gemm_bf16bf16f32_", Abi::kFortran, 2},
                                   {"bf16", "sbgemm_", Abi::kFortran, 2},
                                   {"bf16", "dnnl_gemm_bf16bf16f32", Abi::kOneDnn, 2},
                                   {"int8", "gemm_s8u8s32_", Abi::kFortranInt8, 1},
                                   {"int8", "dnnl_gemm_u8s8s32", Abi::kOneDnnInt8, 1}};

// Operands of products of up to kLargest rows and columns. Sums stay small: no type overflows.
class Operands {
 public:
  Operands(const Function& function, int64_t n) : c_(static_cast<size_t>(n * n) * 8) {
    const size_t bytes = static_cast<size_t>(n * n) * function.element_bytes;
    a_.resize(bytes);
    for (size_t i = 0; i < bytes; i += function.element_bytes) Put(function, i % 3 == 0 ? 1 : 0, &a_[i]);
    b_ = a_;
  }
  void* a() { return a_.data(); }
  void* b() { return b_.data(); }
  void* c() { return c_.data(); }

 private:
  static void Put(const Function& function, int value, uint8_t* at) {
    const auto single = static_cast<float>(value);
    const double whole = value;
    if (function.element_bytes == 8) memcpy(at, &whole, 8);
    if (function.element_bytes == 4) memcpy(at, &single, 4);
    if (function.element_bytes == 2) memcpy(at, reinterpret_cast<const uint8_t*>(&single) + 2, 2);  // bf16
    if (function.element_bytes == 1) *at = static_cast<uint8_t>(value);
  }

  std::vector<uint8_t> a_, b_, c_;
};

// C = A B, all n x n. False: the library refuses. Integers are passed as pointers to 64 bits, of which functions with
// 32-bit integers read the lower half.
bool Multiply(const Function& function, void* address, int64_t n, Operands* operands) {
  using Pointer = const void*;
  void *a = operands->a(), *b = operands->b(), *c = operands->c();
  const float one = 1, zero = 0;
  const double one64 = 1, zero64 = 0;
  const int32_t offset = 0;
  const char plain = 'N', fixed = 'F';
  switch (function.abi) {
    case Abi::kFortran: {
      const bool is_double = function.element_bytes == 8;
      const Pointer alpha = is_double ? static_cast<Pointer>(&one64) : &one;
      const Pointer beta = is_double ? static_cast<Pointer>(&zero64) : &zero;
      reinterpret_cast<void (*)(Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer,
                                Pointer, Pointer, void*, Pointer, size_t, size_t)>(address)(
          &plain, &plain, &n, &n, &n, alpha, a, &n, b, &n, beta, c, &n, 1, 1);
      return true;
    }
    case Abi::kFortranInt8:
      reinterpret_cast<void (*)(Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer,
                                Pointer, Pointer, Pointer, Pointer, Pointer, void*, Pointer, Pointer)>(address)(
          &plain, &plain, &fixed, &n, &n, &n, &one, a, &n, &offset, b, &n, &offset, &zero, c, &n, &offset);
      return true;
    case Abi::kOneDnn:
      return reinterpret_cast<int (*)(char, char, int64_t, int64_t, int64_t, float, Pointer, int64_t, Pointer, int64_t,
                                      float, void*, int64_t)>(address)('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n) == 0;
    case Abi::kOneDnnInt8:
      return reinterpret_cast<int (*)(char, char, char, int64_t, int64_t, int64_t, float, Pointer, int64_t, uint8_t,
                                      Pointer, int64_t, int8_t, float, void*, int64_t, Pointer)>(address)(
                 'N', 'N', 'F', n, n, n, 1, a, n, 0, b, n, 0, 0, c, n, &offset) == 0;
  }
  return false;
}

double FlopsOf(int64_t n) { return 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

// Rows of a product that takes about kCallSeconds at this rate.
int64_t SizeFor(double flops_per_second) {
  const auto n = static_cast<int64_t>(std::cbrt(flops_per_second * kCallSeconds / 2)) / 64 * 64;
  return std::clamp(n, kSmallest, kLargest);
}

struct Timed {
  Spread rates;  // GFLOP/s
  int64_t n = 0;
};

// The size is increased according to the rate of smaller products.
std::optional<Timed> TimeProducts(const Function& function, void* address, double seconds) {
  int64_t n = kSmallest;
  for (int round = 0; round < 3; ++round) {
    Operands operands(function, n);
    if (!Multiply(function, address, n, &operands)) return std::nullopt;  // starts threads, compiles code
    const Clock::time_point start = Clock::now();
    Multiply(function, address, n, &operands);
    const int64_t next = SizeFor(FlopsOf(n) / SecondsSince(start));
    if (next <= n) break;
    n = next;
  }
  Operands operands(function, n);
  Multiply(function, address, n, &operands);
  return Timed{RateOf(FlopsOf(n), seconds, [&] { Multiply(function, address, n, &operands); }), n};
}

struct Library {
  void* handle = nullptr;
  std::string path;
};

Library Open(const std::string& name) {
  Library library = {dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL), name};
  link_map* map = nullptr;
  if (library.handle != nullptr && dlinfo(library.handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    library.path = map->l_name;
  }
  return library;
}

const Function* FunctionOf(const Library& library, absl::string_view type) {
  for (const Function& function : kFunctions) {
    if (function.type == type && dlsym(library.handle, function.symbol) != nullptr) return &function;
  }
  return nullptr;
}

void MeasureType(const Library& library, absl::string_view type, uint32_t threads, double seconds,
                 Calibration* results) {
  const Function* function = FunctionOf(library, type);
  if (function == nullptr) return;
  const std::optional<Timed> timed = TimeProducts(*function, dlsym(library.handle, function->symbol), seconds);
  if (!timed) return;
  const std::string method =
      absl::StrFormat("%s of %s, %dx%dx%d", function->symbol, library.path, timed->n, timed->n, timed->n);
  results->measured.push_back({timed->rates, std::string(type), threads, "GFLOP/s", method});
}

// The cost of a call that computes almost nothing.
void MeasureCall(const Library& library, Calibration* results) {
  constexpr int kCalls = 200;
  const Function* function = FunctionOf(library, "f32");
  if (function == nullptr) return;
  void* address = dlsym(library.handle, function->symbol);
  Operands operands(*function, 1);
  const auto calls = [&] {
    for (int i = 0; i < kCalls; ++i) Multiply(*function, address, 1, &operands);
  };
  calls();
  results->measured.push_back({TimeOfEach(kCalls, 0.05, calls), kCallCost, 1, "ns",
                               absl::StrCat(function->symbol, " of ", library.path, ", 1x1x1")});
}

// The fastest library of each type in a short trial.
struct Fastest {
  double rate = 0;
  std::string library;
};
using FastestMap = std::map<absl::string_view, Fastest>;

Calibration TryLibrary(const std::vector<int>& processors, const std::string& name, bool is_asked) {
  return MeasureInChild(processors, kProductChildSeconds, name, [&] {
    Calibration results;
    const Library library = Open(name);
    if (library.handle == nullptr) {
      const char* reason = dlerror();
      if (is_asked) results.not_measured.push_back({name, reason == nullptr ? "it can't be loaded" : reason});
      return results;
    }
    for (const absl::string_view type : kProductTypes) MeasureType(library, type, 0, kTrialSeconds, &results);
    if (is_asked && results.measured.empty())
      results.not_measured.push_back({name, "it exports no product that dlhook knows"});
    return results;
  });
}

FastestMap TryLibraries(const std::vector<int>& processors, const std::vector<std::string>& libraries, bool is_asked,
                        Calibration* results) {
  FastestMap fastest;
  const Clock::time_point start = Clock::now();
  for (const std::string& name : libraries) {
    if (SecondsSince(start) > kSearchSeconds) {
      results->not_measured.push_back({name, "no time was left to try it: --library tries it alone"});
      continue;
    }
    Calibration trial = TryLibrary(processors, name, is_asked);
    for (const Measurement& one : trial.measured) {
      const auto type = absl::c_find(kProductTypes, one.what);
      if (type == std::end(kProductTypes)) continue;
      Fastest& best = fastest[*type];
      if (one.best > best.rate) best = {one.best, name};
    }
    trial.measured.clear();
    results->Add(std::move(trial));
  }
  return fastest;
}

}  // namespace

// Found without running anything: a Python's packages are next to its interpreter, in environments as in installations.
std::vector<std::string> ProductLibraries(const std::string& python) {
  std::vector<std::string> libraries(std::begin(kSonames), std::end(kSonames));
  const fs::path interpreter = python.empty() ? PythonInPath() : python;
  if (interpreter.empty()) return libraries;
  const fs::path lib = interpreter.parent_path().parent_path() / "lib";
  for (const fs::path& entry : EntriesOf(lib)) {
    const std::string name = entry.filename().string();
    if (absl::StartsWith(name, "python3")) AddPackages(entry / "site-packages", &libraries);
    if (absl::StartsWith(name, "libmkl_rt.so.")) libraries.push_back(entry.string());  // a conda environment's
  }
  return libraries;
}

Calibration MeasureProducts(const std::vector<int>& processors, const std::vector<std::string>& libraries,
                            bool is_asked) {
  Calibration results;
  const FastestMap fastest = TryLibraries(processors, libraries, is_asked, &results);
  for (const absl::string_view type : kProductTypes) {
    if (!fastest.contains(type)) {
      results.not_measured.push_back({std::string(type), "no library was found that multiplies such matrices here"});
    }
  }
  for (const std::vector<int>& threads : OneAndAll(processors)) {
    std::set<std::string> names;
    for (const auto& [type, best] : fastest) names.insert(best.library);
    for (const std::string& name : names) {
      results.Add(MeasureInChild(threads, kProductChildSeconds, name, [&] {
        Calibration found;
        const Library library = Open(name);
        if (library.handle == nullptr) return found;
        for (const auto& [type, best] : fastest) {
          if (best.library == name)
            MeasureType(library, type, static_cast<uint32_t>(threads.size()), kProductSeconds, &found);
        }
        const auto f32 = fastest.find("f32");
        if (threads.size() == 1 && f32 != fastest.end() && f32->second.library == name) MeasureCall(library, &found);
        return found;
      }));
    }
  }
  return results;
}

}  // namespace dlhook::analyzer::calibrate
