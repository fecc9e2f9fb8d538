// Which variations are tried, and the lines that run a program so.
#include "analyzer/whatif/variations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace dlhook::analyzer {
namespace variations_test {

using Environment = std::map<std::string, std::string>;

Ground GroundWith(size_t processors, std::vector<std::string> has, Environment environment = {}) {
  return {.processors = processors,
          .has = std::move(has),
          .allocators = {},
          .variable = [environment](const std::string& name) {
            const auto found = environment.find(name);
            return found == environment.end() ? std::string() : found->second;
          }};
}

std::vector<std::string> Names(const std::vector<Variation>& variations) {
  std::vector<std::string> names;
  for (const Variation& variation : variations) names.push_back(variation.name);
  return names;
}

bool Contains(const std::vector<Variation>& variations, const std::string& name) {
  const std::vector<std::string> names = Names(variations);
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(VariationsTest, ThreadsGoUpToTheProcessorsThereAre) {
  const std::vector<std::string> unset = Names(ListedVariations(GroundWith(6, {}), {}, 1));
  EXPECT_EQ(std::vector<std::string>(unset.begin(), unset.begin() + 3),
            (std::vector<std::string>{"OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=4"}));
  const std::vector<std::string> set = Names(ListedVariations(GroundWith(6, {}, {{"OMP_NUM_THREADS", "2"}}), {}, 1));
  EXPECT_EQ(std::vector<std::string>(set.begin(), set.begin() + 3),
            (std::vector<std::string>{"OMP_NUM_THREADS=1", "OMP_NUM_THREADS=4", "OMP_NUM_THREADS=6"}));
  // A value is not set already because it is a part of another one.
  EXPECT_TRUE(Contains(ListedVariations(GroundWith(16, {}, {{"OMP_NUM_THREADS", "16"}}), {}, 1), "OMP_NUM_THREADS=1"));
  EXPECT_FALSE(Contains(ListedVariations(GroundWith(1, {}), {}, 1), "OMP_PROC_BIND=true"));
  const Environment own = {{"MKL_NUM_THREADS", "6"}};  // goes before OMP_NUM_THREADS
  EXPECT_TRUE(Contains(ListedVariations(GroundWith(2, {}, own), {}, 1), "OMP_NUM_THREADS=1 MKL_NUM_THREADS=1"));
}

TEST(VariationsTest, ThreadsOfPoolsHaveTheirOwnVariables) {
  const std::vector<Variation> of_jax = ListedVariations(GroundWith(2, {"xla"}), {}, 1);
  EXPECT_TRUE(Contains(of_jax, "PJRT_NPROC=1"));
  EXPECT_FALSE(Contains(of_jax, "TF_NUM_INTRAOP_THREADS=1"));
  const std::vector<Variation> of_tensorflow = ListedVariations(GroundWith(2, {"tensorflow", "xla"}), {}, 1);
  EXPECT_TRUE(Contains(of_tensorflow, "TF_NUM_INTRAOP_THREADS=1"));
  EXPECT_FALSE(Contains(of_tensorflow, "PJRT_NPROC=1"));
  const std::vector<Variation> of_set = ListedVariations(GroundWith(2, {"xla"}, {{"NPROC", "1"}}), {}, 1);
  EXPECT_FALSE(Contains(of_set, "PJRT_NPROC=1"));
  EXPECT_TRUE(Contains(of_set, "PJRT_NPROC=2"));
}

TEST(VariationsTest, OnlyWhatTheProgramAndTheProcessorHave) {
  const std::vector<Variation> none = ListedVariations(GroundWith(2, {}), {}, 1);
  for (const Variation& variation : none) EXPECT_EQ(variation.name.find("ONEDNN"), std::string::npos);
  EXPECT_FALSE(Contains(ListedVariations(GroundWith(2, {"onednn"}), {}, 1), "ONEDNN_MAX_CPU_ISA=AVX2"));
  const std::vector<Variation> all = ListedVariations(GroundWith(2, {"onednn", "avx512f", "avx512bf16"}), {}, 1);
  EXPECT_TRUE(Contains(all, "ONEDNN_MAX_CPU_ISA=AVX2"));
  for (const Variation& variation : all) {
    EXPECT_EQ(variation.changes_numerics, variation.name == "ONEDNN_DEFAULT_FPMATH_MODE=BF16") << variation.name;
  }
  EXPECT_FALSE(Contains(
      ListedVariations(GroundWith(2, {"onednn", "avx512bf16"}, {{"ONEDNN_DEFAULT_FPMATH_MODE", "BF16"}}), {}, 1),
      "ONEDNN_DEFAULT_FPMATH_MODE=BF16"));
}

TEST(VariationsTest, ListsAreKept) {
  Ground ground = GroundWith(1, {}, {{"LD_PRELOAD", "mine.so"}, {"GLIBC_TUNABLES", "glibc.cpu.x=1"}});
  ground.allocators = {{"jemalloc", "/lib/libjemalloc.so.2"}};
  const std::vector<Variation> variations = ListedVariations(ground, {}, 1);
  EXPECT_EQ(variations[0].environment.front().second, "/lib/libjemalloc.so.2:mine.so");
  const auto tunables = std::find_if(variations.begin(), variations.end(), [](const Variation& variation) {
    return variation.name == "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
  });
  ASSERT_NE(tunables, variations.end());
  EXPECT_EQ(tunables->environment.front().second, "glibc.cpu.x=1:glibc.malloc.hugetlb=1");
}

TEST(VariationsTest, ProcessorsAreThoseOfTaskset) {
  Ground ground = GroundWith(8, {});
  ground.pinnings = {{"0-3", {0, 1, 2, 3}}};
  const std::vector<RuleFinding> found = {{"too-many-threads", {.gain_ns = 25, .basis = GainBasis::kUpperBound}}};
  for (const Variation& variation : ListedVariations(ground, found, 100)) {
    EXPECT_EQ(variation.processors.size(), variation.name == "taskset -c 0-3" ? 4U : 0U) << variation.name;
    if (variation.processors.empty()) continue;
    EXPECT_EQ(CommandLine(variation, {"python", "train.py"}), "taskset -c 0-3 python train.py");
    EXPECT_EQ(variation.promise, "too-many-threads: at most 25 % of a step");
  }
  EXPECT_TRUE(Contains(ListedVariations(ground, {}, 1), "taskset -c 0-3"));
  ground.has = {"openblas"};  // follows OMP_NUM_THREADS
  const std::vector<std::string> names = Names(ListedVariations(ground, found, 100));
  EXPECT_GT(std::find(names.begin(), names.end(), "OPENBLAS_NUM_THREADS=1"),
            std::find(names.begin(), names.end(), "taskset -c 0-3"));
}

TEST(VariationsTest, SwitchesOfGpuLibraries) {
  const std::vector<Variation> of_torch = ListedVariations(GroundWith(2, {"torch", "gpu"}), {}, 1);
  for (const char* name :
       {"TORCH_CUDNN_USE_HEURISTIC_MODE_B=1", "TORCH_BLAS_PREFER_CUBLASLT=1", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1"})
    EXPECT_TRUE(Contains(of_torch, name)) << name;
  EXPECT_FALSE(Contains(ListedVariations(GroundWith(2, {"torch"}), {}, 1), "TORCH_BLAS_PREFER_CUBLASLT=1"));
  EXPECT_TRUE(
      Contains(ListedVariations(GroundWith(2, {"xla", "gpu"}), {}, 1), "XLA_FLAGS=--xla_gpu_triton_gemm_any=true"));
}

TEST(VariationsTest, FindingsComeFirstWithTheirPromise) {
  const std::vector<RuleFinding> found = {{"page-faults", {.gain_ns = 25, .basis = GainBasis::kUpperBound}},
                                          {"slow-lines", {.gain_ns = 20}}};
  const std::vector<Variation> variations = ListedVariations(GroundWith(2, {}), found, 100);
  EXPECT_NE(variations[0].name.find("GLIBC_TUNABLES=glibc.malloc.mmap_threshold"), std::string::npos);
  EXPECT_EQ(variations[0].promise, "page-faults: at most 25 % of a step");
  EXPECT_TRUE(variations[2].promise.empty()) << variations[2].name;
}

TEST(VariationsTest, GivenOnesBecomeCommandLines) {
  const std::vector<std::string> words = {"python", "my train.py", "--size", "3", "--fast"};
  const auto variables = VariationsOfVariable("A=1,it's");
  ASSERT_TRUE(variables.ok());
  EXPECT_EQ(CommandLine(variables->at(1), words), "A='it'\\''s' python 'my train.py' --size 3 --fast");
  EXPECT_FALSE(variables->at(1).changes_numerics);
  EXPECT_TRUE(VariationsOfVariable("ONEDNN_DEFAULT_FPMATH_MODE=bf16")->front().changes_numerics);
  EXPECT_FALSE(VariationsOfVariable("ONEDNN_DEFAULT_FPMATH_MODE=strict")->front().changes_numerics);
  EXPECT_FALSE(VariationsOfVariable("NVIDIA_TF32_OVERRIDE=0")->front().changes_numerics);
  const auto replaced = VariationsOfWord("--size=3,4", words);
  ASSERT_TRUE(replaced.ok());
  ASSERT_EQ(replaced->size(), 1U);  // 3 is what it is
  EXPECT_EQ(CommandLine(replaced->front(), words), "python 'my train.py' --size 4 --fast");
  const auto added = VariationsOfWord("--batch=8", words);
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(CommandLine(added->front(), words), "python 'my train.py' --size 3 --fast --batch=8");
  for (const char* text : {"", "=", "A", "A=", "=1"}) EXPECT_FALSE(VariationsOfVariable(text).ok()) << text;
  for (const char* text : {"", "--a", "a=1", "--a="}) EXPECT_FALSE(VariationsOfWord(text, words).ok()) << text;
}

}  // namespace variations_test
}  // namespace dlhook::analyzer
