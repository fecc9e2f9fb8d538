// Program and script names out of a command line; nothing else of it may be kept.
#include "preload/core/identity.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace dlhook {
namespace {

std::pair<std::string, std::string> Find(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  char program[64];
  char script[64];
  FindProgramAndScript(text.data(), text.size(), &program, &script);
  return {program, script};
}

using Names = std::pair<std::string, std::string>;

TEST(IdentityTest, ProgramAndScript) {
  EXPECT_EQ(Find({"/usr/bin/python3.11", "/home/me/train.py", "--secret=1"}), Names("python3.11", "train.py"));
  EXPECT_EQ(Find({"python", "-u", "-X", "dev", "train.py"}), Names("python", "train.py"));
  EXPECT_EQ(Find({"python", "-c", "print('secret')"}), Names("python", ""));
  EXPECT_EQ(Find({"python", "-m", "torch.distributed.run", "x"}), Names("python", "torch.distributed.run"));
  EXPECT_EQ(Find({"./a.out", "secret"}), Names("a.out", ""));
  EXPECT_EQ(Find({"python"}), Names("python", ""));
  EXPECT_EQ(Find({}), Names("", ""));
}

TEST(IdentityTest, LongNamesAreCut) {
  EXPECT_EQ(Find({"/x/" + std::string(200, 'p')}).first, std::string(63, 'p'));
}

TEST(IdentityTest, StartTime) {
  EXPECT_GT(StartTimeOf(static_cast<uint32_t>(getpid())), 0u);
  EXPECT_EQ(StartTimeOf(0x7fffffff), 0u);
}

TEST(IdentityTest, RunKeyIsStable) {
  char first[96], second[96];
  MakeRunKey(first, sizeof first);
  MakeRunKey(second, sizeof second);
  EXPECT_STREQ(first, second);
}

// Ranks of one launch must agree on the word whatever process started them.
TEST(IdentityTest, LaunchersNameTheRun) {
  struct Case {
    std::vector<std::pair<const char*, const char*>> variables;
    std::string key;
  };
  const std::string parent = std::to_string(getppid()) + "-" + std::to_string(StartTimeOf(static_cast<uint32_t>(getppid())));
  const std::vector<Case> cases = {
      {{{"SLURM_JOB_ID", "1234"}, {"SLURM_STEP_ID", "0"}}, "slurm-1234.0"},
      {{{"PMIX_NAMESPACE", "prterun-host-77@1"}}, "mpi-prterun-host-77_1"},
      {{{"PMI_JOBID", "../x"}}, "mpi-.._x"},
      {{{"TORCHELASTIC_RUN_ID", "none"}, {"MASTER_PORT", "29500"}}, "torchrun-none.29500-" + parent}};
  for (const Case& c : cases) {
    for (const auto& [name, value] : c.variables) setenv(name, value, 1);
    char key[96];
    MakeRunKey(key, sizeof key);
    EXPECT_EQ(key, c.key);
    for (const auto& [name, value] : c.variables) unsetenv(name);
  }
}

}  // namespace
}  // namespace dlhook
