// Whether the Python frames of a thread that a signal interrupted can be read. It may have been anywhere: a frame that has
// just become the current one may be incomplete, one that is being left may have lost its code.
// Thread: the interrupted one, in the signal's handler. Two to six system calls, which never fault.
#ifndef DLHOOK_PRELOAD_PYTHON_INTERRUPTED_FRAMES_H_
#define DLHOOK_PRELOAD_PYTHON_INTERRUPTED_FRAMES_H_

#include "preload/python/python_runtime.h"

namespace dlhook::inline python {

// The innermost frame, if all that a walk over kMaxPythonFrames frames reads of them and of their code is there: as long as
// the thread stands still, nobody takes it away. Else null. Arguments of the innermost frame are not included.
const void* ReadableFrameOf(const PythonRuntime& python, const void* thread_state);

}  // namespace dlhook::inline python

#endif  // DLHOOK_PRELOAD_PYTHON_INTERRUPTED_FRAMES_H_
