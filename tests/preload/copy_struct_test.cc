// Copies whose arguments are in a structure: cudaMemcpy3DParms, CUDA_MEMCPY2D and their variants.
#include <gtest/gtest.h>

#ifdef DLHOOK_HAS_CUDA_HEADERS
#include <cuda.h>
#include <driver_types.h>
#endif

#include "preload/abi/arguments.h"
#include "preload/hook_arguments.h"
#include "preload/track/cuda_state.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace {

const void* RuntimeReal() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }
const void* DriverReal() { return reinterpret_cast<const void*>(&FakeDriverFunction); }

class CopyStructTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Attach(), nullptr);
    *FakeRuntimeAnswers() = {};
    *FakeDriverAnswers() = {};
    TrackMemoryChange({});  // resets the state of earlier tests
  }
};

// A structure in memory, by 8-byte words.
struct Words {
  uint64_t word[25] = {};
};

struct StructCase {
  const char* name;
  CopyStruct layout;
  Words words;
  CopyDirection direction;
  uint64_t destination, source;
  uint64_t depth;
  int32_t source_device, destination_device;
};

// Offsets by hand from driver_types.h and cuda.h.
std::vector<StructCase> StructCases() {
  std::vector<StructCase> cases;
  const auto add = [&](const char* name, CopyStruct layout, CopyDirection direction, uint64_t depth) -> StructCase& {
    cases.push_back({name, layout, {}, direction, 0xd000, 0x5000, depth, 0, 0});
    return cases.back();
  };
  StructCase& runtime = add("cudaMemcpy3DParms", CopyStruct::kRuntime3d, CopyDirection::kDeviceToHost, 5);
  runtime.words.word[4] = 0x5000, runtime.words.word[12] = 0xd000;
  runtime.words.word[16] = 100, runtime.words.word[17] = 7, runtime.words.word[18] = 5, runtime.words.word[19] = 2;
  StructCase& peer = add("cudaMemcpy3DPeerParms", CopyStruct::kRuntime3dPeer, CopyDirection::kPeer, 5);
  peer.words.word[4] = 0x5000, peer.words.word[8] = 1, peer.words.word[13] = 0xd000, peer.words.word[17] = 3;
  peer.words.word[18] = 100, peer.words.word[19] = 7, peer.words.word[20] = 5;
  peer.source_device = 1, peer.destination_device = 3;
  StructCase& up = add("CUDA_MEMCPY2D", CopyStruct::kDriver2d, CopyDirection::kHostToDevice, 0);
  up.words.word[2] = 1, up.words.word[3] = 0x5000, up.words.word[4] = 0x666;
  up.words.word[9] = 2, up.words.word[10] = 0x777, up.words.word[11] = 0xd000, up.words.word[14] = 100,
  up.words.word[15] = 7;
  StructCase& array = add("CUDA_MEMCPY2D from an array", CopyStruct::kDriver2d, CopyDirection::kDeviceToHost, 0);
  array.words.word[2] = 3, array.words.word[4] = 0x5000;
  array.words.word[9] = 1, array.words.word[10] = 0xd000, array.words.word[14] = 100, array.words.word[15] = 7;
  StructCase& driver = add("CUDA_MEMCPY3D", CopyStruct::kDriver3d, CopyDirection::kDeviceToDevice, 5);
  driver.words.word[4] = 2, driver.words.word[6] = 0x5000, driver.words.word[15] = 2, driver.words.word[17] = 0xd000;
  driver.words.word[22] = 100, driver.words.word[23] = 7, driver.words.word[24] = 5;
  StructCase& hosts = add("CUDA_MEMCPY3D between hosts", CopyStruct::kDriver3d, CopyDirection::kHostToHost, 5);
  hosts.words.word[4] = 1, hosts.words.word[5] = 0x5000, hosts.words.word[15] = 1, hosts.words.word[16] = 0xd000;
  hosts.words.word[22] = 100, hosts.words.word[23] = 7, hosts.words.word[24] = 5;
  StructCase& driver_peer = add("CUDA_MEMCPY3D_PEER", CopyStruct::kDriver3dPeer, CopyDirection::kPeer, 5);
  driver_peer.words = driver.words;
  return cases;
}

TEST_F(CopyStructTest, Structures) {
  for (const StructCase& c : StructCases()) {
    TestRecord record(kWords<CopyShape>, 3);
    CopyStructArgs args;
    args.layout = c.layout;
    args.asynchronous = true;
    args.parameters = &c.words;
    args.stream = Pointer(0x50);
    args.real = RuntimeReal();
    DecodeCopyStruct(args, record.record());
    const auto shape = record.shape<CopyShape>();
    EXPECT_EQ(shape.direction, c.direction) << c.name;
    EXPECT_EQ(shape.width_bytes, 100u) << c.name;
    EXPECT_EQ(shape.height, 7u) << c.name;
    EXPECT_EQ(shape.depth, c.depth) << c.name;
    EXPECT_EQ(shape.bytes, 700 * (c.depth == 0 ? 1 : c.depth)) << c.name;
    EXPECT_EQ(shape.source_device, c.source_device) << c.name;
    EXPECT_EQ(shape.destination_device, c.destination_device) << c.name;
    EXPECT_EQ(shape.asynchronous, 1) << c.name;
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{c.destination, c.source, 0x50})) << c.name;
    const bool no_host = c.direction == CopyDirection::kPeer || c.direction == CopyDirection::kDeviceToDevice;
    EXPECT_EQ(shape.host_memory, no_host ? HostMemory::kNone : HostMemory::kPageable) << c.name;
  }
}

// CU_MEMORYTYPE_UNIFIED: the address is in the device's field, and determines the memory.
// The extent then counts the array's elements.
TEST_F(CopyStructTest, BytesOfArraysAreNotKnown) {
  for (const int array : {0, 8}) {  // srcArray, dstArray of cudaMemcpy3DParms
    Words words;
    words.word[array] = 0xa000;
    words.word[16] = 100, words.word[17] = 7, words.word[18] = 5, words.word[19] = 1;
    CopyStructArgs args;
    args.layout = CopyStruct::kRuntime3d;
    args.parameters = &words;
    args.real = RuntimeReal();
    TestRecord record(kWords<CopyShape>, 3);
    DecodeCopyStruct(args, record.record());
    EXPECT_EQ(record.shape<CopyShape>().bytes, 0u);
    EXPECT_EQ(record.shape<CopyShape>().width_bytes, 0u);
    EXPECT_EQ(record.shape<CopyShape>().height, 7u);
  }
}

TEST_F(CopyStructTest, UnifiedAddressesOfTheDriver) {
  Words words;
  words.word[2] = 4, words.word[4] = 0x5000, words.word[9] = 4, words.word[11] = 0xd000, words.word[14] = 8,
  words.word[15] = 1;
  FakeDriverAnswers()->pointer_type = 2;
  TestRecord record(kWords<CopyShape>, 3);
  CopyStructArgs args;
  args.layout = CopyStruct::kDriver2d;
  args.parameters = &words;
  args.real = DriverReal();
  DecodeCopyStruct(args, record.record());
  EXPECT_EQ(record.shape<CopyShape>().direction, CopyDirection::kDeviceToDevice);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0xd000, 0x5000, 0}));
}

TEST_F(CopyStructTest, NoStructureIsNoCrash) {
  TestRecord record(kWords<CopyShape>, 3, 1);
  DecodeCopyStruct({}, record.record());
  EXPECT_EQ(record.shape<CopyShape>().bytes, 0u);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
}

#ifdef DLHOOK_HAS_CUDA_HEADERS
// The offsets above, compared with the toolkit's headers if installed.
TEST(CopyLayoutTest, IsThatOfTheHeaders) {
  EXPECT_EQ(offsetof(cudaMemcpy3DParms, srcPtr), 4 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DParms, dstPtr), 12 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DParms, extent), 16 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DParms, kind), 19 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DPeerParms, srcPtr), 4 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DPeerParms, srcDevice), 8 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DPeerParms, dstPtr), 13 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DPeerParms, dstDevice), 17 * 8u);
  EXPECT_EQ(offsetof(cudaMemcpy3DPeerParms, extent), 18 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, srcMemoryType), 2 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, srcHost), 3 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, srcDevice), 4 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, dstMemoryType), 9 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, dstHost), 10 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, dstDevice), 11 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY2D, WidthInBytes), 14 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, srcMemoryType), 4 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, srcHost), 5 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, srcDevice), 6 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, dstMemoryType), 15 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, dstHost), 16 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, dstDevice), 17 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, WidthInBytes), 22 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D, Depth), 24 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D_PEER, srcDevice), 6 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D_PEER, dstDevice), 17 * 8u);
  EXPECT_EQ(offsetof(CUDA_MEMCPY3D_PEER, WidthInBytes), 22 * 8u);
}
#endif

}  // namespace
}  // namespace dlhook
