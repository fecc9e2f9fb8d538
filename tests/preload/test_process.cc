#include "tests/preload/test_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "preload/counters/counters.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"

namespace dlhook {

std::string g_session_file;

namespace {

constexpr uint64_t kTestRingBytes = 15u << 20;
std::map<const void*, link_map*> g_objects;

void* MapSession(ProcessState* process, uint64_t bytes) {
  if (g_session_file.empty()) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  const int fd = open(g_session_file.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return MAP_FAILED;
  struct stat info;
  if (fstat(fd, &info) != 0) return MAP_FAILED;
  process->ring_device = info.st_dev;
  process->ring_inode = info.st_ino;
  snprintf(process->ring_path, sizeof process->ring_path, "%s", g_session_file.c_str());
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory;
}

}  // namespace

// Replaces process/lifecycle.cc.
bool process::StartSession(ProcessState* process) {
  constexpr uint32_t kChunks = 256;
  const uint64_t rings_end = kRingsStart + 2 * kTestRingBytes;
  const uint64_t bytes = rings_end + kChunks * ChunkBytes(0);
  void* memory = MapSession(process, bytes);
  if (memory == MAP_FAILED) return false;
  process->session = static_cast<SessionHeader*>(memory);
  process->ring_bytes_total = kTestRingBytes;
  process->session->mapping_bytes = bytes;
  process->session->chunks_offset = rings_end;
  process->session->chunk_bytes = ChunkBytes(0);
  process->session->chunk_count = kChunks;
  process->session->pid = static_cast<uint32_t>(getpid());
  process->session->collector_pid = static_cast<uint32_t>(getpid());
  process->session->clock_kind = static_cast<uint32_t>(ClockKind::kTsc);
  return true;
}
uint64_t g_plain_pointers = 0;
std::string g_capability;

// Replaces runtime/registry.cc.
void runtime::ReportCapability(const char* name, const char*, CapabilityState, const char* reason) {
  g_capability = std::string(name) + ": " + reason;
}

// Replace the generated table: sorted by name, kind of stream, version.
const DriverVariant format::kDriverVariants[] = {
    {"cuMemAlloc", 2000, 0, 10},
    {"cuMemAlloc", 3020, 0, 11},
    {"cuMemcpy", 4000, 0, 20},
    {"cuMemcpy", 7000, 1, 21},
    {"cuMemcpyAsync", 4000, 0, 30},
    {"cuMemcpyAsync", 7000, 1, 31},
    {"cuMemcpyBatchAsync", 12080, 0, 40},
    {"cuMemcpyBatchAsync", 13000, 0, 41},
    {"cuMemcpyBatchAsync", 12080, 1, 42},
    {"cuMemcpyBatchAsync", 13000, 1, 43},
};
const int format::kDriverVariantCount = 10;
const uint32_t format::kNewestDriverVersion = 13000;

// Replace python/python_stack.cc: no Python here.
std::atomic<uint32_t> python::g_python_for_calls{0};
uint32_t python::CapturePythonStack(ThreadState*) { return 0; }
bool python::RecordPythonStack(ThreadState*) { return true; }
void python::RefreshPython() {}

// Replace counters/counters.cc and process/call_detail.cc: no counters and no native stacks here.
void counters::OpenThreadCounters(ThreadState*) {}
void counters::CloseThreadCounters(ThreadState*) {}
void counters::ReadCountersAtScope(ThreadState*, ScopeKind) {}
uint32_t process::DetailFamilies() { return 0; }

// Replace sample/: no samples here.
void sample::OpenThreadSamples(ThreadState*) {}
void sample::CloseThreadSamples(ThreadState*) {}

void process::StartWriter(ProcessState*) {}
void runtime::FlushRegistry(ThreadState*) {}
void runtime::CountPlainPointer() { ++g_plain_pointers; }

// Replace link/resolver.cc and link/dlsym.cc.
std::atomic<uint32_t> link::g_binding_generation{1};
void* link::RealDlsym(void* handle, const char* name) { return dlsym(handle, name); }
void* link::RealDlvsym(void* handle, const char* name, const char* version) { return dlvsym(handle, name, version); }
int link::RealDlclose(void* handle) { return dlclose(handle); }
void* link::HookFor(HookId hook, void*, const link_map*) { return HookMarker(hook); }

link_map* link::ObjectOf(const void* address) {
  const auto pretended = g_objects.find(address);
  if (pretended != g_objects.end()) return pretended->second;
  Dl_info info;
  link_map* map = nullptr;
  return dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ? nullptr : map;
}

const char* link::ObjectName(const link_map* object) {
  if (object == nullptr) return "";
  const char* slash = strrchr(object->l_name, '/');
  return slash == nullptr ? object->l_name : slash + 1;
}

void PretendObject(const void* address, link_map* object) { g_objects[address] = object; }

ThreadState* Attach() {
  ThreadState* thread = dlhook_thread;
  return thread != nullptr && thread->active != 0 ? thread : AttachThread(1);
}

std::string DefinitionText(uint32_t number, DefinitionKind kind) {
  const SessionHeader* session = GetProcess()->session;
  DefinedBytes found = FindDefinition(session, session->mapping_bytes, number, kind);
  return found.data == nullptr ? "(none)" : std::string(found.data, found.bytes);
}

int WaitForChild(int pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + status;
}

}  // namespace dlhook
