// Copies, fills and allocations; which memory they access; whether they are being captured.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/hook_arguments.h"
#include "preload/link/resolver.h"
#include "preload/track/cuda_state.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace copy_test {

const void* RuntimeReal() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }
const void* DriverReal() { return reinterpret_cast<const void*>(&FakeDriverFunction); }
// A function of a library without these getters.
const void* ForeignReal() { return reinterpret_cast<const void*>(&getpid); }

class CopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Attach(), nullptr);
    *FakeRuntimeAnswers() = {};
    *FakeDriverAnswers() = {};
    TrackMemoryChange({});  // resets the state of earlier tests
  }
};

CopyShape Decode(const CopyArgs& args, int32_t status = 0, std::vector<uint64_t>* addresses = nullptr) {
  TestRecord record(kWords<CopyShape>, 4, status);
  DecodeCopy(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  if (addresses != nullptr) *addresses = record.addresses();
  return record.shape<CopyShape>();
}

CopyArgs Plain(int32_t kind) {
  CopyArgs args;
  args.dst = Pointer(0x1000);
  args.src = Pointer(0x2000);
  args.bytes = 4096;
  args.kind = kind;
  args.stream = Pointer(0x30);
  args.real = RuntimeReal();
  return args;
}

TEST_F(CopyTest, KindsSayTheDirectionAndWhichSideIsTheHosts) {
  struct Case {
    int32_t kind;
    CopyDirection direction;
    uint64_t asked;  // the address in the query to the library; 0: no query
  };
  for (const Case& c : {Case{0, CopyDirection::kHostToHost, 0x2000}, Case{1, CopyDirection::kHostToDevice, 0x2000},
                        Case{2, CopyDirection::kDeviceToHost, 0x1000}, Case{3, CopyDirection::kDeviceToDevice, 0}}) {
    TrackMemoryChange({});
    FakeRuntimeAnswers()->asked_address = 0;
    FakeRuntimeAnswers()->pointer_type = 1;
    std::vector<uint64_t> addresses;
    const CopyShape shape = Decode(Plain(c.kind), 0, &addresses);
    EXPECT_EQ(shape.direction, c.direction);
    EXPECT_EQ(shape.host_memory, c.asked != 0 ? HostMemory::kPinned : HostMemory::kNone) << c.kind;
    EXPECT_EQ(FakeRuntimeAnswers()->asked_address, c.asked);
    EXPECT_EQ(shape.bytes, 4096u);
    EXPECT_EQ(shape.asynchronous, 0);
    EXPECT_EQ(shape.width_bytes, 0u);
    EXPECT_EQ(addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0x30, 0}));
  }
}

TEST_F(CopyTest, WhereTheCallDoesNotSayTheAddressesTell) {
  struct Case {
    int type;  // of both addresses
    CopyDirection direction;
    HostMemory memory;
  };
  for (const Case& c : {Case{0, CopyDirection::kHostToHost, HostMemory::kPageable},
                        Case{1, CopyDirection::kHostToHost, HostMemory::kPinned},
                        Case{2, CopyDirection::kDeviceToDevice, HostMemory::kNone},
                        Case{3, CopyDirection::kHostToHost, HostMemory::kManaged},
                        Case{4, CopyDirection::kUnknown, HostMemory::kUnknown}}) {
    for (int32_t kind : {4, -1, 17}) {  // cudaMemcpyDefault, none, invalid
      TrackMemoryChange({});
      FakeRuntimeAnswers()->pointer_type = c.type;
      const CopyShape shape = Decode(Plain(kind));
      EXPECT_EQ(shape.direction, c.direction) << c.type;
      EXPECT_EQ(shape.host_memory, c.memory) << c.type;
    }
  }
}

TEST_F(CopyTest, AddressesOfTwoKinds) {
  ThreadState* thread = Attach();
  const auto decode = [&](int source, int destination) {
    TrackMemoryChange({});
    FakeRuntimeAnswers()->pointer_type = source;
    EXPECT_NE(HostMemoryAt(Pointer(0x2000), RuntimeReal()), HostMemory::kUnknown);
    FakeRuntimeAnswers()->pointer_type = destination;
    return Decode(Plain(4));
  };
  ASSERT_NE(thread, nullptr);
  EXPECT_EQ(decode(2, 0).direction, CopyDirection::kDeviceToHost);
  EXPECT_EQ(decode(2, 0).host_memory, HostMemory::kPageable);
  EXPECT_EQ(decode(1, 2).direction, CopyDirection::kHostToDevice);
  EXPECT_EQ(decode(1, 2).host_memory, HostMemory::kPinned);
}

TEST_F(CopyTest, TheLibraryIsAskedOnceForAnAddress) {
  FakeRuntimeAnswers()->pointer_type = 1;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Decode(Plain(1)).host_memory, HostMemory::kPinned);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 1);
  TrackMemoryChange({1, nullptr});  // failed: nothing has changed
  Decode(Plain(1));
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 1);
  FakeRuntimeAnswers()->pointer_type = 0;
  TrackMemoryChange({});
  EXPECT_EQ(Decode(Plain(1)).host_memory, HostMemory::kPageable);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 2);
  CopyArgs other = Plain(1);
  other.src = Pointer(0x2001);
  Decode(other);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 3);
}

// Before CUDA 11 a query about pageable memory is an error that the program would find.
TEST_F(CopyTest, Cuda10IsNotAsked) {
  FakeRuntimeAnswers()->pointer_type = 1;
  for (int version : {10020, 11000}) {
    FakeRuntimeAnswers()->runtime_version = version;
    ++g_binding_generation;
    TrackMemoryChange({});
    FakeRuntimeAnswers()->calls = 0;
    EXPECT_EQ(Decode(Plain(1)).host_memory, version < 11000 ? HostMemory::kUnknown : HostMemory::kPinned);
    EXPECT_EQ(FakeRuntimeAnswers()->calls, version < 11000 ? 0 : 1);
  }
}

TEST_F(CopyTest, ErrorsAndAbsentGettersLeaveTheMemoryUnknown) {
  FakeRuntimeAnswers()->pointer_status = 1;
  EXPECT_EQ(Decode(Plain(1)).host_memory, HostMemory::kUnknown);
  EXPECT_EQ(Decode(Plain(1)).direction, CopyDirection::kHostToDevice);
  EXPECT_EQ(Decode(Plain(4)).direction, CopyDirection::kUnknown);
  CopyArgs foreign = Plain(4);
  foreign.real = ForeignReal();
  TrackMemoryChange({});
  EXPECT_EQ(Decode(foreign).direction, CopyDirection::kUnknown);
  EXPECT_EQ(Decode(foreign).host_memory, HostMemory::kUnknown);
}

TEST_F(CopyTest, AfterAFailedCallNothingIsAsked) {
  const CopyShape shape = Decode(Plain(1), 700);
  EXPECT_EQ(shape.direction, CopyDirection::kHostToDevice);
  EXPECT_EQ(shape.host_memory, HostMemory::kUnknown);
  EXPECT_EQ(shape.bytes, 4096u);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);
}

TEST_F(CopyTest, TheDriverIsAskedItsOwnWay) {
  struct Case {
    int managed, type, status;
    HostMemory memory;
  };
  for (const Case& c : {Case{0, 1, 0, HostMemory::kPinned}, Case{0, 2, 0, HostMemory::kNone},
                        Case{1, 2, 0, HostMemory::kManaged}, Case{0, 3, 0, HostMemory::kUnknown},
                        Case{0, 0, 1, HostMemory::kPageable}, Case{0, 0, 700, HostMemory::kUnknown}}) {
    TrackMemoryChange({});
    FakeDriverAnswers()->is_managed = c.managed;
    FakeDriverAnswers()->pointer_type = c.type;
    FakeDriverAnswers()->pointer_status = c.status;
    EXPECT_EQ(HostMemoryAt(Pointer(0x5000), DriverReal()), c.memory) << c.status << " " << c.type;
    EXPECT_EQ(FakeDriverAnswers()->asked_address, 0x5000u);
  }
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);
}

TEST_F(CopyTest, TwoDimensionalFormsAndMemsets) {
  CopyArgs copy = Plain(1);
  copy.bytes = 0;
  copy.width = 100;
  copy.height = 7;
  CopyShape shape = Decode(copy);
  EXPECT_EQ(shape.width_bytes, 100u);
  EXPECT_EQ(shape.height, 7u);
  EXPECT_EQ(shape.bytes, 700u);
  for (uint64_t element : {1, 2, 4}) {
    CopyArgs set;
    set.direction = CopyDirection::kSet;
    set.asynchronous = true;
    set.element_bytes = element;
    set.dst = Pointer(0x1000);
    set.count = 50;
    set.real = RuntimeReal();
    shape = Decode(set);
    EXPECT_EQ(shape.direction, CopyDirection::kSet);
    EXPECT_EQ(shape.bytes, 50 * element);
    EXPECT_EQ(shape.host_memory, HostMemory::kNone);
    EXPECT_EQ(shape.asynchronous, 1);
    set.count = 0;
    set.width = 10;
    set.height = 3;
    shape = Decode(set);
    EXPECT_EQ(shape.bytes, 30 * element);
    EXPECT_EQ(shape.width_bytes, 10 * element);
  }
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 1);
}

TEST_F(CopyTest, PeerCopiesNameTheirDevices) {
  CopyArgs args = Plain(-1);
  args.direction = CopyDirection::kPeer;
  args.src_device = 1;
  args.dst_device = 3;
  const CopyShape shape = Decode(args);
  EXPECT_EQ(shape.source_device, 1);
  EXPECT_EQ(shape.destination_device, 3);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);
}

// The sample of a copy from the host; `pointer_type`: what the library says of the address.
uint64_t SampleOf(const void* buffer, uint64_t bytes, int32_t kind = 1, int pointer_type = 0, int32_t status = 0) {
  TrackMemoryChange({});
  FakeRuntimeAnswers()->pointer_type = pointer_type;
  CopyArgs args = Plain(kind);
  args.src = buffer;
  args.bytes = bytes;
  std::vector<uint64_t> addresses;
  Decode(args, status, &addresses);
  return addresses[3];
}

TEST_F(CopyTest, ContentsAreSampled) {
  for (const uint64_t bytes : {kLeastSampledBytes, kLeastSampledBytes + 1, uint64_t{1000003}}) {
    std::vector<char> buffer(bytes, 'x');
    buffer[3] = 'y';
    const uint64_t before = SampleOf(buffer.data(), bytes);
    EXPECT_NE(before, 0u);
    EXPECT_EQ(SampleOf(std::vector<char>(buffer).data(), bytes), before);
    EXPECT_EQ(SampleOf(buffer.data(), bytes, 1, 1), before);  // pinned
    for (const uint64_t at : {uint64_t{0}, uint64_t{127}, (bytes - 128) / 7 * 3 + 1, bytes - 128, bytes - 1}) {
      std::vector<char> changed = buffer;
      changed[at] = 'z';
      EXPECT_NE(SampleOf(changed.data(), bytes), before) << at;
    }
  }
}

TEST_F(CopyTest, ContentsThatSayLittleOrMayNotBeReadAreNotSampled) {
  std::vector<char> buffer(kLeastSampledBytes, 'x');
  EXPECT_EQ(SampleOf(buffer.data(), kLeastSampledBytes), 0u);  // one value throughout
  buffer[0] = 'y';
  EXPECT_NE(SampleOf(buffer.data(), kLeastSampledBytes), 0u);
  EXPECT_EQ(SampleOf(buffer.data(), kLeastSampledBytes - 1), 0u);
  EXPECT_EQ(SampleOf(buffer.data(), kLeastSampledBytes, 1, 3), 0u);     // managed
  EXPECT_EQ(SampleOf(buffer.data(), kLeastSampledBytes, 1, 4), 0u);     // not known
  EXPECT_EQ(SampleOf(buffer.data(), kLeastSampledBytes, 2), 0u);        // device to host
  EXPECT_EQ(SampleOf(buffer.data(), kLeastSampledBytes, 1, 0, 1), 0u);  // failed
  void* gone = mmap(nullptr, kLeastSampledBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  errno = 17;
  EXPECT_EQ(SampleOf(gone, kLeastSampledBytes), 0u);
  munmap(gone, kLeastSampledBytes);
  EXPECT_EQ(SampleOf(gone, kLeastSampledBytes), 0u);
  EXPECT_EQ(errno, 17);
}

TEST_F(CopyTest, Set3d) {
  TestRecord record(kWords<CopyShape>, 3);
  Set3dArgs args;
  args.asynchronous = true;
  args.pitched = {{0x9000, 512, 400, 30}};
  args.extent = {{400, 30, 5}};
  args.stream = Pointer(0x40);
  DecodeSet3d(args, record.record());
  const auto shape = record.shape<CopyShape>();
  EXPECT_EQ(shape.direction, CopyDirection::kSet);
  EXPECT_EQ(shape.bytes, 400u * 30 * 5);
  EXPECT_EQ(shape.width_bytes, 400u);
  EXPECT_EQ(shape.height, 30u);
  EXPECT_EQ(shape.depth, 5u);
  EXPECT_EQ(shape.asynchronous, 1);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x9000, 0, 0x40}));
}

TEST_F(CopyTest, Batch) {
  const void* to[] = {Pointer(0xd000), Pointer(0xd100)};
  const void* from[] = {Pointer(0x5000), Pointer(0x5100)};
  const uint64_t bytes[] = {100, 28};
  FakeRuntimeAnswers()->pointer_type = 2;
  TestRecord record(kWords<CopyShape>, 3);
  CopyBatchArgs args;
  args.dst = to, args.src = from, args.bytes = bytes, args.count = 2, args.stream = Pointer(0x30),
  args.real = RuntimeReal();
  DecodeCopyBatch(args, record.record());
  const auto shape = record.shape<CopyShape>();
  EXPECT_EQ(shape.copies, 2u);
  EXPECT_EQ(shape.bytes, 128u);
  EXPECT_EQ(shape.direction, CopyDirection::kDeviceToDevice);
  EXPECT_EQ(shape.asynchronous, 1);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0xd000, 0x5000, 0x30}));
  EXPECT_TRUE(record.untouched_behind());
  // cudaMemcpyBatchAsync: CUDA 13 dropped a parameter before the stream.
  for (int version : {12080, 12090, 13000, 13010}) {
    FakeRuntimeAnswers()->runtime_version = version;
    RuntimeCopyBatchArgs runtime;
    runtime.dst = to, runtime.src = from, runtime.bytes = bytes, runtime.count = 2, runtime.real = RuntimeReal();
    runtime.stream = 0x31, runtime.last = 0x32;
    TestRecord of_version(kWords<CopyShape>, 3);
    DecodeRuntimeCopyBatch(runtime, of_version.record());
    EXPECT_EQ(of_version.addresses()[2], version < 13000 ? 0x32u : 0x31u) << version;
  }
  TestRecord failed(kWords<CopyShape>, 3, 1);
  CopyBatchArgs nonsense;
  nonsense.count = 1000;
  DecodeCopyBatch(nonsense, failed.record());  // the arrays are not read
  EXPECT_EQ(failed.shape<CopyShape>().copies, 1000u);
  EXPECT_EQ(failed.shape<CopyShape>().bytes, 0u);
}

// cudaMemcpy3DBatchOp, as in driver_types.h.
struct CopyOperation {
  struct {
    uint32_t type = 1;  // a pointer; 2: an array
    const void* address = nullptr;
    uint64_t row = 0, layer = 0, location = 0;
  } source, destination;
  uint64_t extent[3] = {};
  uint64_t order_and_flags = 0;
};
static_assert(sizeof(CopyOperation) == 112);

TEST_F(CopyTest, Operations) {
  CopyOperation operations[2];
  operations[0].source.address = Pointer(0x5000), operations[0].destination.address = Pointer(0xd000);
  operations[0].extent[0] = 100, operations[0].extent[1] = 4, operations[0].extent[2] = 3;
  operations[1].extent[0] = 7, operations[1].extent[1] = operations[1].extent[2] = 1;
  FakeRuntimeAnswers()->pointer_type = 2;
  auto decode = [&](uint64_t count, int32_t status = 0) {
    TestRecord record(kWords<CopyShape>, 3, status);
    DecodeCopyOperations({operations, count, Pointer(0x30), RuntimeReal()}, record.record());
    EXPECT_TRUE(record.untouched_behind());
    bool is_read = count > 0 && status == 0;
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{is_read ? 0xd000u : 0, is_read ? 0x5000u : 0, 0x30}));
    return record.shape<CopyShape>();
  };
  const CopyShape one = decode(1);
  EXPECT_EQ(one.direction, CopyDirection::kDeviceToDevice);
  EXPECT_EQ((std::vector<uint64_t>{one.bytes, one.copies, one.width_bytes, one.height, one.depth}),
            (std::vector<uint64_t>{1200, 0, 100, 4, 3}));
  const CopyShape both = decode(2);
  EXPECT_EQ((std::vector<uint64_t>{both.bytes, both.copies, both.width_bytes}), (std::vector<uint64_t>{1207, 2, 0}));
  EXPECT_EQ(decode(0).bytes, 0u);
  EXPECT_EQ(decode(1000, 1).bytes, 0u);  // the array is not read
  operations[0].destination.type = 2;    // elements of unknown size
  const CopyShape array = decode(1);
  EXPECT_EQ(array.bytes, 0u);
  EXPECT_EQ(array.direction, CopyDirection::kUnknown);
  // cudaMemcpy3DBatchAsync: CUDA 13 dropped a parameter before the flags.
  for (int version : {12080, 13000}) {
    FakeRuntimeAnswers()->runtime_version = version;
    TestRecord record(kWords<CopyShape>, 3);
    DecodeRuntimeCopyOperations({operations, 1, 0x31, 0x32, RuntimeReal()}, record.record());
    EXPECT_EQ(record.addresses()[2], version < 13000 ? 0x32u : 0x31u) << version;
  }
}

TEST_F(CopyTest, Allocations) {
  void* memory = const_cast<void*>(Pointer(0xabc000));
  AllocationArgs args;
  args.kind = AllocationKind::kPinned;
  args.out = &memory;
  args.bytes = 4096;
  args.stream = Pointer(0x60);
  TestRecord record(kWords<AllocationShape>, 2);
  DecodeAllocation(args, record.record());
  EXPECT_EQ(record.shape<AllocationShape>().kind, AllocationKind::kPinned);
  EXPECT_EQ(record.shape<AllocationShape>().bytes, 4096u);
  EXPECT_EQ(record.shape<AllocationShape>().is_free, 0);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0xabc000, 0x60}));
  EXPECT_TRUE(record.untouched_behind());
  TestRecord failed(kWords<AllocationShape>, 2, 2);
  DecodeAllocation(args, failed.record());
  EXPECT_EQ(failed.addresses()[0], 0u);  // the library did not write `out`
  AllocationArgs pitched;
  pitched.width = 100, pitched.height = 4;
  TestRecord pitch(kWords<AllocationShape>, 2);
  DecodeAllocation(pitched, pitch.record());
  EXPECT_EQ(pitch.shape<AllocationShape>().bytes, 400u);
  AllocationArgs free;
  free.is_free = true;
  free.pointer = memory;
  TestRecord freed(kWords<AllocationShape>, 2);
  DecodeAllocation(free, freed.record());
  EXPECT_EQ(freed.shape<AllocationShape>().is_free, 1);
  EXPECT_EQ(freed.addresses()[0], 0xabc000u);
}

TEST_F(CopyTest, CapturedStreams) {
  FakeRuntimeAnswers()->capture_status = 1;
  CopyArgs args = Plain(3);
  EXPECT_EQ(Decode(args).captured, 0);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);  // nothing is open: no query
  TrackBeginCapture({Pointer(0x30), 1, RuntimeReal()});
  EXPECT_EQ(Decode(args).captured, 0);  // a begin that failed
  TrackBeginCapture({Pointer(0x30), 0, RuntimeReal()});
  EXPECT_EQ(Decode(args).captured, 1);
  EXPECT_EQ(FakeRuntimeAnswers()->asked_stream, Pointer(0x30));
  for (uint64_t legacy : {0, 1}) {
    args.stream = Pointer(legacy);
    EXPECT_EQ(Decode(args).captured, 0);
  }
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 1);
  args.stream = Pointer(0x30);
  FakeRuntimeAnswers()->capture_status = 2;  // invalidated
  EXPECT_EQ(Decode(args).captured, 0);
  FakeRuntimeAnswers()->capture_status = 1;
  FakeRuntimeAnswers()->status = 400;
  EXPECT_EQ(Decode(args).captured, 0);
  FakeRuntimeAnswers()->status = 0;
  TrackEndCapture({Pointer(0x30), 901, RuntimeReal()});  // an invalidated capture ends with an error
  EXPECT_EQ(Decode(args).captured, 0);
  TrackEndCapture({});  // an unmatched one
  TrackBeginCapture({Pointer(0x30), 0, DriverReal()});
  FakeDriverAnswers()->capture_status = 1;
  EXPECT_EQ(Decode(args).captured, 1);  // the driver's own function, if the runtime has none
  EXPECT_EQ(FakeDriverAnswers()->calls, 1);
  TrackEndCapture({});
  EXPECT_EQ(g_open_captures.load(), 0);
}

}  // namespace copy_test
}  // namespace dlhook
