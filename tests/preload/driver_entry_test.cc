// Driver functions by name: which variant, for which caller, and which look-ups are not changed.
#include <gtest/gtest.h>
#include <string.h>

#include <string>
#include <vector>

#include "preload/link/library_api.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"  // whose table of variants is used here

namespace dlhook {
namespace driver_entry_test {

const void* RuntimeReal() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

TEST(DriverVariantTest, ByNameVersionAndKindOfStream) {
  struct Case {
    const char* name;
    uint32_t version;
    bool per_thread;
    int hook;
  };
  for (const Case& c :
       {Case{"cuMemAlloc", 1000, false, -1}, Case{"cuMemAlloc", 2000, false, 10}, Case{"cuMemAlloc", 3010, false, 10},
        Case{"cuMemAlloc", 3020, false, 11}, Case{"cuMemAlloc", 12000, true, 11}, Case{"cuMemcpy", 12000, false, 20},
        Case{"cuMemcpy", 12000, true, 21}, Case{"cuMemcpy", 6000, true, 20},
        Case{"cuMemcpyBatchAsync", 12070, true, -1}, Case{"cuMemcpyBatchAsync", 12080, false, 40},
        Case{"cuMemcpyBatchAsync", 12090, true, 42}, Case{"cuMemcpyBatchAsync", 13000, false, 41},
        Case{"cuMemcpyBatchAsync", 13010, true, 43}, Case{"cuMemcpyB", 13000, false, -1},
        Case{"cuMemcpyAsync_v2", 13000, false, -1}, Case{"", 13000, false, -1}, Case{"zzz", 13000, false, -1}}) {
    EXPECT_EQ(FindDriverVariant(c.name, c.version, c.per_thread), c.hook) << c.name << " " << c.version << c.per_thread;
  }
}

link_map MapNamed(const char* path) {
  link_map map = {};
  map.l_name = const_cast<char*>(path);
  return map;
}

TEST(VendorObjectTest, ByFileName) {
  const std::vector<std::pair<const char*, bool>> cases = {{"/usr/local/cuda/lib64/libcudart.so.12", true},
                                                           {"/usr/lib/libcuda.so.1", true},
                                                           {"libcupti.so.13", true},
                                                           {"/x/libcudnn.so.9", true},
                                                           {"/x/libcudnn_engines_precompiled.so.9", true},
                                                           {"/x/libcublas.so.13", true},
                                                           {"/x/libcublasLt.so.12", true},
                                                           {"/x/libnvidia-ml.so.1", true},
                                                           {"/x/libtorch_cuda.so", false},
                                                           {"/x/libcudart_static.a", false},
                                                           {"/x/libcudf.so", false},
                                                           {"/libcudart.so.12/libother.so", false},
                                                           {"/x/python3.12", false}};
  for (const auto& [path, vendor] : cases) {
    const link_map map = MapNamed(path);
    EXPECT_EQ(IsVendorObject(&map), vendor) << path;
  }
  EXPECT_FALSE(IsVendorObject(nullptr));
}

class DriverEntryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    *FakeRuntimeAnswers() = {};
    PretendObject(Pointer(0x42), &map_);
  }
  static const void* Pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

  // The function that the program gets if the driver returned `answer`.
  void* Answer(const char* name, int64_t version, uint64_t flags = 0, int32_t status = 0) {
    void* out = answer_;
    DriverEntryArgs args;
    args.symbol = name;
    args.out = &out;
    args.version = version;
    args.flags = flags;
    args.status = status;
    args.real = RuntimeReal();
    args.caller = const_cast<void*>(Pointer(0x42));
    TrackDriverEntry(args);
    return out;
  }

  link_map map_ = MapNamed("/home/me/a.out");
  void* answer_ = reinterpret_cast<void*>(&FakeDriverFunction);
};

TEST_F(DriverEntryTest, KnownFunctionsBecomeHooks) {
  EXPECT_EQ(Answer("cuMemcpy", 12000), HookMarker(20));
  EXPECT_EQ(Answer("cuMemcpy", 12000, 1), HookMarker(20));  // the legacy stream, explicitly
  EXPECT_EQ(Answer("cuMemcpy", 12000, 2), HookMarker(21));
  EXPECT_EQ(Answer("cuSomethingElse", 12000), answer_);
  EXPECT_EQ(Answer("cuMemcpyBatchAsync", 12000), answer_);
  EXPECT_EQ(Answer("cuMemcpy", 12000, 0, 500), answer_);
}

TEST_F(DriverEntryTest, NothingFoundStaysNothing) {
  void* out = nullptr;
  DriverEntryArgs args;
  args.symbol = "cuMemcpy";
  args.version = 12000;
  TrackDriverEntry(args);
  args.out = &out;
  TrackDriverEntry(args);
  EXPECT_EQ(out, nullptr);
  args.symbol = nullptr;
  out = answer_;
  TrackDriverEntry(args);
  EXPECT_EQ(out, answer_);
}

// cudaGetDriverEntryPoint, without a version: the runtime's.
TEST_F(DriverEntryTest, TheRuntimesOwnVersion) {
  FakeRuntimeAnswers()->runtime_version = 12090;
  EXPECT_EQ(Answer("cuMemcpyBatchAsync", 0), HookMarker(40));
  FakeRuntimeAnswers()->runtime_version = 12000;
  EXPECT_EQ(Answer("cuMemcpyBatchAsync", 0), answer_);
}

// Their calls of the driver are recorded one level above, or are the driver's own.
TEST_F(DriverEntryTest, TheDynamicRuntimeAndItsKinGetPlainPointers) {
  for (const char* path : {"/x/libcudart.so.13", "/x/libcupti.so.13", "/x/libcuda.so.1"}) {
    map_ = MapNamed(path);
    EXPECT_EQ(Answer("cuMemcpy", 12000), answer_) << path;
  }
  map_ = MapNamed("/x/libcublas.so.13");  // with a runtime linked into it
  EXPECT_EQ(Answer("cuMemcpy", 12000), HookMarker(20));
}

// In a version missing in the table the name may have another argument list.
TEST_F(DriverEntryTest, NewerThanTheTable) {
  g_plain_pointers = 0;
  EXPECT_EQ(Answer("cuMemcpy", 13010), answer_);
  EXPECT_EQ(g_plain_pointers, 1u);
}

}  // namespace driver_entry_test
}  // namespace dlhook
