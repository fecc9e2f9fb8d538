// A child does the work and writes results into a pipe, each preceded by its size. If it ends early, another one
// continues with the next item.
#include "analyzer/symbols/isolated.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include "analyzer/io/run_folder.h"

namespace dlhook::analyzer::inline symbols {
namespace {

using Work = absl::FunctionRef<std::string(size_t)>;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kMaxResultBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxBytesBeside = uint64_t{8} << 30;  // memory of a child, in addition to its parent's

// A file that claims to unpack to a terabyte must not exhaust the machine's memory.
void LimitMemory() {
#ifndef __SANITIZE_ADDRESS__
  uint64_t pages = 0;  // size, resident, shared, text, library, data
  std::ifstream statm("/proc/self/statm");
  for (int i = 0; i < 6; ++i) statm >> pages;
  if (!statm) return;
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMaxBytesBeside;
  const rlimit limit = {bytes, bytes};
  setrlimit(RLIMIT_DATA, &limit);
#endif
}

// noexcept: an exception must end this process, not continue in the parent's code.
[[noreturn]] void DoWork(size_t first, size_t count, int pipe, Work work, IsolatedMemory memory) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);  // discards whatever a library prints
  for (int standard = 0; standard < 3 && null >= 0; ++standard) dup2(null, standard);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (memory == IsolatedMemory::kBounded) LimitMemory();
  for (size_t i = first; i < count; ++i) {
    const std::string result = work(i);
    const uint64_t size = result.size();
    if (WriteAll(pipe, {reinterpret_cast<const char*>(&size), sizeof size}) != 0 || WriteAll(pipe, result) != 0) break;
  }
  _exit(0);
}

// False: the pipe has ended, or the time is over (`*late`).
bool ReadAll(int pipe, steady_clock::time_point deadline, void* bytes, size_t size, bool* late) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now()).count();
    pollfd ready = {pipe, POLLIN, 0};
    const int answer = left <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left));
    if (answer < 0 && errno == EINTR) continue;
    *late = answer == 0;
    if (answer <= 0) return false;
    const ssize_t got = read(pipe, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Reads results until the child ends; returns their number.
void TakeResults(int pipe, size_t count, int seconds_each, bool* late, std::vector<IsolatedResult>* results) {
  while (results->size() < count) {
    const auto deadline = steady_clock::now() + std::chrono::seconds(seconds_each);
    uint64_t size = 0;
    if (!ReadAll(pipe, deadline, &size, sizeof size, late) || size > kMaxResultBytes) return;
    IsolatedResult result;
    result.bytes.resize(size);
    if (!ReadAll(pipe, deadline, result.bytes.data(), size, late)) return;
    results->push_back(std::move(result));
  }
}

std::string EndOf(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    const char* const name = sigabbrev_np(WTERMSIG(status));
    return absl::StrCat("reading it crashed (SIG", name != nullptr ? name : absl::StrCat(WTERMSIG(status)), ")");
  }
  return "reading it failed";
}

}  // namespace

std::vector<IsolatedResult> RunIsolated(size_t count, int seconds_each, Work work, IsolatedMemory memory) {
  std::vector<IsolatedResult> results;
  while (results.size() < count) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) break;
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      DoWork(results.size(), count, ends[1], work, memory);
    }
    close(ends[1]);
    bool late = false;
    if (child > 0) TakeResults(ends[0], count, seconds_each, &late, &results);
    close(ends[0]);
    if (child < 0) break;
    if (results.size() < count) kill(child, SIGKILL);
    std::string end = EndOf(child);
    if (results.size() < count)
      results.push_back({"", late ? absl::StrCat("reading it took more than ", seconds_each, " s") : std::move(end)});
  }
  while (results.size() < count) results.push_back({"", "no process could be started to read it"});
  return results;
}

}  // namespace dlhook::analyzer::symbols
