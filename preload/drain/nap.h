// How long a drain sleeps between two steps. It is never woken up, because a recorded thread makes no system call,
// which its sandbox might not allow. Bursts in the meantime go into rings that grow; rings that can't must be checked
// more often.
// Thread: the drain's.
#pragma once

#include <cstdint>

namespace dlhook::inline drain {

class DrainNap {
 public:
  // After a step that found the fullest ring `fullness`/256 full. `to_sample_ns`: until the next counter sample.
  // Nanoseconds.
  long Next(uint32_t fullness, bool rings_grow, uint64_t to_sample_ns) {
    if (fullness > kMuch) nap_ns_ = kShortestNs;
    if (fullness > kEnough) nap_ns_ /= 2;
    if (fullness < kLittle) nap_ns_ *= 2;
    const long longest_ns = rings_grow ? kLongestNs : kLongestOfFixedNs;
    if (nap_ns_ > longest_ns) nap_ns_ = longest_ns;
    if (nap_ns_ < kShortestNs) nap_ns_ = kShortestNs;
    // A sample is due soon after: wake up once for both.
    const bool serves_both = nap_ns_ == longest_ns && to_sample_ns < 2 * static_cast<uint64_t>(longest_ns);
    return serves_both || to_sample_ns < static_cast<uint64_t>(nap_ns_) ? static_cast<long>(to_sample_ns) : nap_ns_;
  }

 private:
  static constexpr long kShortestNs = 500 * 1000;
  static constexpr long kLongestNs = 100 * 1000 * 1000;
  static constexpr long kLongestOfFixedNs = 8 * 1000 * 1000;
  static constexpr uint32_t kMuch = 128, kEnough = 48, kLittle = 24;

  long nap_ns_ = kShortestNs;
};

}  // namespace dlhook::inline drain
