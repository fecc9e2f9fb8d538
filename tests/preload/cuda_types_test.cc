// Enumerators of CUDA's libraries, by hand from library_types.h, cudnn_graph_v9.h and nccl.h.
#include "preload/abi/cuda_types.h"

#include <gtest/gtest.h>

#include <iterator>

namespace dlhook {
namespace {

using T = DataType;
constexpr T kNone = T::kUnknown;

TEST(CudaTypesTest, CudaDataType) {
  const T types[] = {T::kF32, T::kF64,    T::kF16,    T::kS8,     T::kC32, T::kC64,  T::kC16,   kNone,  T::kU8,
                     kNone,   T::kS32,    kNone,      T::kU32,    kNone,   T::kBf16, T::kCbf16, T::kS4, kNone,
                     T::kU4,  kNone,      T::kS16,    kNone,      T::kU16, kNone,    T::kS64,   kNone,  T::kU64,
                     kNone,   T::kF8E4m3, T::kF8E5m2, T::kF8E8m0, kNone,   kNone,    T::kF4E2m1};
  for (size_t i = 0; i < std::size(types); ++i) EXPECT_EQ(CudaType(static_cast<int64_t>(i)), types[i]) << i;
  for (int64_t beyond : {int64_t{-1}, int64_t{34}, INT64_MAX, INT64_MIN}) EXPECT_EQ(CudaType(beyond), kNone);
}

TEST(CudaTypesTest, CudnnDataType) {
  const T types[] = {T::kF32,    T::kF64,  T::kF16, T::kS8,   T::kS32,    T::kS8,     T::kU8,  T::kU8,
                     T::kS8,     T::kBf16, T::kS64, T::kBool, T::kF8E4m3, T::kF8E5m2, T::kF32, T::kF8E8m0,
                     T::kF4E2m1, T::kS4,   T::kU4,  T::kU32,  T::kC32,    T::kC64};
  for (size_t i = 0; i < std::size(types); ++i) EXPECT_EQ(CudnnType(static_cast<int64_t>(i)), types[i]) << i;
  for (int64_t beyond : {-1, 22, 1000}) EXPECT_EQ(CudnnType(beyond), kNone);
  for (int64_t i = -1; i < 30; ++i) EXPECT_EQ(CudnnVectorCount(i), i == 5 || i == 7 ? 4 : i == 8 ? 32 : 1) << i;
}

TEST(CudaTypesTest, NcclDataType) {
  const T types[] = {T::kS8,  T::kU8,  T::kS32, T::kU32,  T::kS64,    T::kU64,
                     T::kF16, T::kF32, T::kF64, T::kBf16, T::kF8E4m3, T::kF8E5m2};
  for (size_t i = 0; i < std::size(types); ++i) EXPECT_EQ(NcclType(static_cast<int64_t>(i)), types[i]) << i;
  for (int64_t beyond : {-1, 12}) EXPECT_EQ(NcclType(beyond), kNone);
}

TEST(CudaTypesTest, Bits) {
  const std::pair<T, uint32_t> bits[] = {
      {T::kS4, 4},     {T::kU4, 4},     {T::kF4E2m1, 4}, {T::kS8, 8},    {T::kU8, 8},    {T::kBool, 8},
      {T::kF8E4m3, 8}, {T::kF8E5m2, 8}, {T::kF16, 16},   {T::kBf16, 16}, {T::kS16, 16},  {T::kU16, 16},
      {T::kF32, 32},   {T::kTf32, 32},  {T::kS32, 32},   {T::kU32, 32},  {T::kC16, 32},  {T::kCbf16, 32},
      {T::kF64, 64},   {T::kS64, 64},   {T::kU64, 64},   {T::kC32, 64},  {T::kC64, 128}, {kNone, 0}};
  for (const auto& [type, width] : bits) EXPECT_EQ(TypeBits(type), width);
}

}  // namespace
}  // namespace dlhook
