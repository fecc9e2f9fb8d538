// Reads the qualified names of modules from the running models, by a pending call of the interpreter.
// Thread: the functions on any; the call itself on one of Python's threads (before 3.12 the main thread) with the GIL,
// between two instructions.
#ifndef DLHOOK_PRELOAD_PYTHON_PYTHON_NAMES_H_
#define DLHOOK_PRELOAD_PYTHON_PYTHON_NAMES_H_

namespace dlhook::inline python {

// False if the interpreter accepts no pending call now, or lacks something needed for names (a capability says so).
bool RequestPendingCall();

// Before 3.12 the main thread may wait for others that run the models, and never make the call. Then a short-lived
// thread of dlhook's own makes it. Does nothing if that can't be the reason.
void CallFromOwnThread();

}  // namespace dlhook::inline python

#endif  // DLHOOK_PRELOAD_PYTHON_PYTHON_NAMES_H_
