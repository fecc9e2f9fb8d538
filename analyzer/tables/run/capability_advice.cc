// One line per capability and reason of loss; those of taps are in preload/format/taps.h.
#include "analyzer/tables/run/capability_advice.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Advice {
  absl::string_view capability;
  absl::string_view sentence;
};

// If it was refused, lost or is absent.
constexpr Advice kMissing[] = {
    {"python-frames", "Lines of the program and names of modules are missing; CPython 3.9 to 3.14 is known."},
    {"module-names", "Layers are then named by class and line."},
    {"native-stacks", "Call sites are then known only by Python lines and framework ops."},
    {"compiled-code", "Compiled code then lacks names, modules or reasons, at least in part."},
    {"samples", "Code without hooks then appears only as sampled time, or in part."},
    {"libxsmm-kernels", "Their time appears in samples only: dlhook run --sample."},
    {"gpu-time", "Calls then have host times only; dlhook doctor says what this machine supports."},
};

// If the user switched it off.
constexpr Advice kOff[] = {
    {"python-frames", "Leave DLHOOK_PYTHON as it is by default."},
    {"native-stacks", "Record with DLHOOK_STACKS=all, or native."},
    {"gpu-time", "Leave DLHOOK_GPU as it is by default."},
};

const Tap* TapOf(absl::string_view capability) {
  const auto found =
      std::find_if(std::begin(kTaps), std::end(kTaps), [&](const Tap* tap) { return tap->capability == capability; });
  return found == std::end(kTaps) ? nullptr : *found;
}

constexpr char kCounters[] = "See dlhook counters.";

template <size_t N>
std::string Find(const Advice (&advice)[N], absl::string_view capability) {
  for (const Advice& candidate : advice) {
    if (candidate.capability == capability) return std::string(candidate.sentence);
  }
  return "";
}

}  // namespace

bool IsOfCounters(const Capability& capability) {
  return capability.name == "counters" || absl::StartsWith(capability.name, kCounterPrefix);
}

std::string AdviceFor(const Capability& capability) {
  if (IsOfCounters(capability)) return IsMissing(capability) ? kCounters : "";
  const Tap* tap = TapOf(capability.name);
  const TapAdvice advice = tap == nullptr ? TapAdvice{"", ""} : tap->advice;
  const bool is_hopeless =
      advice.hopeless_object != nullptr && absl::StartsWith(capability.object, advice.hopeless_object);
  switch (capability.state) {
    case CapabilityState::kOff:
      return tap != nullptr ? advice.off : Find(kOff, capability.name);
    case CapabilityState::kRefused:
      if (is_hopeless) return advice.hopeless;
      if (advice.refused != nullptr) return advice.refused;
      [[fallthrough]];
    case CapabilityState::kLost:
    case CapabilityState::kAbsent:
      return tap != nullptr ? advice.missing : Find(kMissing, capability.name);
    default:
      return "";
  }
}

std::string AdviceFor(const Loss& loss) {
  switch (loss.reason) {
    case LossReason::kRingFull:
      return "Make the rings larger (DLHOOK_RING_KIB, DLHOOK_GROWTH_KIB) or record less (DLHOOK_CAPTURE).";
    case LossReason::kNoRing:
      return "Make the rings larger (DLHOOK_RING_KIB); at most 232 threads are recorded at once.";
    case LossReason::kOutputFull:
      return "Free space where the run is, choose another place (-o, DLHOOK_OUT), or limit it (DLHOOK_MAX_BYTES).";
    case LossReason::kOutputGone:
      return "Do not change the run's folder while the program runs.";
    case LossReason::kDlsymPlainPointer:
      return "Only 2048 functions looked up by dlsym can be distinguished; CUDA driver functions with arguments newer "
             "than this dlhook are passed through.";
    case LossReason::kCollectorGone:
      return "Keep dlhook run alive while its program runs.";
    case LossReason::kReadingsDropped:
      return "Read counters less often (DLHOOK_COUNTERS_AT=time, DLHOOK_COUNTERS_MS), or make the rings larger "
             "(DLHOOK_RING_KIB).";
    case LossReason::kSamplesDropped:
      return "Take fewer samples (--sample=HZ), or make the rings larger (DLHOOK_RING_KIB).";
    case LossReason::kGpuBuffersFull:
      return "Make CUPTI's buffers larger (DLHOOK_GPU_BUFFERS_MIB).";
    case LossReason::kGpuRecordsDropped:
      return "Make the rings larger (DLHOOK_RING_KIB).";
    case LossReason::kTraceLimit:
    case LossReason::kProfilesDropped:
      return "Raise DLHOOK_MAX_BYTES.";
    case LossReason::kBadRecord:
      return "dlhook's memory was overwritten: please report it.";
    default:
      return "";
  }
}

bool IsMissing(const Capability& capability) {
  return capability.state == CapabilityState::kRefused || capability.state == CapabilityState::kLost;
}

}  // namespace dlhook::analyzer::tables
