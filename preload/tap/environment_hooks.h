// getenv, interposed once for all taps: oneDNN's log and NVTX's injection are switched on by variables, and
// TensorFlow's first question is how its library is seen to be there.
// Thread: any application thread, also before any constructor has run.
#ifndef DLHOOK_PRELOAD_TAP_ENVIRONMENT_HOOKS_H_
#define DLHOOK_PRELOAD_TAP_ENVIRONMENT_HOOKS_H_

namespace dlhook {

// glibc's, past our own.
char* RealGetenv(const char* name);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_TAP_ENVIRONMENT_HOOKS_H_
