// The pending call. It runs no Python code, so the GIL is not released in it: it reads the dictionaries that contain
// the model's modules, and makes weak references. Its only effect visible in Python is on `weakref.getweakrefcount`.

#include <stdio.h>

#include "preload/base/libc_functions.h"
#include "preload/base/own_pages.h"
#include "preload/base/process_id.h"
#include "preload/format/clock.h"
#include "preload/python/python_modules.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline python {
namespace {

constexpr uint32_t kMaxTries = 16;
constexpr uint32_t kFreeSearches = 256;  // of models; after that they take at most 1/kRestFactor of the time
constexpr uint64_t kRestFactor = 64;
// For a call by dlhook's own thread the model must stay where it is: the model's thread waits, with these limits.
constexpr uint32_t kMaxWaits = 64;
constexpr uint32_t kMaxWaitSteps = 200;
constexpr uint64_t kWaitStepNs = 100 * 1000;
constexpr uint32_t kMaxRoots = 64;  // in one call; the rest follows
constexpr uint32_t kMaxLiveModules = 1024, kMaxOwners = 256;

bool HaveApi() {
  static std::atomic<bool> is_reported{false};
  if (g_python_api.is_complete()) return true;
  if (!is_reported.exchange(true))
    ReportCapability("module-names", "", CapabilityState::kRefused, "this Python lacks a function that names need");
  return false;
}

// Called by the interpreter when a module dies. `self`: process id and number; a forked child has its own numbers.
PyObject* OnModuleDeath(PyObject* self, PyObject*) {
  unsigned long long identity = g_python_api.LongAsUnsigned(self);
  PythonProcess* process = GetPythonProcess();
  if (process != nullptr && (identity >> 32) == ProcessId()) RetireObject(process, static_cast<uint32_t>(identity));
  return NewNone();
}

PyMethodDef g_on_module_death = {"module_died", {&OnModuleDeath}, PyMethodDef::kOneArgument, nullptr};

// Makes a weak reference, which reports the object's death. Classes without weak references are skipped: their objects
// are distinguished by address and type.
void Hold(PythonProcess* process, uint32_t number, PyObject* object) {
  if (number == 0 || (process->objects[number].flags.load() & (kObjectHeld | kObjectRetired)) != 0) return;
  const Ref identity(g_python_api.LongFromUnsigned((uint64_t{ProcessId()} << 32) | number));
  const Ref callback = identity ? NewFunction(&g_on_module_death, identity.get()) : Ref(nullptr);
  Ref reference(callback ? g_python_api.NewWeakRef(object, callback.get()) : nullptr);
  if (!reference) return;
  process->objects[number].weak_reference = reference.Release();
  process->objects[number].flags.fetch_or(kObjectHeld, std::memory_order_acq_rel);
}

// Weak references to dead objects. Not released in their callback, which still uses them.
void ReleaseReferences(PythonProcess* process) {
  uint32_t count = process->object_count;
  for (uint32_t number = 1; number <= count; ++number) {
    PythonObject* object = &process->objects[number];
    if (object->weak_reference == nullptr || (object->flags.load() & kObjectRetired) == 0) continue;
    g_python_api.DecRef(static_cast<PyObject*>(object->weak_reference));
    object->weak_reference = nullptr;
  }
}

// Modules whose calls are running on some thread of the interpreter: alive now, and kept so (before 3.10 making a weak
// reference may collect garbage).
struct LiveModules {
  PyObject* objects[kMaxLiveModules];
  uint32_t count;
  // Modules of which an ordinary method is around an outermost one's call, those of one from the inside out.
  struct Owner {
    PyObject* object;
    uint32_t of;
  };
  Owner owners[kMaxOwners];
  uint32_t owner_count;

  bool Has(const void* object) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (objects[i] == object) return true;
    }
    return false;
  }
};

PyObject* Keep(const void* object) {
  auto kept = static_cast<PyObject*>(const_cast<void*>(object));
  g_python_api.IncRef(kept);
  return kept;
}

// Reads the module's dictionary and compares types: runs no Python code.
bool IsTorchModule(const void* object) {
  const Ref module = AttributeOfModule("torch.nn.modules.module", "Module");
  return module && IsA(object, module.get());
}

// The other threads' frames do not change: that needs the GIL.
void CollectLiveModules(const PythonRuntime& python, LiveModules* live) {
  live->count = live->owner_count = 0;
  void* thread = g_python_api.FirstThread(python.main_interpreter());
  for (; thread != nullptr; thread = g_python_api.NextThread(thread)) {
    uint32_t frames = 0;
    uint32_t outermost = kMaxLiveModules;  // this thread's
    VisitFrames(python, PythonFrameOf(python, thread), [&](const void* frame, const void* code, int64_t) {
      const void* object = ModuleOfFrame(python, frame, code);
      const void* owner = object == nullptr && outermost < live->count ? FirstArgument(python, frame) : nullptr;
      if (object != nullptr && live->count < kMaxLiveModules && !live->Has(object)) {
        outermost = live->count;
        live->objects[live->count++] = Keep(object);
      } else if (owner != nullptr && owner != live->objects[outermost] && live->owner_count < kMaxOwners) {
        const LiveModules::Owner* last = live->owner_count == 0 ? nullptr : &live->owners[live->owner_count - 1];
        bool is_known = last != nullptr && last->of == outermost && last->object == owner;
        if (is_known || !IsTorchModule(owner)) return ++frames < kMaxVisitedFrames;
        live->owners[live->owner_count++] = {Keep(owner), outermost};
      }
      return ++frames < kMaxVisitedFrames;
    });
  }
}

uint32_t LockAndFind(PythonProcess* process, const void* object) {
  SpinLockHolder holder(&process->lock);
  return FindObject(*process, object);
}

void HoldLiveModules(PythonProcess* process, const LiveModules& live) {
  for (uint32_t i = 0; i < live.count; ++i) Hold(process, LockAndFind(process, live.objects[i]), live.objects[i]);
}

bool IsBare(const PythonProcess& process, const PythonObject& object) {
  return memchr(process.arena + object.text, '\0', object.text_bytes) == nullptr;
}

// Modules outside of every model's tree (kept in a plain list) get at least their type's full name.
void NameTypes(PythonProcess* process, const LiveModules& live) {
  for (uint32_t i = 0; i < live.count; ++i) {
    char text[512];
    size_t size = ModuleTypeName(live.objects[i], text, sizeof text - 1);
    text[size++] = '\0';
    SpinLockHolder holder(&process->lock);
    uint32_t number = FindObject(*process, live.objects[i]);
    if (number != 0 && IsBare(*process, process->objects[number])) SetObjectText(process, number, text, size);
  }
}

// The same for modules that returned before the call, from a living module of the same type.
void NameTypesByOthers(PythonProcess* process) {
  constexpr uint32_t kMaxOthers = 1024;
  SpinLockHolder holder(&process->lock);
  uint32_t count = process->object_count;
  for (uint32_t number = 1; number <= count; ++number) {
    PythonObject* object = &process->objects[number];
    bool is_typed = (object->flags.fetch_or(kObjectTyped) & kObjectTyped) != 0;
    if (is_typed || !IsBare(*process, *object)) continue;
    for (uint32_t i = 1; i <= count && i < kMaxOthers; ++i) {
      const PythonObject& other = process->objects[i];
      bool is_alive = (other.flags.load() & (kObjectHeld | kObjectRetired)) == kObjectHeld;
      if (!is_alive || other.type != object->type || IsBare(*process, other)) continue;
      const char* type_name = process->arena + other.text;
      SetObjectText(process, number, type_name, strlen(type_name) + 1);
      break;
    }
  }
}

// Roots whose trees contain unknown names, at most kMaxRoots. Those known to be dead are skipped.
uint32_t RootsToRead(PythonProcess* process, uint32_t (&roots)[kMaxRoots]) {
  SpinLockHolder holder(&process->lock);
  uint32_t count = 0;
  for (uint32_t number = 1; number <= process->object_count && count < kMaxRoots; ++number) {
    PythonObject* object = &process->objects[number];
    if ((object->flags.load() & (kObjectSeen | kObjectSearched | kObjectRetired)) != kObjectSeen) continue;
    uint32_t root = object->root;
    bool is_listed = root == 0 || (process->objects[root].flags.load() & kObjectRetired) != 0;
    for (uint32_t i = 0; i < count; ++i) is_listed = is_listed || roots[i] == root;
    if (!is_listed) roots[count++] = root;
  }
  return count;
}

// All modules seen so far under this root were searched for in its tree.
void MarkSearched(PythonProcess* process, uint32_t root) {
  SpinLockHolder holder(&process->lock);
  for (uint32_t number = 1; number <= process->object_count; ++number) {
    PythonObject* object = &process->objects[number];
    if (object->root == root && (object->flags.load() & kObjectSeen) != 0) object->flags.fetch_or(kObjectSearched);
  }
}

// Reads the tree below a module, numbers its modules, calls `use` under the lock, and holds them.
template <typename Use>
void ReadTree(PythonProcess* process, ModuleTree* tree, PyObject* module, bool keras, const char* name, Use use) {
  ReadModuleTree(module, keras, tree, name);
  {
    SpinLockHolder holder(&process->lock);
    NumberModuleTree(process, tree);
    use();
  }
  for (uint32_t i = 0; i < tree->count; ++i) Hold(process, tree->entries[i].number, tree->entries[i].object);
  ReleaseModuleTree(tree);
}

void NameTree(PythonProcess* process, ModuleTree* tree, uint32_t root) {
  auto object = static_cast<PyObject*>(const_cast<void*>(process->objects[root].object));
  bool keras = (process->objects[root].flags.load() & kObjectKeras) != 0;
  ReadTree(process, tree, object, keras, "", [&] { SetTexts(process, *tree, root); });
  MarkSearched(process, root);
}

// Gives the tree's modules its root, those that were not called yet, too. Returns the owner's number. Needs the lock.
uint32_t OwnTree(PythonProcess* process, const ModuleTree& tree) {
  uint32_t owner = tree.entries[0].number;
  if (owner == 0) return 0;
  MarkSeen(process, owner, owner, 0);
  for (uint32_t number = 1; number <= process->object_count; ++number) {
    PythonObject* object = &process->objects[number];
    bool is_unseen = object->root == 0 && tree.first_of[number] != 0;
    bool is_of_part = object->root != 0 && object->root != owner && tree.first_of[object->root] != 0;
    if (!is_unseen && !is_of_part) continue;
    object->root = owner;
    object->flags.fetch_and(~uint32_t{kObjectWritten | kObjectSearched}, std::memory_order_acq_rel);
    if (number < process->first_unwritten) process->first_unwritten = number;
  }
  return owner;
}

// A module that is called by a method of another one, which is not called itself (training_step of a LightningModule), has
// the names of that one's tree, if it is in there: "encoder.0", not "0" of the second Sequential. Of several the outermost
// counts that has it: a model that runs in its constructor is not in the tree of what makes it yet.
void AdoptRoots(PythonProcess* process, const LiveModules& live, ModuleTree* tree) {
  for (uint32_t i = live.owner_count; i > 0; --i) {
    const void* root_object = live.objects[live.owners[i - 1].of];
    PyObject* owner = live.owners[i - 1].object;
    uint32_t number = 0;
    {
      SpinLockHolder holder(&process->lock);
      uint32_t root = FindObject(*process, root_object);
      if (root == 0 || process->objects[root].root != root) continue;
    }
    ReadModuleTree(owner, /*keras=*/false, tree);
    bool is_in_tree = false;
    for (uint32_t entry = 1; entry < tree->count; ++entry) is_in_tree |= tree->entries[entry].object == root_object;
    if (is_in_tree) {
      SpinLockHolder holder(&process->lock);
      NumberModuleTree(process, tree);
      number = OwnTree(process, *tree);
    }
    ReleaseModuleTree(tree);
    Hold(process, number, owner);
  }
}

// If it is in no tree of its root, which was read: the name of its own tree, which is its type's, with a number from the
// second living one on; false: it is in one. Needs the lock.
bool NameOfStray(PythonProcess* process, uint32_t number, char (&name)[128]) {
  PythonObject* object = &process->objects[number];
  uint32_t flags = object->flags.load();
  bool is_searched = (flags & (kObjectSearched | kObjectKeras | kObjectRetired | kObjectStray)) == kObjectSearched;
  if (!is_searched || object->root == number || IsNamed(*process, *object)) return false;
  uint32_t earlier = 0;
  for (uint32_t other = 1; other <= process->object_count; ++other) {
    const PythonObject& of = process->objects[other];
    bool is_alive = (of.flags.load() & (kObjectStray | kObjectRetired)) == kObjectStray;
    earlier += is_alive && of.root == object->root && of.type == object->type ? 1 : 0;
  }
  auto type_name = ReadAt<const char*>(object->type, kPyTypeName);
  int bytes = snprintf(name, sizeof name - 16, "%s", type_name);
  if (earlier > 0 && bytes < static_cast<int>(sizeof name) - 16) snprintf(name + bytes, 16, " #%u", earlier + 1);
  return true;
}

// A model that another module calls without holding it as one of its own (in a plain object of its, a list) has its own
// tree's names, behind its type: "DetectionModel.model.0.conv".
void NameStrays(PythonProcess* process, const LiveModules& live, ModuleTree* tree) {
  for (uint32_t i = live.count; i > 0; --i) {  // from the outside in
    PyObject* object = live.objects[i - 1];
    uint32_t number = 0;
    char name[128];
    {
      SpinLockHolder holder(&process->lock);
      number = FindObject(*process, object);
      if (number == 0 || !NameOfStray(process, number, name)) continue;
    }
    ReadTree(process, tree, object, /*keras=*/false, name, [&] {
      if (tree->count <= 1) return;
      process->objects[number].flags.fetch_or(kObjectStray);
      uint32_t root = process->objects[number].root;
      SetTexts(process, *tree, root, /*of_stray=*/true);
      for (uint32_t entry = 0; entry < tree->count; ++entry) {
        uint32_t part = tree->entries[entry].number;
        if (part != 0 && process->objects[part].root == 0) process->objects[part].root = root;
      }
    });
  }
}

// False: some roots left were not found alive.
bool NameRoots(PythonProcess* process, const LiveModules& live, ModuleTree* tree) {
  uint32_t roots[kMaxRoots];
  uint32_t count = RootsToRead(process, roots);
  bool complete = count < kMaxRoots;
  for (uint32_t i = 0; i < count; ++i) {
    PythonObject* root = &process->objects[roots[i]];
    bool is_alive = (root->flags.load() & (kObjectHeld | kObjectRetired)) == kObjectHeld || live.Has(root->object);
    if (is_alive) {
      NameTree(process, tree, roots[i]);
    } else if (++root->tries < kMaxTries) {
      complete = false;
    } else {
      MarkSearched(process, roots[i]);  // its modules keep their types
    }
  }
  return complete;
}

struct Scratch {
  LiveModules live;
  ModuleTree tree;
};

bool NameModules(PythonProcess* process) {
  auto scratch = static_cast<Scratch*>(MapOwnPages(sizeof(Scratch)));
  if (scratch == nullptr) return true;
  const NoCollection no_collection;
  ReleaseReferences(process);
  CollectLiveModules(g_python, &scratch->live);
  HoldLiveModules(process, scratch->live);
  AdoptRoots(process, scratch->live, &scratch->tree);
  bool complete = NameRoots(process, scratch->live, &scratch->tree);
  NameStrays(process, scratch->live, &scratch->tree);
  NameTypes(process, scratch->live);
  NameTypesByOthers(process);
  for (uint32_t i = 0; i < scratch->live.count; ++i) g_python_api.DecRef(scratch->live.objects[i]);
  for (uint32_t i = 0; i < scratch->live.owner_count; ++i) g_python_api.DecRef(scratch->live.owners[i].object);
  munmap(scratch, sizeof(Scratch));
  return complete;
}

// False: some are left for the next thread that captures a stack.
bool WriteAll(PythonProcess* process) {
  SpinLockHolder holder(&process->lock);
  ThreadState* thread = dlhook_thread;
  if (thread != nullptr && thread->active != 0) return WriteObjects(process, thread);
  return process->first_unwritten > process->object_count;
}

// Unless another thread has wanted names meanwhile.
void EndSearch(PythonProcess* process, bool is_complete, bool is_written) {
  NamesState next = !is_complete ? NamesState::kWanted : !is_written ? NamesState::kUnwritten : NamesState::kNone;
  NamesState in_hand = NamesState::kInHand;
  process->names_wait.store(0);
  process->names_state.compare_exchange_strong(in_hand, next);
}

void Search(PythonProcess* process) {
  uint64_t start_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  PyObject *type, *value, *traceback;
  g_python_api.ErrFetch(&type, &value, &traceback);
  ++process->searches;
  bool complete = NameModules(process);
  g_python_api.ErrRestore(type, value, traceback);
  uint64_t end_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  if (process->searches > kFreeSearches) process->next_search_ns.store(end_ns + (end_ns - start_ns) * kRestFactor);
  process->object_generation.fetch_add(1);  // threads cache what was not known
  EndSearch(process, complete, WriteAll(process));
}

// Always returns 0: anything else would be an exception in the host.
int OnPendingCall(void*) {
  PythonProcess* process = GetPythonProcess();
  NamesState requested = NamesState::kRequested;
  if (g_python.is_finalizing() != 0 || g_python.newest_interpreter() != g_python.main_interpreter()) return 0;
  if (process == nullptr || !process->names_state.compare_exchange_strong(requested, NamesState::kInHand)) return 0;
  if (process->own_thread.load() == 0) process->main_is_idle.store(0);
  ErrnoKeeper keeper;
  Search(process);
  return 0;
}

void* CallWithGil(void* process) {
  if (g_python.is_finalizing() == 0) {
    int state = g_python_api.EnsureGil();
    OnPendingCall(nullptr);
    g_python_api.ReleaseGil(state);
  }
  static_cast<PythonProcess*>(process)->own_thread.store(0);
  return nullptr;
}

void StartOwnThread(PythonProcess* process) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_attr_t detached;
  pthread_t thread;
  bool started = false;
  if (pthread_attr_init(&detached) == 0) {
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    started = dlhook_libc_pthread_create(&thread, &detached, &CallWithGil, process) == 0;
    pthread_attr_destroy(&detached);
  }
  if (!started) process->own_thread.store(0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Not with the GIL held, which the other thread needs.
void WaitForOwnThread(PythonProcess* process) {
  if (g_python_api.HasGil() != 0 || process->waits.fetch_add(1) >= kMaxWaits) return;
  for (uint32_t step = 0; step < kMaxWaitSteps && process->own_thread.load() != 0; ++step) SleepFor(kWaitStepNs);
}

}  // namespace

bool RequestPendingCall() {
  if (!HaveApi()) return false;
  if (g_python_api.AddCallForAnyThread != nullptr) {
    return g_python_api.AddCallForAnyThread(g_python.main_interpreter(), &OnPendingCall, nullptr, 0) == 0;
  }
  return g_python_api.AddPendingCall(&OnPendingCall, nullptr) == 0;
}

void CallFromOwnThread() {
  PythonProcess* process = GetPythonProcess();
  if (process == nullptr || !g_python_api.is_complete()) return;
  if (g_python_api.AddCallForAnyThread != nullptr || g_python.is_finalizing() != 0) return;
  if (process->own_thread.exchange(1) == 0) StartOwnThread(process);
  WaitForOwnThread(process);
}

}  // namespace dlhook::inline python
