#include "preload/unwind/unwind_tables.h"

#include "preload/base/loaded_objects.h"
#include "preload/base/own_memory.h"
#include "preload/format/folders.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline unwind {
namespace {

constexpr uint64_t kUserSpaceEnd = uint64_t{1} << 47;
constexpr uint64_t kLongestCall = 7;
constexpr uint64_t kLongestEpilogue = 7;

using FindObject = int (*)(void*, dl_find_object*);

// glibc 2.35: no lock. Looked up, because even a weak reference would prevent the shim from loading with 2.34.
FindObject RealFindObject() {
  static const auto find = reinterpret_cast<FindObject>(RealDlsym(RTLD_NEXT, "_dl_find_object"));
  return find;
}

bool FindByIteration(uint64_t address, CodeObject* object) {
  bool is_found = AnyLoadedObject([address, object](const dl_phdr_info& info) {
    const ObjectSpan span(info);
    if (address < span.start || address >= span.end) return false;
    *object = {nullptr, span.start, span.end, nullptr};
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      if (info.dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
        object->table = reinterpret_cast<const uint8_t*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
    return true;
  });
  if (is_found) object->map = ObjectOf(reinterpret_cast<const void*>(address));
  return is_found && object->map != nullptr;
}

constexpr char kLibgcc[] = "libgcc_s.so.1";

// Searched for again only if something was loaded since. dlopen(RTLD_NOLOAD) would search the library path, under a
// lock that is held while libraries' constructors run.
bool IsLibgccLoaded() {
  static std::atomic<uint64_t> without{0};  // the number of loads when it was not found
  const uint64_t known = without.load(std::memory_order_relaxed);
  uint64_t loads = 0;
  bool is_loaded = false;
  AnyLoadedObject([&](const dl_phdr_info& info) {
    loads = info.dlpi_adds;
    is_loaded = loads != known && strcmp(BaseName(info.dlpi_name), kLibgcc) == 0;
    return is_loaded || loads == known;
  });
  if (!is_loaded) without.store(loads, std::memory_order_relaxed);
  return is_loaded;
}

struct FdeBases {
  void* text;
  void* data;
  void* function;
};
using FindFdeFunction = const uint8_t* (*)(void*, FdeBases*);

// libgcc's _Unwind_Find_FDE, or null.
FindFdeFunction LibgccsFindFde() {
  static std::atomic<FindFdeFunction> known{nullptr};
  static std::atomic<uint32_t> known_generation{0};  // after a dlclose it may be gone
  uint32_t generation = CurrentBindingGeneration();
  if (known_generation.load(std::memory_order_acquire) == generation) return known.load(std::memory_order_relaxed);
  void* libgcc = IsLibgccLoaded() ? dlopen(kLibgcc, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  if (libgcc == nullptr) return nullptr;
  auto find = reinterpret_cast<FindFdeFunction>(RealDlsym(libgcc, "_Unwind_Find_FDE"));
  RealDlclose(libgcc);
  known.store(find, std::memory_order_relaxed);
  known_generation.store(generation, std::memory_order_release);
  return find;
}

// The FDE that a JIT compiler registered with libgcc (__register_frame), or null. Takes libgcc's lock (before GCC 13),
// which a forked child may have inherited locked forever: there libgcc is not asked.
const uint8_t* FindRegisteredFde(uint64_t pc) {
  if (g_load_time.pid != 0 && g_load_time.pid != ProcessId()) return nullptr;
  FindFdeFunction find = LibgccsFindFde();
  FdeBases bases;
  return find == nullptr ? nullptr : find(reinterpret_cast<void*>(pc), &bases);
}

constexpr UnwindRule kOutermostRule = {0, 0, 0, FrameBase::kSp, FrameBase::kNone, ReturnFrom::kOutermost, false};

// Whether this is the beginning of glibc's __start_context, whose address makecontext uses as the return address of a
// coroutine's first function. It does not follow a call: tables don't cover the place where a caller would be.
bool IsContextStart(uint64_t address) {
  constexpr uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr uint8_t kMoveRbxToRsp[] = {0x48, 0x89, 0xdc};
  uint8_t code[sizeof kEndbr64 + sizeof kMoveRbxToRsp];
  if (CopyOwnMemory(address, code, sizeof code) != sizeof code) return false;
  bool has_endbr = memcmp(code, kEndbr64, sizeof kEndbr64) == 0;
  return memcmp(has_endbr ? code + sizeof kEndbr64 : code, kMoveRbxToRsp, sizeof kMoveRbxToRsp) == 0;
}

// For code without tables.
FoundRule Guess(uint64_t address, bool is_interrupted) {
  if (!is_interrupted && !FollowsCall(address)) return {NoRule(StackCut::kOutOfStack), true, false};
  uint8_t code[kLongestEpilogue];
  UnwindRule rule;
  size_t size = CopyOwnMemory(address, code, sizeof code);
  if (!is_interrupted && RuleOfEpilogue(code, size, &rule)) return {rule, false, true};
  return {kFramePointerRule, true, true};
}

}  // namespace

bool FollowsCall(uint64_t address) {
  uint8_t code[kLongestCall];
  return CopyOwnMemory(address - kLongestCall, code, kLongestCall) == kLongestCall && EndsWithCall(code, kLongestCall);
}

bool FindCodeObject(uint64_t address, CodeObject* object, bool may_lock) {
  FindObject find = RealFindObject();
  if (find == nullptr) return may_lock && FindByIteration(address, object);
  dl_find_object found;
  if (find(reinterpret_cast<void*>(address), &found) != 0) return false;
  *object = {found.dlfo_link_map, reinterpret_cast<uint64_t>(found.dlfo_map_start),
             reinterpret_cast<uint64_t>(found.dlfo_map_end), static_cast<const uint8_t*>(found.dlfo_eh_frame)};
  return true;
}

FoundRule FindRule(uint64_t address, bool is_interrupted, bool may_lock, CodeObject* object) {
  object->map = nullptr;
  if (address < kPageBytes || address >= kUserSpaceEnd) return {NoRule(StackCut::kOutOfStack), false, false};
  uint64_t pc = is_interrupted ? address : address - 1;
  bool in_object = FindCodeObject(pc, object, may_lock);
  const uint8_t* fde = nullptr;
  if (in_object && object->table != nullptr) fde = FindFde(object->table, pc);
  if (!in_object && may_lock) fde = FindRegisteredFde(pc);
  // An object's last FDE that begins before the address may end before it, too.
  if (fde == nullptr || !CoversAddress(fde, pc)) {
    bool is_start = in_object && !is_interrupted && IsContextStart(address);
    return is_start ? FoundRule{kOutermostRule, false, true} : Guess(address, is_interrupted);
  }
  return {ReadRule(fde, pc, address), false, true};
}

}  // namespace dlhook::inline unwind
