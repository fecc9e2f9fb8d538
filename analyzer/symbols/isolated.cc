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
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline symbols {
namespace {

using Work = absl::FunctionRef<std::string(size_t)>;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kMaxResultBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxBytesBeside = uint64_t{8} << 30;  // memory of a child, in addition to its parent's

bool WriteAll(int pipe, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = write(pipe, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

// A file that claims to unpack to a terabyte must not exhaust the machine's memory.
void LimitMemory() {
#ifndef __SANITIZE_ADDRESS__
  unsigned long long pages[6] = {};  // size, resident, shared, text, library, data
  FILE* const file = fopen("/proc/self/statm", "re");
  if (file == nullptr) return;
  const int read =
      fscanf(file, "%llu %llu %llu %llu %llu %llu", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]);
  fclose(file);
  if (read != 6) return;
  const rlim_t bytes = pages[5] * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMaxBytesBeside;
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
    if (!WriteAll(pipe, &size, sizeof size) || !WriteAll(pipe, result.data(), result.size())) break;
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

// Numbers are base-128 varints; strings and lists are preceded by their length.
void AppendNumber(uint64_t number, std::string* bytes) {
  for (; number >= 0x80; number >>= 7) bytes->push_back(static_cast<char>(number | 0x80));
  bytes->push_back(static_cast<char>(number));
}

void AppendText(absl::string_view text, std::string* bytes) {
  AppendNumber(text.size(), bytes);
  bytes->append(text.data(), text.size());
}

void AppendFrames(const SymbolFrames& frames, std::string* bytes) {
  AppendNumber(frames.size(), bytes);
  for (const SymbolFrame& frame : frames) {
    AppendText(frame.function, bytes);
    AppendNumber(frame.offset, bytes);
    AppendText(frame.file, bytes);
    AppendNumber(uint64_t{frame.line} << 1 | (frame.is_inlined ? 1 : 0), bytes);
  }
}

uint64_t FrameReader::Number() {
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) break;
    const uint8_t byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    number |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return number;
  }
  ok_ = false;
  rest_ = {};
  return 0;
}

std::string FrameReader::Text() {
  const uint64_t size = Number();
  if (size > rest_.size()) {
    ok_ = false;
    rest_ = {};
    return "";
  }
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

SymbolFrames FrameReader::Frames() {
  constexpr uint64_t kMinBytes = 4;
  SymbolFrames frames;
  const uint64_t count = Number();
  if (count > rest_.size() / kMinBytes) ok_ = false;
  for (uint64_t i = 0; i < count && ok_; ++i) {
    SymbolFrame frame;
    frame.function = Text();
    frame.offset = Number();
    frame.file = Text();
    const uint64_t line = Number();
    frame.line = static_cast<uint32_t>(line >> 1);
    frame.is_inlined = (line & 1) != 0;
    frames.push_back(std::move(frame));
  }
  return ok_ ? frames : SymbolFrames{};
}

std::string EncodeAnswer(const ObjectAnswer& answer) {
  std::string bytes;
  AppendText(answer.refusal, &bytes);
  AppendText(answer.remark, &bytes);
  AppendNumber(answer.first_address, &bytes);
  for (const SymbolFrames& frames : answer.frames) AppendFrames(frames, &bytes);
  return bytes;
}

bool DecodeAnswer(absl::string_view bytes, ObjectAnswer* answer) {
  FrameReader reader(bytes);
  answer->refusal = reader.Text();
  answer->remark = reader.Text();
  answer->first_address = reader.Number();
  while (reader.ok() && !reader.done()) answer->frames.push_back(reader.Frames());
  return reader.ok();
}

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
