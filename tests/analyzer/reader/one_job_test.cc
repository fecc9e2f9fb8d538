// Which folders of process traces are one run.
#include "analyzer/reader/one_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/reader/load_run.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

using testing::ElementsAre;

// A process that lived for `seconds`, on a machine with a clock that tells the time of day.
struct Process {
  int pid = 1;
  std::string key = "1-1";
  std::string ranks = "";  // textproto
  int start_s = 0;
  int seconds = 10;
  std::string boot_id = "boot";
};

std::string Rank(int rank, int count = 2) {
  return absl::StrCat("rank_variable { name: 'RANK' value: '", rank, "' } rank_variable { name: 'WORLD_SIZE' value: '",
                      count, "' }");
}

std::string Sample(int at_s) {
  const std::string ns = absl::StrCat(at_s + 1000, "000000000");
  return absl::StrCat("packet { clock_sample { ticks: ", ns, " monotonic_ns: ", ns, " realtime_ns: 7", ns, " } }\n");
}

std::string TraceOf(const Process& process) {
  const int end_s = process.start_s + process.seconds;
  return TraceBytesOf(absl::StrCat("packet { header { schema_major: 1 process { pid: ", process.pid,
                                   " host: 'h' boot_id: '", process.boot_id,
                                   "' shim_loaded_ticks: ", process.start_s + 1000,
                                   "000000000 } clock { kind: MONOTONIC ticks_per_second: 1000000000 } run_key: '",
                                   process.key, "' ", process.ranks, " } }\n", Sample(process.start_s), Sample(end_s),
                                   "packet { footer { end: EXITED end_ticks: ", end_s + 1000, "000000000 } }"));
}

class OneJob : public testing::Test {
 protected:
  // The answer to two folders with a process each: "" if they are one run, else why not.
  std::string WhyNot(const Process& a, const Process& b) {
    const std::string one = Folder("a", {a}), other = Folder("b", {b});
    const absl::StatusOr<LoadedRun> run = LoadRun(std::vector<std::string>{one, other});
    const absl::StatusOr<LoadedRun> around = LoadRun(folder_.path());
    EXPECT_EQ(around.ok(), run.ok());
    if (run.ok()) {
      EXPECT_EQ(run->model.processes.size(), 2u);
      return "";
    }
    const std::string message(run.status().message());
    EXPECT_TRUE(absl::StartsWith(message, absl::StrCat(one, " and ", other, " ")));
    return message.substr(one.size() + other.size() + 6);
  }

  std::string Folder(const std::string& name, const std::vector<Process>& processes) {
    const std::string path = absl::StrCat(folder_.path(), "/", name);
    std::filesystem::create_directory(path);
    for (size_t i = 0; i < processes.size(); ++i) {
      folder_.Write(absl::StrCat(name, "/", i, ".dlh"), TraceOf(processes[i]));
    }
    return path;
  }

  std::string Unknown(const std::string& why) {
    const std::string a = folder_.path() + "/a", b = folder_.path() + "/b";
    return absl::StrCat("are not known to be one run: ", why, "; to compare them: dlhook diff ", a, " ", b,
                        "; to read them as one all the same, put their traces into one folder");
  }

  TemporaryFolder folder_;
};

TEST_F(OneJob, RanksOfTwoHosts) {
  EXPECT_EQ(WhyNot({.pid = 1, .key = "1-1", .ranks = Rank(0), .boot_id = "host1"},
                   {.pid = 1, .key = "1-2", .ranks = Rank(1), .boot_id = "host2"}),
            "");
}

TEST_F(OneJob, OneLaunch) {
  EXPECT_EQ(WhyNot({.pid = 1, .key = "slurm-7.0", .boot_id = "host1"}, {.pid = 2, .key = "slurm-7.0"}), "");
  EXPECT_EQ(WhyNot({.pid = 1, .key = "mpi-7"}, {.pid = 2, .key = "mpi-7", .boot_id = "host2"}), "");
  EXPECT_EQ(WhyNot({.pid = 1}, {.pid = 2, .start_s = 9}), "");
  EXPECT_EQ(WhyNot({.pid = 1, .key = "torchrun-none.29500-4-5", .ranks = Rank(0)},
                   {.pid = 2, .key = "torchrun-none.29500-6-7", .ranks = Rank(1), .boot_id = "host2"}),
            "");
}

TEST_F(OneJob, NotOne) {
  EXPECT_EQ(WhyNot({.pid = 1, .ranks = Rank(0)}, {.pid = 2, .ranks = Rank(0)}), Unknown("both have rank 0"));
  EXPECT_EQ(WhyNot({.pid = 1, .ranks = Rank(0)}, {.pid = 2, .ranks = Rank(1, 4)}),
            Unknown("one is of 2 ranks, the other of 4"));
  EXPECT_EQ(WhyNot({.pid = 1, .key = "slurm-7.0", .ranks = Rank(0)}, {.pid = 2, .key = "slurm-7.1", .ranks = Rank(1)}),
            Unknown("their jobs are slurm-7.0 and slurm-7.1"));
  EXPECT_EQ(WhyNot({.pid = 1, .key = "torchrun-a.1-4-5", .ranks = Rank(0)},
                   {.pid = 2, .key = "torchrun-b.1-4-5", .ranks = Rank(1)}),
            Unknown("their jobs are torchrun-a.1 and torchrun-b.1"));
  const std::string nothing = "they have neither a job's id in common nor ranks";
  EXPECT_EQ(WhyNot({.pid = 1}, {.pid = 2, .key = "1-2"}), Unknown(nothing));
  EXPECT_EQ(WhyNot({.pid = 1}, {.pid = 2, .boot_id = "host2"}), Unknown(nothing));
  EXPECT_EQ(WhyNot({.pid = 1, .ranks = Rank(0)}, {.pid = 2, .key = "1-2"}), Unknown(nothing));
  EXPECT_EQ(WhyNot({.pid = 1, .key = "torchrun-none.1-4-5"}, {.pid = 2, .key = "torchrun-none.1-4-5"}),
            Unknown(nothing));
  EXPECT_EQ(WhyNot({}, {}), "both have process 1 of h: one is a copy; name one of them");
}

TEST_F(OneJob, OneAfterTheOther) {
  const std::string a = folder_.path() + "/a", b = folder_.path() + "/b";
  EXPECT_EQ(WhyNot({.pid = 1, .ranks = Rank(0)}, {.pid = 2, .ranks = Rank(1), .start_s = 11}),
            Unknown(absl::StrCat(a, " ended before ", b, " began")));
  EXPECT_EQ(WhyNot({.pid = 1}, {.pid = 2, .start_s = 11}), Unknown(absl::StrCat(a, " ended before ", b, " began")));
}

TEST_F(OneJob, NoTwoAtTheSameTime) {
  const auto part = [&](const std::string& name, int rank, int start_s) {
    return Folder(name, {{.pid = rank + 1, .key = name, .ranks = Rank(rank, 3), .start_s = start_s}});
  };
  const std::vector<std::string> apart = {part("a", 0, 0), part("b", 1, 11), part("c", 2, 22)};
  EXPECT_TRUE(absl::IsOutOfRange(LoadRun(apart).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadRun(std::vector<std::string>{apart[0], apart[1], part("d", 2, 1)}).status()));
}

TEST_F(OneJob, RunsOfSeveralFoldersAmongOthers) {
  const auto part = [&](const std::string& name, int pid, int rank) {
    return Folder(name, {{.pid = pid, .key = absl::StrCat("slurm-", name.substr(0, 1), ".0"), .ranks = Rank(rank)}});
  };
  const std::string a0 = part("a0", 1, 0), a1 = part("a1", 2, 1), b0 = part("b0", 3, 0), b1 = part("b1", 4, 1);
  EXPECT_THAT(RunsAmong({a0, b0, a1, b1}), ElementsAre(ElementsAre(a0, a1), ElementsAre(b0, b1)));
  const std::string alone = Folder("alone", {{.pid = 5}}), next = Folder("next", {{.pid = 6}});  // of one script
  EXPECT_THAT(RunsAmong({alone, a1, next, "missing"}),
              ElementsAre(ElementsAre(alone), ElementsAre(a1), ElementsAre(next), ElementsAre("missing")));
}

TEST_F(OneJob, TracesHaveTheirFoldersNames) {
  const std::string a = Folder("a", {{.pid = 1}, {.pid = 2}}), b = Folder("b", {{.pid = 3}});
  const absl::StatusOr<LoadedRun> run = LoadRun(std::vector<std::string>{b, a, a});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model.name, "a, b");
  std::vector<std::string> names;
  for (const ProcessInfo& process : run->model.processes) names.push_back(process.file);
  EXPECT_THAT(names, ElementsAre("a/0.dlh", "a/1.dlh", "b/0.dlh"));
  EXPECT_EQ(LoadRun(a)->model.processes.front().file, "0.dlh");
}

}  // namespace
}  // namespace dlhook::analyzer
