// Launches, and the names of the kernels behind their handles.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "preload/hook_arguments.h"
#include "preload/link/resolver.h"
#include "preload/track/cuda_state.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace launch_test {

const void* DriverReal() { return reinterpret_cast<const void*>(&FakeDriverFunction); }
// A library without functions for names.
const void* RuntimeReal() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Attach(), nullptr);
    *FakeDriverAnswers() = {};
    *FakeRuntimeAnswers() = {};
  }
};

// Handles that no other test uses.
const void* NewHandle() {
  static uint64_t next = 0x1000000;
  return Pointer(next += 16);
}

std::string NameOf(const void* function, const void* real = RuntimeReal()) {
  return DefinitionText(KernelDefinition(function, real), DefinitionKind::kKernel);
}

void Register(const void* function, const char* name) {
  RegisterFunctionArgs args;
  args.host_function = function;
  args.device_name = name;
  TrackRegisterFunction(args);
}

void Alias(const void* function, const void* handle, int32_t status = 0) {
  void* out = const_cast<void*>(handle);
  KernelAliasArgs args;
  args.out = &out;
  args.host_function = function;
  args.status = status;
  TrackKernelAlias(args);
}

void ByName(const char* name, const void* handle, int32_t status = 0) {
  void* out = const_cast<void*>(handle);
  KernelByNameArgs args;
  args.out = &out;
  args.name = name;
  args.status = status;
  TrackKernelByName(args);
}

TEST_F(LaunchTest, RuntimeLaunch) {
  const void* function = NewHandle();
  Register(function, "_Z3addPf");
  LaunchArgs args;
  args.cooperative = true;
  args.function = function;
  args.grid = {49, 2, 3};
  args.block = {128, 4, 5};
  args.shared_bytes = 1024;
  args.stream = Pointer(0x30);
  args.real = RuntimeReal();
  TestRecord record(kWords<LaunchShape>, 1);
  DecodeLaunch(args, record.record());
  const auto shape = record.shape<LaunchShape>();
  EXPECT_EQ(DefinitionText(shape.kernel, DefinitionKind::kKernel), "_Z3addPf");
  EXPECT_EQ(shape.grid[0], 49u);
  EXPECT_EQ(shape.grid[1], 2u);
  EXPECT_EQ(shape.grid[2], 3u);
  EXPECT_EQ(shape.block[0], 128u);
  EXPECT_EQ(shape.block[1], 4u);
  EXPECT_EQ(shape.block[2], 5u);
  EXPECT_EQ(shape.shared_bytes, 1024u);
  EXPECT_EQ(shape.cooperative, 1);
  EXPECT_EQ(shape.captured, 0);
  EXPECT_EQ(shape.reserved, 0);  // part of the op's identity
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x30}));
  EXPECT_TRUE(record.untouched_behind());
}

TEST_F(LaunchTest, DriverLaunch) {
  DriverLaunchArgs args;
  args.grid_x = 1, args.grid_y = 2, args.grid_z = 3, args.block_x = 4, args.block_y = 5, args.block_z = 6;
  args.shared_bytes = 7;
  args.stream = Pointer(0x31);
  args.real = DriverReal();
  TestRecord record(kWords<LaunchShape>, 1);
  DecodeDriverLaunch(args, record.record());
  const auto shape = record.shape<LaunchShape>();
  EXPECT_EQ(shape.kernel, 0u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(shape.grid[i], i + 1);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(shape.block[i], i + 4);
  EXPECT_EQ(shape.shared_bytes, 7u);
  EXPECT_EQ(shape.cooperative, 0);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x31}));
}

// By offsets, manually from driver_types.h (cudaLaunchConfig_t) and cuda.h (CUlaunchConfig).
TEST_F(LaunchTest, ConfigurationsOfRuntimeAndDriver) {
  // Of 72 bytes each: cluster, programmatic stream serialization, priority, one without a meaning here.
  uint32_t attributes[4][18] = {{4, 0, 2, 3, 1}, {6, 0, 1}, {8, 0, static_cast<uint32_t>(-3)}, {99, 0, 7}};
  const auto address = reinterpret_cast<uint64_t>(attributes);
  for (bool driver : {false, true}) {
    uint32_t words[14] = {1,
                          2,
                          3,
                          4,
                          5,
                          6,
                          7,
                          driver ? 0xdeadu : 0u,
                          0x32,
                          0,
                          static_cast<uint32_t>(address),
                          static_cast<uint32_t>(address >> 32),
                          4,
                          0xdead};
    LaunchConfigArgs args;
    args.driver = driver;
    args.config = words;
    args.real = RuntimeReal();
    TestRecord record(kWords<LaunchShape>, 1);
    DecodeLaunchConfig(args, record.record());
    const auto shape = record.shape<LaunchShape>();
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(shape.grid[i], i + 1);
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(shape.block[i], i + 4);
    EXPECT_EQ(shape.shared_bytes, 7u);
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x32})) << driver;
    EXPECT_EQ(shape.cluster[0], 2);
    EXPECT_EQ(shape.cluster[1], 3);
    EXPECT_EQ(shape.cluster[2], 1);
    EXPECT_EQ(shape.programmatic, 1);
    EXPECT_EQ(shape.priority, -3);
    EXPECT_EQ(shape.cooperative, 0);
  }
  TestRecord none(kWords<LaunchShape>, 1, 1);
  DecodeLaunchConfig({}, none.record());
  EXPECT_EQ(none.shape<LaunchShape>().grid[0], 0u);
}

TEST_F(LaunchTest, CapturedLaunch) {
  FakeRuntimeAnswers()->capture_status = 1;
  TrackBeginCapture({Pointer(0x33), 0, RuntimeReal()});
  LaunchArgs args;
  args.stream = Pointer(0x33);
  args.real = RuntimeReal();
  TestRecord record(kWords<LaunchShape>, 1);
  DecodeLaunch(args, record.record());
  EXPECT_EQ(record.shape<LaunchShape>().captured, 1);
  TrackEndCapture({});
}

TEST_F(LaunchTest, AKernelIsDefinedOnce) {
  const void* function = NewHandle();
  Register(function, "_Z4once");
  const uint32_t first = KernelDefinition(function, RuntimeReal());
  const uint64_t bytes = GetProcess()->session->definitions_bytes;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(KernelDefinition(function, RuntimeReal()), first);
  EXPECT_EQ(GetProcess()->session->definitions_bytes, bytes);
}

// Another library was loaded at the same place: function and name have the same addresses.
TEST_F(LaunchTest, AnotherNameAtTheSameAddress) {
  const void* function = NewHandle();
  char name[] = "_Z3old";
  Register(function, name);
  const uint32_t first = KernelDefinition(function, RuntimeReal());
  std::memcpy(name, "_Z3new", sizeof name);
  Register(function, name);
  EXPECT_NE(KernelDefinition(function, RuntimeReal()), first);
}

// The library was unloaded and another one registers at its address.
TEST_F(LaunchTest, RegisteredAnew) {
  const void* function = NewHandle();
  Register(function, "_Z3old");
  EXPECT_EQ(NameOf(function), "_Z3old");
  Register(function, "_Z3new");
  EXPECT_EQ(NameOf(function), "_Z3new");
}

TEST_F(LaunchTest, OtherHandlesOfAKnownFunction) {
  const void* function = NewHandle();
  const void* kernel = NewHandle();
  const void* driver_function = NewHandle();
  Register(function, "_Z5alias");
  Alias(function, kernel);
  void* out = const_cast<void*>(driver_function);
  KernelAliasArgs args;
  args.out = &out;
  args.kernel = kernel;
  TrackKernelAlias(args);
  EXPECT_EQ(NameOf(kernel), "_Z5alias");
  EXPECT_EQ(NameOf(driver_function), "_Z5alias");
  const void* failed = NewHandle();
  Alias(function, failed, 1);
  EXPECT_EQ(NameOf(failed), "(none)");
  const void* of_unknown = NewHandle();
  Alias(NewHandle(), of_unknown);
  EXPECT_EQ(NameOf(of_unknown), "(none)");
  TrackKernelAlias({});
}

// The name belongs to the caller, which may free it: it is copied.
TEST_F(LaunchTest, HandlesByName) {
  const void* function = NewHandle();
  char name[] = "_Z6byname";
  ByName(name, function);
  memset(name, 'x', sizeof name - 1);
  EXPECT_EQ(NameOf(function), "_Z6byname");
  ByName("_Z6another", function);  // the module was unloaded, its handle reused
  EXPECT_EQ(NameOf(function), "_Z6another");
  const void* failed = NewHandle();
  ByName("_Z6failed", failed, 500);
  EXPECT_EQ(NameOf(failed), "(none)");
  TrackKernelByName({});
  const void* twice = NewHandle();
  ByName("_Z5twice", twice);
  const uint32_t number = KernelDefinition(twice, RuntimeReal());
  ByName(std::string("_Z5twice").c_str(), twice);
  EXPECT_EQ(KernelDefinition(twice, RuntimeReal()), number);
}

TEST_F(LaunchTest, TheDriverIsAskedOnceForWhatNobodyRegistered) {
  FakeDriverAnswers()->function_name = "_Z5asked";
  const void* function = NewHandle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NameOf(function, DriverReal()), "_Z5asked");
  EXPECT_EQ(FakeDriverAnswers()->calls, 1);
  FakeDriverAnswers()->status = 400;
  const void* unknown = NewHandle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(KernelDefinition(unknown, DriverReal()), 0u);
  EXPECT_EQ(FakeDriverAnswers()->calls, 2);
  EXPECT_EQ(KernelDefinition(nullptr, DriverReal()), 0u);
}

// PyTorch registers 24 000; the table grows while it is read.
TEST_F(LaunchTest, ManyRegistrations) {
  constexpr uint64_t kCount = 150000;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < kCount; ++i) names.push_back("_Zk" + std::to_string(i));
  const auto handle = [](uint64_t i) { return Pointer(0x7f0000000000 + i * 8); };
  Register(handle(0), names[0].c_str());
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    ASSERT_NE(Attach(), nullptr);
    while (!stop) ASSERT_EQ(NameOf(handle(0)), names[0]);
  });
  std::vector<std::thread> writers;
  for (uint64_t t = 0; t < 4; ++t) {
    writers.emplace_back([&, t] {
      for (uint64_t i = t; i < kCount; i += 4) Register(handle(i), names[i].c_str());
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  reader.join();
  for (uint64_t i = 0; i < kCount; i += 37) ASSERT_EQ(NameOf(handle(i)), names[i]) << i;
}

TEST_F(LaunchTest, AChildDefinesItsKernelsAnew) {
  const void* function = NewHandle();
  Register(function, "_Z4fork");
  Register(NewHandle(), "_Z6filler");
  EXPECT_EQ(NameOf(function), "_Z4fork");
  InChild([&] {
    ASSERT_NE(Attach(), nullptr);
    EXPECT_EQ(KernelDefinition(function, RuntimeReal()), 1u);
    EXPECT_EQ(NameOf(function), "_Z4fork");
  });
}

}  // namespace launch_test
}  // namespace dlhook
