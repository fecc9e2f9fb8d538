// Copies, launches, memory and collectives decoded.
#include <gtest/gtest.h>

#include "tests/analyzer/ops/decode_text.h"

namespace dlhook::analyzer {
namespace {

TEST(CopyOpTest, SaysWhatIsCopied) {
  const Op op = DecodeText(
      "function: 'cudaMemcpyAsync' family: 'cuda_copy' copy { direction: HOST_TO_DEVICE "
      "bytes: 150528 asynchronous: true host_memory: PINNED }");
  EXPECT_EQ(op.kind, "copy");
  EXPECT_EQ(op.problem, "host-to-device 150528 bytes pinned async");
  EXPECT_EQ(op.bytes, 150528);
  EXPECT_EQ(op.flops, std::nullopt);
  EXPECT_TRUE(op.on_gpu);
  EXPECT_TRUE(op.is_asynchronous);
}

TEST(CopyOpTest, OnlyCopiesThatWaitHaveATimeOfTheirOwn) {
  const auto early = [](const std::string& copy) {
    return DecodeText("family: 'cuda_copy' copy { bytes: 8 " + copy + " }").is_asynchronous;
  };
  EXPECT_FALSE(early("direction: HOST_TO_DEVICE host_memory: PAGEABLE"));
  EXPECT_FALSE(early("direction: DEVICE_TO_HOST host_memory: PINNED"));
  EXPECT_FALSE(early("direction: HOST_TO_HOST"));
  EXPECT_TRUE(early("direction: DEVICE_TO_HOST asynchronous: true"));
  EXPECT_TRUE(early("direction: DEVICE_TO_DEVICE"));
  EXPECT_TRUE(early("direction: PEER"));
  EXPECT_TRUE(early("direction: SET"));
}

TEST(CopyOpTest, SetsPeersBatchesAndRectangles) {
  const Op set = DecodeText("family: 'cuda_copy' copy { direction: SET bytes: 4096 }");
  EXPECT_EQ(set.kind, "memset");
  EXPECT_EQ(set.problem, "4096 bytes");
  EXPECT_EQ(set.bytes, 4096);
  EXPECT_EQ(DecodeText("copy { direction: PEER bytes: 64 source_device: 1 destination_device: 0 }").problem,
            "peer 64 bytes 1->0");
  EXPECT_EQ(DecodeText("copy { direction: DEVICE_TO_HOST bytes: 300 width_bytes: 10 height: 15 "
                       "depth: 2 host_memory: PAGEABLE }")
                .problem,
            "device-to-host 300 bytes 10x15x2 pageable");
  EXPECT_EQ(DecodeText("copy { direction: DEVICE_TO_DEVICE bytes: 96 copies: 3 asynchronous: true "
                       "}")
                .problem,
            "device-to-device 96 bytes async batch3");
  EXPECT_EQ(DecodeText("copy { bytes: 1 host_memory: HOST_UNKNOWN }").problem, "unknown 1 bytes unknown");
  EXPECT_EQ(DecodeText("copy { bytes: 18446744073709551615 }").bytes, std::nullopt);
}

TEST(LaunchOpTest, NameAndGrid) {
  const Op op = DecodeText(
      "family: 'cuda_launch' captured: true launch { kernel: "
      "'_Z16nchwToNhwcKernelI6__halfS0_fLb1EEvPKT_PT0_i' grid_x: 49 grid_y: 2 grid_z: 1 "
      "block_x: 128 block_y: 1 block_z: 1 shared_bytes: 512 cooperative: true }");
  EXPECT_EQ(op.kind, "kernel");
  EXPECT_EQ(op.kernel_name, "void nchwToNhwcKernel<__half, __half, float, true>(__half const*, __half*, int)");
  EXPECT_EQ(op.kernel_short, "nchwToNhwcKernel<__half>");
  EXPECT_EQ(op.problem, "nchwToNhwcKernel<__half> grid49x2x1 block128x1x1 shared512 cooperative");
  EXPECT_TRUE(op.captured);
  EXPECT_TRUE(op.is_asynchronous);
  EXPECT_EQ(DecodeText("launch { grid_x: 1 grid_y: 1 grid_z: 1 block_x: 32 block_y: 1 block_z: 1 }").problem,
            "[unknown kernel] grid1x1x1 block32x1x1");
  EXPECT_EQ(DecodeText("launch { grid_x: 8 grid_y: 1 grid_z: 1 block_x: 32 block_y: 1 block_z: 1 cluster_x: 2 "
                       "cluster_y: 1 cluster_z: 1 programmatic: true priority: -5 }")
                .problem,
            "[unknown kernel] grid8x1x1 block32x1x1 cluster2x1x1 programmatic priority-5");
}

TEST(AllocationOpTest, KindAndSize) {
  const Op op = DecodeText("family: 'cuda_memory' allocation { kind: PINNED bytes: 65536 }");
  EXPECT_EQ(op.kind, "allocation");
  EXPECT_EQ(op.problem, "pinned 65536 bytes");
  EXPECT_EQ(op.bytes, std::nullopt);  // nothing is moved
  const Op free = DecodeText("family: 'cuda_memory' allocation { kind: DEVICE is_free: true }");
  EXPECT_EQ(free.kind, "free");
  EXPECT_EQ(free.problem, "device");
}

TEST(CollectiveOpTest, SizeCommunicatorAndReduction) {
  const Op op = DecodeText(
      "function: 'ncclAllReduce' family: 'nccl' collective { kind: ALL_REDUCE bytes: 246408 "
      "count: 61602 data_type: F32 reduction: 0 peer: -1 communicator: 1 rank: 0 ranks: 2 }");
  EXPECT_EQ(op.kind, "collective");
  EXPECT_EQ(op.problem, "all_reduce 61602 f32 sum comm1 ranks2");
  EXPECT_EQ(op.types, "f32");
  EXPECT_EQ(op.bytes, 246408);
  EXPECT_TRUE(op.on_gpu);
  EXPECT_TRUE(op.is_asynchronous);
  const Op mpi = DecodeText(
      "function: 'MPI_Send' family: 'mpi' collective { kind: SEND bytes: 0 count: 10 reduction: -1 "
      "peer: 3 communicator: 2 rank: -1 blocking: true }");
  EXPECT_EQ(mpi.problem, "send 10 unknown peer3 comm2");
  EXPECT_EQ(mpi.bytes, std::nullopt);  // an unknown type
  EXPECT_FALSE(mpi.on_gpu);
  EXPECT_FALSE(mpi.is_asynchronous);
  EXPECT_EQ(DecodeText("family: 'mpi' collective { kind: BARRIER reduction: -1 peer: -1 "
                       "communicator: 1 blocking: true }")
                .problem,
            "barrier comm1");
}

TEST(TimedGpuCallTest, SaysThatItIsOne) {
  const Op op = DecodeText("function: 'cudaStreamSynchronize' family: 'cuda_sync'");
  EXPECT_EQ(op.kind, "call");
  EXPECT_TRUE(op.on_gpu);
  EXPECT_FALSE(op.is_asynchronous);
}

}  // namespace
}  // namespace dlhook::analyzer
