// The application's own use of CUPTI, seen through the interposed functions of libcupti. What it means for ours:
// README.md, "Living with others".
// Thread: any.
#ifndef DLHOOK_PRELOAD_GPU_CUPTI_HOOKS_H_
#define DLHOOK_PRELOAD_GPU_CUPTI_HOOKS_H_

namespace dlhook::inline gpu {

// What opening CUPTI for ourselves must know of the application, at the moment of opening.
struct ApplicationCupti {
  bool holds;           // it uses CUPTI right now: no call of ours
  bool is_subscribed;   // it keeps the one subscription, but measures nothing: the activity API is free
  bool has_timestamps;  // times come from a function of its own until UseOwnTimestamps
  bool has_finalized;   // CUPTI was taken down once
};
ApplicationCupti ApplicationCuptiState();

// Before kinds of ours are enabled: times by CLOCK_REALTIME, where the application has set another source.
void UseOwnTimestamps();

// When kinds of ours are disabled and our buffers are back: the application's own buffer functions and time source
// are in force again, where it has any.
void RestoreApplicationCupti();

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_CUPTI_HOOKS_H_
