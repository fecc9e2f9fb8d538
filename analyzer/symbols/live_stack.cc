#include "analyzer/symbols/live_stack.h"

#include <cstdlib>

#include "analyzer/io/byte_source.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/io/wait_stacks.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/isolated.h"
#include "analyzer/symbols/resolve_object.h"

namespace dlhook::analyzer::inline symbols {
namespace {

constexpr int kSeconds = 20;
constexpr size_t kMostFrames = 64;
constexpr char kCut[] = "…";

// Offsets in files and their symbols, by the paths that the process has mapped.
using Symbols = std::map<std::string, std::map<uint64_t, SymbolFrames>>;

// Of what is in the files themselves and in debug files beside them: the network is not asked.
void Resolve(uint32_t pid, Symbols* symbols) {
  unsetenv("DEBUGINFOD_URLS");
  for (auto& [path, at] : *symbols) {
    ObjectRequest request = {.path = absl::StrCat("/proc/", pid, "/root", path), .build_id = "", .offsets = {}};
    for (const auto& [offset, frames] : at) request.offsets.push_back(offset);
    ObjectAnswer answer = ResolveObject(request, {.cache_folder = "", .use_debug_info = false});
    for (int i = 0; i < answer.frames_size(); ++i) at[request.offsets[i]] = std::move(*answer.mutable_frames(i));
  }
}

// Empty: it is left out.
std::string NameOf(const std::string& path, const SymbolFrames& frames) {
  const absl::string_view file = BaseName(path);
  const std::string symbol = frames.frame().empty() ? "" : frames.frame().rbegin()->function();
  if (absl::StartsWith(file, "python") || absl::StartsWith(file, "libpython")) return "[Python]";
  if (!symbol.empty()) return FoldFunction(absl::StripPrefix(symbol, "dlhook_body_"));  // preload/base/entry.h
  const bool is_wrapper = file == "libdlhook.so";                                       // stripped
  const bool is_start = absl::StartsWith(file, "libc.");                                // it has no name there
  return is_wrapper || is_start ? "" : absl::StrCat("[", file.empty() ? "?" : file, "]");
}

struct CodePlace {
  std::string path;  // empty: in no file
  uint64_t offset;
};

// In a child process: reads other programs' files.
std::string NamesOf(uint32_t pid, const std::vector<CodePlace>& places, bool is_whole) {
  Symbols symbols;
  for (const CodePlace& place : places) {
    if (!place.path.empty()) symbols[place.path][place.offset];
  }
  Resolve(pid, &symbols);
  std::vector<std::string> names;
  for (const CodePlace& place : places) {
    std::string name = NameOf(place.path, symbols[place.path][place.offset]);
    const bool repeats = !names.empty() && name == names.back();
    if (name.empty() || repeats || IsPlumbing(name)) continue;
    if (names.size() == kMostFrames) {
      is_whole = false;
      break;
    }
    names.push_back(std::move(name));
  }
  if (!is_whole && !names.empty()) names.push_back(kCut);
  return absl::StrJoin(names, "\n");
}

}  // namespace

std::string SystemCallOf(uint32_t pid, uint32_t tid) {
  const std::string line = ReadSmallFile(absl::StrCat("/proc/", pid, "/task/", tid, "/syscall"));
  return absl::StartsWith(line, "running") ? "" : line;
}

std::vector<std::string> LiveStack(uint32_t pid, const std::string& system_call) {
  OutsideCode code(static_cast<pid_t>(pid));
  const std::optional<OutsideFrames> frames =
      StackInSystemCall(system_call, ProcessMemory(static_cast<pid_t>(pid)), &code);
  if (!frames) return {};
  std::vector<CodePlace> places;
  const auto add = [&](uint64_t pc) {
    const OutsideCode::Object* const object = code.Find(pc);
    places.push_back(object == nullptr ? CodePlace{"", 0} : CodePlace{object->path, pc - object->start});
  };
  add(frames->address);
  for (const OutsideFrames::Frame& frame : frames->outer) add(frame.is_interrupted ? frame.address : frame.address - 1);
  const std::vector<IsolatedResult> results =
      RunIsolated(1, kSeconds, [&](size_t) { return NamesOf(pid, places, frames->cut == StackCut::kWhole); });
  return absl::StrSplit(results.front().bytes, '\n', absl::SkipEmpty());
}

}  // namespace dlhook::analyzer::symbols
