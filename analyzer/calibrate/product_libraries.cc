// Found without running anything: a Python's packages are next to its interpreter, in environments as in installations.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
  std::sort(entries.begin(), entries.end());
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

}  // namespace

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

}  // namespace dlhook::analyzer::calibrate
