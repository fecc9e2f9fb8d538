// Rule reference-implementation: primitives of oneDNN that are computed by plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace reference_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

trace::OpDefinition Primitive(const std::string& implementation, const std::string& primitive = "convolution") {
  return OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu," + primitive + "," + implementation +
                          ",forward_inference,src:f32::blocked:acdb::f0 wei:f32::blocked:Acdb16a::f0 "
                          "bia:undef::undef::: dst:f32::blocked:acdb::f0,attr-scratchpad:user,"
                          "alg:convolution_direct,mb8_ic16oc32_ih24oh22kh3sh1dh0ph0_iw24ow22kw3sw1dw0pw0,0.1");
}

CpuProgram Program(const std::string& implementation, int64_t ns, const std::string& primitive = "convolution") {
  CpuProgram program(StepKind::kInference);
  program.Calls(Primitive(implementation, primitive), 1, 1000, ns);
  return program;
}

TEST(ReferenceImplementation, IsFoundByItsName) {
  for (const char* name : {"ref:any", "ref_fused:any", "lrn_ref:any", "gemm:ref", "conv:any+ref:any"}) {
    const auto found = Program(name, 500'000).Find("reference-implementation");
    ASSERT_THAT(found.rows, SizeIs(1)) << name;
    EXPECT_EQ(found.Gain(0), 500'000);
    EXPECT_EQ(found.Of(0, "basis"), "at most");
    EXPECT_THAT(found.Of(0, "finding"),
                HasSubstr(std::string("convolution with its reference implementation (") + name));
  }
}

TEST(ReferenceImplementation, IsNoneOfTheOthers) {
  for (const char* name : {"jit:avx512_core", "simple:any", "x64:gemm:jit", "brg_conv_fwd:avx2"}) {
    EXPECT_THAT(Program(name, 500'000).Find("reference-implementation").rows, IsEmpty()) << name;
  }
  EXPECT_THAT(Program("ref", 500'000, "rnn").Find("reference-implementation").rows, IsEmpty());
  EXPECT_THAT(Program("ref:any", 20'000).Find("reference-implementation").rows, IsEmpty());
}

TEST(ReferenceImplementation, IsLikeAProductForEachGroup) {
  const auto found_of = [](const std::string& problem, const std::string& implementation) {
    trace::OpDefinition definition =
        OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,convolution," + implementation +
                         ",backward_weights,src:f32::blocked:acdb::f0 wei:f32::blocked:Acdb16a::f0 bia:undef::undef::: "
                         "dst:f32::blocked:acdb::f0,attr-scratchpad:user,alg:convolution_direct," +
                         problem + ",0.1");
    CpuProgram program;
    program.Calls(definition, 1, 1000, 500'000);
    return program.Find("reference-implementation");
  };
  const auto found =
      found_of("g32mb2_ic32oc32_id8od8kd3sd1dd0pd1_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1", "x64:gemm:jit");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("a small product for each group (x64:gemm:jit)"));
  EXPECT_THAT(found_of("mb2_ic32oc32_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1", "x64:gemm:jit").rows, IsEmpty());
  EXPECT_THAT(found_of("g32mb2_ic32oc32_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1", "jit_dw:avx2").rows, IsEmpty());
}

TEST(ReferenceImplementation, IsToldOfEachPrimitive) {
  CpuProgram program = Program("ref:any", 200'000);
  program.Calls(Primitive("ref:any", "lrn"), 1, 300'000, 100'000);
  program.Calls(Primitive("ref:any", "softmax"), 1, 500'000, 10'000);  // too short
  const auto found = program.Find("reference-implementation");
  ASSERT_THAT(found.rows, SizeIs(2));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("computes convolution"));
  EXPECT_EQ(found.Gain(0), 200'000);
  EXPECT_THAT(found.Of(1, "finding"), HasSubstr("computes lrn"));
  EXPECT_EQ(found.Gain(1), 100'000);
}

TEST(ReferenceImplementation, HasAnotherCauseWhereInstructionsAreLimited) {
  CpuProgram program = Program("ref:any", 300'000);
  program.process().processor = {"AuthenticAMD", "AMD EPYC 7763", 25, 1, 1, 2, 1};
  program.process().settings = {{"ONEDNN_MAX_CPU_ISA", "SSE41"}};
  program.Calls(OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,matmul,jit:sse41,undef,src:f32::blocked:ab::f0 "
                                 "wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,64x64:64x64,0.1"),
                1, 500'000, 100'000);
  const auto found = program.Find("reference-implementation");
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(RowsWhere(found.table, {{"rule", "instruction-set"}}), SizeIs(1));
}

TEST(ReferenceImplementation, IsALibraryForAllProducts) {
  const auto rows_of = [](const std::vector<std::string>& libraries) {
    CpuProgram program;
    program.Calls(GemmDefinition(512, 128, 784, "NT"), 1, 1000, 400'000);
    for (const std::string& library : libraries) {
      program.process().mappings.push_back({.path = library, .role = MappingRole::kLibrary});
    }
    return program.Find("reference-implementation");
  };
  for (const char* library :
       {"/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0", "/v/mlx_cpu.libs/libblas-bd8a282c.so.3.10.0",
        "/usr/lib/R/lib/libRblas.so", "/usr/lib/libgslcblas.so.0.0.0"}) {
    const auto found = rows_of({"/usr/lib/libm.so.6", library});
    ASSERT_THAT(found.rows, SizeIs(1)) << library;
    EXPECT_EQ(found.Gain(0), 400'000);
    EXPECT_THAT(found.Of(0, "finding"), HasSubstr("products at 257 GFLOP/s"));  // 2 * 512 * 128 * 784 / 400 us
  }
  for (const char* library : {"/usr/lib/openblas-pthread/libblas.so.3", "/v/lib/libopenblasp-r0.3.30.so",
                              "/v/libblasfeo.so.0.1.4", "/lib/x86_64-linux-gnu/libblas.so.3"}) {
    EXPECT_THAT(rows_of({library}).rows, IsEmpty()) << library;
  }
  EXPECT_THAT(rows_of({"/usr/lib/blas/libblas.so.3.11.0", "/v/numpy.libs/libscipy_openblas64_-1.so"}).rows, IsEmpty());
}

}  // namespace reference_test
}  // namespace dlhook::analyzer
