// Frequency, quotas and caches, from folders like Linux's.
#include "analyzer/io/machine_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/io/resctrl.h"

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;

class MachineFilesTest : public ::testing::Test {
 protected:
  MachineFilesTest() {
    std::string folder = (fs::temp_directory_path() / "dlhook_machine_XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    root_ = folder;
  }
  ~MachineFilesTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(MachineFilesTest, FrequencyIsKnownOnlyWhereLinuxTells) {
  EXPECT_EQ(FrequencyMhz(root_), 0u);
  Write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400123\n");
  EXPECT_EQ(FrequencyMhz(root_), 2400u);
}

TEST_F(MachineFilesTest, EnergyOfAllPackagesWraps) {
  EXPECT_EQ(PackageEnergy::Open(root_).status().code(), absl::StatusCode::kNotFound);
  for (const char* zone : {"/intel-rapl:0", "/intel-rapl:1"}) {
    Write(absl::StrCat(zone, "/name"), "package-0\n");
    Write(absl::StrCat(zone, "/max_energy_range_uj"), "10000000\n");
  }
  Write("/intel-rapl:0/energy_uj", "9000000\n");
  EXPECT_EQ(PackageEnergy::Open(root_).status().code(), absl::StatusCode::kPermissionDenied);
  Write("/intel-rapl:1/energy_uj", "100\n");
  Write("/intel-rapl:0:0/name", "core\n");
  absl::StatusOr<PackageEnergy> energy = PackageEnergy::Open(root_);
  ASSERT_TRUE(energy.ok()) << energy.status();
  EXPECT_EQ(energy->Joules(), 0);
  Write("/intel-rapl:0/energy_uj", "1000000\n");
  Write("/intel-rapl:1/energy_uj", "500100\n");
  EXPECT_DOUBLE_EQ(energy->Joules(), 2.5);
}

TEST_F(MachineFilesTest, GroupsOfResctrl) {
  EXPECT_EQ(CheckResctrl(root_).code(), absl::StatusCode::kNotFound);
  Write("/info/last_cmd_status", "ok\n");
  Write("/tasks", "");
  fs::create_directory(root_ + "/mon_groups");
  ASSERT_TRUE(CheckResctrl(root_).ok());
  const absl::StatusOr<ResctrlGroup> watched = ResctrlGroup::Make(root_, "program", "");
  ASSERT_TRUE(watched.ok()) << watched.status();
  EXPECT_EQ(ResctrlGroup::Make(root_, "neighbours", "f").status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string group = fs::directory_iterator(root_ + "/mon_groups")->path().string().substr(root_.size());
  EXPECT_EQ(watched->CacheBytes(), std::nullopt);
  for (const char* cache : {"/mon_data/mon_L3_00", "/mon_data/mon_L3_01"}) {
    Write(absl::StrCat(group, cache, "/llc_occupancy"), "1024\n");
    Write(absl::StrCat(group, cache, "/mbm_total_bytes"), "Unavailable\n");
  }
  EXPECT_EQ(watched->CacheBytes(), 2048);
  EXPECT_EQ(watched->TrafficBytes(), std::nullopt);
  EXPECT_TRUE(watched->Add(4711).ok());
  EXPECT_EQ(ReadSmallFile(root_ + group + "/tasks"), "4711\n");
  RemoveResctrlGroups(root_, getpid() + 1);  // another living process's stay
  EXPECT_TRUE(fs::exists(root_ + group));
  RemoveResctrlGroups(root_, getpid());
  EXPECT_FALSE(fs::exists(root_ + group));
}

TEST_F(MachineFilesTest, QuotaOfVersionTwo) {
  Write("/proc/7/cgroup", "0::/user.slice/job\n");
  Write("/sys/fs/cgroup/user.slice/job/cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n");
  EXPECT_EQ(ThrottledTime(root_, 7).ReadNs(), 1'500'000u);
}

TEST_F(MachineFilesTest, QuotaOfVersionOne) {
  Write("/proc/7/cgroup", "4:memory:/a\n3:cpu,cpuacct:/job\n0::/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 2500\n");
  Write("/sys/fs/cgroup/memory/a/cpu.stat", "throttled_time 9999999\n");
  EXPECT_EQ(ThrottledTime(root_, 7).ReadNs(), 2500u);
}

TEST_F(MachineFilesTest, AnOuterGroupsQuotaCountsToo) {
  Write("/proc/7/cgroup", "0::/pod/container/main\n");
  Write("/sys/fs/cgroup/pod/cpu.stat", "throttled_usec 8\n");
  Write("/sys/fs/cgroup/pod/container/main/cpu.stat", "throttled_usec 3\n");
  Write("/sys/fs/cgroup/cpu.stat", "throttled_usec 1\n");
  EXPECT_EQ(ThrottledTime(root_, 7).ReadNs(), 8000u);
}

TEST_F(MachineFilesTest, NothingIsKnownWithoutGroups) {
  EXPECT_EQ(ThrottledTime(root_, 7).ReadNs(), 0u);
  Write("/proc/7/cgroup", "nonsense\n0::\n3:cpu\n");
  Write("/sys/fs/cgroup/cpu.stat", "throttled_usec many\n");
  EXPECT_EQ(ThrottledTime(root_, 7).ReadNs(), 0u);
}

// Two sockets of four processors, each with two L3 caches as AMD's have them; a container has all of the first and one
// processor of the second.
TEST_F(MachineFilesTest, CachesOfTwoSockets) {
  for (int processor = 0; processor < 8; ++processor) {
    const std::string cache = absl::StrCat("/sys/devices/system/cpu/cpu", processor, "/cache/index");
    Write(cache + "2/level", "2\n");
    Write(cache + "2/size", "1024K\n");
    Write(cache + "3/level", "3\n");
    Write(cache + "3/size", "32M\n");
    Write(cache + "3/shared_cpu_list", absl::StrCat(processor / 2 * 2, "-", processor / 2 * 2 + 1, "\n"));
  }
  const Caches caches = ReadCaches({0, 1, 2, 3, 6}, root_);
  EXPECT_EQ(caches.l2_bytes, 1u << 20);
  EXPECT_EQ(caches.l3_bytes, 32u << 20);
  EXPECT_EQ(caches.l3_count, 3u);
  EXPECT_EQ(caches.l3_sharers, 2u);
}

// Two nodes of two cores each, with two threads a core: 0 and 4, 1 and 5 …
TEST_F(MachineFilesTest, PinningsOfTwoNodes) {
  for (int processor = 0; processor < 8; ++processor) {
    Write(absl::StrCat("/sys/devices/system/cpu/cpu", processor, "/topology/thread_siblings_list"),
          absl::StrCat(processor % 4, ",", processor % 4 + 4, "\n"));
  }
  Write("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
  Write("/sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
  using Pinned = std::map<std::string, std::vector<int>>;
  EXPECT_EQ(Pinnings({0, 1, 2, 3, 4, 5, 6, 7}, root_), (Pinned{{"0-3", {0, 1, 2, 3}}, {"0-1,4-5", {0, 1, 4, 5}}}));
  EXPECT_EQ(Pinnings({0, 2, 3, 6, 7}, root_), (Pinned{{"0,2-3", {0, 2, 3}}, {"2-3,6-7", {2, 3, 6, 7}}}));
  EXPECT_EQ(Pinnings({0, 1}, root_), Pinned());
  EXPECT_EQ(Pinnings({0, 1}, root_ + "/none"), Pinned());
}

TEST_F(MachineFilesTest, NumbersOfProcessors) {
  EXPECT_EQ(ProcessorNumbers("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  for (const char* text : {"", "1-", "2-1", "0-1-2", "-1", "0-2000000000"})
    EXPECT_EQ(ProcessorNumbers(text), std::nullopt);
}

}  // namespace
}  // namespace dlhook::analyzer
