// NCCL and MPI: bytes, communicators, ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include "preload/hook_arguments.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace collective_test {

const void* Real() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

constexpr int64_t kMpiCommunicator = -0x3c000000;  // MPICH's handles are ints, some of them negative

class CollectiveTest : public ::testing::Test {
 protected:
  void SetUp() override { *FakeRuntimeAnswers() = {}; }
  // The table of communicators is global: the next test must not find this one's.
  void TearDown() override {
    for (uint64_t handle = 0x100; handle < 0x500; ++handle) TrackCommunicatorGone({Pointer(handle), 0, Real()});
    for (uint64_t i = 0; i < 300; ++i) TrackCommunicatorGone({Pointer(0x10000 + i * 16), 0, Real()});
    TrackCommunicatorGone({Pointer(static_cast<uint64_t>(kMpiCommunicator)), 0, Real()});
  }
};

struct Result {
  CollectiveShape shape;
  std::vector<uint64_t> addresses;
};

Result Decode(const NcclArgs& args, int32_t status = 0) {
  TestRecord record(kWords<CollectiveShape>, 3, status);
  DecodeNccl(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  return {record.shape<CollectiveShape>(), record.addresses()};
}

Result Decode(const MpiArgs& args, int32_t status = 0) {
  TestRecord record(kWords<CollectiveShape>, 3, status);
  DecodeMpi(args, record.record());
  return {record.shape<CollectiveShape>(), record.addresses()};
}

NcclArgs AllReduce(uint64_t comm) {
  NcclArgs args;
  args.kind = CollectiveKind::kAllReduce;
  args.sendbuff = Pointer(0x1000), args.recvbuff = Pointer(0x2000);
  args.count = 61602;
  args.datatype = 7;
  args.op = 0;
  args.comm = Pointer(comm);
  args.stream = Pointer(0x30);
  args.real = Real();
  return args;
}

TEST_F(CollectiveTest, NcclAllReduce) {
  FakeRuntimeAnswers()->rank = 3, FakeRuntimeAnswers()->ranks = 8;
  const Result result = Decode(AllReduce(0x100));
  EXPECT_EQ(result.shape.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(result.shape.bytes, 246408u);
  EXPECT_EQ(result.shape.count, 61602u);
  EXPECT_EQ(result.shape.data_type, DataType::kF32);
  EXPECT_EQ(result.shape.reduction, 0);
  EXPECT_EQ(result.shape.peer, -1);
  EXPECT_EQ(result.shape.rank, 3);
  EXPECT_EQ(result.shape.ranks, 8);
  EXPECT_EQ(result.shape.blocking, 0);
  EXPECT_EQ(result.shape.captured, 0);
  EXPECT_NE(result.shape.communicator, 0u);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0x30}));
}

TEST_F(CollectiveTest, RootsPeersAndBuffers) {
  NcclArgs args;
  args.kind = CollectiveKind::kBroadcast;
  args.buffer = Pointer(0x1000);
  args.root = 2;
  args.datatype = 9, args.count = 10;
  EXPECT_EQ(Decode(args).shape.peer, 2);
  EXPECT_EQ(Decode(args).shape.reduction, -1);
  EXPECT_EQ(Decode(args).shape.bytes, 20u);
  EXPECT_EQ(Decode(args).addresses, (std::vector<uint64_t>{0x1000, 0x1000, 0}));
  args.root = -1, args.peer = 5;
  EXPECT_EQ(Decode(args).shape.peer, 5);
  args.datatype = 99;
  EXPECT_EQ(Decode(args).shape.bytes, 0u);
  EXPECT_EQ(Decode(args).shape.communicator, 0u);  // no communicator
}

TEST_F(CollectiveTest, ACommunicatorIsAskedOnceUntilItIsGone) {
  FakeRuntimeAnswers()->rank = 1, FakeRuntimeAnswers()->ranks = 2;
  const uint32_t first = Decode(AllReduce(0x200)).shape.communicator;
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 2);
  EXPECT_EQ(Decode(AllReduce(0x200)).shape.communicator, first);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 2);
  EXPECT_EQ(Decode(AllReduce(0x300)).shape.communicator, first + 1);
  FakeRuntimeAnswers()->rank = 0;
  TrackCommunicatorGone({Pointer(0x200), 0, Real()});
  EXPECT_EQ(Decode(AllReduce(0x300)).shape.communicator, first + 1);  // after a gap
  const Result again = Decode(AllReduce(0x200));
  EXPECT_EQ(again.shape.communicator, first + 2);
  EXPECT_EQ(again.shape.rank, 0);
  TrackCommunicatorGone({});
}

TEST_F(CollectiveTest, FailedCallsAndFailingGetters) {
  const Result failed = Decode(AllReduce(0x400), 4);
  EXPECT_EQ(failed.shape.rank, -1);
  EXPECT_EQ(failed.shape.ranks, 0);
  EXPECT_EQ(failed.shape.communicator, 0u);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);
  FakeRuntimeAnswers()->status = 1;
  const Result unknown = Decode(AllReduce(0x401));
  EXPECT_EQ(unknown.shape.rank, -1);
  EXPECT_EQ(unknown.shape.ranks, 0);
  EXPECT_NE(unknown.shape.communicator, 0u);
  FakeRuntimeAnswers()->status = 0, FakeRuntimeAnswers()->ranks = 2;
  const Result known = Decode(AllReduce(0x401));
  EXPECT_EQ(known.shape.ranks, 2) << "asked again";
  EXPECT_EQ(known.shape.communicator, unknown.shape.communicator);
  NcclArgs foreign = AllReduce(0x402);
  foreign.real = reinterpret_cast<const void*>(&getpid);
  EXPECT_EQ(Decode(foreign).shape.rank, -1);
}

TEST_F(CollectiveTest, MpiBytesByTheLibrarysOwnSizes) {
  FakeRuntimeAnswers()->rank = 1, FakeRuntimeAnswers()->ranks = 4;
  MpiArgs args;
  args.kind = CollectiveKind::kAllReduce;
  args.blocking = false;
  args.sendbuff = Pointer(0x1000), args.recvbuff = Pointer(0x2000);
  args.count = 100, args.datatype = 8;
  args.comm = kMpiCommunicator;
  args.real = Real();
  Result result = Decode(args);
  EXPECT_EQ(result.shape.bytes, 800u);
  EXPECT_EQ(result.shape.count, 100u);
  EXPECT_EQ(result.shape.rank, 1);
  EXPECT_EQ(result.shape.ranks, 4);
  EXPECT_NE(result.shape.communicator, 0u);
  EXPECT_EQ(result.shape.blocking, 0);
  EXPECT_EQ(result.shape.reduction, -1);
  EXPECT_EQ(result.shape.peer, -1);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0}));
  args.count = 0, args.datatype = 0, args.send_count = 5, args.send_type = 4, args.recv_count = 50, args.recv_type = 2;
  EXPECT_EQ(Decode(args).shape.bytes, 20u);
  args.send_count = 0;  // this rank only receives
  EXPECT_EQ(Decode(args).shape.bytes, 100u);
  args.recv_count = -3;
  EXPECT_EQ(Decode(args).shape.count, 0u);
  args.send_peer = 2;
  EXPECT_EQ(Decode(args).shape.peer, 2);
}

// Its error handler may end the program.
TEST_F(CollectiveTest, MpiIsNotAskedAboutWhatItRefused) {
  MpiArgs args;
  args.count = 100, args.datatype = 8, args.comm = 0x500;
  args.real = Real();
  EXPECT_EQ(Decode(args, 5).shape.bytes, 0u);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);
}

// Communicators beyond the table's capacity have no number; none is mistaken for another.
TEST_F(CollectiveTest, ManyCommunicators) {
  std::vector<uint32_t> numbers;
  for (uint64_t i = 0; i < 300; ++i) numbers.push_back(Decode(AllReduce(0x10000 + i * 16)).shape.communicator);
  EXPECT_EQ(numbers.back(), 0u);
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(Decode(AllReduce(0x10000 + i * 16)).shape.communicator, numbers[i]);
  TrackCommunicatorGone({Pointer(0x10000), 0, Real()});
  EXPECT_NE(Decode(AllReduce(0x10000 + 299 * 16)).shape.communicator, 0u);
}

}  // namespace collective_test
}  // namespace dlhook
