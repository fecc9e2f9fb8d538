// Checks this machine: whether the shim loads and records, and what else is available. Everything is tried, in child
// processes, and leaves nothing behind.
#pragma once

#include "analyzer/doctor/finding.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline doctor {

// `shim`: its path, or why it was not found. `scratch`: an empty folder.
std::vector<Finding> CheckMachine(const absl::StatusOr<std::string>& shim, const std::string& scratch,
                                  DrainLeftover drain_leftover);

// Set in the environment of the child that acts as the program: it calls AnswerProbe and exits with its result.
inline constexpr char kProbeVariable[] = "DLHOOK_DOCTOR_PROBE";
// Uses the preloaded shim as a library would. 0: it works.
int AnswerProbe();

// Starts a child process with the shim preloaded that makes one record, and waits for it; afterwards its trace is in `folder`. An error says what happened instead.
absl::Status RunProbe(const std::string& shim, const std::string& folder);

// The GPUs of this machine, and whether CUPTI is available: queried in a child process.
struct GpuMachine {
  bool has_driver = false;           // libcuda.so.1 can be loaded
  int driver_status = 0;             // of cuInit; 0: success
  int driver_version = 0;            // 13000: for CUDA 13.0
  std::vector<std::string> devices;  // their names
  std::string cupti;                 // path of the library; empty: not found by the loader or in CUDA_HOME
  uint32_t cupti_version = 0;        // from cuptiGetVersion; 0: it finds no driver
  std::string trouble;               // why nothing more is known: a library crashed or hung
  bool has_mps = false;
};

GpuMachine LookAtGpus();

// Ids `gpu` and, if there is a GPU, `gpu-times`, `gpu-shared`.
std::vector<Finding> GpuFindings(const GpuMachine& machine);

// "13.0", "12.9", "11.8": CUPTI has its own version numbers before CUDA 13.
std::string CudaOfCupti(uint32_t version);

}  // namespace dlhook::analyzer::doctor
