// Objects and capabilities of this process, and their records.
#include "preload/runtime/registry.h"

#include <stdio.h>

#include "preload/base/loaded_objects.h"
#include "preload/base/spin_lock.h"
#include "preload/format/build_id.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {
namespace {

struct KnownObject {
  uint64_t start;
  uint64_t end;
  MappingRole role;
  uint32_t build_id_bytes;
  uint8_t build_id[20];
  char path[512];
  char detail[64];
};

struct KnownCapability {
  char name[96];
  char object[96];
  char reason[200];
  CapabilityState state;
  uint64_t ticks;
};

SpinLock g_lock;
KnownObject g_objects[kMaxRegistryObjects];
uint32_t g_object_count;
KnownCapability g_capabilities[kMaxRegistryCapabilities];
uint32_t g_capability_count;

// The linker's note, in the program headers of the mapped file. The first page of an object is its ELF header.
void ReadBuildId(const link_map* object, KnownObject* known) {
  auto header = reinterpret_cast<const ElfW(Ehdr)*>(known->start);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  auto segment = reinterpret_cast<const ElfW(Phdr)*>(known->start + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i, ++segment) {
    if (segment->p_type != PT_NOTE) continue;
    const BuildId id = BuildIdIn(reinterpret_cast<const void*>(object->l_addr + segment->p_vaddr), segment->p_memsz);
    if (id.size == 0) continue;
    known->build_id_bytes = id.size < sizeof known->build_id ? id.size : sizeof known->build_id;
    memcpy(known->build_id, id.bytes, known->build_id_bytes);
    return;
  }
}

// Address range of the object's segments. Sections of its file are mapped starting at the first segment's first page.
bool FindRange(const link_map* object, KnownObject* known) {
  return AnyLoadedObject([object, known](const dl_phdr_info& info) {
    if (info.dlpi_addr != object->l_addr) return false;
    bool holds_it = false;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      holds_it = holds_it || info.dlpi_addr + info.dlpi_phdr[i].p_vaddr == reinterpret_cast<uint64_t>(object->l_ld);
    }
    if (!holds_it) return false;  // several objects may be loaded at 0
    const ObjectSpan span(info);
    known->start = span.start;
    known->end = span.end;
    return true;
  });
}

// Of Debian's libblas.so.3, a link to a link, the file itself: only its path says whose BLAS it is. Other libraries keep the
// name by which programs know them.
void FollowLinksOfBlas(KnownObject* known) {
  constexpr int kMostLinks = 4;
  static constexpr const char* kNames[] = {"libblas", "libcblas", "librefblas", "libRblas", "libgslcblas"};
  const auto is_blas = [](const char* name) {
    for (const char* known : kNames) {
      if (strncmp(name, known, strlen(known)) == 0) return true;
    }
    return false;
  };
  for (int links = 0; links < kMostLinks; ++links) {
    char target[sizeof known->path] = "";
    char* name = strrchr(known->path, '/');
    if (name == nullptr || !is_blas(name + 1)) return;
    if (readlink(known->path, target, sizeof target - 1) <= 0) return;
    char* to = target[0] == '/' ? known->path : name + 1;
    snprintf(to, static_cast<size_t>(known->path + sizeof known->path - to), "%s", target);
  }
}

// For an object whose range is known.
void Describe(const link_map* object, KnownObject* known) {
  if (object->l_name[0] != '\0') {
    snprintf(known->path, sizeof known->path, "%s", object->l_name);
    FollowLinksOfBlas(known);
  } else if (readlink("/proc/self/exe", known->path, sizeof known->path - 1) < 0) {
    snprintf(known->path, sizeof known->path, "%s", program_invocation_name);
  }
  ReadBuildId(object, known);
}

ThreadState* RecordingThread() {
  ThreadState* thread = dlhook_thread;
  return thread != nullptr && thread->active != 0 ? thread : nullptr;
}

// A record of type T followed by `size` bytes of text, to be committed by the owner of `mark`; null if there is no room.
template <typename T>
T* ReserveTextRecord(ThreadState* thread, RecordType type, const char* text, size_t size, FrameMark* mark) {
  uint32_t words = static_cast<uint32_t>((sizeof(T) + size + 7) / 8);
  RecordHeader* header = ReserveDescription(thread, words, mark);
  if (header == nullptr) return nullptr;
  T* record = reinterpret_cast<T*>(header);
  *record = {};
  record->header.words = static_cast<uint16_t>(words);
  record->header.type = type;
  record->text_bytes = static_cast<uint32_t>(size);
  memcpy(record + 1, text, size);
  return record;
}

bool WriteObject(ThreadState* thread, const KnownObject& object) {
  char text[sizeof object.path + sizeof object.detail + 2];
  int size = snprintf(text, sizeof text, "%s%c%s", object.path, '\0', object.detail);
  FrameMark mark;
  auto record = ReserveTextRecord<MappingRecord>(thread, RecordType::kMapping, text, static_cast<size_t>(size), &mark);
  if (record == nullptr) return false;
  record->start = object.start;
  record->end = object.end;
  record->role = static_cast<uint32_t>(object.role);
  memcpy(record->build_id, object.build_id, sizeof record->build_id);
  record->build_id_bytes = object.build_id_bytes;
  CommitRecord(thread, &record->header);
  return true;
}

bool WriteCapability(ThreadState* thread, const KnownCapability& capability) {
  char text[sizeof(KnownCapability) + 4];
  int size =
      snprintf(text, sizeof text, "%s%c%s%c%s", capability.name, '\0', capability.object, '\0', capability.reason);
  FrameMark mark;
  auto record =
      ReserveTextRecord<CapabilityRecord>(thread, RecordType::kCapability, text, static_cast<size_t>(size), &mark);
  if (record == nullptr) return false;
  record->ticks = capability.ticks;
  record->value = static_cast<uint32_t>(capability.state);
  CommitRecord(thread, &record->header);
  return true;
}

bool IsSame(const KnownObject& one, const KnownObject& other) {
  return one.start == other.start && one.build_id_bytes == other.build_id_bytes &&
         memcmp(one.build_id, other.build_id, sizeof one.build_id) == 0 && strcmp(one.path, other.path) == 0;
}

// In this role, and not replaced since by another object loaded at the same place.
bool IsKnown(const KnownObject& described) {
  for (uint32_t i = g_object_count; i-- > 0;) {
    const KnownObject& known = g_objects[i];
    if (known.start >= described.end || described.start >= known.end) continue;
    if (!IsSame(known, described)) return false;
    if (known.role == described.role) return true;
  }
  return false;
}

// False: there are too many.
bool AddDescribed(const KnownObject& described) {
  SpinLockHolder holder(&g_lock);
  if (IsKnown(described)) return true;
  if (g_object_count == kMaxRegistryObjects) return false;
  g_objects[g_object_count++] = described;
  return true;
}

void AddObject(const link_map* object, KnownObject* described) {
  static std::atomic<bool> is_full{false};
  Describe(object, described);
  if (AddDescribed(*described) || is_full.exchange(true)) return;
  char reason[96];
  snprintf(reason, sizeof reason, "more than %u objects: further ones are not in the trace", kMaxRegistryObjects);
  ReportCapability("mappings", "", CapabilityState::kLost, reason);
}

void AddBinding(const link_map* object, MappingRole role, const char* detail) {
  KnownObject described = {};
  if (object == nullptr || !FindRange(object, &described)) return;
  described.role = role;
  snprintf(described.detail, sizeof described.detail, "%s", detail);
  AddObject(object, &described);
}

// A capability's place, or null if there are too many. The lock is held.
KnownCapability* PlaceOf(const char* name, const char* object) {
  uint32_t i = 0;
  for (; i < g_capability_count; ++i) {
    if (strcmp(g_capabilities[i].name, name) == 0 && strcmp(g_capabilities[i].object, object) == 0)
      return &g_capabilities[i];
  }
  if (i == kMaxRegistryCapabilities) return nullptr;
  ++g_capability_count;
  return &g_capabilities[i];
}

}  // namespace

void ReportBinding(const link_map* caller, const link_map* library, const char* name) {
  RefreshPython();  // a program may load it late
  AddBinding(caller, MappingRole::kCaller, "");
  AddBinding(library, MappingRole::kLibrary, name);
  if (ThreadState* thread = RecordingThread()) FlushRegistry(thread);
}

void ReportCode(const link_map* object, uint64_t start, uint64_t end) {
  KnownObject described = {};
  described.start = start;
  described.end = end;
  described.role = MappingRole::kCode;
  AddObject(object, &described);
  if (ThreadState* thread = RecordingThread()) FlushRegistry(thread);
}

void ReportCapability(const char* name, const char* object, CapabilityState state, const char* reason) {
  {
    SpinLockHolder holder(&g_lock);
    KnownCapability* known = PlaceOf(name, object);
    if (known == nullptr) return;
    snprintf(known->name, sizeof known->name, "%s", name);
    snprintf(known->object, sizeof known->object, "%s", object);
    snprintf(known->reason, sizeof known->reason, "%s", reason);
    known->state = state;
    ThreadState* thread = RecordingThread();
    known->ticks = ReadTicks(thread != nullptr ? thread->clock : ClockKind::kTsc);
    ProcessState* process = GetProcess();
    if (process != nullptr) process->written_capabilities[known - g_capabilities] = false;
  }
  ThreadState* thread = RecordingThread();
  if (thread != nullptr && thread->is_sampling == 0) FlushRegistry(thread);  // a full ring may grow there
}

bool IsALibraryRefused() {
  SpinLockHolder holder(&g_lock);
  for (uint32_t i = 0; i < g_capability_count; ++i) {
    if (g_capabilities[i].state == CapabilityState::kRefused && g_capabilities[i].object[0] != '\0') return true;
  }
  return false;
}

void CountPlainPointer() {
  ProcessState* process = GetProcess();
  if (process != nullptr && process->phase.load(std::memory_order_acquire) == kRecording) {
    process->session->plain_pointers.fetch_add(1, std::memory_order_relaxed);
  }
}

void FlushRegistry(ThreadState* thread) {
  ProcessState* process = GetProcess();
  if (process == nullptr) return;
  SpinLockHolder holder(&g_lock);
  for (uint32_t i = 0; i < g_object_count; ++i) {
    std::atomic<bool>& is_written = process->written_objects[i];
    if (!is_written && WriteObject(thread, g_objects[i])) is_written = true;
  }
  for (uint32_t i = 0; i < g_capability_count; ++i) {
    std::atomic<bool>& is_written = process->written_capabilities[i];
    if (!is_written && WriteCapability(thread, g_capabilities[i])) is_written = true;
  }
}

}  // namespace dlhook::inline runtime
