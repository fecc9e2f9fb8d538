// The module objects (torch.nn.Module, keras.Layer) whose calls are in Python stacks: their numbers, and their names,
// which a pending call of the interpreter reads from the model (README.md: its cost and why it is safe).
// Thread: functions that say so run on Python's main thread with the GIL; the others on any application thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/python/python_process.h"
#include "preload/python/python_runtime.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline python {

// Notes which code of this stack is one through which modules are called: needed to recognise their calls. Slow path:
// for new stacks.
void NoteModuleCodes(const PythonRuntime& python, const void* first);

// The module whose call this frame is, or null.
const void* ModuleOfFrame(const PythonRuntime& python, const void* frame, const void* code);

// Numbers the modules of a stack, outermost first, and requests names if there are new ones.
void RegisterModules(const PythonRuntime& python, PythonProcess* process, ThreadState* thread, const void* frame);

// Writes the records of objects with new information. False: the ring is full, the rest follows. Needs the lock.
bool WriteObjects(PythonProcess* process, ThreadState* thread);

// The next step towards the wanted names: requests a pending call, or handles one that does not come. Needs no GIL.
void AdvanceNames(PythonProcess* process, ThreadState* thread);

// In python_names.cc, which reads the qualified names of modules from the running models, by a pending call of the interpreter.
// Thread: the functions on any; the call itself on one of Python's threads (before 3.12 the main thread) with the GIL,
// between two instructions.

// False if the interpreter accepts no pending call now, or lacks something needed for names (a capability says so).
bool RequestPendingCall();

// Before 3.12 the main thread may wait for others that run the models, and never make the call. Then a short-lived
// thread of dlhook's own makes it. Does nothing if that can't be the reason.
void CallFromOwnThread();

}  // namespace dlhook::inline python
