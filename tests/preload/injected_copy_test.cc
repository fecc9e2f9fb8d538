
#include <gtest/gtest.h>

#include "preload/gpu/injection.h"

namespace dlhook {
namespace {

const void* const kTo = reinterpret_cast<const void*>(0x1000);
const void* const kFrom = reinterpret_cast<const void*>(0x2000);
const void* const kStream = reinterpret_cast<const void*>(0x3000);

TEST(InjectedCopyTest, ARuntimeCopyHasAKind) {
  struct {
    const void* dst;
    const void* src;
    size_t count;
    int kind;
    const void* stream;
  } parameters = {kTo, kFrom, 77, 2, kStream};
  CopyArgs copy;
  ASSERT_TRUE(ParseInjectedCopy("cudaMemcpyAsync_ptsz", &parameters, &copy));
  EXPECT_EQ(copy.dst, kTo);
  EXPECT_EQ(copy.src, kFrom);
  EXPECT_EQ(copy.bytes, 77u);
  EXPECT_EQ(copy.kind, 2);
  EXPECT_EQ(copy.stream, kStream);
  EXPECT_TRUE(copy.asynchronous);
  CopyArgs waiting;
  ASSERT_TRUE(ParseInjectedCopy("cudaMemcpy_ptds", &parameters, &waiting));
  EXPECT_EQ(waiting.stream, nullptr);
  EXPECT_FALSE(waiting.asynchronous);
}

TEST(InjectedCopyTest, ADriversNameSaysTheDirection) {
  struct {
    const void* dst;
    const void* src;
    size_t count;
    const void* stream;
  } parameters = {kTo, kFrom, 78, kStream};
  CopyArgs copy;
  ASSERT_TRUE(ParseInjectedCopy("cuMemcpyDtoHAsync_v2_ptsz", &parameters, &copy));
  EXPECT_EQ(copy.direction, CopyDirection::kDeviceToHost);
  EXPECT_EQ(copy.bytes, 78u);
  EXPECT_EQ(copy.kind, -1);
  EXPECT_EQ(copy.stream, kStream);
}

TEST(InjectedCopyTest, AFillCountsElements) {
  struct {
    uint64_t dst;
    unsigned value;
    size_t count;
  } parameters = {0x1000, 5, 10};
  CopyArgs fill;
  ASSERT_TRUE(ParseInjectedCopy("cuMemsetD32_v2", &parameters, &fill));
  EXPECT_EQ(fill.direction, CopyDirection::kSet);
  EXPECT_EQ(fill.bytes, 40u);
  EXPECT_EQ(fill.src, nullptr);
}

TEST(InjectedCopyTest, OtherFunctionsAreNone) {
  uint64_t words[8] = {};
  CopyArgs copy;
  for (const char* name : {"cudaMemcpy2D", "cuMemcpy3D_v2", "cudaMemset3D", "cudaLaunchKernel", "cuMemcpyHtoA_v2"}) {
    EXPECT_FALSE(ParseInjectedCopy(name, words, &copy)) << name;
  }
  EXPECT_FALSE(ParseInjectedCopy("cudaMemcpy", nullptr, &copy)) << "a version of CUPTI that does not hand them over";
}

}  // namespace
}  // namespace dlhook
