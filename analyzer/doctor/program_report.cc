// Merges the looks at all processes with what was recorded. The findings are in program_findings.cc.
#include "analyzer/doctor/program_report.h"

#include <string.h>

#include "analyzer/io/byte_source.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr uint64_t kSmallestCarrier = 1 << 20;  // a file with a math library is never smaller

constexpr std::array<std::pair<absl::string_view, absl::string_view>, 3> kTexts = {{
    {"simple:any", "oneDNN"},     // in all releases, and not in programs that only read its log
    {"OpenBLAS 0.", "OpenBLAS"},  // openblas_get_config()
    {"MKL_VERBOSE", "MKL"},
}};
constexpr size_t kLongestText = 16;
constexpr size_t kStepBytes = 1 << 20;  // of the file at a time

// The first of the texts [0, end) that occurs in `bytes`; `end`: none.
size_t FirstTextIn(absl::string_view bytes, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    const absl::string_view text = kTexts[i].first;
    if (memmem(bytes.data(), bytes.size(), text.data(), text.size()) != nullptr) return i;
  }
  return end;
}

using Libraries = std::map<std::string, LibraryReport>;

void AddSlot(const BoundSlot& slot, const LoadedObject& object, const ProcessLook& look, LibraryReport* library) {
  const LoadedObject& shim = look.objects[*look.shim];
  library->calls.insert(slot.name);
  switch (BindingOf(slot, object, look)) {
    case Binding::kThroughShim:
      library->through.insert(slot.name);
      if (slot.is_weak && !IsDefinedBeside(slot.name, look, shim)) library->weak.insert(slot.name);
      break;
    case Binding::kUnbound:
      library->unbound.insert(slot.name);
      break;
    case Binding::kPastShim:
      library->past.insert(slot.name);
      break;
  }
}

void AddObject(const LoadedObject& object, const ProcessLook& look, Libraries* libraries) {
  LibraryReport library;
  for (const ExportedSymbol& symbol : object.image.exports) {
    if (FamilyOf(symbol.name).empty()) continue;
    library.provides.insert(symbol.name);
    library.families.insert(FamilyOf(symbol.name));
  }
  for (const BoundSlot& slot : object.image.slots) {
    if (FamilyOf(slot.name).empty()) continue;
    library.families.insert(FamilyOf(slot.name));
    AddSlot(slot, object, look, &library);
  }
  LibraryReport& known = (*libraries)[object.path];
  known.path = object.path;
  known.soname = object.image.soname;
  known.build_id = object.image.build_id;
  ++known.processes;
  known.families.merge(library.families);
  for (auto set : {&LibraryReport::provides, &LibraryReport::calls, &LibraryReport::through, &LibraryReport::past,
                   &LibraryReport::unbound, &LibraryReport::weak}) {
    (known.*set).merge(library.*set);
  }
}

// Paths of the objects in which hooked functions were called. The trace has the names passed to the loader, so an
// object is found by its address.
std::set<std::string> CalledLibraries(const Trial& trial) {
  std::set<std::string> called;
  for (const ProcessInfo& process : trial.model->processes) {
    for (const Mapping& mapping : process.mappings) {
      if (mapping.role != MappingRole::kLibrary) continue;
      for (const ProcessLook& look : trial.looks) {
        if (static_cast<uint32_t>(look.pid) != process.pid) continue;
        const LoadedObject* object = look.ObjectAt(mapping.start);
        if (object != nullptr) called.insert(object->path);
      }
    }
  }
  return called;
}

void AddRecorded(const Trial& trial, Libraries* libraries, ProgramReport* report) {
  const RunTotals totals = ComputeTotals(*trial.model);
  const std::set<std::string> called = CalledLibraries(trial);
  std::map<std::string, int64_t> calls_of;
  for (OpIndex op = 0; op < trial.model->ops.size(); ++op) {
    if (totals.ops[op].calls == 0) continue;
    report->recorded[trial.model->ops[op].family] += totals.ops[op].calls;
    calls_of[trial.model->ops[op].function] += totals.ops[op].calls;
  }
  if (trial.model->scopes.size() > 0) report->recorded["scopes"] = std::ssize(trial.model->scopes);
  report->recorded_ns = totals.thread_time_ns;
  for (const std::string& path : called) (*libraries)[path].recorded = 0;
  for (const auto& [function, calls] : calls_of) {
    std::vector<LibraryReport*> providers;
    for (const std::string& path : called) {
      LibraryReport& library = (*libraries)[path];
      if (library.provides.contains(function)) providers.push_back(&library);
    }
    for (LibraryReport* provider : providers) {
      const bool is_shared = providers.size() > 1 || !provider->recorded.has_value();
      provider->recorded = is_shared ? std::nullopt : std::optional<int64_t>(*provider->recorded + calls);
    }
  }
}

// The others were only sampled.
int ProcessesWithRecords(const TraceModel& model) {
  std::set<ProcessIndex> processes;
  for (const ThreadIndex thread : model.calls.thread) processes.insert(model.threads[thread].process);
  for (ScopeIndex i = 0; i < model.scopes.size(); ++i) processes.insert(model.threads[model.scopes.thread[i]].process);
  return static_cast<int>(processes.size());
}

// A capability has the base name of its object. An empty one applies to the process.
void AddTaps(const TraceModel& model, Libraries* libraries) {
  for (const ProcessInfo& process : model.processes) {
    for (const Capability& capability : process.capabilities) {
      for (auto& [path, library] : *libraries) {
        const std::string object = BaseName(capability.object);
        if (object.empty() || (BaseName(path) != object && library.soname != object)) continue;
        const SeenTap tap = {capability.name, EnumName(capability.state), capability.reason};
        const bool is_known = absl::c_any_of(
            library.taps, [&tap](const SeenTap& known) { return known.name == tap.name && known.state == tap.state; });
        if (!is_known) library.taps.push_back(tap);
      }
    }
  }
}

// The library inside this one that a tap reported.
std::string HeardInside(const LibraryReport& library) {
  for (const Tap* tap : kTaps) {
    const auto is_this = [tap](const SeenTap& seen) { return seen.name == tap->capability; };
    if (absl::c_any_of(library.taps, is_this) && *tap->library != '\0') return tap->library;
  }
  return "";
}

// The file is only examined if nothing better is known.
void LookInside(Libraries* libraries) {
  for (auto& [path, library] : *libraries) {
    library.inside = HeardInside(library);
    if (!library.inside.empty()) continue;
    library.inside = LibraryInside(path);
    // MKL's own parts; or a BLAS whose functions are exported and therefore hooked.
    const bool is_seen = !library.provides.empty() || absl::StartsWith(BaseName(path), "libmkl_");
    if (library.inside != "oneDNN" && is_seen) library.inside.clear();
  }
}

int Rank(const LibraryReport& library) {
  if (library.recorded.has_value() || !library.taps.empty()) return 0;
  if (!library.past.empty()) return 1;
  return library.provides.empty() ? 3 : 2;
}

}  // namespace

// Finds strings that a statically linked library leaves in the file that contains it.
std::string LibraryInside(const std::string& path) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok() || file->size() < kSmallestCarrier) return "";
  ByteChunk bytes(&*file, file->size());
  size_t found = kTexts.size();
  for (uint64_t offset = 0; offset < file->size(); offset += kStepBytes) {
    const absl::StatusOr<absl::string_view> part = bytes.At(offset, kStepBytes + kLongestText);
    if (!part.ok()) return "";
    found = FirstTextIn(*part, found);
  }
  return found == kTexts.size() ? "" : std::string(kTexts[found].second);
}

bool LibraryReport::IsTapped() const {
  return absl::c_any_of(taps, [](const SeenTap& tap) { return tap.state == "on"; });
}

std::string LibraryReport::State() const {
  const bool is_tapped = IsTapped();
  const bool is_hooked = recorded.has_value();
  if (is_hooked) return is_tapped ? "hooked and tapped" : "hooked";
  if (is_tapped) return "tapped";
  if (!past.empty()) return "not seen";
  return provides.empty() && !calls.empty() ? "caller" : "not called";
}

ProgramReport DescribeTrial(const Trial& trial) {
  ProgramReport report = {.words = trial.words};
  Libraries libraries;
  for (const ProcessLook& look : trial.looks) {
    ++report.processes_looked_into;
    if (!look.shim.has_value()) continue;
    for (size_t i = 0; i < look.objects.size(); ++i) {
      if (i != *look.shim) AddObject(look.objects[i], look, &libraries);
    }
  }
  if (trial.model != nullptr) {
    report.processes_recorded = ProcessesWithRecords(*trial.model);
    AddRecorded(trial, &libraries, &report);
    AddTaps(*trial.model, &libraries);
  }
  LookInside(&libraries);
  std::set<std::string> seen;
  for (const auto& [path, library] : libraries) {
    if (!library.IsSeen()) continue;
    seen.insert(path);
    if (library.inside == "oneDNN") seen.insert("");  // kernels that it generates at run time
  }
  report.cpu_time = DivideCpuTime(trial, seen, report.recorded_ns);
  for (auto& [path, library] : libraries) {
    const bool matters =
        !library.provides.empty() || !library.calls.empty() || !library.taps.empty() || !library.inside.empty();
    if (matters) report.libraries.push_back(std::move(library));
  }
  absl::c_stable_sort(report.libraries,
                      [](const LibraryReport& a, const LibraryReport& b) { return Rank(a) < Rank(b); });
  report.findings = FindTroubles(trial, report);
  return report;
}

}  // namespace dlhook::analyzer::doctor
