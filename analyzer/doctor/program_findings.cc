// One function per kind of problem. Only reads what was collected.
#include <sys/wait.h>

#include "analyzer/doctor/program_report.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/process_info.h"
#include "analyzer/tables/tables.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline doctor {
namespace {

using Findings = std::vector<Finding>;

// "sgemm_, dgemm_, dgemv_ and 4 more"
std::string Names(const std::set<std::string>& names) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown(names.begin(), std::next(names.begin(), std::min(kShown, names.size())));
  const std::string text = absl::StrJoin(shown, ", ");
  return names.size() <= kShown ? text : absl::StrCat(text, " and ", names.size() - kShown, " more");
}

// The same finding for several processes is reported once.
void AddOnce(Finding finding, Findings* findings) {
  const bool is_known = std::any_of(findings->begin(), findings->end(), [&finding](const Finding& known) {
    return known.id == finding.id && known.subject == finding.subject && known.text == finding.text;
  });
  if (!is_known) findings->push_back(std::move(finding));
}

bool IsPreloaded(const std::string& path, const ProcessLook& look) {
  for (absl::string_view entry : absl::StrSplit(look.preload, absl::ByAnyChar(": "), absl::SkipEmpty())) {
    if (BaseName(entry) == BaseName(path)) return true;
  }
  return false;
}

bool HasTwoNamespaces(const ProcessLook& look) {
  return absl::c_count_if(look.objects, [](const LoadedObject& object) {
           return absl::StartsWith(object.image.soname, "libc.so.");
         }) > 1;
}

bool IsHooked(const BoundSlot& slot) { return !FamilyOf(slot.name).empty(); }

// Names in `object` that bypass the shim, by the object whose definitions they are bound to.
std::map<const LoadedObject*, std::set<std::string>> PastShim(const LoadedObject& object, const ProcessLook& look) {
  std::map<const LoadedObject*, std::set<std::string>> past;
  for (const BoundSlot& slot : object.image.slots) {
    if (IsHooked(slot) && BindingOf(slot, object, look) == Binding::kPastShim) {
      past[look.ObjectAt(slot.value)].insert(slot.name);
    }
  }
  return past;
}

Finding DescribePast(const LoadedObject& object, const LoadedObject& target, const std::set<std::string>& names,
                     const ProcessLook& look) {
  Finding finding;
  finding.level = Level::kWarning;
  finding.subject = object.path;
  const std::string calls = absl::StrCat("calls ", Names(names), " in ", BaseName(target.path));
  if (IsPreloaded(target.path, look)) {
    finding.id = "other-preloader";
    finding.text =
        absl::StrCat(calls, ", bypassing dlhook: that is preloaded before it and has functions of the same names.");
    finding.advice = "Let dlhook come first in LD_PRELOAD: the other library still gets the calls, from dlhook.";
  } else if (target.image.is_executable) {
    finding.id = "executable-definition";
    finding.text = absl::StrCat(
        calls, ", bypassing dlhook: the program defines these functions itself, and the loader prefers them.");
    finding.advice =
        "Link the program without -rdynamic (--export-dynamic), or with the functions in a shared library.";
  } else if (HasTwoNamespaces(look)) {
    finding.id = "other-namespace";
    finding.text = absl::StrCat(
        calls, ", bypassing dlhook: it was opened by dlmopen into a namespace of its own, where nothing is preloaded.");
    finding.advice = "While profiling, have it opened by dlopen.";
  } else {
    finding.id = "deepbind";
    finding.text =
        absl::StrCat(calls, ", bypassing dlhook: it was opened with RTLD_DEEPBIND, so its own libraries come first.");
    finding.advice = "While profiling, open it without RTLD_DEEPBIND.";
  }
  return finding;
}

void AddPastBindings(const Trial& trial, Findings* findings) {
  for (const ProcessLook& look : trial.looks) {
    if (!look.shim.has_value()) continue;
    for (size_t i = 0; i < look.objects.size(); ++i) {
      if (i == *look.shim) continue;
      const LoadedObject& object = look.objects[i];
      for (const auto& [target, names] : PastShim(object, look)) {
        if (target != nullptr) AddOnce(DescribePast(object, *target, names, look), findings);
      }
    }
  }
}

// Preloaded with the same names, but after dlhook: calls go through both.
void AddOtherPreloaders(const Trial& trial, const ProgramReport& report, Findings* findings) {
  for (const ProcessLook& look : trial.looks) {
    for (size_t i = 0; look.shim.has_value() && i < look.objects.size(); ++i) {
      const LoadedObject& object = look.objects[i];
      if (i == *look.shim || !IsPreloaded(object.path, look)) continue;
      const auto library = absl::c_find_if(report.libraries,
                                           [&object](const LibraryReport& known) { return known.path == object.path; });
      if (library == report.libraries.end() || library->provides.empty()) continue;
      AddOnce({"preloader-chained", Level::kNote, object.path,
               absl::StrCat("is preloaded, too, and has ", Names(library->provides),
                            ": calls pass through dlhook and then through it; times include its own.")},
              findings);
    }
  }
}

void AddWeakReferences(const ProgramReport& report, Findings* findings) {
  for (const LibraryReport& library : report.libraries) {
    if (library.weak.empty()) continue;
    findings->push_back(
        {"weak-reference", Level::kWarning, library.path,
         absl::StrCat("refers weakly to ", Names(library.weak),
                      ", which nothing but dlhook defines: under dlhook it believes that the function exists."),
         "If it behaves differently under dlhook, provide the library, or profile without that feature."});
  }
}

// A BLAS library, whose calls of its own functions do not matter.
bool IsABlas(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(BaseName(path));
  return absl::StrContains(name, "blas") || absl::StrContains(name, "mkl") || absl::StrContains(name, "lapack") ||
         absl::StrContains(name, "blis");
}

// NVIDIA's libraries are all linked like that, and only calls from outside matter.
void AddSymbolic(const Trial& trial, Findings* findings) {
  for (const ProcessLook& look : trial.looks) {
    for (const LoadedObject& object : look.objects) {
      std::set<std::string> names;
      for (const ExportedSymbol& symbol : object.image.exports) {
        const bool is_blas = absl::StartsWith(FamilyOf(symbol.name), "blas");
        if (is_blas && (object.image.is_symbolic || symbol.is_protected)) names.insert(symbol.name);
      }
      if (names.empty()) continue;
      const bool is_a_blas = IsABlas(object.path);
      AddOnce({"symbolic", is_a_blas ? Level::kNote : Level::kWarning, object.path,
               absl::StrCat("defines ", Names(names),
                            object.image.is_symbolic ? " and is linked -Bsymbolic" : " as protected",
                            ": its own calls of them (from its LAPACK, say) cannot be observed; calls by others are."),
               is_a_blas ? "" : "While profiling, link it without -Bsymbolic and without protected symbols."},
              findings);
    }
  }
}

// It reads the settings of its log in a way that dlhook can't intercept.
bool IsDeaf(const std::string& path, const Trial& trial) {
  for (const ProcessLook& look : trial.looks) {
    for (const LoadedObject& object : look.objects) {
      if (object.path != path || !look.shim.has_value()) continue;
      const bool is_deaf = absl::c_any_of(object.image.slots, [&](const BoundSlot& slot) {
        return slot.name == "getenv" && BindingOf(slot, object, look) == Binding::kPastShim;
      });
      if (is_deaf) return true;
    }
  }
  return false;
}

Finding DescribeInside(const LibraryReport& library, const Trial& trial) {
  if (library.inside != "oneDNN") {
    return {
        "hidden-blas", Level::kWarning, library.path,
        absl::StrCat("has ", library.inside, " linked into it with hidden functions: its calls cannot be observed."),
        "Use a build that loads it as a shared library."};
  }
  if (IsDeaf(library.path, trial)) {
    return {"deaf-onednn", Level::kWarning, library.path,
            "has oneDNN and reads its settings bypassing dlhook: its log cannot be turned on.",
            "While profiling, open it without RTLD_DEEPBIND."};
  }
  return {"onednn-silent", Level::kNote, library.path,
          "has oneDNN, which logged nothing: it did not run in this trial, or was built without logging.",
          "Try a longer part of the program."};
}

void AddInside(const ProgramReport& report, const Trial& trial, Findings* findings) {
  for (const LibraryReport& library : report.libraries) {
    if (!library.inside.empty() && library.taps.empty()) findings->push_back(DescribeInside(library, trial));
  }
}

void AddCapabilities(const TraceModel& model, Findings* findings) {
  for (const ProcessInfo& process : model.processes) {
    for (const Capability& capability : process.capabilities) {
      if (capability.state == CapabilityState::kOn) {
        if (capability.name == "gpu-time") {
          AddOnce({"gpu-time", Level::kOk, capability.object,
                   absl::StrCat(capability.object.empty() ? "" : "tells ", "times of GPUs: ", capability.reason, ".")},
                  findings);
        } else if (absl::StrContains(capability.reason, kNotTriedWith)) {
          AddOnce({absl::StrCat(capability.name, "-not-tried"), Level::kNote, capability.object,
                   absl::StrCat(capability.name, " works as far as its checks tell: ", capability.reason, ".")},
                  findings);
        }
        continue;
      }
      const std::string state = EnumName(capability.state);
      // Counters that are missing for the same reason are one finding.
      if (IsOfCounters(capability)) {
        AddOnce(
            {absl::StrCat("counters-", state), Level::kNote, "",
             absl::StrCat("of DLHOOK_COUNTERS some are ", state, ": ", capability.reason, "."), AdviceFor(capability)},
            findings);
        continue;
      }
      AddOnce({absl::StrCat(capability.name, "-", state), IsMissing(capability) ? Level::kWarning : Level::kNote,
               capability.object, absl::StrCat(capability.name, " is ", state, ": ", capability.reason, "."),
               AdviceFor(capability)},
              findings);
    }
    for (const Loss& loss : process.losses) {
      const std::string reason = EnumName(loss.reason);
      const char* what = LossNoun(loss.reason, false);
      AddOnce({absl::StrCat("loss-", reason), Level::kWarning, process.file,
               absl::StrCat(loss.calls, " ", what, " were not recorded: ", reason, loss.detail.empty() ? "" : ", ",
                            loss.detail, "."),
               AdviceFor(loss)},
              findings);
    }
  }
}

// A process without the shim matters only if it has something that would have been hooked.
void AddUnreached(const Trial& trial, Findings* findings) {
  for (const ProcessLook& look : trial.looks) {
    if (look.shim.has_value()) continue;
    const bool matters = absl::c_any_of(look.objects, [](const LoadedObject& object) {
      const auto is_hooked = [](const auto& symbol) { return !FamilyOf(symbol.name).empty(); };
      return absl::c_any_of(object.image.exports, is_hooked) || absl::c_any_of(object.image.slots, is_hooked);
    });
    if (!matters) continue;
    const bool was_asked = !look.preload.empty();
    AddOnce(
        {was_asked ? "shim-not-loaded" : "environment-cleared", Level::kWarning, look.program,
         was_asked ? "was started with LD_PRELOAD, but the loader did not load dlhook into it."
                   : "was started without LD_PRELOAD: the process that started it cleared the environment.",
         was_asked
             ? "See what it says itself with LD_DEBUG=libs; a file with capabilities or another root hides LD_PRELOAD."
             : "Pass LD_PRELOAD and the DLHOOK_ variables on."},
        findings);
  }
  for (const Finding& obstacle : trial.obstacles) AddOnce(obstacle, findings);
}

// Math library calls, but nothing that reports layers.
void AddLayerNames(const Trial& trial, const ProgramReport& report, Findings* findings) {
  if (trial.model == nullptr || trial.model->scopes.size() > 0) return;
  const bool computes = absl::c_any_of(report.recorded, [](const auto& family) {
    return family.first == "blas" || family.first == "onednn" || family.first == "cublas" ||
           family.first == "cublaslt" || family.first == "cudnn";
  });
  if (!computes) return;
  findings->push_back({"no-layer-names", Level::kNote, "",
                       "no framework reports which layer a call belongs to: layers are inferred from the calls alone "
                       "and do not have the program's names.",
                       "In a C++ program with symbols, DLHOOK_STACKS=native names them by the functions above the "
                       "calls; for a Python program, report --by line shows the lines."});
}

void AddEnd(const Trial& trial, const ProgramReport& report, Findings* findings) {
  const int status = trial.wait_status;
  const bool failed = !trial.was_ended && status != 0;
  if (failed) {
    const std::string how = WIFSIGNALED(status) ? absl::StrCat("was ended by signal ", WTERMSIG(status))
                                                : absl::StrCat("ended with exit code ", WEXITSTATUS(status));
    findings->push_back({"program-failed", Level::kWarning, trial.words.front(),
                         absl::StrCat(how, ": what it would have loaded later is not known."),
                         "Make sure that it succeeds without dlhook, then try again."});
  }
  if (!trial.why_not_followed.empty()) {
    findings->push_back({"not-followed", Level::kWarning, trial.words.front(),
                         absl::StrCat("could not be followed to its end (", trial.why_not_followed,
                                      "): what was recorded is shown, but not what its libraries are bound to."),
                         "In a container allow ptrace (docker run --cap-add=SYS_PTRACE)."});
  }
  if (report.recorded.empty()) {
    findings->push_back({"no-calls", Level::kProblem, trial.words.front(), "made no call that dlhook sees.",
                         "Try a part of the program that computes; if it does compute, its math code is its own or "
                         "linked in a way described above."});
  }
}

}  // namespace

Binding BindingOf(const BoundSlot& slot, const LoadedObject& object, const ProcessLook& look) {
  const LoadedObject& shim = look.objects[*look.shim];
  if (shim.image.Contains(slot.value)) return Binding::kThroughShim;
  if (slot.definition != 0 && slot.value == slot.definition) return Binding::kPastShim;
  const LoadedObject* target = look.ObjectAt(slot.value);
  // Before the first call a slot refers to the object's own code that looks up the function.
  if (target == nullptr || target == &object) return Binding::kUnbound;
  return Binding::kPastShim;
}

bool IsDefinedBeside(const std::string& name, const ProcessLook& look, const LoadedObject& shim) {
  return absl::c_any_of(look.objects, [&](const LoadedObject& object) {
    if (&object == &shim) return false;
    const std::vector<ExportedSymbol>& exports = object.image.exports;
    return absl::c_any_of(exports, [&name](const ExportedSymbol& symbol) { return symbol.name == name; });
  });
}

std::vector<Finding> FindTroubles(const Trial& trial, const ProgramReport& report) {
  Findings findings;
  AddUnreached(trial, &findings);
  AddPastBindings(trial, &findings);
  AddOtherPreloaders(trial, report, &findings);
  AddWeakReferences(report, &findings);
  AddSymbolic(trial, &findings);
  AddInside(report, trial, &findings);
  if (trial.model != nullptr) AddCapabilities(*trial.model, &findings);
  AddCpuTimeFindings(report.cpu_time, &findings);
  AddLayerNames(trial, report, &findings);
  AddEnd(trial, report, &findings);
  absl::c_stable_sort(findings, [](const Finding& a, const Finding& b) {
    return static_cast<int>(a.level) > static_cast<int>(b.level);
  });
  return findings;
}

}  // namespace dlhook::analyzer::doctor
