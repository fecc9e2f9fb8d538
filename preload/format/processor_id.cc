// Leaves of cpuid: Intel's Software Developer's Manual, volume 2A, and AMD's Architecture Programmer's Manual, volume 3, appendix E.
#include "preload/format/processor_id.h"

#include <cpuid.h>
#include <string.h>

namespace dlhook::inline format {
namespace {

struct Registers {
  unsigned a, b, c, d;
};

// All zero if the processor has no such leaf.
Registers Ask(unsigned leaf, unsigned subleaf = 0) {
  Registers r = {};
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool Bit(unsigned word, int bit) { return (word >> bit & 1) != 0; }

// The register state that the kernel saves (XCR0): without it the instructions fault.
uint64_t SavedState() {
  if (!Bit(Ask(1).c, 27)) return 0;  // OSXSAVE
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

uint32_t FindInstructionSets() {
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  const uint64_t saved = SavedState();
  const Registers features = Ask(1), extended = Ask(7), more = Ask(7, 1);
  const bool has_ymm = (saved & kYmm) == kYmm, has_zmm = (saved & kZmm) == kZmm, has_tiles = (saved & kTiles) == kTiles;
  uint32_t sets = 0;
  if (has_ymm && Bit(features.c, 12) && Bit(extended.b, 5)) sets |= kFma;
  if (has_zmm && Bit(extended.b, 16)) sets |= kAvx512;
  if (has_zmm && Bit(extended.c, 11)) sets |= kAvx512Vnni;
  if (has_zmm && extended.a >= 1 && Bit(more.a, 5)) sets |= kAvx512Bf16;
  if (has_tiles && Bit(extended.d, 25)) sets |= kAmxInt8;
  if (has_tiles && Bit(extended.d, 22)) sets |= kAmxBf16;
  return sets;
}

// The brand string, without the blanks that vendors pad it with.
void CopyName(char (&name)[64]) {
  char brand[49] = {};
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000004) return;
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = Ask(0x80000002 + i);
    memcpy(brand + 16 * i, &r, sizeof r);
  }
  size_t size = 0;
  for (const char* at = brand; *at != '\0'; ++at) {
    if (*at != ' ' || (size > 0 && name[size - 1] != ' ')) name[size++] = *at;
  }
  if (size > 0 && name[size - 1] == ' ') name[size - 1] = '\0';
}

}  // namespace

ProcessorId IdentifyProcessor() {
  ProcessorId id = {};
  const Registers vendor = Ask(0), version = Ask(1);
  memcpy(id.vendor, &vendor.b, 4);
  memcpy(id.vendor + 4, &vendor.d, 4);
  memcpy(id.vendor + 8, &vendor.c, 4);
  id.stepping = version.a & 0xf;
  id.family = version.a >> 8 & 0xf;
  id.model = version.a >> 4 & 0xf;
  if (id.family == 6 || id.family == 0xf) id.model |= (version.a >> 16 & 0xf) << 4;
  if (id.family == 0xf) id.family += version.a >> 20 & 0xff;
  id.threads_per_core = Ask(0xb).b & 0xffff;
  id.instruction_sets = FindInstructionSets();
  CopyName(id.name);
  return id;
}

}  // namespace dlhook::inline format
