// CUPTI's records of every version are converted; the pool of buffers is bounded and loses none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "preload/format/gpu_records.h"
#include "preload/gpu/activity_buffers.h"
#include "preload/gpu/gpu_devices.h"
#ifdef DLHOOK_HAS_CUPTI_HEADERS
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#endif

namespace dlhook {
namespace {

constexpr uint32_t kNew = 130000;
constexpr uint32_t kOld = 12;

struct Read {
  ActivityUse use;
  GpuActivityRecord activity;
  const char* name;
};

template <typename Record>
Read ReadOf(const Record& record, uint32_t version = kNew, int64_t offset_ns = 0) {
  Read read;
  read.use = ReadActivity(&record, version, offset_ns, &read.activity, &read.name);
  return read;
}

cupti::KernelRecord Kernel() {
  cupti::KernelRecord record = {};
  record.kind = cupti::kConcurrentKernel;
  record.registers_per_thread = 40;
  record.start = 1000;
  record.end = 1700;
  record.device = 1;
  record.context = 2;
  record.stream = 7;
  record.grid[0] = 5;
  record.block[2] = 3;
  record.static_shared_bytes = 64;
  record.dynamic_shared_bytes = 128;
  record.correlation = 99;
  record.name = "_Z3addv";
  record.queued = 900;
  record.submitted = 950;
  record.graph_node = uint64_t{3} << 32;
  record.graph = 4;
  return record;
}

TEST(ActivityTest, Kernels) {
  for (uint32_t kind : {cupti::kKernel, cupti::kConcurrentKernel}) {
    cupti::KernelRecord record = Kernel();
    record.kind = kind;
    Read read = ReadOf(record);
    ASSERT_EQ(read.use, ActivityUse::kActivity);
    EXPECT_EQ(read.activity.kind, GpuActivityKind::kKernel);
    EXPECT_EQ(read.activity.source, GpuTimeSource::kCupti);
    EXPECT_STREQ(read.name, "_Z3addv");
    EXPECT_EQ(read.activity.start_ns, 1000u);
    EXPECT_EQ(read.activity.end_ns, 1700u);
    EXPECT_EQ(read.activity.device, 1u);
    EXPECT_EQ(read.activity.stream, 7u);
    EXPECT_EQ(read.activity.correlation, 99u);
    EXPECT_THAT(read.activity.grid, testing::ElementsAre(5, 0, 0));
    EXPECT_THAT(read.activity.block, testing::ElementsAre(0, 0, 3));
    EXPECT_EQ(read.activity.registers_per_thread, 40u);
    EXPECT_EQ(read.activity.static_shared_bytes, 64u);
    EXPECT_EQ(read.activity.dynamic_shared_bytes, 128u);
    EXPECT_EQ(read.activity.graph_node, uint64_t{3} << 32);
    EXPECT_EQ(read.activity.graph, 4u);
  }
}

TEST(ActivityTest, OldRecordsEndBeforeTheGraphs) {
  Read read = ReadOf(Kernel(), kOld);
  EXPECT_EQ(read.activity.graph_node, 0u);
  EXPECT_EQ(read.activity.graph, 0u);
  EXPECT_EQ(read.activity.correlation, 99u);
}

TEST(ActivityTest, Copies) {
  struct Case {
    uint8_t kind, source, destination;
    CopyDirection direction;
    HostMemory memory;
  };
  const Case cases[] = {{1, 1, 3, CopyDirection::kHostToDevice, HostMemory::kPageable},
                        {2, 3, 2, CopyDirection::kDeviceToHost, HostMemory::kPinned},
                        {3, 2, 4, CopyDirection::kHostToDevice, HostMemory::kPinned},
                        {8, 3, 3, CopyDirection::kDeviceToDevice, HostMemory::kNone},
                        {8, 3, 5, CopyDirection::kDeviceToDevice, HostMemory::kManaged},
                        {10, 3, 3, CopyDirection::kPeer, HostMemory::kNone},
                        {77, 0, 0, CopyDirection::kUnknown, HostMemory::kNone}};
  for (const Case& one : cases) {
    cupti::MemcpyRecord record = {};
    record.kind = cupti::kMemcpy;
    record.copy_kind = one.kind;
    record.source_memory = one.source;
    record.destination_memory = one.destination;
    record.bytes = 4096;
    record.start = 5;
    record.end = 6;
    record.correlation = 12;
    record.graph_node = 13;
    Read read = ReadOf(record);
    ASSERT_EQ(read.use, ActivityUse::kActivity);
    EXPECT_EQ(read.activity.kind, GpuActivityKind::kCopy);
    EXPECT_EQ(read.activity.direction, one.direction);
    EXPECT_EQ(read.activity.host_memory, one.memory);
    EXPECT_EQ(read.activity.bytes, 4096u);
    EXPECT_EQ(read.activity.correlation, 12u);
    EXPECT_EQ(read.activity.graph_node, 13u);
    EXPECT_EQ(read.name, nullptr);
  }
}

TEST(ActivityTest, CopiesBetweenDevices) {
  cupti::MemcpyPeerRecord record = {};
  record.kind = cupti::kMemcpyPeer;
  record.start = 5;
  record.end = 6;
  record.device = 1;
  record.source_device = 1;
  record.destination_device = 3;
  record.correlation = 21;
  Read read = ReadOf(record);
  ASSERT_EQ(read.use, ActivityUse::kActivity);
  EXPECT_EQ(read.activity.direction, CopyDirection::kPeer);
  EXPECT_EQ(read.activity.device, 1u);
  EXPECT_EQ(read.activity.correlation, 21u);
}

TEST(ActivityTest, SetsAndOverhead) {
  cupti::MemsetRecord set = {};
  set.kind = cupti::kMemset;
  set.bytes = 333;
  set.start = 5;
  set.end = 6;
  set.correlation = 31;
  Read read = ReadOf(set);
  ASSERT_EQ(read.use, ActivityUse::kActivity);
  EXPECT_EQ(read.activity.kind, GpuActivityKind::kSet);
  EXPECT_EQ(read.activity.direction, CopyDirection::kSet);
  EXPECT_EQ(read.activity.bytes, 333u);
  EXPECT_EQ(read.activity.correlation, 31u);
}

TEST(ActivityTest, WholeGraphs) {
  const cupti::GraphTraceRecord record = {cupti::kGraphTrace, 99, 5, 9, 1, 4, 2, 7};
  const Read read = ReadOf(record);
  ASSERT_EQ(read.use, ActivityUse::kActivity);
  EXPECT_EQ(read.activity.kind, GpuActivityKind::kGraph);
  EXPECT_EQ(read.activity.start_ns, 5u);
  EXPECT_EQ(read.activity.end_ns, 9u);
  EXPECT_EQ(read.activity.correlation, 99u);
  EXPECT_EQ(read.activity.graph, 4u);
  EXPECT_EQ(read.activity.stream, 7u);
}

TEST(ActivityTest, WhatHasNoTimesIsNoActivity) {
  cupti::KernelRecord record = Kernel();
  record.end = 0;
  EXPECT_EQ(ReadOf(record).use, ActivityUse::kWithoutTimes);
  record.start = 0;
  EXPECT_EQ(ReadOf(record).use, ActivityUse::kWithoutTimes);
}

TEST(ActivityTest, AnotherClock) {
  cupti::KernelRecord record = Kernel();
  Read read = ReadOf(record, kNew, 5000);
  EXPECT_EQ(read.activity.start_ns, 6000u);
  EXPECT_EQ(ReadOf(record, kNew, -500).activity.start_ns, 500u);
}

TEST(ActivityTest, OtherKinds) {
  uint32_t record[64] = {};
  struct Case {
    uint32_t kind;
    ActivityUse use;
  };
  for (Case one :
       {Case{8, ActivityUse::kDevice}, Case{39, ActivityUse::kLink}, Case{4, ActivityUse::kNotNeeded},
        Case{5, ActivityUse::kNotNeeded}, Case{0, ActivityUse::kUnknown}, Case{4711, ActivityUse::kUnknown}}) {
    record[0] = one.kind;
    EXPECT_EQ(ReadOf(record).use, one.use) << one.kind;
  }
}

TEST(ActivityTest, Devices) {
  cupti::DeviceRecord record = {};
  record.memory_bandwidth_kb_per_s = 3352320000;
  record.compute_major = 9;
  record.compute_minor = 0;
  record.id = 2;
  record.is_partitioned = 1;
  GpuDeviceRecord device = {};
  ReadDevice(record, kNew, &device);
  EXPECT_EQ(device.memory_bytes_per_second, 3352320000000u);
  EXPECT_EQ(device.compute_capability, 90u);
  EXPECT_EQ(device.ordinal, 2u);
  EXPECT_EQ(device.is_partition, 1u);
  device = {};
  ReadDevice(record, kOld, &device);
  EXPECT_EQ(device.is_partition, 0u);
}

TEST(PciLinkTest, Generations) {
  EXPECT_EQ(LinkGeneration("32.0 GT/s PCIe\n"), 5u);
  EXPECT_EQ(LinkGeneration("2.5 GT/s PCIe"), 1u);
  EXPECT_EQ(LinkGeneration("Unknown"), 0u);
  EXPECT_EQ(LinkGeneration(""), 0u);
  EXPECT_EQ(LinkBytesPerSecond(5, 16), 63015384608u);
  EXPECT_EQ(LinkBytesPerSecond(1, 1), 250000000u);
  EXPECT_EQ(LinkBytesPerSecond(9, 16), 0u);
}

// A folder for a device or port, as in /sys/devices: inside of that of the port above it.
std::string Port(const std::string& above, const char* name, const char* speed, const char* width) {
  const std::string folder = above + "/" + name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/max_link_speed") << speed << "\n";
  std::ofstream(folder + "/max_link_width") << width << "\n";
  return folder;
}

TEST(PciLinkTest, TheSlowestOnTheWayToTheHost) {
  const std::string host = testing::TempDir() + "pci_link_test";
  const std::string slot = Port(host, "0000:00:01.0", "16.0 GT/s PCIe", "16");
  const std::string uplink = Port(slot, "0000:01:00.0", "32.0 GT/s PCIe", "8");
  const std::string card = Port(uplink, "0000:02:00.0", "32.0 GT/s PCIe", "16");
  PciLink link = SlowestLink(card.c_str());
  EXPECT_EQ(link.generation, 5u);  // the first of two that are equally fast: 8 lanes of generation 5, 16 of 4
  EXPECT_EQ(link.width, 8u);
  std::ofstream(slot + "/max_link_width") << "4\n";
  link = SlowestLink(card.c_str());
  EXPECT_EQ(link.generation, 4u);
  EXPECT_EQ(link.width, 4u);
  EXPECT_EQ(link.bytes_per_second, LinkBytesPerSecond(4, 4));
  EXPECT_EQ(SlowestLink((host + "/none").c_str()).bytes_per_second, 0u);
  std::filesystem::remove_all(host);
}

class BuffersTest : public testing::Test {
 protected:
  static constexpr uint64_t kTotal = 1 << 20;
  uint8_t* Take() { return TakeActivityBuffer(&pool_, kTotal).data; }
  bool TakeBack(uint8_t* data, size_t valid) { return TakeBackBuffer(&pool_, data, valid, nullptr); }
  ActivityBuffers pool_ = {};
};

TEST_F(BuffersTest, AreBounded) {
  std::vector<uint8_t*> taken;
  while (uint8_t* data = Take()) taken.push_back(data);
  EXPECT_EQ(taken.size(), kFewRecordsBuffers + kTotal / ActivityBufferBytes(kTotal));
  EXPECT_EQ(pool_.at_cupti.load(), taken.size());
  for (uint8_t* data : taken) EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 8, 0u);
  EXPECT_TRUE(TakeBack(taken[1], 0));  // empty: free again immediately
  EXPECT_EQ(Take(), taken[1]);
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(BuffersTest, ComeInTheOrderOfTheirCompletionAndGoBackZeroed) {
  uint8_t* first = Take();
  uint8_t* second = Take();
  memset(first, 1, 100);
  memset(second, 2, 200);
  EXPECT_TRUE(TakeBack(second, 200));
  EXPECT_TRUE(TakeBack(first, 100));
  EXPECT_TRUE(HasFullBuffer(&pool_));
  ActivityBuffer* buffer = NextFullBuffer(&pool_);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(buffer->data, second);
  EXPECT_EQ(buffer->valid, 200u);
  ReturnActivityBuffer(&pool_, buffer);
  EXPECT_EQ(NextFullBuffer(&pool_)->data, first);
  EXPECT_EQ(NextFullBuffer(&pool_), nullptr);
  EXPECT_FALSE(HasFullBuffer(&pool_));
  EXPECT_EQ(pool_.at_cupti.load(), 0u);
  ASSERT_EQ(Take(), second);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(second), 200), std::string(200, '\0'));
}

TEST_F(BuffersTest, OthersAreNotTaken) {
  uint8_t foreign[8];
  EXPECT_FALSE(TakeBack(foreign, 8));
  EXPECT_FALSE(TakeBack(nullptr, 8));
  EXPECT_EQ(NextFullBuffer(&pool_), nullptr);
}

// Few enough that CUPTI does not hold much back, enough for the rate of work and the buffers in use.
TEST_F(BuffersTest, TakeMoreRecordsTheMoreComeBack) {
  uint8_t* held_back = Take();
  auto after_second = [&](int filled) {
    for (int i = 0; i < filled; ++i) {
      TakeBack(Take(), 8);
      ReturnActivityBuffer(&pool_, NextFullBuffer(&pool_));
    }
    AdaptRecords(&pool_);
    BufferGift next = TakeActivityBuffer(&pool_, kTotal);
    TakeBack(next.data, 0);
    return next.most_records;
  };
  EXPECT_EQ(after_second(8), 16u);
  EXPECT_EQ(after_second(9), 64u);
  EXPECT_EQ(after_second(100), 256u);
  EXPECT_EQ(after_second(1), 256u);
  EXPECT_EQ(after_second(0), 64u);  // one is held by CUPTI
  EXPECT_EQ(after_second(0), 16u);
  EXPECT_EQ(after_second(0), 16u);
  TakeBack(held_back, 0);
  EXPECT_EQ(after_second(0), 16u);
  for (int i = 0; i < 3; ++i) after_second(9);
  EXPECT_EQ(after_second(9), 0u);  // as many as fit
}

TEST_F(BuffersTest, TakeMoreRecordsTheMoreAreUnderWay) {
  std::vector<size_t> records;
  for (uint32_t i = 0; i <= kFewRecordsBuffers; ++i) records.push_back(TakeActivityBuffer(&pool_, kTotal).most_records);
  EXPECT_EQ((std::vector<size_t>{records[0], records[7], records[8], records[16], records[24], records[32]}),
            (std::vector<size_t>{16, 16, 64, 256, 1024, 0}));
}

uint64_t g_counted;

TEST_F(BuffersTest, ScratchPagesAreNeverSharedAndNeverQueued) {
  Take();
  uint8_t* first = TakeScratch(&pool_).data;
  ASSERT_NE(first, TakeScratch(&pool_).data);
  memset(first, 1, kScratchBytes);
  auto count = [](uint8_t*, size_t valid) { g_counted += valid; };
  EXPECT_TRUE(TakeBackBuffer(&pool_, first, kScratchBytes, count));
  EXPECT_EQ(g_counted, kScratchBytes);
  EXPECT_EQ(TakeScratch(&pool_).data, first);
  EXPECT_EQ(first[0], 0);
  EXPECT_EQ(pool_.at_cupti.load(), 1u);
  EXPECT_EQ(NextFullBuffer(&pool_), nullptr);
}

TEST(BufferSizesTest, FollowTheTotal) {
  EXPECT_EQ(ActivityBufferBytes(32 << 20), 1u << 20);
  EXPECT_EQ(ActivityBufferBytes(1 << 20), 256u << 10);
  EXPECT_EQ(ActivityBufferBytes(uint64_t{16} << 30), 8u << 20);
  EXPECT_LE((uint64_t{16} << 30) / ActivityBufferBytes(uint64_t{16} << 30), kMostActivityBuffers);
}

#ifdef DLHOOK_HAS_CUPTI_HEADERS
#define SAME(theirs, their_field, ours, our_field)                            \
  static_assert(offsetof(theirs, their_field) == offsetof(ours, our_field) && \
                sizeof(theirs::their_field) == sizeof(ours::our_field))

#define SAME_NUMBER(theirs, ours) static_assert(static_cast<uint32_t>(theirs) == static_cast<uint32_t>(ours))

SAME(CUpti_ActivityKernel10, registersPerThread, cupti::KernelRecord, registers_per_thread);
SAME(CUpti_ActivityKernel10, end, cupti::KernelRecord, end);
SAME(CUpti_ActivityKernel10, streamId, cupti::KernelRecord, stream);
SAME(CUpti_ActivityKernel10, dynamicSharedMemory, cupti::KernelRecord, dynamic_shared_bytes);
SAME(CUpti_ActivityKernel10, correlationId, cupti::KernelRecord, correlation);
SAME(CUpti_ActivityKernel10, name, cupti::KernelRecord, name);
SAME(CUpti_ActivityKernel10, submitted, cupti::KernelRecord, submitted);
SAME(CUpti_ActivityKernel10, graphNodeId, cupti::KernelRecord, graph_node);
SAME(CUpti_ActivityKernel10, graphId, cupti::KernelRecord, graph);
SAME(CUpti_ActivityMemcpy6, dstKind, cupti::MemcpyRecord, destination_memory);
SAME(CUpti_ActivityMemcpy6, end, cupti::MemcpyRecord, end);
SAME(CUpti_ActivityMemcpy6, correlationId, cupti::MemcpyRecord, correlation);
SAME(CUpti_ActivityMemcpy6, graphId, cupti::MemcpyRecord, graph);
SAME(CUpti_ActivityMemcpyPtoP4, dstDeviceId, cupti::MemcpyPeerRecord, destination_device);
SAME(CUpti_ActivityMemcpyPtoP4, correlationId, cupti::MemcpyPeerRecord, correlation);
SAME(CUpti_ActivityMemcpyPtoP4, graphId, cupti::MemcpyPeerRecord, graph);
SAME(CUpti_ActivityMemset4, memoryKind, cupti::MemsetRecord, memory);
SAME(CUpti_ActivityMemset4, correlationId, cupti::MemsetRecord, correlation);
SAME(CUpti_ActivityMemset4, graphId, cupti::MemsetRecord, graph);
SAME(CUpti_ActivityGraphTrace2, streamId, cupti::GraphTraceRecord, stream);
SAME(CUpti_ActivityGraphTrace2, end, cupti::GraphTraceRecord, end);
SAME(CUpti_ActivityDevice5, globalMemoryBandwidth, cupti::DeviceRecord, memory_bandwidth_kb_per_s);
SAME(CUpti_ActivityDevice5, numMultiprocessors, cupti::DeviceRecord, multiprocessors);
SAME(CUpti_ActivityDevice5, computeCapabilityMajor, cupti::DeviceRecord, compute_major);
SAME(CUpti_ActivityDevice5, id, cupti::DeviceRecord, id);
SAME(CUpti_ActivityDevice5, uuid, cupti::DeviceRecord, uuid);
SAME(CUpti_ActivityDevice5, isMigEnabled, cupti::DeviceRecord, is_partitioned);
SAME(CUpti_ActivityExternalCorrelation, correlationId, cupti::ExternalCorrelationRecord, correlation);
SAME(CUpti_CallbackData, correlationId, cupti::CallbackData, correlation);
SAME(CUpti_GraphData, originalNode, cupti::GraphData, original_node);
SAME(CUpti_ResourceData, resourceDescriptor, cupti::ResourceData, descriptor);
static_assert(sizeof(CUpti_SubscriberParams) == sizeof(cupti::SubscriberParams));
SAME_NUMBER(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, cupti::kGraphTrace);
SAME_NUMBER(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, cupti::kPerThreadBuffers);
SAME_NUMBER(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, cupti::kZeroedBuffers);
SAME_NUMBER(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, cupti::kModuleUnloadStarting);
SAME_NUMBER(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, cupti::kGraphNodeCreated);
SAME_NUMBER(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, cupti::kGraphNodeCloned);
SAME_NUMBER(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, cupti::kCustom2);
SAME_NUMBER(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, cupti::kMultipleSubscribers);
#endif

}  // namespace
}  // namespace dlhook
