// The least time in which the machines of a run could have done a call's work: the roofline (Williams, Waterman and Patterson, "Roofline: An
// Insightful Visual Performance Model for Multicore Architectures", 2009), with what starting a call and dividing it among threads costs.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline peaks {

// What vendors state that a processor or GPU computes, for runs of machines that were not measured.

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

// What keeps a call from being faster than its bound.
enum class BoundKind : uint8_t {
  kUnknown,  // memory's bandwidth, or the operations, are not known: the time is a bound still
  kCompute,  // operations at the peak rate of their type
  kMemory,   // its operands, each once, from the level of memory that could hold them all
  kLaunch,   // starting a call, or on a GPU a kernel, takes longer than its work
  kSerial    // too little work to be divided among threads
};
const char* BoundKindName(BoundKind kind);  // "" for kUnknown

struct Bound {
  double ns = 0;
  BoundKind kind = BoundKind::kUnknown;
};

// A line of a roofline, with all threads that the program may use.
struct Roof {
  std::string name;  // a type of PeakTypeOf, or a level of memory
  double value = 0;  // GFLOP/s or GB/s
  bool is_bandwidth = false;
  bool on_gpu = false;
};

class Peaks {
 public:
  Peaks() = default;  // nothing is known
  // `calibration`: of the machine that the run is from (see Fits); null: only what vendors state. Runs of several kinds of machines have
  // no peaks.
  Peaks(const TraceModel& model, const Calibration* calibration);

  bool IsKnown() const { return !on_cpu_.empty() || !on_gpu_.empty(); }
  // Of one call of the op, on the CPU or a GPU. nullopt: nothing is known that would bound it.
  std::optional<Bound> BoundOf(const Op& op) const;
  // The same for other counts of operations: what another algorithm would cost.
  std::optional<Bound> BoundOf(const Op& op, double flops, double bytes) const;
  // On the CPU in a type of PeakTypeOf, for so many running threads (a mean). nullopt: it was not measured.
  std::optional<Bound> MeasuredBound(const std::string& type, double flops, double bytes, double threads) const;
  // GFLOP/s that products of the op's types reach at most; nullopt: not known.
  std::optional<double> RateOf(const Op& op) const;
  std::vector<Roof> Roofs() const;
  // Where the peaks are from, and what is not known: sentences for the notes of a table.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Rate {
    double one = 0;  // thread …
    double all = 0;  // … and all that the program may use; 0: not known
  };
  struct Level {       // of memory
    double bytes = 0;  // that it holds
    Rate rate;
  };
  void TakeMeasured(const Calibration& calibration, uint32_t threads);
  void TakeStated(const ProcessInfo& process, uint32_t threads);
  void TakeGpus(const TraceModel& model, const Calibration* calibration);
  std::optional<Bound> CpuBound(const std::string& type, double flops, double bytes, double threads) const;
  std::optional<Bound> GpuBound(const std::string& type, double flops, double bytes) const;

  bool is_measured_ = false;
  uint32_t threads_ = 1;
  std::map<std::string, Rate, std::less<>> on_cpu_;  // GFLOP/s by type
  std::vector<Level> levels_;                        // the smallest first
  double call_ns_ = 0;
  double dividing_ns_ = 0;
  std::map<std::string, double, std::less<>> on_gpu_;
  double gpu_memory_ = 0;  // GB/s
  double gpu_launch_ns_ = 0;
  std::vector<std::string> notes_;
};

// "f32" … as peaks have it: of the first operand, on a GPU "tf32" where the product may use it. Empty: none of them.
std::string PeakTypeOf(const Op& op);

}  // namespace dlhook::analyzer::peaks
