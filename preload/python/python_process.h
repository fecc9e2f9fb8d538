// What this process knows of its Python: defined stacks and texts, module objects and their names. In memory that is
// wiped in a forked child, which has its own definitions and numbers.
// Thread: any, under `lock` except for the atomics. Never wait for the GIL, call into Python or allocate while holding
// it.
#pragma once

#include "preload/runtime/definition_table.h"

namespace dlhook::inline python {

enum ObjectFlag : uint32_t {
  kObjectSeen = 1,       // in a stack
  kObjectWritten = 2,    // its record is up to date
  kObjectHeld = 4,       // a weak reference reports its death
  kObjectRetired = 8,    // dead: its address may be another object's
  kObjectSearched = 16,  // its root's tree was read after it was seen
  kObjectKeras = 32,
  kObjectTyped = 64,   // others of its type were searched for the type's full name
  kObjectStray = 128,  // not in its root's tree, but has one: NameStrays
};

struct PythonObject {
  const void* object;
  const void* type;
  uint32_t root;
  uint32_t parent;
  uint32_t text;  // offset in the arena: type NUL name NUL name NUL …
  uint32_t text_bytes;
  std::atomic<uint32_t> flags;
  uint32_t tries;  // of a root: attempts to read its tree
  void* weak_reference;
};

constexpr uint32_t kMaxPythonObjects = 65536;
constexpr uint32_t kObjectIndexEntries = 2 * kMaxPythonObjects;
constexpr uint32_t kObjectArenaBytes = 4 << 20;

enum class NamesState : uint32_t { kNone = 0, kWanted = 1, kRequested = 2, kInHand = 3, kUnwritten = 4 };

struct PythonProcess {
  SpinLock lock;
  std::atomic<uint32_t> object_generation;  // incremented when an object dies
  std::atomic<NamesState> names_state;
  std::atomic<uint32_t> names_wait;      // stacks to capture before the next step
  std::atomic<uint64_t> next_search_ns;  // CLOCK_MONOTONIC
  std::atomic<uint32_t> own_thread;      // 1: a thread of dlhook's own waits for the GIL
  std::atomic<uint32_t> waits;           // for that thread
  std::atomic<uint32_t> compiles;        // 1: a stack goes through torch.compile
  std::atomic<uint32_t> main_is_idle;    // 1: the main thread did not come to the last pending call
  uint32_t searches;
  uint32_t object_count;
  uint32_t first_unwritten;  // objects below this number have nothing to write
  uint32_t arena_used;
  DefinitionTable<32768> stacks;
  DefinitionTable<16384> texts;
  uint32_t object_index[kObjectIndexEntries];   // numbers, by address
  PythonObject objects[kMaxPythonObjects + 1];  // by number, from 1
  char arena[kObjectArenaBytes];
};

// Null if there is no memory for it.
PythonProcess* GetPythonProcess();

// The number of a living object, 0 if it has none. Needs the lock.
uint32_t FindObject(const PythonProcess& process, const void* object);
// Numbers an object; 0 if no number is left. Needs the lock.
uint32_t AddObject(PythonProcess* process, const void* object);
// Replaces its text, `bytes` bytes long. Needs the lock.
void SetObjectText(PythonProcess* process, uint32_t number, const char* text, size_t bytes);
// It is in a stack whose outermost module is `root`; `parent` is the one around it (0: none). A root that it already has stays. Needs
// the lock.
void MarkSeen(PythonProcess* process, uint32_t number, uint32_t root, uint32_t parent);
// Its address no longer belongs to it. Needs no lock.
void RetireObject(PythonProcess* process, uint32_t number);

}  // namespace dlhook::inline python
