// DLHOOK_* variables.
#include "preload/runtime/config.h"

#include <gtest/gtest.h>
#include <string.h>

#include <map>
#include <string>

#include "preload/format/hook_table.h"

namespace dlhook {
namespace config_test {

std::map<std::string, std::string> g_variables;

const char* Lookup(const char* name) {
  auto found = g_variables.find(name);
  return found == g_variables.end() ? nullptr : found->second.c_str();
}

Config Parse(std::map<std::string, std::string> variables) {
  g_variables = std::move(variables);
  Config config;
  ParseConfig(&Lookup, &config);
  return config;
}

uint32_t Bit(const char* family) { return FamilyBitOf(family); }

TEST(ConfigTest, Defaults) {
  const Config config = Parse({});
  EXPECT_EQ(config.families, kDefaultFamilies);
  EXPECT_NE(config.families & Bit("cuda_copy"), 0u);
  EXPECT_EQ(config.families & Bit("cuda_noise"), 0u);
  EXPECT_EQ(config.start, StartMode::kOn);
  EXPECT_EQ(config.onednn_level, 1);
  EXPECT_EQ(config.drain, DrainMode::kWriterThread);
  EXPECT_EQ(config.max_bytes, uint64_t{64} << 20);
  EXPECT_EQ(config.ring_bytes_total, 15u << 20);
  EXPECT_EQ(config.growth_bytes, 64u << 20);
  EXPECT_EQ(config.gpu_buffer_bytes, 32u << 20);
  EXPECT_EQ(config.gpu, GpuMode::kAuto);
  EXPECT_EQ(config.onednn, OneDnnMode::kAuto);
  EXPECT_FALSE(config.monotonic_clock);
  EXPECT_STREQ(config.complaint, "");
}

TEST(ConfigTest, Scopes) {
  EXPECT_EQ(Parse({}).scopes, ScopesMode::kOn);
  EXPECT_EQ(Parse({{"DLHOOK_SCOPES", "off"}}).scopes, ScopesMode::kOff);
  EXPECT_EQ(Parse({{"DLHOOK_SCOPES", "light"}}).scopes, ScopesMode::kLight);
  const Config config = Parse({{"DLHOOK_SCOPES", "some"}});
  EXPECT_EQ(config.scopes, ScopesMode::kOn);
  EXPECT_STREQ(config.complaint, "DLHOOK_SCOPES=some is not understood, expected on, light or off");
}

TEST(ConfigTest, Families) {
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "blas"}}).families, Bit("blas"));
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "blas,onednn"}}).families, Bit("blas") | Bit("onednn"));
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "-blas2"}}).families, kDefaultFamilies & ~Bit("blas2"));
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "-blas2,cuda_noise"}}).families,
            (kDefaultFamilies & ~Bit("blas2")) | Bit("cuda_noise"));
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "all"}}).families, (1u << kFamilyCount) - 1);
  EXPECT_NE(kDefaultFamilies, (1u << kFamilyCount) - 1);
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "all,-onednn"}}).families, ((1u << kFamilyCount) - 1) & ~Bit("onednn"));
  EXPECT_EQ(Parse({{"DLHOOK_CAPTURE", "none"}}).families, 0u);
  EXPECT_NE(Bit("pack"), 0u);
}

TEST(ConfigTest, Python) {
  EXPECT_EQ(Parse({}).python, PythonMode::kOn);
  EXPECT_EQ(Parse({{"DLHOOK_PYTHON", "scopes"}}).python, PythonMode::kScopes);
  EXPECT_EQ(Parse({{"DLHOOK_PYTHON", "off"}}).python, PythonMode::kOff);
  const Config config = Parse({{"DLHOOK_PYTHON", "3.11"}});
  EXPECT_EQ(config.python, PythonMode::kOn);
  EXPECT_NE(std::string(config.complaint).find("on, scopes or off"), std::string::npos);
}

TEST(ConfigTest, Stacks) {
  EXPECT_EQ(Parse({}).stacks, StacksMode::kOff);
  EXPECT_EQ(Parse({}).stack_families, 0u);
  const Config native = Parse({{"DLHOOK_STACKS", "native"}, {"DLHOOK_PYTHON", "off"}});
  EXPECT_EQ(native.stack_families, native.families);
  EXPECT_EQ(native.python, PythonMode::kOff);
  EXPECT_EQ(Parse({{"DLHOOK_STACKS", "all"}, {"DLHOOK_PYTHON", "off"}}).python, PythonMode::kOn);
  // Only captured families.
  EXPECT_EQ(
      Parse({{"DLHOOK_STACKS", "native"}, {"DLHOOK_CAPTURE", "-onednn"}, {"DLHOOK_STACKS_FAMILIES", "blas,onednn"}})
          .stack_families,
      Bit("blas"));
  EXPECT_EQ(Parse({{"DLHOOK_STACKS_FAMILIES", "blas"}}).stack_families, 0u);
  EXPECT_EQ(Parse({{"DLHOOK_STACKS_MIN_US", "50"}}).stacks_min_ns, 50000u);
  EXPECT_NE(std::string(Parse({{"DLHOOK_STACKS", "python"}}).complaint).find("off, native or all"), std::string::npos);
}

TEST(ConfigTest, Counters) {
  EXPECT_STREQ(Parse({}).counters, "");
  EXPECT_EQ(Parse({}).counters_at, CountersAt::kScope);
  EXPECT_EQ(Parse({}).counters_interval_ms, 10u);
  const Config config =
      Parse({{"DLHOOK_COUNTERS", "software,cycles"}, {"DLHOOK_COUNTERS_AT", "call"}, {"DLHOOK_COUNTERS_MS", "0"}});
  EXPECT_STREQ(config.counters, "software,cycles");
  EXPECT_EQ(config.counters_at, CountersAt::kCall);
  EXPECT_EQ(config.counters_interval_ms, 0u);
  const Config wrong = Parse({{"DLHOOK_COUNTERS_MS", "60001"}});
  EXPECT_EQ(wrong.counters_interval_ms, 10u);
  EXPECT_NE(std::string(wrong.complaint).find("60000"), std::string::npos);
}

TEST(Config, Budget) {
  EXPECT_EQ(Parse({}).budget.ppm, 10000u);
  EXPECT_TRUE(Parse({}).budget.is_of_gpu_use);
  EXPECT_EQ(Parse({{"DLHOOK_BUDGET", "off"}}).budget.ppm, 0u);
  EXPECT_EQ(Parse({{"DLHOOK_BUDGET", "1%"}}).budget.ppm, 10000u);
  EXPECT_FALSE(Parse({{"DLHOOK_BUDGET", "1%"}}).budget.is_of_gpu_use);
  EXPECT_EQ(Parse({{"DLHOOK_BUDGET", "0.25%"}}).budget.ppm, 2500u);
  EXPECT_EQ(Parse({{"DLHOOK_BUDGET", "12.5"}}).budget.ppm, 125000u);
  for (const char* wrong : {"", "one", "-1", "1.x", "0", "200%", "1%%"}) {
    const Config config = Parse({{"DLHOOK_BUDGET", wrong}});
    EXPECT_TRUE(config.budget.is_of_gpu_use) << wrong;
    EXPECT_NE(std::string(config.complaint).find("a percentage from 0.01% to 100%"), std::string::npos) << wrong;
  }
}

TEST(ConfigTest, WhatIsNotUnderstoodIsSaidAndLeavesTheDefault) {
  EXPECT_NE(std::string(Parse({{"DLHOOK_CAPTURE", "blas,cudnnn"}}).complaint).find("cudnnn"), std::string::npos);
  const Config config = Parse({{"DLHOOK_MAX_BYTES", "10MB"}, {"DLHOOK_ONEDNN_LEVEL", "7"}});
  EXPECT_EQ(config.max_bytes, uint64_t{64} << 20);
  EXPECT_EQ(config.onednn_level, 1);
  EXPECT_NE(std::string(config.complaint).find("expected"), std::string::npos);
  EXPECT_EQ(Parse({{"DLHOOK_START", "profiler"}}).start, StartMode::kProfiler);
  const auto complaint = [](const char* name, const char* value) {
    return std::string(Parse({{name, value}}).complaint);
  };
  EXPECT_EQ(complaint("DLHOOK_MAX_BYTES", "-1"), "DLHOOK_MAX_BYTES=-1 is not understood, expected a whole number");
  EXPECT_EQ(complaint("DLHOOK_GPU_BUFFERS_MIB", "0"),
            "DLHOOK_GPU_BUFFERS_MIB=0 is not understood, expected 1 to 16384 MiB");
  EXPECT_EQ(complaint("DLHOOK_GROWTH_KIB", "67108865"),
            "DLHOOK_GROWTH_KIB=67108865 is not understood, expected at most 67108864 KiB");
  EXPECT_EQ(complaint("DLHOOK_ONEDNN_LEVEL", "7"), "DLHOOK_ONEDNN_LEVEL=7 is not understood, expected 1 or 2");
  EXPECT_EQ(complaint("DLHOOK_START", "o"), "DLHOOK_START=o is not understood, expected on, off or profiler");
  EXPECT_EQ(complaint("DLHOOK_STACKS_FAMILIES", "x"),
            "DLHOOK_STACKS_FAMILIES=x is not understood, expected names of families, all or none, separated by commas");
}

TEST(ConfigTest, Values) {
  const Config config = Parse({{"DLHOOK_OUT", "/tmp/run"},
                               {"DLHOOK_MAX_BYTES", "1000000"},
                               {"DLHOOK_CLOCK", "monotonic"},
                               {"DLHOOK_RING_KIB", "1024"},
                               {"DLHOOK_START", "off"},
                               {"DLHOOK_DRAIN", "none"},
                               {"DLHOOK_ONEDNN", "force"},
                               {"DLHOOK_ONEDNN_LEVEL", "2"},
                               {"DLHOOK_VERBOSE", "1"},
                               {"DLHOOK_COLLECTOR", "42:0:1:boot"},
                               {"DLHOOK_GROWTH_KIB", "512"}});
  EXPECT_STREQ(config.out, "/tmp/run");
  EXPECT_EQ(config.max_bytes, 1000000u);
  EXPECT_TRUE(config.monotonic_clock);
  EXPECT_EQ(config.ring_bytes_total, 1024u * 1024);
  EXPECT_EQ(config.growth_bytes, 512u * 1024);
  EXPECT_EQ(config.start, StartMode::kOff);
  EXPECT_EQ(config.drain, DrainMode::kNone);
  EXPECT_EQ(config.onednn, OneDnnMode::kForce);
  EXPECT_EQ(config.onednn_level, 2);
  EXPECT_TRUE(config.verbose);
  EXPECT_STREQ(config.collector, "42:0:1:boot");
  EXPECT_STREQ(config.complaint, "");
}

}  // namespace config_test
}  // namespace dlhook
