// Identifies the processor by cpuid alone: reads no file, calls nothing.
// Thread: any.
#pragma once

#include <cstdint>

namespace dlhook::inline format {

// Bits of ProcessorId.instruction_sets: those that determine a core's peak rate, if both processor and kernel support
// them.
enum InstructionSet : uint32_t {
  kFma = 1u << 0,     // AVX2 and FMA
  kAvx512 = 1u << 1,  // AVX-512 F
  kAvx512Vnni = 1u << 2,
  kAvx512Bf16 = 1u << 3,
  kAmxInt8 = 1u << 4,
  kAmxBf16 = 1u << 5,
};

// All zero: not an x86 processor.
struct ProcessorId {
  char vendor[16];  // "GenuineIntel", "AuthenticAMD"
  char name[64];    // "AMD EPYC 7763 64-Core Processor"; empty: unknown
  uint32_t family;
  uint32_t model;
  uint32_t stepping;
  uint32_t threads_per_core;
  uint32_t instruction_sets;
};

ProcessorId IdentifyProcessor();

}  // namespace dlhook::inline format
