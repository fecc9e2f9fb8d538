// To add a variable: a line here, one in README.md, and its reader in preload/runtime/config.cc.
#include "analyzer/cli/variables.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline cli {

const std::vector<Variable>& Variables() {
  static const auto& kVariables = *new std::vector<Variable>{
      {"DLHOOK_OUT", "a folder", "dlhook-KEY in the working directory",
       "where the run lies; all processes of one launch share it"},
      {"DLHOOK_CAPTURE",
       "comma list of the families below, all, none; a list that begins with -NAME starts from the default",
       "all but those marked", "what is recorded"},
      {"DLHOOK_START", "on, off", "on", "off: record nothing until dlhook ctl start RUN"},
      {"DLHOOK_MAX_BYTES", "bytes", "no bound",
       "a process trace that large goes on with totals per operation instead of single calls"},
      {"DLHOOK_SCOPES", "on, light, off", "on",
       "the frameworks' own ops and layers (PyTorch, TensorFlow, NVTX); light: of PyTorch the first 20 steps, then two "
       "of "
       "every sixteen"},
      {"DLHOOK_PYTHON", "on, scopes, off", "on",
       "Python lines and module names: at ops of frameworks and at other calls, at ops only, nowhere"},
      {"DLHOOK_STACKS", "off, native, all", "off",
       "native stacks of calls; all: with the Python lines that belong among them"},
      {"DLHOOK_STACKS_FAMILIES", "as DLHOOK_CAPTURE", "all", "calls of which families get a native stack"},
      {"DLHOOK_STACKS_MIN_US", "microseconds", "0", "calls that are shorter get no native stack"},
      {"DLHOOK_COUNTERS", "comma list of counters and sets (dlhook counters lists them)", "none",
       "what else is counted: page faults, CPU time, instructions and others"},
      {"DLHOOK_COUNTERS_AT", "time, scope, call", "scope",
       "where counters are read: at the interval only; also where a framework's ops begin and end; also around every "
       "call"},
      {"DLHOOK_COUNTERS_MS", "milliseconds", "10", "interval of the readings of every thread; 0: none"},
      {"DLHOOK_GPU", "auto, cupti, events, off", "auto",
       "times of GPUs: from CUPTI where it can be had, else from pairs of events; from one of them alone; none"},
      {"DLHOOK_GPU_BUFFERS_MIB", "MiB", "32", "room of all of CUPTI's buffers together; what finds none is counted"},
      {"DLHOOK_GPU_QUEUE", "on, off", "off",
       "also when each kernel was queued and submitted (CUPTI's latency timestamps)"},
      {"DLHOOK_ONEDNN", "auto, off, force", "auto",
       "the oneDNN tap: only in libraries known to stand it, never, in every one"},
      {"DLHOOK_ONEDNN_LEVEL", "1, 2", "1", "executions; also creations of primitives, with cache hits"},
      {"DLHOOK_CLOCK", "tsc, monotonic", "tsc where it is invariant", "the clock"},
      {"DLHOOK_RING_KIB", "KiB", "15360",
       "room of all rings together; each of the first eight threads gets 1/15, later ones less"},
      {"DLHOOK_GROWTH_KIB", "KiB", "65536",
       "what rings may grow by while calls come faster than they are written, at most an eighth of what /dev/shm has "
       "free; a quarter "
       "of it is for totals; 0: nothing"},
      {"DLHOOK_ON_FULL", "aggregate, drop, wait", "aggregate",
       "a call that still finds no room: it is kept in totals per op and thread, it is dropped and counted, its thread "
       "waits"},
      {"DLHOOK_DRAIN", "auto, collector, none", "auto",
       "who takes records out of the rings: a thread in the process, another process (set by dlhook run), nobody "
       "before "
       "the run is opened"},
      {"DLHOOK_CACHE", "a folder, off", "dlhook in $XDG_CACHE_HOME or ~/.cache",
       "where reports keep the names of native frames that they have looked up"},
      {"DLHOOK_VERBOSE", "1", "off", "one line on stderr"},
  };
  return kVariables;
}

std::string FamiliesSentence() {
  std::vector<absl::string_view> standard, others;
  for (int i = 0; i < kFamilyCount; ++i) {
    ((kDefaultFamilies >> i & 1) != 0 ? standard : others).push_back(kFamilyNames[i]);
  }
  return absl::StrCat("Families: ", absl::StrJoin(standard, ", "),
                      "; off unless asked for: ", absl::StrJoin(others, ", "), ".");
}

}  // namespace dlhook::analyzer::cli
