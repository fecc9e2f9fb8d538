// Per-caller resolution of real functions.
#include "preload/link/resolver.h"

#include <fcntl.h>

#include "preload/base/dynamic_tables.h"
#include "preload/base/libc_functions.h"
#include "preload/base/spin_lock.h"
#include "preload/format/folders.h"
#include "preload/link/dlsym.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline link {
namespace {

// Weak references to hooked functions that nobody defines but the shim: without dlhook they would be null. mpi4py asks by
// them which functions the MPI library has.
// Finds them in the object's own tables. Their slots may be read-only by now (RELRO), so they are written through
// /proc/self/mem; where that is not possible, nothing changes.

bool IsWeakReference(const ElfW(Sym) & symbol) {
  return symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
}

bool HasWeakReferencesToHooks(const DynamicTables& tables) {
  uint32_t count = tables.SymbolsToSearch();
  for (uint32_t i = 1; i < count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    if (IsWeakReference(symbol) && FindHook(tables.strings + symbol.st_name) >= 0) return true;
  }
  return false;
}

// Whether the slot leads to a hook that would find nothing to call. An underlinked plugin's references lead to functions
// that are not in its own scope: FindReal knows.
bool IsAbsent(const link_map* object, const DynamicTables& tables, const ElfW(Rela) & relocation) {
  uint64_t type = ELF64_R_TYPE(relocation.r_info);
  if (type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT && type != R_X86_64_64) return false;
  const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
  if (!IsWeakReference(symbol)) return false;
  const char* name = tables.strings + symbol.st_name;
  int hook = FindHook(name);
  if (hook < 0 || *reinterpret_cast<void**>(object->l_addr + relocation.r_offset) != kHookLinks[hook].wrapper)
    return false;
  return FindReal(name, kHookLinks[hook].sonames, kHookLinks[hook].wrapper, object->l_ld) == nullptr;
}

// Makes those of `object` null again. Before its first call of a hook nothing of the shim runs for it, so an object that
// asks before that still finds them.
void ClearAbsentReferences(const link_map* object) {
  DynamicTables tables(object);
  if (tables.symbols == nullptr || tables.strings == nullptr || !HasWeakReferencesToHooks(tables)) return;
  int memory = -1;
  for (const Relocations& table : {tables.data, tables.functions}) {
    for (const ElfW(Rela) & relocation : table) {
      if (!IsAbsent(object, tables, relocation)) continue;
      if (memory < 0) memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
      void* nothing = nullptr;
      auto slot = static_cast<off_t>(object->l_addr + relocation.r_offset);
      if (memory < 0 || pwrite(memory, &nothing, sizeof nothing, slot) < 0) break;
    }
  }
  if (memory >= 0) close(memory);
}

// The version of a symbol that an object was linked against, from its own ELF tables.

const char* VersionName(const DynamicTables& tables, ElfW(Half) index) {
  const char* at = tables.needed;
  for (uint64_t i = 0; i < tables.needed_count && at != nullptr; ++i) {
    auto file = reinterpret_cast<const ElfW(Verneed)*>(at);
    const char* auxiliary = at + file->vn_aux;
    for (ElfW(Half) j = 0; j < file->vn_cnt; ++j) {
      auto version = reinterpret_cast<const ElfW(Vernaux)*>(auxiliary);
      if (version->vna_other == index) return tables.strings + version->vna_name;
      auxiliary += version->vna_next;
    }
    at = file->vn_next == 0 ? nullptr : at + file->vn_next;
  }
  return nullptr;
}

// "libcudart.so.12" if `object` refers to `name` in that version; null if it refers to none, or not to `name` at all.
const char* RequiredVersion(const link_map* object, const char* name) {
  DynamicTables tables(object);
  if (tables.symbols == nullptr || tables.strings == nullptr || tables.versions == nullptr ||
      tables.needed == nullptr) {
    return nullptr;
  }
  uint32_t count = tables.SymbolsToSearch();
  for (uint32_t i = 1; i < count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    if (symbol.st_shndx != SHN_UNDEF || strcmp(tables.strings + symbol.st_name, name) != 0) continue;
    return VersionName(tables, tables.versions[i] & 0x7fff);
  }
  return nullptr;
}

// Bindings found so far, by calling object, for new call sites of a known caller. Written under a lock, read without:
// an entry's key is published last.
struct Binding {
  std::atomic<uint64_t> key;  // 0: free
  uint32_t generation;
  void* real;
};
constexpr uint32_t kBindings = 4096;
Binding g_bindings[kBindings];
SpinLock g_bindings_lock;

constexpr HookId kAnyHook = 0xfff;  // greater than every hook's

uint64_t BindingKey(const link_map* object, HookId hook) {
  return (reinterpret_cast<uint64_t>(object) << 12 | hook) + 1;
}

// Its place, or a free one; null: its neighborhood is full, which only costs time: the binding is looked up again.
Binding* PlaceOf(uint64_t key) {
  uint32_t start = static_cast<uint32_t>((key * 0x9e3779b97f4a7c15u) >> 40);
  for (uint32_t i = 0; i < 64; ++i) {
    Binding& binding = g_bindings[(start + i) & (kBindings - 1)];
    uint64_t found = binding.key.load(std::memory_order_acquire);
    if (found == key || found == 0) return &binding;
  }
  return nullptr;
}

void StoreBinding(uint64_t key, void* real) {
  SpinLockHolder holder(&g_bindings_lock);
  Binding* binding = PlaceOf(key);
  if (binding == nullptr) return;
  binding->key.store(0, std::memory_order_release);
  binding->real = real;
  binding->generation = CurrentBindingGeneration();
  binding->key.store(key, std::memory_order_release);
}

const link_map* FirstObject() {
  const link_map* map = ObjectOf(reinterpret_cast<const void*>(&ObjectName));
  while (map != nullptr && map->l_prev != nullptr) map = map->l_prev;
  return map;
}

bool HasSoname(const link_map* object, const char* const* sonames) {
  const char* base = ObjectName(object);
  for (const char* const* soname = sonames; soname != nullptr && *soname != nullptr; ++soname) {
    if (strncmp(base, *soname, strlen(*soname)) == 0) return true;
  }
  return false;
}

// Searches all loaded objects: those with a known soname first, then the only one that has the symbol (an underlinked
// plugin finds it in the scope of the object that loaded it).
void* FindAnywhere(const char* name, const char* const* sonames, const void* own_symbol) {
  void* only = nullptr;
  bool several = false;
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next) {
    void* found = FindInObject(name, nullptr, map);
    if (found == nullptr || found == own_symbol) continue;
    if (HasSoname(map, sonames)) return found;
    several = several || (only != nullptr && only != found);
    only = found;
  }
  return several ? nullptr : only;
}

// If both the global scope and the caller's own define it, the global definition wins, as in the loader, unless its
// object was loaded after the caller, whose references were bound by then.
void* ChooseBinding(void* global, void* own, const link_map* caller) {
  if (global == nullptr || own == nullptr || global == own) return global != nullptr ? global : own;
  const link_map* global_object = ObjectOf(global);
  if (ObjectOf(own) == caller && caller->l_ld != nullptr) {
    for (const ElfW(Dyn)* entry = caller->l_ld; entry->d_tag != DT_NULL; ++entry) {
      bool symbolic = entry->d_tag == DT_SYMBOLIC || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_SYMBOLIC));
      if (symbolic) return own;
    }
  }
  return IsLoadedBefore(global_object, caller) ? global : own;
}

[[noreturn]] void FailAsTheLoaderWould(const char* name, const link_map* caller) {
  // Through write: stdio may be the host's own.
  char text[512];
  int size = snprintf(text, sizeof text, "%s: symbol lookup error: %s: undefined symbol: %s\n", program_invocation_name,
                      caller == nullptr ? "?" : ObjectName(caller), name);
  if (write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) dlhook_libc__exit(127);
  dlhook_libc__exit(127);
}

const Binding* KnownBinding(uint64_t key) {
  const Binding* known = PlaceOf(key);
  bool is_known = known != nullptr && known->key.load(std::memory_order_acquire) == key &&
                  known->generation == CurrentBindingGeneration();
  return is_known ? known : nullptr;
}

// Once per object, whatever it calls first.
void LookAtReferences(const link_map* object) {
  uint64_t key = BindingKey(object, kAnyHook);
  if (object == nullptr || KnownBinding(key) != nullptr) return;
  ClearAbsentReferences(object);
  StoreBinding(key, nullptr);
}

struct NewBinding {
  HookId hook;
  void* caller;
  const link_map* object;
  void* real;  // the result
};

void Bind(void* argument) {
  auto binding = static_cast<NewBinding*>(argument);
  LookAtReferences(binding->object);
  const char* name = kHookNames[binding->hook].name;
  const HookLink& link = kHookLinks[binding->hook];
  binding->real = FindReal(name, link.sonames, link.wrapper, binding->caller);
  if (binding->real == nullptr) FailAsTheLoaderWould(name, binding->object);
  StoreBinding(BindingKey(binding->object, binding->hook), binding->real);
  ReportBinding(binding->object, ObjectOf(binding->real), name);
}

void* ResolveSlow(HookId hook, void* caller) {
  const link_map* object = ObjectOf(caller);
  if (const Binding* known = KnownBinding(BindingKey(object, hook))) return known->real;
  NewBinding binding = {hook, caller, object, nullptr};
  CallWithRoom(&Bind, &binding);
  return binding.real;
}

}  // namespace

std::atomic<uint32_t> g_binding_generation{1};

link_map* ObjectOf(const void* address) {
  using FindObject = int (*)(void*, dl_find_object*);
  // glibc 2.35: 13 ns and no lock. Looked up, because even a weak reference would prevent the shim from loading with
  // 2.34.
  static const auto find = reinterpret_cast<FindObject>(RealDlsym(RTLD_NEXT, "_dl_find_object"));
  if (find != nullptr) {
    dl_find_object found;
    return find(const_cast<void*>(address), &found) == 0 ? found.dlfo_link_map : nullptr;
  }
  return ObjectOfSlow(address);
}

link_map* ObjectOfSlow(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  int found = dlhook_libc_dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  return found == 0 ? nullptr : map;
}

bool IsLoadedBefore(const link_map* first, const link_map* second) {
  for (const link_map* map = first; map != nullptr; map = map->l_next) {
    if (map == second) return true;
  }
  return false;
}

const char* ObjectName(const link_map* object) {
  if (object == nullptr) return "";
  const char* path = object->l_name;
  return path == nullptr || path[0] == '\0' ? program_invocation_short_name : BaseName(path);
}

void* FindReal(const char* name, const char* const* sonames, void* own_symbol, void* caller) {
  ErrnoKeeper keeper;
  const link_map* object = ObjectOf(caller);
  void* global = RealDlsym(RTLD_NEXT, name);
  void* own = FindInObject(name, nullptr, object);
  if (own == own_symbol) own = nullptr;
  // Two libraries with versioned symbols (two CUDA runtimes): the loader skips definitions of another version.
  const char* version = global != nullptr && own != nullptr && global != own ? RequiredVersion(object, name) : nullptr;
  if (version != nullptr) {
    global = RealDlvsym(RTLD_NEXT, name, version);
    own = FindInObject(name, version, object);
  }
  void* real = ChooseBinding(global, own, object);
  return real != nullptr ? real : FindAnywhere(name, sonames, own_symbol);
}

void* ResolveReal(ThreadState* thread, HookId hook, void* caller) {
  ErrnoKeeper keeper;
  uint32_t generation = CurrentBindingGeneration();
  if (thread != nullptr && thread->cache_generation != generation) {
    memset(thread->cache, 0, sizeof thread->cache);
    thread->cache_generation = generation;
  }
  void* real = ResolveSlow(hook, caller);
  if (thread != nullptr) {
    uint64_t key = BindingCacheKey(hook, caller);
    // With the generation that was read before: another look-up may have set the thread's to a later one.
    uint64_t tagged = reinterpret_cast<uint64_t>(real) | uint64_t{generation & UINT16_MAX} << 48;
    StoreBinding(&thread->cache[BindingCacheIndex(key)], key, tagged);
  }
  return real;
}

}  // namespace dlhook::inline link
