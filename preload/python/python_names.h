// Reads the qualified names of modules out of the models that are running, by a pending call of the interpreter.
// Thread: the functions on any; the call itself on one of Python's threads (before 3.12 the main thread) with the GIL,
// between two instructions.
#ifndef DLHOOK_PRELOAD_PYTHON_PYTHON_NAMES_H_
#define DLHOOK_PRELOAD_PYTHON_PYTHON_NAMES_H_

namespace dlhook::inline python {

// False where the interpreter takes no call now, or has not all that is needed for names (a capability says so).
bool RequestPendingCall();

// Before 3.12 the main thread may wait for others that run the models, and never come to the call. Then a thread of our
// own, which lives for as long as that takes, makes it. Does nothing where that can't be the reason.
void CallFromOwnThread();

}  // namespace dlhook::inline python

#endif  // DLHOOK_PRELOAD_PYTHON_PYTHON_NAMES_H_
