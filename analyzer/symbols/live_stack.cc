// See live_stack.h.
#include "analyzer/symbols/live_stack.h"

#include <elfutils/libdwfl.h>
#include <sys/uio.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/names/demangle.h"
#include "analyzer/names/fold_names.h"
#include "analyzer/symbols/isolated.h"

namespace dlhook::analyzer::inline symbols {
namespace {

constexpr int kSeconds = 20;
constexpr size_t kMostFrames = 64;
constexpr int kStackPointer = 7;  // DWARF's number on x86-64
constexpr char kCut[] = "…";

struct Sleeper {
  pid_t pid = 0, tid = 0;
  Dwarf_Word stack_pointer = 0, instruction = 0;
  std::vector<std::string> functions;
};

pid_t NextThread(Dwfl*, void* arg, void** thread_arg) {
  if (*thread_arg != nullptr) return 0;
  *thread_arg = arg;
  return static_cast<Sleeper*>(arg)->tid;
}

bool GetThread(Dwfl*, pid_t tid, void* arg, void** thread_arg) {
  *thread_arg = arg;
  return tid == static_cast<Sleeper*>(arg)->tid;
}

bool ReadMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* arg) {
  const iovec to = {word, sizeof *word}, from = {reinterpret_cast<void*>(address), sizeof *word};
  return process_vm_readv(static_cast<Sleeper*>(arg)->pid, &to, 1, &from, 1, 0) == ssize_t{sizeof *word};
}

bool SetRegisters(Dwfl_Thread* thread, void* arg) {
  const auto& sleeper = *static_cast<Sleeper*>(arg);
  dwfl_thread_state_register_pc(thread, sleeper.instruction);
  return dwfl_thread_state_registers(thread, kStackPointer, 1, &sleeper.stack_pointer);
}

int TakeFrame(Dwfl_Frame* frame, void* arg) {
  std::vector<std::string>* const functions = &static_cast<Sleeper*>(arg)->functions;
  Dwarf_Addr address = 0;
  bool is_exact = false;
  if (functions->size() >= kMostFrames || !dwfl_frame_pc(frame, &address, &is_exact)) return DWARF_CB_ABORT;
  if (!is_exact) --address;
  Dwfl_Module* const module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(frame)), address);
  const char* const path =
      module == nullptr ? nullptr
                        : dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  const std::string file =
      path == nullptr ? "" : std::string(absl::string_view(path).substr(absl::string_view(path).rfind('/') + 1));
  const char* const symbol = module == nullptr ? nullptr : dwfl_module_addrname(module, address);
  if (symbol == nullptr && file == "libdlhook.so") return DWARF_CB_OK;  // a wrapper, in a stripped library
  std::string function =
      absl::StartsWith(file, "python") || absl::StartsWith(file, "libpython") ? "[Python]"
      : symbol != nullptr
          ? FoldFunction(DemangleSymbol(absl::StripPrefix(symbol, "dlhook_body_")))  // preload/base/entry.h
          : absl::StrCat("[", file.empty() ? "?" : file, "]");
  const bool repeats = !functions->empty() && function == functions->back();
  const bool is_start = symbol == nullptr && absl::StartsWith(file, "libc.");  // it has no name there
  if (!repeats && !is_start && !IsPlumbing(function)) functions->push_back(std::move(function));
  return DWARF_CB_OK;
}

// In a child process: libdw reads other programs' files.
std::string Unwind(Sleeper sleeper) {
  static const Dwfl_Callbacks kFiles = {
      .find_elf = dwfl_linux_proc_find_elf,
      .find_debuginfo = [](auto...) { return -1; },  // .eh_frame is in the file itself
      .section_address = nullptr,
      .debuginfo_path = nullptr};
  static const Dwfl_Thread_Callbacks kThread = {.next_thread = NextThread,
                                                .get_thread = GetThread,
                                                .memory_read = ReadMemory,
                                                .set_initial_registers = SetRegisters,
                                                .detach = nullptr,
                                                .thread_detach = nullptr};
  Dwfl* const session = dwfl_begin(&kFiles);
  if (session == nullptr || dwfl_linux_proc_report(session, sleeper.pid) != 0 ||
      dwfl_report_end(session, nullptr, nullptr) != 0 ||
      !dwfl_attach_state(session, nullptr, sleeper.pid, &kThread, &sleeper)) {
    return "";
  }
  const bool is_whole = dwfl_getthread_frames(session, sleeper.tid, TakeFrame, &sleeper) == 0;
  if (!is_whole && !sleeper.functions.empty()) sleeper.functions.push_back(kCut);
  return absl::StrJoin(sleeper.functions, "\n");
}

}  // namespace

std::string SystemCallOf(uint32_t pid, uint32_t tid) {
  const std::string line = ReadSmallFile(absl::StrCat("/proc/", pid, "/task/", tid, "/syscall"));
  return absl::StartsWith(line, "running") ? "" : line;
}

std::vector<std::string> LiveStack(uint32_t pid, uint32_t tid, const std::string& system_call) {
  const std::vector<std::string> words = absl::StrSplit(system_call, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (words.size() < 2) return {};
  Sleeper sleeper = {.pid = static_cast<pid_t>(pid), .tid = static_cast<pid_t>(tid)};
  sleeper.stack_pointer = strtoull(words[words.size() - 2].c_str(), nullptr, 16);
  sleeper.instruction = strtoull(words.back().c_str(), nullptr, 16);
  const std::vector<IsolatedResult> results = RunIsolated(1, kSeconds, [&](size_t) { return Unwind(sleeper); });
  return absl::StrSplit(results.front().bytes, '\n', absl::SkipEmpty());
}

}  // namespace dlhook::analyzer::symbols
