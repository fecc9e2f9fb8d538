// Why GPUs do not compute, for the table gpu_idle and for what judges by it.
#pragma once

#include "analyzer/gpu/gpu_idle.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {

struct IdleSums {
  int64_t steady_ns = 0;
  int64_t run_ns = 0;
  int64_t gaps = 0;
  int64_t times = 0;       // how often the host did that
  int64_t longest_ns = 0;  // the largest part of a gap
  int64_t longest_start_ns = 0;
  GpuIndex longest_next = kNone;

  void Merge(const IdleSums& other);
};

struct IdleShare : IdleSums {
  GpuDeviceIndex device = 0;
  IdleCause cause = IdleCause::kUnknown;
  IdlePiece::What what = IdlePiece::What::kNothing;  // kNothing also where it is several small ones
  std::string during;                                // the same in words
  double part = 0;                                   // of the steady steps' time
  std::string then, layer, line;                     // of the work after the longest gap
};

// By device and cause, each most time first.
std::vector<IdleShare> IdleShares(const TraceModel& model, const TableOptions& options);

// What a GPU does after a gap: the call that requested it, for which layer, at which line of the program.

// Texts are empty where nothing is known, and for kNone.
class NextWork {
 public:
  NextWork(const TraceModel& model, const Attribution& attribution)
      : model_(model), attribution_(attribution), places_(GpuPlaces(model, attribution)), askers_(model, attribution) {}

  std::string NameOf(GpuIndex activity) const {
    if (activity == kNone) return "";
    const CallIndex call = CallOf(activity);
    if (call != kNone) return model_.ops[model_.calls.op[call]].function;
    const GpuKernelIndex kernel = model_.gpu.kernel[activity];
    const NameIndex name = kernel == kNone ? kNone : model_.gpu_kernels[kernel].short_name;
    return name == kNone ? "" : model_.names[name];
  }

  std::string LayerOf(GpuIndex activity) const {
    if (activity == kNone || places_[activity].layer == kNone) return "";
    const Place& place = places_[activity];
    const std::string& name = attribution_.layers[place.layer].name;
    return place.direction == LayerDirection::kUnknown ? name
                                                       : absl::StrCat(name, " ", LayerDirectionName(place.direction));
  }

  std::string LineOf(GpuIndex activity) {
    return activity == kNone || CallOf(activity) == kNone ? "" : askers_.LineOf(CallOf(activity));
  }

 private:
  CallIndex CallOf(GpuIndex activity) const {
    return model_.gpu.call[activity] != kNone ? model_.gpu.call[activity] : model_.gpu.launch_call[activity];
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<Place> places_;
  Askers askers_;
};

}  // namespace dlhook::analyzer::tables
