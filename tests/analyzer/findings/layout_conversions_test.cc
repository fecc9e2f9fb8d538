// Rule layout-conversions: which format a network computes in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace layout_conversions_test {

trace::OpDefinition Convolution(const std::string& format, int channels) {
  return OneDnnDefinition(absl::StrCat(
      "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32::blocked:", format,
      "::f0 wei:f32::blocked:ABcd16b16a::f0 dst:f32::blocked:", format, "::f0,,alg:convolution_direct,mb8_ic", channels,
      "oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.1"));
}

// In each step of 1 ms convolutions in the one and the other format, and a conversion of 120 us.
std::vector<size_t> Found(int64_t plain_ns, int64_t last_ns) {
  CpuProgram program;
  program.UseTorch();
  program.Calls(Convolution("abcd", 16), 1, 1000, plain_ns);
  program.Calls(Convolution("acdb", 1), 1, 400'000, last_ns);
  program.Calls(OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
                                 "dst:f32::blocked:aBcd16b::f0,,,8x16x32x32,0.1"),
                1, 800'000, 120'000);
  return program.Find("layout-conversions").rows;
}

TEST(LayoutConversions, AreFoundBesideAnInputThatHasOneChannel) {
  EXPECT_THAT(Found(300'000, 20'000), testing::SizeIs(1));
  EXPECT_THAT(Found(20'000, 300'000), testing::IsEmpty());
}

TEST(LayoutConversions, OfVolumesHaveAFormatOfTheirOwn) {
  CpuProgram program;
  program.UseTorch();
  program.Calls(OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
                                 "src:f32::blocked:aBcde16b::f0 wei:f32::blocked:ABcde16b16a::f0 "
                                 "dst:f32::blocked:aBcde16b::f0,,alg:convolution_direct,"
                                 "mb8_ic16oc16_id8od8kd3sd1dd0pd1_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.1"),
                1, 1000, 300'000);
  program.Calls(
      OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcde::f0 "
                       "dst:f32::blocked:aBcde16b::f0,,,8x16x8x32x32,0.1"),
      1, 800'000, 120'000);
  const CpuProgram::Found found = program.Find("layout-conversions");
  ASSERT_THAT(found.rows, testing::SizeIs(1));
  EXPECT_THAT(found.Of(0, "advice"), testing::HasSubstr("x.to(memory_format=torch.channels_last_3d)"));
}

}  // namespace layout_conversions_test
}  // namespace dlhook::analyzer
