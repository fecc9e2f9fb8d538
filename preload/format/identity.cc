// Identity of process and run.
#include "preload/format/identity.h"

#include <cpuid.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "preload/base/environment.h"
#include "preload/format/folders.h"
#include "preload/format/hook_table.h"

namespace dlhook::inline format {
namespace {

const char kBootId[] = "/proc/sys/kernel/random/boot_id";
// clang-format off
const char* const kRankVariables[] = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "PMI_RANK", "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"};
static_assert(sizeof kRankVariables / sizeof *kRankVariables <= kMaxRankVariables);
// Variables that control how libraries compute. None contains a secret or a path.
const char* const kSettings[] = {
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME",
    "MKL_NUM_THREADS", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE",
    "BLIS_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE",
    "ATEN_CPU_CAPABILITY", "TORCHDYNAMO_DISABLE", "PYTORCH_CUDA_ALLOC_CONF", "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS", "PJRT_NPROC", "NPROC", "JAX_DISABLE_JIT", "JAX_DEBUG_NANS", "JAX_ENABLE_CHECKS", "MKL_VERBOSE", "PYTHONTRACEMALLOC",
    "TORCH_DISTRIBUTED_DEBUG", "NCCL_DEBUG", "PYTHONDEVMODE",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "NCCL_ALGO", "NCCL_PROTO", "MALLOC_ARENA_MAX", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_", "MALLOC_CONF", "GLIBC_TUNABLES", "DLHOOK_CAPTURE", "DLHOOK_SCOPES",
    "DLHOOK_PYTHON", "DLHOOK_COMPILED", "DLHOOK_STACKS", "DLHOOK_STACKS_FAMILIES", "DLHOOK_STACKS_MIN_US", "DLHOOK_COUNTERS", "DLHOOK_COUNTERS_AT",
    "DLHOOK_COUNTERS_MS", "DLHOOK_GPU", "DLHOOK_GPU_GRAPHS", "DLHOOK_ONEDNN", "DLHOOK_ONEDNN_LEVEL", "DLHOOK_CLOCK",
    "DLHOOK_DRAIN"};
// clang-format on
const char kPreloaded[] = "LD_PRELOAD";  // of its objects only the names are kept
static_assert(sizeof kSettings / sizeof *kSettings < kMaxSettings);
// Interpreters whose short options contain a `c` (for others an `e`) if code follows instead of a script.
const char* const kShells[] = {"python", "pypy", "bash", "sh", "dash"};
const char* const kOtherInterpreters[] = {"perl", "ruby", "node", "julia", "Rscript", "lua"};

template <size_t kCount>
bool IsOneOf(const char* const (&names)[kCount], const char* program) {
  for (const char* name : names) {
    if (strncmp(program, name, strlen(name)) == 0) return true;
  }
  return false;
}

bool IsInterpreter(const char* program) { return IsOneOf(kShells, program) || IsOneOf(kOtherInterpreters, program); }

// The path that was executed.
const char* StartedAs() {
  auto path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return path == nullptr ? "" : path;
}

bool SaysThatCodeFollows(const char* option, bool is_shell) {
  if (option[1] == '-') return !is_shell && strncmp(option, "--e", 3) == 0;  // --eval, --execute
  if (is_shell) return option[1] != 'W' && option[1] != 'X' && strchr(option, 'c') != nullptr;
  return strcspn(option, "eEp") != strlen(option);
}

// "name-VALUE1.VALUE2" from a launcher's own job id, if its first variable is set.
bool LauncherKey(const char* name, const char* first, const char* second, char* key, size_t size) {
  const char* id = EnvironmentVariable(first);
  if (id == nullptr || *id == '\0') return false;
  snprintf(key, size, "%s-", name);
  AppendSafe(key, size, id);
  const char* more = second == nullptr ? nullptr : EnvironmentVariable(second);
  if (more != nullptr) {
    AppendSafe(key, size, ".");
    AppendSafe(key, size, more);
  }
  return true;
}

template <size_t kMost>
void AddSetting(const char* name, const char* value, Setting (&settings)[kMost], uint32_t* count) {
  if (value == nullptr) return;
  Setting& setting = settings[(*count)++];
  snprintf(setting.name, sizeof setting.name, "%s", name);
  snprintf(setting.value, sizeof setting.value, "%.63s", value);
}

struct Registers {
  unsigned a, b, c, d;
};

// All zero if the processor has no such leaf.
Registers Ask(unsigned leaf, unsigned subleaf = 0) {
  Registers r = {};
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool Bit(unsigned word, int bit) { return (word >> bit & 1) != 0; }

// The register state that the kernel saves (XCR0): without it the instructions fault.
uint64_t SavedState() {
  if (!Bit(Ask(1).c, 27)) return 0;  // OSXSAVE
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

uint32_t FindInstructionSets() {
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  const uint64_t saved = SavedState();
  const Registers features = Ask(1), extended = Ask(7), more = Ask(7, 1);
  const bool has_ymm = (saved & kYmm) == kYmm, has_zmm = (saved & kZmm) == kZmm, has_tiles = (saved & kTiles) == kTiles;
  uint32_t sets = 0;
  if (has_ymm && Bit(features.c, 12) && Bit(extended.b, 5)) sets |= kFma;
  if (has_zmm && Bit(extended.b, 16)) sets |= kAvx512;
  if (has_zmm && Bit(extended.c, 11)) sets |= kAvx512Vnni;
  if (has_zmm && extended.a >= 1 && Bit(more.a, 5)) sets |= kAvx512Bf16;
  if (has_tiles && Bit(extended.d, 25)) sets |= kAmxInt8;
  if (has_tiles && Bit(extended.d, 22)) sets |= kAmxBf16;
  return sets;
}

// The brand string, without the blanks that vendors pad it with.
void CopyName(char (&name)[64]) {
  char brand[49] = {};
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000004) return;
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = Ask(0x80000002 + i);
    memcpy(brand + 16 * i, &r, sizeof r);
  }
  size_t size = 0;
  for (const char* at = brand; *at != '\0'; ++at) {
    if (*at != ' ' || (size > 0 && name[size - 1] != ' ')) name[size++] = *at;
  }
  if (size > 0 && name[size - 1] == ' ') name[size - 1] = '\0';
}

}  // namespace

void AppendSafe(char* text, size_t size, const char* more) {
  size_t at = strlen(text);
  for (; *more != '\0' && at + 1 < size; ++more) {
    const char c = *more;  // whatever the host's locale calls a letter
    bool safe =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("._-+", c) != nullptr;
    text[at++] = safe ? c : '_';
  }
  text[at] = '\0';
}

size_t ReadFileAt(int folder, const char* path, char* text, size_t size) {
  text[0] = '\0';
  int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, size - 1);
  close(fd);
  if (n < 0) n = 0;
  text[n] = '\0';
  return static_cast<size_t>(n);
}

uint64_t StartTimeOf(uint32_t pid) {
  char path[64];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%u/stat", pid);
  if (ReadFileAt(AT_FDCWD, path, text, sizeof text) == 0) return 0;
  const char* at = strrchr(text, ')');  // the name before it may contain anything
  for (int field = 2; at != nullptr && field < 22; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
}

uint64_t PidNamespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

void NameCollector(uint32_t pid, char* name, size_t size) {
  char boot_id[40];
  ReadFileAt(AT_FDCWD, kBootId, boot_id, sizeof boot_id);
  boot_id[strcspn(boot_id, "\n")] = '\0';
  struct stat memory = {};
  stat("/dev/shm", &memory);
  snprintf(name, size, "%u:%u:%llu:%llx:%s/%llx", pid, static_cast<unsigned>(geteuid()),
           static_cast<unsigned long long>(PidNamespace()), static_cast<unsigned long long>(memory.st_dev), boot_id,
           static_cast<unsigned long long>(kHookTableHash + kSessionLayout));
}

void FindScript(const char* program, const char* const* words, char (*script)[64]) {
  (*script)[0] = '\0';
  bool is_shell = IsOneOf(kShells, program);
  if (words[0] == nullptr || !IsInterpreter(program)) return;
  for (const char* const* word = words + 1; *word != nullptr; ++word) {
    if ((*word)[0] == '-' && SaysThatCodeFollows(*word, is_shell)) return;
    bool is_value = strcmp(word[-1], "-W") == 0 || strcmp(word[-1], "-X") == 0;
    if ((*word)[0] == '-' || is_value) continue;
    snprintf(*script, sizeof *script, "%s", BaseName(*word));
    return;
  }
}

void ScriptAtStart(const char* const* words, char (*script)[64]) {
  const char* started_as = StartedAs();
  FindScript(BaseName(started_as), words, script);
  // For a script executed directly, the kernel built the interpreter's command line.
  if ((*script)[0] == '\0' && words[0] != nullptr) FindScript(BaseName(words[0]), words, script);
}

void FindProgram(const char* started_as, char (*program)[64]) {
  constexpr char kDeleted[] = " (deleted)";
  char path[4096];
  struct stat started, executable;
  // The name of a descriptor says nothing; one that does not name the executable is a script's, or was overwritten.
  bool is_link = strncmp(started_as, "/dev/fd/", 8) == 0 || strncmp(started_as, "/proc/", 6) == 0;
  if (is_link || stat(started_as, &started) != 0 || stat("/proc/self/exe", &executable) != 0 ||
      started.st_dev != executable.st_dev || started.st_ino != executable.st_ino) {
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    char* end = path + strlen(path);
    if (end - path > static_cast<ssize_t>(strlen(kDeleted))) end -= strlen(kDeleted);
    if (strcmp(end, kDeleted) == 0) *end = '\0';
    started_as = path;
  }
  snprintf(*program, sizeof *program, "%.*s", static_cast<int>(sizeof *program - 1), BaseName(started_as));
}

void FindPreloaded(const char* list, char (*names)[64]) {
  (*names)[0] = '\0';
  for (const char* at = list; *at != '\0';) {
    const char* end = at + strcspn(at, ": ");
    const char* name = end;
    while (name > at && name[-1] != '/') --name;
    at = *end == '\0' ? end : end + 1;
    if (name == end || strncmp(name, "libdlhook", strlen("libdlhook")) == 0) continue;
    size_t used = strlen(*names);
    snprintf(*names + used, sizeof *names - used, "%s%.*s", used > 0 ? ":" : "", static_cast<int>(end - name), name);
  }
}

void DescribeProcess(const char* script, SessionHeader* session) {
  session->pid = static_cast<uint32_t>(getpid());
  session->parent_pid = static_cast<uint32_t>(getppid());
  session->start_time_jiffies = StartTimeOf(session->pid);
  session->pid_namespace = PidNamespace();
  ReadFileAt(AT_FDCWD, kBootId, session->boot_id, sizeof session->boot_id);
  session->boot_id[strcspn(session->boot_id, "\n")] = '\0';
  gethostname(session->host, sizeof session->host - 1);
  FindProgram(StartedAs(), &session->program);
  if (IsInterpreter(session->program)) snprintf(session->script, sizeof session->script, "%s", script);
  for (const char* name : kRankVariables)
    AddSetting(name, EnvironmentVariable(name), session->rank_variables, &session->rank_variable_count);
  for (const char* name : kSettings)
    AddSetting(name, EnvironmentVariable(name), session->settings, &session->setting_count);
  const char* preloaded = EnvironmentVariable(kPreloaded);
  char names[64] = "";
  if (preloaded != nullptr) FindPreloaded(preloaded, &names);
  AddSetting(kPreloaded, names[0] != '\0' ? names : nullptr, session->settings, &session->setting_count);
  uint64_t processors[128] = {};
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof processors, processors);
  for (long i = 0; i < bytes / 8; ++i)
    session->processors += static_cast<uint32_t>(__builtin_popcountll(processors[i]));
  session->processor = IdentifyProcessor();
}

void MakeRunKey(char* key, size_t size) {
  if (LauncherKey("slurm", "SLURM_JOB_ID", "SLURM_STEP_ID", key, size)) return;
  if (LauncherKey("mpi", "PMIX_NAMESPACE", nullptr, key, size)) return;
  if (LauncherKey("mpi", "OMPI_MCA_ess_base_jobid", nullptr, key, size)) return;
  if (LauncherKey("mpi", "PMI_JOBID", nullptr, key, size)) return;
  // torchrun's default id is "none", and its workers are sessions of their own: their parent distinguishes launches.
  if (LauncherKey("torchrun", "TORCHELASTIC_RUN_ID", "MASTER_PORT", key, size)) {
    char parent[48];
    uint32_t pid = static_cast<uint32_t>(getppid());
    snprintf(parent, sizeof parent, "-%u-%llu", pid, static_cast<unsigned long long>(StartTimeOf(pid)));
    AppendSafe(key, size, parent);
    return;
  }
  uint32_t leader = static_cast<uint32_t>(getpgrp());
  uint64_t start = StartTimeOf(leader);
  if (start == 0) {  // the leader has ended, or is in another pid namespace
    leader = static_cast<uint32_t>(getsid(0));
    start = StartTimeOf(leader);
  }
  snprintf(key, size, "%u-%llu", leader, static_cast<unsigned long long>(start));
}

// Leaves of cpuid: Intel's Software Developer's Manual, volume 2A, and AMD's Architecture Programmer's Manual, volume 3, appendix E.
ProcessorId IdentifyProcessor() {
  ProcessorId id = {};
  const Registers vendor = Ask(0), version = Ask(1);
  memcpy(id.vendor, &vendor.b, 4);
  memcpy(id.vendor + 4, &vendor.d, 4);
  memcpy(id.vendor + 8, &vendor.c, 4);
  id.stepping = version.a & 0xf;
  id.family = version.a >> 8 & 0xf;
  id.model = version.a >> 4 & 0xf;
  if (id.family == 6 || id.family == 0xf) id.model |= (version.a >> 16 & 0xf) << 4;
  if (id.family == 0xf) id.family += version.a >> 20 & 0xff;
  id.threads_per_core = Ask(0xb).b & 0xffff;
  id.instruction_sets = FindInstructionSets();
  CopyName(id.name);
  return id;
}

}  // namespace dlhook::inline format
