// Reading of the DLHOOK_* variables.
#include "preload/runtime/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "preload/base/environment.h"
#include "preload/format/hook_table.h"

namespace dlhook {
namespace {

constexpr uint64_t kDefaultRingBytes = 15u << 20;
constexpr uint64_t kDefaultGrowthBytes = 64u << 20;
constexpr uint64_t kDefaultGpuBufferBytes = 32u << 20;

void Complain(Config* config, const char* name, const char* value, const char* expected) {
  if (config->complaint[0] != '\0') return;
  snprintf(config->complaint, sizeof config->complaint, "%s=%.60s is not understood, expected %s", name, value,
           expected);
}

uint64_t ParseNumber(const char* name, const char* value, uint64_t fallback, Config* config) {
  char* end = nullptr;
  unsigned long long number = strtoull(value, &end, 10);
  if (end == value || *end != '\0' || value[0] == '-') {
    Complain(config, name, value, "a whole number");
    return fallback;
  }
  return number;
}

// Index of the choice that equals `value`, or `fallback`.
int ParseChoice(const char* name, const char* value, const char* const* choices, const char* expected, int fallback,
                Config* config) {
  for (int i = 0; choices[i] != nullptr; ++i) {
    if (strcmp(value, choices[i]) == 0) return i;
  }
  Complain(config, name, value, expected);
  return fallback;
}

uint32_t AllFamilies() { return (1u << kFamilyCount) - 1; }

// One word of DLHOOK_CAPTURE. `first` decides whether "-x" starts from everything.
uint32_t ApplyFamily(const char* word, size_t length, uint32_t mask, bool first, Config* config) {
  bool remove = word[0] == '-';
  if (remove) {
    ++word;
    --length;
    if (first) mask = kDefaultFamilies;
  }
  uint32_t bits = 0;
  if (length == 3 && strncmp(word, "all", 3) == 0) bits = AllFamilies();
  for (int i = 0; i < kFamilyCount; ++i) {
    if (strlen(kFamilyNames[i]) == length && strncmp(word, kFamilyNames[i], length) == 0) bits = 1u << i;
  }
  if (bits == 0 && !(length == 4 && strncmp(word, "none", 4) == 0)) {
    char text[64];
    snprintf(text, sizeof text, "%.*s", static_cast<int>(length < 60 ? length : 60), word);
    Complain(config, "DLHOOK_CAPTURE", text, "names of families, all or none, separated by commas");
  }
  return remove ? mask & ~bits : mask | bits;
}

uint32_t ParseFamilies(const char* value, Config* config) {
  uint32_t mask = 0;
  bool first = true;
  while (*value != '\0') {
    size_t length = strcspn(value, ",");
    if (length > 0) mask = ApplyFamily(value, length, mask, first, config);
    first = false;
    value += length;
    if (*value == ',') ++value;
  }
  return mask;
}

void ParseCaptureVariables(const char* (*lookup)(const char*), Config* config) {
  static const char* const kClocks[] = {"tsc", "monotonic", nullptr};
  static const char* const kOneDnn[] = {"off", "auto", "force", nullptr};
  static const char* const kScopes[] = {"off", "light", "on", nullptr};
  static const char* const kPython[] = {"off", "scopes", "on", nullptr};
  static const char* const kSwitch[] = {"off", "on", nullptr};
  const char* value = lookup("DLHOOK_CAPTURE");
  if (value != nullptr && *value != '\0') config->families = ParseFamilies(value, config);
  value = lookup("DLHOOK_CLOCK");
  if (value != nullptr) {
    config->monotonic_clock = ParseChoice("DLHOOK_CLOCK", value, kClocks, "tsc or monotonic", 0, config) == 1;
  }
  value = lookup("DLHOOK_START");
  if (value != nullptr) {
    config->start_recording = ParseChoice("DLHOOK_START", value, kSwitch, "on or off", 1, config) == 1;
  }
  value = lookup("DLHOOK_ONEDNN");
  if (value != nullptr) {
    config->onednn =
        static_cast<OneDnnMode>(ParseChoice("DLHOOK_ONEDNN", value, kOneDnn, "auto, off or force", 1, config));
  }
  value = lookup("DLHOOK_SCOPES");
  if (value != nullptr) {
    config->scopes =
        static_cast<ScopesMode>(ParseChoice("DLHOOK_SCOPES", value, kScopes, "on, light or off", 2, config));
  }
  value = lookup("DLHOOK_PYTHON");
  if (value != nullptr) {
    config->python =
        static_cast<PythonMode>(ParseChoice("DLHOOK_PYTHON", value, kPython, "on, scopes or off", 2, config));
  }
  value = lookup("DLHOOK_ONEDNN_LEVEL");
  if (value != nullptr) {
    uint64_t level = ParseNumber("DLHOOK_ONEDNN_LEVEL", value, 1, config);
    if (level == 1 || level == 2) {
      config->onednn_level = static_cast<int>(level);
    } else {
      Complain(config, "DLHOOK_ONEDNN_LEVEL", value, "1 (executions) or 2 (creations too)");
    }
  }
}

void ParseStackVariables(const char* (*lookup)(const char*), Config* config) {
  static const char* const kModes[] = {"off", "native", "all", nullptr};
  const char* value = lookup("DLHOOK_STACKS");
  if (value != nullptr) {
    config->stacks =
        static_cast<StacksMode>(ParseChoice("DLHOOK_STACKS", value, kModes, "off, native or all", 0, config));
  }
  value = lookup("DLHOOK_STACKS_MIN_US");
  if (value != nullptr) config->stacks_min_ns = ParseNumber("DLHOOK_STACKS_MIN_US", value, 0, config) * 1000;
  value = lookup("DLHOOK_STACKS_FAMILIES");
  uint32_t wanted = value != nullptr && *value != '\0' ? ParseFamilies(value, config) : AllFamilies();
  config->stack_families = config->stacks == StacksMode::kOff ? 0 : wanted & config->families;
  if (config->stacks == StacksMode::kAll) config->python = PythonMode::kOn;
}

void ParseGpuVariables(const char* (*lookup)(const char*), Config* config) {
  static const char* const kModes[] = {"off", "auto", "cupti", "events", nullptr};
  static const char* const kSwitch[] = {"off", "on", nullptr};
  constexpr uint64_t kMostMib = 16 * 1024;
  const char* value = lookup("DLHOOK_GPU");
  if (value != nullptr) {
    int mode = ParseChoice("DLHOOK_GPU", value, kModes, "auto, cupti, events or off", 1, config);
    config->gpu = static_cast<GpuMode>(mode);
  }
  value = lookup("DLHOOK_GPU_QUEUE");
  if (value != nullptr) {
    config->gpu_queue_times = ParseChoice("DLHOOK_GPU_QUEUE", value, kSwitch, "on or off", 0, config) == 1;
  }
  value = lookup("DLHOOK_GPU_BUFFERS_MIB");
  if (value == nullptr) return;
  uint64_t mib = ParseNumber("DLHOOK_GPU_BUFFERS_MIB", value, kDefaultGpuBufferBytes >> 20, config);
  if (mib < 1 || mib > kMostMib) {
    Complain(config, "DLHOOK_GPU_BUFFERS_MIB", value, "1 to 16384 MiB");
  } else {
    config->gpu_buffer_bytes = mib << 20;
  }
}

void ParseCounterVariables(const char* (*lookup)(const char*), Config* config) {
  static const char* const kPlaces[] = {"time", "scope", "call", nullptr};
  constexpr uint64_t kLongestIntervalMs = 60 * 1000;
  const char* value = lookup("DLHOOK_COUNTERS");
  if (value != nullptr) snprintf(config->counters, sizeof config->counters, "%s", value);
  value = lookup("DLHOOK_COUNTERS_AT");
  if (value != nullptr) {
    config->counters_at =
        static_cast<CountersAt>(ParseChoice("DLHOOK_COUNTERS_AT", value, kPlaces, "time, scope or call", 1, config));
  }
  value = lookup("DLHOOK_COUNTERS_MS");
  if (value != nullptr) {
    uint64_t interval_ms = ParseNumber("DLHOOK_COUNTERS_MS", value, config->counters_interval_ms, config);
    if (interval_ms <= kLongestIntervalMs) {
      config->counters_interval_ms = static_cast<uint32_t>(interval_ms);
    } else {
      Complain(config, "DLHOOK_COUNTERS_MS", value, "at most 60000");
    }
  }
}

void ParseGrowth(const char* value, Config* config) {
  constexpr uint64_t kMostKib = 64 << 20;
  uint64_t kib = ParseNumber("DLHOOK_GROWTH_KIB", value, kDefaultGrowthBytes >> 10, config);
  if (kib <= kMostKib) {
    config->growth_bytes = kib << 10;
  } else {
    Complain(config, "DLHOOK_GROWTH_KIB", value, "at most 67108864 KiB");
  }
}

void ParseOutputVariables(const char* (*lookup)(const char*), Config* config) {
  static const char* const kOnFull[] = {"aggregate", "drop", "wait", nullptr};
  static const char* const kDrains[] = {"auto", "collector", "none", nullptr};
  const char* value = lookup("DLHOOK_OUT");
  if (value != nullptr) snprintf(config->out, sizeof config->out, "%s", value);
  value = lookup("DLHOOK_MAX_BYTES");
  if (value != nullptr) config->max_bytes = ParseNumber("DLHOOK_MAX_BYTES", value, 0, config);
  value = lookup("DLHOOK_RING_KIB");
  if (value != nullptr) {
    config->ring_bytes_total = ParseNumber("DLHOOK_RING_KIB", value, kDefaultRingBytes >> 10, config) << 10;
  }
  value = lookup("DLHOOK_GROWTH_KIB");
  if (value != nullptr) ParseGrowth(value, config);
  value = lookup("DLHOOK_ON_FULL");
  if (value != nullptr) {
    config->on_full =
        static_cast<OnFull>(ParseChoice("DLHOOK_ON_FULL", value, kOnFull, "aggregate, drop or wait", 0, config));
  }
  value = lookup("DLHOOK_DRAIN");
  if (value != nullptr) {
    config->drain =
        static_cast<DrainMode>(ParseChoice("DLHOOK_DRAIN", value, kDrains, "auto, collector or none", 0, config));
  }
  value = lookup("DLHOOK_COLLECTOR");
  if (value != nullptr) snprintf(config->collector, sizeof config->collector, "%s", value);
  value = lookup("DLHOOK_VERBOSE");
  config->verbose = value != nullptr && strcmp(value, "1") == 0;
}

}  // namespace

uint32_t FamilyBitOf(const char* name) {
  for (int i = 0; i < kFamilyCount; ++i) {
    if (strcmp(kFamilyNames[i], name) == 0) return 1u << i;
  }
  return 0;
}

void ParseConfig(const char* (*lookup)(const char* name), Config* config) {
  memset(config, 0, sizeof *config);
  config->families = kDefaultFamilies;
  config->ring_bytes_total = kDefaultRingBytes;
  config->growth_bytes = kDefaultGrowthBytes;
  config->start_recording = true;
  config->onednn = OneDnnMode::kAuto;
  config->onednn_level = 1;
  config->scopes = ScopesMode::kOn;
  config->python = PythonMode::kOn;
  config->counters_at = CountersAt::kScope;
  config->counters_interval_ms = 10;
  config->gpu = GpuMode::kAuto;
  config->gpu_buffer_bytes = kDefaultGpuBufferBytes;
  ParseCaptureVariables(lookup, config);
  ParseStackVariables(lookup, config);
  ParseCounterVariables(lookup, config);
  ParseGpuVariables(lookup, config);
  ParseOutputVariables(lookup, config);
}

const Config& GetConfig() {
  static Config config;
  static std::atomic<uint32_t> state{0};  // 0: unread, 1: being read, 2: ready
  if (state.load(std::memory_order_acquire) == 2) return config;
  uint32_t expected = 0;
  if (state.compare_exchange_strong(expected, 1)) {
    ParseConfig(&EnvironmentVariable, &config);
    state.store(2, std::memory_order_release);
  }
  while (state.load(std::memory_order_acquire) != 2) {
  }
  return config;
}

}  // namespace dlhook
