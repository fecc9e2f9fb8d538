// Identifies a processor's core by vendor, family and model. Families and models: Intel's perfmon mapfile.csv
// (github.com/intel/perfmon) and Linux's arch/x86/kernel/cpu/amd.c (bsp_init_amd).
#include <stdio.h>
#include <string.h>

#include "preload/counters/counter_names.h"
#include "preload/format/processor_id.h"

namespace dlhook::inline counters {
namespace {

struct Models {
  bool is_intel;
  uint32_t family;
  uint32_t first_model;
  uint32_t last_model;
  Microarchitecture core;
};

constexpr Models kModels[] = {
    {true, 6, 0x2a, 0x2a, kSandyBridge},    {true, 6, 0x2d, 0x2d, kSandyBridge},
    {true, 6, 0x3a, 0x3a, kIvyBridge},      {true, 6, 0x3e, 0x3e, kIvyBridge},
    {true, 6, 0x3c, 0x3c, kHaswell},        {true, 6, 0x3f, 0x3f, kHaswell},
    {true, 6, 0x45, 0x46, kHaswell},        {true, 6, 0x3d, 0x3d, kBroadwell},
    {true, 6, 0x47, 0x47, kBroadwell},      {true, 6, 0x4f, 0x4f, kBroadwell},
    {true, 6, 0x56, 0x56, kBroadwell},      {true, 6, 0x4e, 0x4e, kSkylake},
    {true, 6, 0x5e, 0x5e, kSkylake},        {true, 6, 0x8e, 0x8e, kSkylake},
    {true, 6, 0x9e, 0x9e, kSkylake},        {true, 6, 0xa5, 0xa6, kSkylake},
    {true, 6, 0x55, 0x55, kSkylakeServer},  {true, 6, 0x6a, 0x6a, kIceLake},
    {true, 6, 0x6c, 0x6c, kIceLake},        {true, 6, 0x7d, 0x7e, kIceLake},
    {true, 6, 0x8c, 0x8d, kIceLake},        {true, 6, 0xa7, 0xa7, kIceLake},
    {true, 6, 0x8f, 0x8f, kSapphireRapids}, {true, 6, 0xcf, 0xcf, kSapphireRapids},
    {true, 6, 0xad, 0xae, kSapphireRapids}, {true, 6, 0x97, 0x97, kAlderLake},
    {true, 6, 0x9a, 0x9a, kAlderLake},      {true, 6, 0xb7, 0xb7, kAlderLake},
    {true, 6, 0xba, 0xba, kAlderLake},      {true, 6, 0xbf, 0xbf, kAlderLake},
    {true, 6, 0xaa, 0xaa, kAlderLake},      {true, 6, 0xac, 0xac, kAlderLake},
    {true, 6, 0xb5, 0xb5, kAlderLake},      {false, 0x17, 0x00, 0x2f, kZen1},
    {false, 0x17, 0x50, 0x5f, kZen1},       {false, 0x17, 0x30, 0x4f, kZen2},
    {false, 0x17, 0x60, 0x7f, kZen2},       {false, 0x17, 0x90, 0x91, kZen2},
    {false, 0x17, 0xa0, 0xaf, kZen2},       {false, 0x19, 0x00, 0x0f, kZen3},
    {false, 0x19, 0x20, 0x5f, kZen3},       {false, 0x19, 0x10, 0x1f, kZen4},
    {false, 0x19, 0x60, 0xaf, kZen4},       {false, 0x1a, 0x00, 0x2f, kZen5},
    {false, 0x1a, 0x40, 0x4f, kZen5},       {false, 0x1a, 0x60, 0x7f, kZen5},
};

const char* NameOf(Microarchitecture core) {
  static const struct {
    Microarchitecture core;
    const char* name;
  } kNames[] = {{kSandyBridge, "Sandy Bridge"},
                {kIvyBridge, "Ivy Bridge"},
                {kHaswell, "Haswell"},
                {kBroadwell, "Broadwell"},
                {kSkylake, "Skylake"},
                {kSkylakeServer, "Skylake-SP or Cascade Lake"},
                {kIceLake, "Ice or Tiger Lake"},
                {kSapphireRapids, "Sapphire, Emerald or Granite Rapids"},
                {kAlderLake, "Alder, Raptor or Meteor Lake, with cores of two kinds"},
                {kZen1, "Zen"},
                {kZen2, "Zen 2"},
                {kZen3, "Zen 3"},
                {kZen4, "Zen 4"},
                {kZen5, "Zen 5"}};
  for (const auto& line : kNames) {
    if (line.core == core) return line.name;
  }
  return "core not known";
}

}  // namespace

Processor ProcessorOf(const char* vendor, uint32_t family, uint32_t model, bool has_smt) {
  Processor processor = {};
  snprintf(processor.vendor, sizeof processor.vendor, "%s", vendor);
  processor.family = family;
  processor.model = model;
  processor.has_smt = has_smt;
  const bool is_intel = strcmp(vendor, "GenuineIntel") == 0;
  if (is_intel || strcmp(vendor, "AuthenticAMD") == 0) {
    for (const Models& models : kModels) {
      if (models.is_intel == is_intel && models.family == family && models.first_model <= model &&
          model <= models.last_model) {
        processor.core = models.core;
      }
    }
  }
  processor.core_name = NameOf(processor.core);
  return processor;
}

Processor ThisProcessor() {
  const ProcessorId id = IdentifyProcessor();
  return ProcessorOf(id.vendor, id.family, id.model, id.threads_per_core > 1);
}

}  // namespace dlhook::inline counters
