// What GPUs this machine has, and whether CUPTI can be had: both libraries are asked in a process of its own.
#ifndef DLHOOK_ANALYZER_DOCTOR_GPU_TRIALS_H_
#define DLHOOK_ANALYZER_DOCTOR_GPU_TRIALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/doctor/finding.h"

namespace dlhook::analyzer::inline doctor {

struct GpuMachine {
  bool has_driver = false;               // libcuda.so.1 can be loaded
  int driver_status = 0;                 // of cuInit; 0: well
  int driver_version = 0;                // 13000: for CUDA 13.0
  std::vector<std::string> devices;      // their names
  std::string cupti;                     // path of the library; empty: none where the loader and CUDA_HOME have theirs
  uint32_t cupti_version = 0;            // as cuptiGetVersion says; 0: it finds no driver
  std::string trouble;                   // why nothing more is known: a library crashed or hung
  bool counters_are_restricted = false;  // NVreg_RestrictProfilingToAdminUsers, and this user is none
  bool has_mps = false;
};

GpuMachine LookAtGpus();

// Ids `gpu` and, where there is a GPU, `gpu-times`, `gpu-shared`, `gpu-counters`.
std::vector<Finding> GpuFindings(const GpuMachine& machine);

// "13.0", "12.9", "11.8": versions that CUPTI counts by itself before CUDA 13.
std::string CudaOfCupti(uint32_t version);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_GPU_TRIALS_H_
