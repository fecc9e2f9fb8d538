// Samples of CPU time (DLHOOK_SAMPLE): each recorded thread has a timer on its own CPU time, whose signal interrupts it
// where it computes. README.md says why this is safe.
// Thread: each for itself.
#pragma once

#include <signal.h>

#include "preload/runtime/registry.h"

namespace dlhook::inline sample {

// Nothing happens if a program does not expect it; Python's and Java's profilers use others.
constexpr int kSampleSignal = SIGURG;

// A thread's memory for samples. The signal comes on `signal_stack` unless the host has given the thread one: code that
// oneDNN compiles for products has its stack pointer in the heap, below which the kernel would write. The handler goes
// on on `stack`: the host's may be small.
struct SampleThread {
  static constexpr size_t kStackBytes = 64 << 10;

  uint32_t owner;  // thread_id; another thread's: there is no timer
  int32_t timer;   // the kernel's number
  alignas(16) char stack[kStackBytes];
  alignas(16) char signal_stack[kStackBytes];
};

// What the timer's signals carry, so that the host's own are told apart.
extern const char kSampleMark;

// The state of the capability. What was lost stays so: some threads, or some of the time, have no samples.
void SaySamples(CapabilityState state, const char* reason);

// Takes a sample of the calling thread, which the signal interrupted.
void OnSampleSignal(int number, siginfo_t* info, void* context);

// Installs OnSampleSignal, once; the host's own handler of the signal is kept behind it. False: refused.
bool InstallSampleHandler();

// Is another handler in its place, which the host installed without the C library's sigaction or signal?
bool IsSampleHandlerGone();

// Gives the host's own signal to the host's own handler.
void PassToHost(int number, siginfo_t* info, void* context);

}  // namespace dlhook::inline sample
