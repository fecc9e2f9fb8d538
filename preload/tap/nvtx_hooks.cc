// The NVTX tap's injection: the function that NVTX calls, and those it then calls for every range.
// Thread: any application thread. A range costs two clock reads and a copy of its name; nothing is allocated.
#include <link.h>
#include <stdio.h>

#include "preload/abi/nvtx_abi.h"
#include "preload/base/entry.h"
#include "preload/base/spin_lock.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/scope.h"
#include "preload/tap/nvtx.h"
#include "preload/tap/tap.h"

extern "C" DLHOOK_EXPORT int InitializeInjectionNvtx2(dlhook::NvtxGetExportTable get_export_table);

namespace dlhook::inline tap {
namespace {

constexpr char kInjectionVariable[] = "NVTX_INJECTION64_PATH";

void ReportLimit(const char* limit) { Report(kNvtxTap, "", CapabilityState::kOn, limit); }

// ---- Domains. A handle is an address in g_domains, or null for the default domain.

struct Domain {
  char name[64];
};
constexpr uint32_t kMaxDomains = 64;
SpinLock g_lock;
Domain g_domains[kMaxDomains];
uint32_t g_domain_count;

// How many ranges are pushed on this thread, by domain: the default one, each of the first ones, and the others
// together.
constexpr uint32_t kCountedDomains = 16;
__thread uint16_t t_pushed[kCountedDomains];

bool IsDomain(const void* handle) { return handle >= g_domains && handle < g_domains + kMaxDomains; }

const char* NameOf(const void* domain) { return IsDomain(domain) ? static_cast<const Domain*>(domain)->name : nullptr; }

uint32_t PlaceOf(const void* domain) {
  if (!IsDomain(domain)) return 0;
  auto index = static_cast<uint32_t>(static_cast<const Domain*>(domain) - g_domains) + 1;
  return index < kCountedDomains ? index : kCountedDomains - 1;
}

void* CreateDomain(const char* name) {
  SpinLockHolder holder(&g_lock);
  for (uint32_t i = 0; i < g_domain_count; ++i) {
    if (strncmp(g_domains[i].name, name, sizeof g_domains[i].name - 1) == 0) return &g_domains[i];
  }
  if (g_domain_count == kMaxDomains) return nullptr;  // its ranges have no domain name
  Domain* domain = &g_domains[g_domain_count++];
  snprintf(domain->name, sizeof domain->name, "%s", name);
  return domain;
}

// ---- Registered strings: kept permanently, as in NVTX. A handle is the text's address.

char g_strings[16 << 20];  // memory as it is used; XLA registers one for each operation of each program it tries
uint32_t g_strings_used;

const char* RegisterString(const char* text) {
  size_t bytes = strnlen(text, kMaxScopeNameBytes) + 1;
  {
    SpinLockHolder holder(&g_lock);
    if (g_strings_used + bytes <= sizeof g_strings) {
      char* copy = g_strings + g_strings_used;
      g_strings_used += static_cast<uint32_t>(bytes);
      memcpy(copy, text, bytes - 1);
      copy[bytes - 1] = '\0';
      return copy;
    }
  }
  ReportLimit("too many registered strings: the ranges of later ones have no names");
  return nullptr;
}

bool IsRegistered(const void* handle) { return handle >= g_strings && handle < g_strings + sizeof g_strings; }

void ComposeOf(const void* domain, const NvtxEventAttributes* attributes, NvtxName* name) {
  const void* message = attributes == nullptr ? nullptr : attributes->message;
  NvtxMessageType type = attributes == nullptr ? NvtxMessageType::kUnknown : attributes->message_type;
  if (type == NvtxMessageType::kUnicode) {
    ComposeNvtxName(NameOf(domain), static_cast<const wchar_t*>(message), name);
    return;
  }
  bool is_text = type == NvtxMessageType::kAscii || (type == NvtxMessageType::kRegistered && IsRegistered(message));
  ComposeNvtxName(NameOf(domain), is_text ? static_cast<const char*>(message) : nullptr, name);
}

// ---- Pushed ranges

// Identifies a range of the thread, so that the pop of an unrecorded one closes no other. A unique address.
const void* OwnerOf(uint32_t place, uint32_t depth) { return g_strings + place + depth * kCountedDomains; }
static_assert(sizeof g_strings >= (UINT16_MAX + 1) * kCountedDomains);

// ---- The functions that NVTX calls. Each preserves errno.

int DomainRangePushEx(void* domain, const NvtxEventAttributes* attributes) {
  ErrnoKeeper keeper;
  const uint32_t place = PlaceOf(domain);
  const void* owner = OwnerOf(place, ++t_pushed[place]);
  ThreadState* thread = ScopeThread(FamilyBit<kNvtxTap>());
  if (thread == nullptr) return kNvtxNoDepth;
  NvtxName name;
  ComposeOf(domain, attributes, &name);
  OpenScope(thread, ScopeKind::kNvtxRange, name.text, name.bytes, name.link, owner);
  return kNvtxNoDepth;
}

int DomainRangePop(void* domain) {
  ErrnoKeeper keeper;
  const uint32_t place = PlaceOf(domain);
  if (t_pushed[place] == 0) return kNvtxNoDepth;
  const void* owner = OwnerOf(place, t_pushed[place]--);
  ThreadState* thread = dlhook_thread;
  if (thread != nullptr && thread->active != 0) CloseScope(thread, owner);
  return kNvtxNoDepth;
}

// ---- Started ranges, which may overlap and end anywhere: recorded when they end.

struct StartedRange {
  std::atomic<uint64_t> id;  // 0: free; 1: being written
  uint64_t start_ticks;
  uint32_t tid;
  NvtxName name;
};
constexpr uint32_t kMaxStarted = 256;
StartedRange g_started[kMaxStarted];
std::atomic<uint64_t> g_next_id{1};

uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

// A free entry, or null.
StartedRange* ClaimRange(uint64_t number) {
  for (uint32_t i = 0; i < kMaxStarted; ++i) {
    StartedRange& range = g_started[(number + i) % kMaxStarted];
    uint64_t free = 0;
    if (range.id.compare_exchange_strong(free, 1, std::memory_order_acquire)) return &range;
  }
  return nullptr;
}

// The range's id, or 0, as without an injection.
uint64_t DomainRangeStartEx(void* domain, const NvtxEventAttributes* attributes) {
  ErrnoKeeper keeper;
  ThreadState* thread = ScopeThread(FamilyBit<kNvtxTap>());
  if (thread == nullptr) return 0;
  uint64_t number = g_next_id.fetch_add(1, std::memory_order_relaxed);
  StartedRange* range = ClaimRange(number);
  if (range == nullptr) {
    ReportLimit("more than 256 started ranges at a time: the others are not recorded");
    return 0;
  }
  ComposeOf(domain, attributes, &range->name);
  range->tid = thread->tid;
  range->start_ticks = ReadTicks(thread->clock);
  uint64_t id = number * kMaxStarted + static_cast<uint64_t>(range - g_started);
  range->id.store(id, std::memory_order_release);
  return id;
}

void RangeEnd(uint64_t id) {
  ErrnoKeeper keeper;
  StartedRange& range = g_started[id % kMaxStarted];
  uint64_t expected = id;
  if (id < kMaxStarted || !range.id.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return;
  ThreadState* thread = ScopeThread(FamilyBit<kNvtxTap>());
  if (range.tid != ThreadId()) {
    ReportLimit("ranges that another thread ended are not recorded");
  } else if (thread != nullptr) {
    uint64_t end_ticks = ReadTicks(thread->clock);
    RecordEndedScope(thread, ScopeKind::kNvtxRange, range.name.text, range.name.bytes, end_ticks - range.start_ticks,
                     end_ticks);
  }
  range.id.store(0, std::memory_order_release);
}

// ---- The same without a domain, and with a message alone

template <typename Character>
NvtxEventAttributes AttributesOf(const Character* message) {
  NvtxEventAttributes attributes = {};
  attributes.message_type = sizeof *message == 1 ? NvtxMessageType::kAscii : NvtxMessageType::kUnicode;
  attributes.message = message;
  return attributes;
}

template <typename Character>
int PushMessage(const Character* message) {
  const NvtxEventAttributes attributes = AttributesOf(message);
  return DomainRangePushEx(nullptr, &attributes);
}

template <typename Character>
uint64_t StartMessage(const Character* message) {
  const NvtxEventAttributes attributes = AttributesOf(message);
  return DomainRangeStartEx(nullptr, &attributes);
}

int RangePushEx(const NvtxEventAttributes* attributes) { return DomainRangePushEx(nullptr, attributes); }
int RangePop() { return DomainRangePop(nullptr); }
uint64_t RangeStartEx(const NvtxEventAttributes* attributes) { return DomainRangeStartEx(nullptr, attributes); }
void DomainRangeEnd(void*, uint64_t id) { RangeEnd(id); }
void* DomainCreateA(const char* name) { return CreateDomain(name == nullptr ? "" : name); }
const void* DomainRegisterStringA(void*, const char* text) { return RegisterString(text == nullptr ? "" : text); }

void* DomainCreateW(const wchar_t* name) {
  char text[sizeof(Domain)];
  Utf8FromWide(name == nullptr ? L"" : name, text, sizeof text);
  return CreateDomain(text);
}

const void* DomainRegisterStringW(void*, const wchar_t* wide) {
  char text[kMaxScopeNameBytes];
  Utf8FromWide(wide == nullptr ? L"" : wide, text, sizeof text);
  return RegisterString(text);
}

// ---- Injection

struct Callback {
  NvtxModule module;
  unsigned id;
  NvtxFunction function;
};

template <typename Function>
NvtxFunction Generic(Function function) {
  return reinterpret_cast<NvtxFunction>(function);
}

const Callback kCallbacks[] = {
    {kNvtxCore, kNvtxRangeStartEx, Generic(&RangeStartEx)},
    {kNvtxCore, kNvtxRangeStartA, Generic(&StartMessage<char>)},
    {kNvtxCore, kNvtxRangeStartW, Generic(&StartMessage<wchar_t>)},
    {kNvtxCore, kNvtxRangeEnd, Generic(&RangeEnd)},
    {kNvtxCore, kNvtxRangePushEx, Generic(&RangePushEx)},
    {kNvtxCore, kNvtxRangePushA, Generic(&PushMessage<char>)},
    {kNvtxCore, kNvtxRangePushW, Generic(&PushMessage<wchar_t>)},
    {kNvtxCore, kNvtxRangePop, Generic(&RangePop)},
    {kNvtxCore2, kNvtxDomainRangeStartEx, Generic(&DomainRangeStartEx)},
    {kNvtxCore2, kNvtxDomainRangeEnd, Generic(&DomainRangeEnd)},
    {kNvtxCore2, kNvtxDomainRangePushEx, Generic(&DomainRangePushEx)},
    {kNvtxCore2, kNvtxDomainRangePop, Generic(&DomainRangePop)},
    {kNvtxCore2, kNvtxDomainRegisterStringA, Generic(&DomainRegisterStringA)},
    {kNvtxCore2, kNvtxDomainRegisterStringW, Generic(&DomainRegisterStringW)},
    {kNvtxCore2, kNvtxDomainCreateA, Generic(&DomainCreateA)},
    {kNvtxCore2, kNvtxDomainCreateW, Generic(&DomainCreateW)},
};

bool SetCallbacks(const NvtxCallbacksTable& tables, NvtxModule module) {
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (tables.get_module_function_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (const Callback& callback : kCallbacks) {
    bool is_there = callback.module == module && callback.id < size && table[callback.id] != nullptr;
    if (is_there) *table[callback.id] = callback.function;
  }
  return true;
}

// NVTX asks for a library to report ranges to: the shim, unless the user named one.
bool OnGetenv(const char* name, void* caller, char** answer) {
  ErrnoKeeper keeper;
  if (strcmp(name, kInjectionVariable) != 0) return false;
  const char* object = ObjectName(ObjectOf(caller));
  if (RealGetenv(name) != nullptr) {
    Report(kNvtxTap, object, CapabilityState::kOff, "another tool has NVTX_INJECTION64_PATH");
    return false;
  }
  link_map* own = ObjectOf(reinterpret_cast<void*>(&InitializeInjectionNvtx2));
  if (IsLeftOut(kNvtxTap, object) || own == nullptr) return false;
  *answer = own->l_name;
  return true;
}
DLHOOK_GETENV_TAP(kGetenvTap, kInjectionVariable, &OnGetenv);

}  // namespace
}  // namespace dlhook::inline tap

// Called by each copy of NVTX in the process. 0: not accepted; NVTX then does nothing, as without a tool.
int InitializeInjectionNvtx2(dlhook::NvtxGetExportTable get_export_table) {
  using namespace dlhook;
  ErrnoKeeper keeper;
  const char* object = ObjectName(ObjectOf(reinterpret_cast<void*>(get_export_table)));
  auto tables = static_cast<const NvtxCallbacksTable*>(get_export_table(kNvtxCallbacksTable));
  bool known = tables != nullptr && tables->struct_size >= sizeof *tables;
  if (!known || !SetCallbacks(*tables, kNvtxCore)) {
    Report(kNvtxTap, object, CapabilityState::kRefused, "a release of NVTX that is not known");
    return 0;
  }
  SetCallbacks(*tables, kNvtxCore2);  // added after the first releases
  Report(kNvtxTap, object, CapabilityState::kOn, "");
  return 1;
}
