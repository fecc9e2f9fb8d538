// The application's own use of CUPTI, seen through the interposed functions of libcupti. Its effect on ours: README.md,
// "Sharing CUPTI with the application".
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook::inline gpu {

// What dlhook must know about the application when it opens CUPTI.
struct ApplicationCupti {
  bool holds;           // it uses CUPTI right now: we must not call it
  bool is_subscribed;   // it holds the subscription, but measures nothing: the activity API is available
  bool has_timestamps;  // times come from its own function until UseOwnTimestamps
  bool has_finalized;   // CUPTI was finalized once
};
ApplicationCupti ApplicationCuptiState();

// Before our kinds are enabled: switches to CLOCK_REALTIME if the application has set another source.
void UseOwnTimestamps();

// After our kinds are disabled and our buffers are back: restores the application's own buffer functions and source of
// times, if it has any.
void RestoreApplicationCupti();

// CUPTI has returned a buffer to dlhook's function that dlhook did not lend.
void ReturnApplicationBuffer(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

}  // namespace dlhook::inline gpu
