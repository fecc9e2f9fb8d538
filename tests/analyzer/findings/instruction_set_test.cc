// Rule instruction-set: libraries that compute with narrower vectors than the processor has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "preload/format/processor_id.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace instruction_set_test {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kWide = kFma | kAvx512;
const ProcessorInfo kZen5 = {"AuthenticAMD", "AMD EPYC", 26, 2, 1, 1, kWide};  // units of 512 bits
const ProcessorInfo kZen4 = {"AuthenticAMD", "AMD EPYC", 25, 0x11, 1, 1, kWide};
const ProcessorInfo kZen3 = {"AuthenticAMD", "AMD EPYC", 25, 1, 1, 1, kFma};

trace::OpDefinition Convolution(const std::string& implementation) {
  return OneDnnDefinition(absl::StrCat("onednn_verbose,v1,primitive,exec,cpu,convolution,", implementation,
                                       ",forward_training,src:f32:a:blocked:acdb::f0 wei:f32:a:blocked:Acdb16a::f0 "
                                       "dst:f32:a:blocked:acdb::f0,,alg:convolution_direct,"
                                       "mb8_ic16oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.1"));
}

struct Spec {
  ProcessorInfo processor = kZen5;
  NamesAndValues settings = {};
  trace::OpDefinition op;
};

CpuProgram::Found Find(const Spec& spec) {
  CpuProgram program;
  program.process().processor = spec.processor;
  program.process().settings = spec.settings;
  program.Calls(spec.op, 1, 1000, 800'000);
  return program.Find("instruction-set");
}

NamesAndValues Isa(const std::string& value) { return {{"ONEDNN_MAX_CPU_ISA", value}}; }
NamesAndValues Core(const std::string& value) { return {{"OPENBLAS_CORETYPE", value}}; }
trace::OpDefinition Product(const std::string& function = "scipy_cblas_sgemm64_") {
  return GemmDefinition(128, 128, 128, "NN", function);
}

TEST(InstructionSet, OneDnnIsLimited) {
  const auto found = Find({.settings = Isa("SSE41"), .op = Convolution("jit:sse41")});
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 600'000);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("oneDNN uses vectors of 128 bits, the processor has 512"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("ONEDNN_MAX_CPU_ISA=SSE41 is set"));
  EXPECT_EQ(found.Of(0, "basis"), "at most");
}

TEST(InstructionSet, OneDnnIsLimitedByItsBuild) {
  const auto found = Find({.op = Convolution("brg_conv_fwd:avx2")});
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 400'000);
  EXPECT_EQ(found.Of(0, "confidence"), "low");
}

TEST(InstructionSet, ALimitThatChangesNothing) {
  EXPECT_THAT(Find({.settings = Isa("AVX512_CORE"), .op = Convolution("jit:avx512_core")}).rows, IsEmpty());
  EXPECT_THAT(Find({.settings = Isa("AVX2"), .op = Convolution("jit:avx512_core")}).rows, IsEmpty());  // came too late
  EXPECT_THAT(Find({.settings = Isa("DEFAULT"), .op = Convolution("jit:avx512_core")}).rows, IsEmpty());
  EXPECT_THAT(Find({.processor = kZen3, .settings = Isa("AVX2"), .op = Convolution("jit:avx2")}).rows, IsEmpty());
  EXPECT_THAT(Find({.processor = kZen4, .settings = Isa("AVX2"), .op = Convolution("jit:avx2")}).rows, IsEmpty());
  EXPECT_THAT(Find({.settings = Isa("AVX2"), .op = Product("sgemm_")}).rows, IsEmpty());  // of another library
}

TEST(InstructionSet, OpenBlasIsLimited) {
  const auto found = Find({.settings = Core("NEHALEM"), .op = Product()});
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 600'000);
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("OPENBLAS_CORETYPE=NEHALEM is set"));
}

TEST(InstructionSet, OpenBlasIsNotLimited) {
  EXPECT_THAT(Find({.op = Product()}).rows, IsEmpty());
  EXPECT_THAT(Find({.settings = Core("SkylakeX"), .op = Product()}).rows, IsEmpty());
  EXPECT_THAT(Find({.settings = Core("Unheard-of"), .op = Product()}).rows, IsEmpty());
  EXPECT_THAT(Find({.processor = kZen3, .settings = Core("Haswell"), .op = Product()}).rows, IsEmpty());
  EXPECT_THAT(Find({.settings = Core("Nehalem"), .op = Product("sgemm_")}).rows, IsEmpty());  // MKL's
}

TEST(InstructionSet, PyTorchIsLimited) {
  for (const char* value : {"default", "avx2"}) {
    CpuProgram program;
    program.UseTorch();
    program.process().processor = kZen5;
    program.process().settings = {{"ATEN_CPU_CAPABILITY", value}};
    program.Scope("aten::gelu", 1000, 400'000);
    const auto found = program.Find("instruction-set");
    ASSERT_EQ(found.rows.size(), absl::string_view(value) == "default" ? 1u : 0u);
    if (!found.rows.empty()) {
      EXPECT_EQ(found.Gain(0), 300'000);
    }
  }
}

TEST(InstructionSet, TellsWhereTheProcessorIsNotKnown) {
  const auto found = Find({.processor = {}, .settings = Core("Nehalem"), .op = Product()});
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(found.table.notes,
              testing::Contains(HasSubstr("instruction-set (the trace does not tell its processor)")));
}

}  // namespace instruction_set_test
}  // namespace dlhook::analyzer
