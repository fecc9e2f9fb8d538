// Symbol names from real libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer {
namespace {

TEST(Demangle, Cpp) {
  EXPECT_EQ(DemangleSymbol("_ZN2at6native6linearERKNS_6TensorES3_"),
            "at::native::linear(at::Tensor const&, at::Tensor const&)");
  EXPECT_EQ(DemangleSymbol("_ZN5caffe16ConvolutionLayerIfE11Forward_cpuEv"),
            "caffe::ConvolutionLayer<float>::Forward_cpu()");
  EXPECT_EQ(DemangleSymbol("_ZN6victim5Layer7ForwardEv.cold"), "victim::Layer::Forward() [clone .cold]");
}

TEST(Demangle, VersionsAreLeftOut) {
  EXPECT_EQ(DemangleSymbol("memcpy@@GLIBC_2.14"), "memcpy");
  EXPECT_EQ(DemangleSymbol("pthread_create@GLIBC_2.2.5"), "pthread_create");
  EXPECT_EQ(DemangleSymbol("_ZN10tensorflow6TensorC1Ev@@tensorflow"), "tensorflow::Tensor::Tensor()");
}

TEST(Demangle, WhatIsNotMangledStays) {
  for (const char* const name : {"", "main", "sgemm_", "_Z", "_Znot", "@", "_start"})
    EXPECT_EQ(DemangleSymbol(name), name);
  const std::string endless = "_ZN" + std::string(200000, '1');
  EXPECT_EQ(DemangleSymbol(endless), endless);
}

TEST(Demangle, Rust) {
  EXPECT_EQ(DemangleSymbol("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
  EXPECT_EQ(DemangleSymbol(
                "_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE"),
            "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop");
}

TEST(PathOfMangled, EndsWithTheFunction) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(PathOfMangled("_ZN2at6native3fooIfE"), ElementsAre("at", "native", "foo"));
  EXPECT_THAT(PathOfMangled("_ZNK2at6Tensor3sumE"), ElementsAre("at", "Tensor", "sum"));
  EXPECT_THAT(PathOfMangled("_ZZN2at3fooEvENKUlvE_clEv"), ElementsAre("at", "foo"));
  EXPECT_THAT(PathOfMangled("_ZNSt6vectorIfE4sizeEv"), ElementsAre("std", "vector"));
  EXPECT_THAT(PathOfMangled("_Z6kernel6Tensor"), ElementsAre("kernel"));  // followed by the type of its argument
  for (const char* none : {"", "_Z", "_ZN", "_Z99short", "sgemm_", "3foo"}) EXPECT_THAT(PathOfMangled(none), IsEmpty());
}

}  // namespace
}  // namespace dlhook::analyzer
