// Program and script names from a command line; nothing else of it may be kept.
#include "preload/format/identity.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace dlhook {
namespace {

std::string Script(std::vector<const char*> words) {
  words.push_back(nullptr);
  const char* program = words[0] == nullptr ? "" : words[0];
  char script[64];
  FindScript(program, words.data(), &script);
  return script;
}

TEST(IdentityTest, Scripts) {
  EXPECT_EQ(Script({"python3.11", "/home/me/train.py", "--secret=1"}), "train.py");
  EXPECT_EQ(Script({"python", "-u", "-X", "dev", "-Werror::cc", "train.py"}), "train.py");
  EXPECT_EQ(Script({"python", "-m", "torch.distributed.run", "x"}), "torch.distributed.run");
  EXPECT_EQ(Script({"bash", "-ex", "launch.sh"}), "launch.sh");
  EXPECT_EQ(Script({"./a.out", "secret"}), "");
  EXPECT_EQ(Script({"python"}), "");
  EXPECT_EQ(Script({}), "");
  const std::string name(200, 's');
  EXPECT_EQ(Script({"python", name.c_str()}), std::string(63, 's'));
}

TEST(IdentityTest, CodeOnTheCommandLineIsNoScript) {
  EXPECT_EQ(Script({"python", "-c", "secret"}), "");
  EXPECT_EQ(Script({"python", "-Ic", "secret"}), "");
  EXPECT_EQ(Script({"bash", "-lc", "secret"}), "");
  EXPECT_EQ(Script({"perl", "-we", "secret"}), "");
  EXPECT_EQ(Script({"node", "--eval", "secret"}), "");
  EXPECT_EQ(Script({"node", "-p", "secret"}), "");
}

TEST(IdentityTest, ProgramsByTheNameTheyWereStartedBy) {
  const std::string link = ::testing::TempDir() + "dlhook_" + std::string(100, 'p');
  unlink(link.c_str());
  ASSERT_EQ(symlink("/proc/self/exe", link.c_str()), 0);
  char program[64];
  FindProgram(link.c_str(), &program);
  EXPECT_EQ(std::string(program), ("dlhook_" + std::string(100, 'p')).substr(0, 63));
  unlink(link.c_str());
  // Scripts, descriptors and overwritten names: the executable's own name.
  for (const char* started_as : {"/bin/true", "/proc/self/exe", "/dev/fd/3", "ssh user:secret@host", ""}) {
    FindProgram(started_as, &program);
    EXPECT_STREQ(program, "shim_parts_test");
  }
}

TEST(IdentityTest, PreloadedObjectsByName) {
  const auto names_of = [](const char* list) {
    char names[64];
    FindPreloaded(list, &names);
    return std::string(names);
  };
  EXPECT_EQ(names_of("/opt/secret/libdlhook.so:/usr/lib/libjemalloc.so.2 libfoo.so"), "libjemalloc.so.2:libfoo.so");
  EXPECT_EQ(names_of("/x/libdlhook-testing.so::"), "");
  EXPECT_EQ(names_of(("/" + std::string(1000, 'd') + "/libm.so:" + std::string(100, 'n')).c_str()),
            "libm.so:" + std::string(55, 'n'));
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

// Ranks of one launch must have the same key, whatever process started them.
TEST(IdentityTest, LaunchersNameTheRun) {
  struct Case {
    std::vector<std::pair<const char*, const char*>> variables;
    std::string key;
  };
  const std::string parent =
      std::to_string(getppid()) + "-" + std::to_string(StartTimeOf(static_cast<uint32_t>(getppid())));
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
