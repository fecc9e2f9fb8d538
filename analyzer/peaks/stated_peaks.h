// What vendors state that a processor or GPU computes, for runs of machines that were not measured.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "analyzer/model/process_info.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline peaks {

// FLOPs in a cycle of one core, fused multiply-adds as two: Intel's 64 and IA-32 Architectures Optimization Reference Manual, AMD's
// Software Optimization Guides for families 17h, 19h and 1Ah. `type`: f32, f64, and with AMX bf16 and int8. nullopt: not stated, or the
// core is not known. Some models of a core have fewer units: it is an upper bound.
std::optional<double> CoreFlopsPerCycle(const ProcessorInfo& processor, absl::string_view type);

// Of one core, in GFLOP/s, at the frequency of the time-stamp counter, which is about the nominal one: with turbo a core may do more.
// nullopt: not stated, or the trace's clock is another one.
std::optional<double> StatedCoreRate(const ProcessInfo& process, absl::string_view type);

// Of a whole GPU in GFLOP/s: multiprocessors x clock x operations in a cycle, as NVIDIA's CUDA C++ Programming Guide ("Throughput of Native
// Arithmetic Instructions") and its architecture white papers, and AMD's data sheets, have them
// for dense matrices. `type`: f32, tf32, f64, f16, bf16, int8.
std::optional<double> StatedGpuRate(const GpuDevice& device, absl::string_view type);

}  // namespace dlhook::analyzer::peaks
