// The log of the fakes: one tab-separated line per call in the file that DLHOOK_FAKE_LOG names. See README.md for the
// columns.
//
// The file is written through a shared mapping: so a process that ends by _exit, a signal or exec leaves all its lines,
// followed by zeros. A forked child begins a file of its own.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "activity.h"

namespace fake {
namespace {

constexpr size_t kStep = size_t{16} << 20;  // the file grows by this
constexpr size_t kLimit = size_t{1} << 30;
constexpr size_t kLongestText = 4000;

struct File {
  int descriptor = -1;
  char* window = nullptr;  // kStep bytes of the file, from `base`
  size_t base = 0;
  size_t used = 0;  // of the window

  bool Advance(size_t from) {
    if (window != nullptr) munmap(window, kStep);
    window = nullptr;
    base = from;
    used = 0;
    if (base + kStep > kLimit || ftruncate(descriptor, static_cast<off_t>(base + kStep)) != 0) return false;
    void* mapping = mmap(nullptr, kStep, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(base));
    if (mapping == MAP_FAILED) return false;
    window = static_cast<char*>(mapping);
    return true;
  }

  void Append(const char* data, size_t size) {
    while (size > 0 && window != nullptr) {
      const size_t part = size < kStep - used ? size : kStep - used;
      memcpy(window + used, data, part);
      used += part;
      data += part;
      size -= part;
      if (used == kStep && !Advance(base + kStep)) fprintf(stderr, "dlhook fakes: the log is full\n");
    }
  }
};

std::mutex lock;
File* file;  // null: not opened yet, or no log
bool opened;
bool forked;
std::atomic<int64_t> next_sequence{0};
std::atomic<int> next_thread{0};
thread_local int thread_number = -1;
thread_local Call* innermost;

void InChild() {  // only the thread that forked is left
  if (file != nullptr) close(file->descriptor);
  if (file != nullptr && file->window != nullptr) munmap(file->window, kStep);
  file = nullptr;
  opened = false;
  forked = true;
  next_sequence = 0;
  next_thread = 0;
  thread_number = -1;
  new (&lock) std::mutex;
}

std::string PathOf(const char* pattern) {
  std::string path;
  bool numbered = false;
  for (; *pattern != 0; ++pattern) {
    if (pattern[0] == '%' && pattern[1] == 'p') {
      path += std::to_string(getpid());
      ++pattern;
      numbered = true;
    } else {
      path += *pattern;
    }
  }
  return forked && !numbered ? path + '.' + std::to_string(getpid()) : path;  // the parent's file stays as it is
}

void Open() {
  opened = true;
  const char* pattern = Setting("LOG", "");
  if (*pattern == 0) return;
  static bool at_fork = pthread_atfork(nullptr, nullptr, InChild) == 0;
  (void)at_fork;
  const std::string path = PathOf(pattern);
  auto* fresh = new File;
  fresh->descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fresh->descriptor < 0 || !fresh->Advance(0)) {
    fprintf(stderr, "dlhook fakes: cannot write %s\n", path.c_str());
    abort();
  }
  file = fresh;
}

bool Skipped(const char* function) {
  static const std::string names = std::string(",") + Setting("LOG_SKIP", "") + ",";
  return names.size() > 2 && names.find(std::string(",") + function + ",") != std::string::npos;
}

bool Wanted(const char* function) {
  const std::lock_guard<std::mutex> guard(lock);
  if (!opened) Open();
  return file != nullptr && !Skipped(function);
}

// Truncates the file to its written part when the process ends in an orderly way.
struct AtExit {
  ~AtExit() {
    const std::lock_guard<std::mutex> guard(lock);
    if (file == nullptr || file->window == nullptr) return;
    if (ftruncate(file->descriptor, static_cast<off_t>(file->base + file->used)) != 0) return;
    munmap(file->window, kStep);
    file->window = nullptr;  // calls of later destructors are not logged
  }
} at_exit;

void AppendFormat(std::string* text, const char* format, ...) {
  char buffer[64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  *text += buffer;
}

// Whether CUPTI knows a function: not calls by a compiler's start-up code, except launches.
bool IsApi(const char* library, const char* function) {
  if (strcmp(library, "cuda") == 0) return true;
  if (strcmp(library, "cudart") != 0) return false;
  return strncmp(function, "__cuda", 6) != 0 || strncmp(function, "__cudaLaunch", 12) == 0;
}

Api* OpenApi(const char* library, const char* function, const void* parameters) {
  auto* api = new Api;
  api->parameters = parameters;
  api->runtime = strcmp(library, "cudart") == 0;
  api->function = function;
  if (api->runtime || strcmp(function, "cuInit") == 0) Initialize();
  EnterApi(api);
  return api;
}

}  // namespace

Call::Call(const char* library, const char* function, const void* parameters)
    : function_(function), outer_(innermost), library_(library) {
  depth_ = outer_ != nullptr ? outer_->depth_ + 1 : 0;
  innermost = this;
  failure_ = FailureOf(function);
  if (Wanted(function)) {
    if (thread_number < 0) thread_number = next_thread++;
    sequence_ = next_sequence++;
    line_ = new std::string;
    note_ = new std::string;
    result_ = new std::string;
  }
  if (IsApi(library, function)) api_ = OpenApi(library, function, parameters);
}

Call::~Call() {
  if (api_ != nullptr) ExitApi(api_);
  delete api_;
  innermost = outer_;
  if (line_ == nullptr) return;
  std::string head;
  AppendFormat(&head, "%" PRId64 "\t%d\t%d\t", sequence_, thread_number, depth_);
  head += std::string(library_) + '\t' + function_ + '\t' + *result_ + '\t' + *note_ + *line_ + '\n';
  {
    const std::lock_guard<std::mutex> guard(lock);
    if (file != nullptr) file->Append(head.data(), head.size());
  }
  delete line_;
  delete note_;
  delete result_;
}

void Call::Name(const char* name) {
  *line_ += '\t';
  *line_ += name;
  *line_ += '=';
}

Call& Call::Number(const char* name, int64_t value) {
  Name(name);
  AppendFormat(line_, "%" PRId64, value);
  return *this;
}

Call& Call::Unsigned(const char* name, uint64_t value) {
  Name(name);
  AppendFormat(line_, "%" PRIu64, value);
  return *this;
}

Call& Call::Real(const char* name, double value) {
  Name(name);
  AppendFormat(line_, "%.17g", value);
  return *this;
}

Call& Call::Pointer(const char* name, const void* value) {
  Name(name);
  AppendFormat(line_, "0x%" PRIxPTR, reinterpret_cast<uintptr_t>(value));
  return *this;
}

Call& Call::Text(const char* name, const char* value) {
  Name(name);
  if (value == nullptr) {
    *line_ += "(null)";
    return *this;
  }
  for (size_t i = 0; value[i] != 0 && i < kLongestText; ++i) {
    *line_ += static_cast<unsigned char>(value[i]) < ' ' ? ' ' : value[i];  // a tab or a newline would end the column
  }
  return *this;
}

Call& Call::Triple(const char* name, const Dim3& value) {
  Name(name);
  AppendFormat(line_, "%u,%u,%u", value.x, value.y, value.z);
  return *this;
}

Call& Call::Bytes(const char* name, const void* value, size_t size) {
  Name(name);
  for (size_t i = 0; i < size; ++i) AppendFormat(line_, "%02x", static_cast<const unsigned char*>(value)[i]);
  return *this;
}

Call& Call::Int32At(const char* name, const void* address) {
  Pointer(name, address);
  if (address != nullptr && succeeded_) AppendFormat(line_, ">%d", *static_cast<const int32_t*>(address));
  return *this;
}

Call& Call::Int64At(const char* name, const void* address) {
  Pointer(name, address);
  if (address != nullptr && succeeded_) AppendFormat(line_, ">%" PRId64, *static_cast<const int64_t*>(address));
  return *this;
}

Call& Call::PointerAt(const char* name, const void* address) {
  Pointer(name, address);
  if (address != nullptr && succeeded_) AppendFormat(line_, ">0x%" PRIx64, *static_cast<const uint64_t*>(address));
  return *this;
}

void Call::Status(int64_t status) {
  succeeded_ = status == 0;
  if (api_ != nullptr) api_->status = static_cast<int>(status);
  const bool asks_for_it = strstr(function_, "LastError") != nullptr;
  if (!succeeded_ && !asks_for_it && strcmp(library_, "cudart") == 0) SetLastRuntimeError(static_cast<int>(status));
  if (result_ != nullptr) AppendFormat(result_, "%" PRId64, status);
}

void Call::Returned(const void* pointer) {
  if (result_ != nullptr) AppendFormat(result_, "0x%" PRIxPTR, reinterpret_cast<uintptr_t>(pointer));
}

void Call::Note(const char* text) {
  if (note_ == nullptr) return;
  if (!note_->empty()) *note_ += ' ';
  *note_ += text;
}

void CurrentCall(const char** library, const char** function) {
  if (innermost == nullptr) return;
  *library = innermost->library();
  *function = innermost->function();
}

void Note(const char* format, ...) {
  if (innermost == nullptr || !innermost->logged()) return;
  std::string text(kLongestText, 0);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  innermost->Note(text.c_str());
}

}  // namespace fake
