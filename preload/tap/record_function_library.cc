// Copies of PyTorch in this process.
#include "preload/tap/record_function_library.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include <functional>
#include <string_view>
#include <variant>

#include "preload/base/loaded_objects.h"
#include "preload/base/spin_lock.h"
#include "preload/format/identity.h"
#include "preload/link/dlsym.h"

extern "C" {
__attribute__((visibility("default"))) void* _ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE(void* result,
                                                                                                   uint8_t scope);

// The targets of the stubs; null: they ask dlhook_find_torch_before.
void* dlhook_real_torch_before[dlhook::kBefores] __attribute__((visibility("hidden"))) = {};
}

namespace dlhook::inline tap {

TorchCaller g_torch_callers[kTorchCallers];

namespace {

constexpr char kGetCallbacksName[] = "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE";
// at::RecordFunction::before, in the order of the stubs.
constexpr const char* kBefore[kBefores] = {
    "_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_"
    "wrapperIKN3c1014FunctionSchemaEEEEl",
    "_ZN2at14RecordFunction6beforeESt17reference_wrapperIKN3c1014FunctionSchemaEEl",
    "_ZN2at14RecordFunction6beforeEPKcl",
    "_ZN2at14RecordFunction6beforeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEl",
    "_ZN2at14RecordFunction6beforeESsl",
};

SpinLock g_callers_lock;

// The addresses that the object's segments span.
bool FindSpan(const link_map* object, TorchCaller* caller) {
  return AnyLoadedObject([object, caller](const dl_phdr_info& info) {
    if (info.dlpi_addr != object->l_addr) return false;
    const ObjectSpan span(info);
    caller->start = span.start;
    caller->bytes = span.end - span.start;
    return span.start < span.end;
  });
}

void StoreCaller(const TorchCaller& found, uint32_t generation) {
  SpinLockHolder holder(&g_callers_lock);
  for (TorchCaller& entry : g_torch_callers) {
    if (entry.generation.load(std::memory_order_relaxed) == generation) continue;
    entry.generation.store(0, std::memory_order_release);
    entry.start = found.start;
    entry.bytes = found.bytes;
    entry.get_callbacks = found.get_callbacks;
    memcpy(entry.before, found.before, sizeof entry.before);
    entry.generation.store(generation, std::memory_order_release);
    return;
  }
}

// The stubs' fast path leads to one copy of PyTorch: the first one, and none if there are two.
void SetShortWay(void* const* before) {
  static std::atomic<void*> first[kBefores];
  for (uint32_t i = 0; i < kBefores; ++i) {
    void* known = nullptr;
    bool is_only = first[i].compare_exchange_strong(known, before[i]) || known == before[i];
    __atomic_store_n(&dlhook_real_torch_before[i], is_only ? before[i] : nullptr, __ATOMIC_RELEASE);
  }
}

// The release: from the library; from a name like Debian's "libtorch_cpu.so.1.13"; or from the wheel's file beside it.
TorchVersion VersionOf(const link_map* object, void* library) {
  auto abi_version = reinterpret_cast<uint64_t (*)()>(RealDlsym(library, "aoti_torch_abi_version"));
  if (abi_version != nullptr) return TorchVersionOfAbi(abi_version());
  TorchVersion version = TorchVersionIn(ObjectName(object), kBeforeVersionOfFile);
  if (version.major != 0) return version;
  char path[PATH_MAX];
  char text[256];
  int folder_bytes = static_cast<int>(ObjectName(object) - object->l_name);
  snprintf(path, sizeof path, "%.*s../version.py", folder_bytes, object->l_name);
  ReadFileAt(AT_FDCWD, path, text, sizeof text);
  return TorchVersionIn(text, kBeforeVersionOfWheel);
}

// Whether the library has the functions that begin scopes: the one, or the three.
bool HasBefores(void* library) {
  auto has = [library](uint32_t i) { return RealDlsym(library, kBefore[i]) != nullptr; };
  return has(0) || (has(1) && has(2) && (has(3) || has(4)));
}

// ---- the test of the observers: scopes that dlhook opens and closes itself must be reported as expected

// at::RecordFunction, of which only the constructor, before and the destructor are used: 432 bytes in PyTorch 2.15.
struct TorchScopeObject {
  alignas(16) char bytes[4096];
};

struct TestFunctions : FunctionTable {
  using FunctionTable::FunctionTable;
  bool (*has_observers)() = Need("_ZN2at12hasCallbacksEv");
  bool (*is_enabled)() = Need("_ZN2at23isRecordFunctionEnabledEv");
  void (*remove)(uint64_t handle) = Need("_ZN2at14removeCallbackEm");
  void (*construct)(TorchScopeObject* scope, TorchScope kind) = Need("_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
  void (*destroy)(TorchScopeObject* scope) = Need("_ZN2at14RecordFunctionD1Ev");
  // The one or the other.
  void (*before)(TorchScopeObject* scope, std::variant<std::string_view, std::reference_wrapper<const int>> name,
                 int64_t sequence_number) = Find(kBefore[0]);
  void (*before_with_text)(TorchScopeObject* scope, const char* name, int64_t sequence_number) = Find(kBefore[2]);
};

struct TorchTest {
  TestFunctions call;
  const TorchFunctions* functions;

  TorchScopeObject range, op;
  char log[16];  // 'U': the range begins; 'F': the operator; the same in small: its end; '?': anything else
  uint32_t length;

  void Note(char event) {
    if (length + 1 < sizeof log) log[length++] = event;
  }
};
constinit TorchTest g_test = {};
constexpr char kTestRange[] = "dlhook: test of observers";
constexpr char kTestOp[] = "dlhook::test";
constexpr int64_t kTestNumber = 0x646c'686f'6f6b'0001;

// An observer of one kind of scope. Operators of other threads are none of the test's.
template <TorchScope kKind>
struct TestObserver {
  static constexpr bool kIsRange = kKind == TorchScope::kUserScope;
  static bool IsOfTest(const void* record_function) {
    return record_function == &g_test.range || record_function == &g_test.op;
  }
  static void* OnStart(void* context, const void* record_function) {
    *static_cast<void**>(context) = nullptr;
    if (!IsOfTest(record_function)) return context;
    bool is_expected = record_function == (kIsRange ? &g_test.range : &g_test.op) &&
                       !g_test.functions->is_async(record_function) &&
                       strcmp(g_test.functions->name(record_function), kIsRange ? kTestRange : kTestOp) == 0;
    g_test.Note(!is_expected ? '?' : kIsRange ? 'U' : 'F');
    return context;
  }
  static void OnEnd(const void* record_function, void* context) {
    if (IsOfTest(record_function)) g_test.Note(context != nullptr ? '?' : kIsRange ? 'u' : 'f');
  }
  static TorchCallback Callback() {
    TorchCallback callback = {&OnStart, &OnEnd, 1.0, {}, false, false, false, {}};
    callback.scopes[static_cast<uint32_t>(kKind)] = true;
    return callback;
  }
};

void OpenTestScope(TorchScopeObject* scope, TorchScope kind, const char* name, int64_t sequence_number = -1) {
  g_test.call.construct(scope, kind);
  if (g_test.call.before != nullptr) {
    g_test.call.before(scope, std::string_view(name), sequence_number);
  } else {
    g_test.call.before_with_text(scope, name, sequence_number);
  }
}

// Arguments (c10::ArrayRef, here empty) follow the sequence number.
size_t FindInputs(const TorchScopeObject& scope, int64_t sequence_number) {
  size_t found = 0;
  for (size_t at = 0; at + 24 <= sizeof scope.bytes; at += 8) {
    int64_t words[3];
    memcpy(words, scope.bytes + at, sizeof words);
    if (words[0] != sequence_number) continue;
    if (found != 0 || words[1] != 0 || words[2] != 0) return 0;
    found = at + 8;
  }
  return found;
}

void RunTestOp() {
  OpenTestScope(&g_test.op, TorchScope::kFunction, kTestOp);
  g_test.call.destroy(&g_test.op);
}

// Null, or the check that failed.
const char* TestObservers(TorchFunctions& functions) {
  uint64_t range = functions.add(TestObserver<TorchScope::kUserScope>::Callback());
  uint64_t op = functions.add(TestObserver<TorchScope::kFunction>::Callback());
  OpenTestScope(&g_test.range, TorchScope::kUserScope, kTestRange, kTestNumber);
  functions.inputs_offset = FindInputs(g_test.range, kTestNumber);
  RunTestOp();
  functions.disable(op);
  RunTestOp();
  functions.reenable(op);
  RunTestOp();
  g_test.call.destroy(&g_test.range);
  g_test.call.remove(op);
  g_test.call.remove(range);
  RunTestOp();
  if (g_test.length == 0) return "a scope of dlhook's own is not reported to its observers";
  if (strchr(g_test.log, '?') != nullptr)
    return "a scope of dlhook's own is reported with another name, kind or context";
  return strcmp(g_test.log, "UFfFfu") == 0 ? nullptr : "scopes of dlhook's own are not reported in their order";
}

}  // namespace

int64_t TorchFunctions::InputBytes(const void* record_function) const {
  // c10::ArrayRef<c10::IValue>; of a tensor's value, the first word is the at::Tensor.
  struct Value {
    const void* tensor;
    uint32_t tag;
  };
  struct Values {
    const Value* first;
    size_t count;
  };
  constexpr uint32_t kTensor = 1;
  constexpr size_t kMost = 65536;
  if (inputs_offset == 0 || element_count == nullptr || type == nullptr || element_bytes == nullptr) return -1;
  Values values;
  memcpy(&values, static_cast<const char*>(record_function) + inputs_offset, sizeof values);
  if (values.first == nullptr || values.count == 0 || values.count > kMost) return -1;
  int64_t bytes = 0;
  for (size_t i = 0; i < values.count; ++i) {
    const Value* value = values.first + i;
    int64_t count = 0;
    int32_t of_type = 0;
    if (value->tag != kTensor || element_count(value, &count) != 0 || count < 0) return -1;
    if (count == 0) continue;
    if (type(value, &of_type) != 0) return -1;
    bytes += count * static_cast<int64_t>(element_bytes(of_type));
  }
  return bytes;
}

void LookUpTorchCaller(void* address, TorchCaller* found) {
  ErrnoKeeper keeper;
  uint32_t generation = CurrentBindingGeneration();
  auto own = reinterpret_cast<void*>(&_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE);
  found->get_callbacks = reinterpret_cast<GetCallbacks>(FindReal(kGetCallbacksName, nullptr, own, address));
  // The code that begins scopes is in the library that stores the observers.
  const link_map* library = ObjectOf(reinterpret_cast<void*>(found->get_callbacks));
  if (void* handle = library == nullptr ? nullptr : dlopen(library->l_name, RTLD_LAZY | RTLD_NOLOAD)) {
    for (uint32_t i = 0; i < kBefores; ++i) found->before[i] = RealDlsym(handle, kBefore[i]);
    RealDlclose(handle);
    SetShortWay(found->before);
  }
  const link_map* object = ObjectOf(address);
  if (object != nullptr && found->get_callbacks != nullptr && FindSpan(object, found)) StoreCaller(*found, generation);
}

const char* FindTorchFunctions(const link_map* object, void* library, TorchFunctions* functions) {
  const TorchVersion version = VersionOf(object, library);
  if (version.major == 0) return "PyTorch of a release that cannot be told";
  const SymbolScope symbols = {&RealDlsym, library};
  *functions = TorchFunctions(symbols);
  functions->version = version;
  g_test.functions = functions;
  g_test.call = TestFunctions(symbols);
  bool complete = HasBefores(library) && functions->is_complete() && g_test.call.is_complete() &&
                  (g_test.call.before != nullptr || g_test.call.before_with_text != nullptr);
  const char* failed = nullptr;
  if (!complete) {
    failed = "this build lacks functions that dlhook needs";
  } else if (!g_test.call.has_observers() && g_test.call.is_enabled()) {
    failed = TestObservers(*functions);
  } else if (!IsTriedTorchVersion(version)) {
    // The test's scopes would be in the other observer's results.
    failed = "not tried, and not tested because other observers, such as torch.profiler's, came first";
  }
  if (failed == nullptr) return nullptr;
  static char reason[176];
  snprintf(reason, sizeof reason, "PyTorch %u.%u: %s", version.major, version.minor, failed);
  return reason;
}

}  // namespace dlhook::inline tap

extern "C" {

// For stub `number` without a target: the function that the caller at this address means.
__attribute__((visibility("hidden"))) void* dlhook_find_torch_before(void* address, uint32_t number) {
  using namespace dlhook;
  if (const TorchCaller* caller = FindTorchCaller(address)) return caller->before[number];
  TorchCaller found = {};
  LookUpTorchCaller(address, &found);
  return found.before[number];
}

}  // extern "C"
