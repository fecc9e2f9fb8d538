// Rule lower-precision: float32 where the hardware has a shorter type; never where the program decided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "preload/format/processor_id.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace lower_precision_test {

using testing::HasSubstr;
using testing::IsEmpty;

// bf16 three times as fast as f32; memory is no bound.
Calibration Machine(double bf16 = 300) {
  Calibration calibration;
  calibration.processors = 1;
  for (const auto& [what, best] : {std::pair(std::string("f32"), 100.0), {"bf16", bf16}, {kMemoryRead, 1000.0}}) {
    if (best > 0) calibration.measured.push_back({{best, best, best, best, 9}, what, 1, "", ""});
  }
  return calibration;
}

CpuProgram Program(int64_t product_ns = 600'000) {
  CpuProgram program;
  program.process().processors = 1;
  program.process().processor = {"AuthenticAMD", "AMD EPYC", 26, 2, 1, 1, kFma | kAvx512 | kAvx512Bf16};
  program.Calls(GemmDefinition(256, 256, 256, "NN"), 1, 1000, product_ns);
  return program;
}

TEST(LowerPrecision, Bfloat16IsInformation) {
  const Calibration machine = Machine();
  const auto found = Program().Find("lower-precision", &machine);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_NEAR(found.Gain(0), 400'000, 2);
  EXPECT_EQ(found.Of(0, "kind"), "information");
  EXPECT_EQ(found.Of(0, "numerics"), "changes");
  EXPECT_EQ(found.Of(0, "basis"), "at most");
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("If its precision suffices"));
}

trace::OpDefinition Double() {
  trace::OpDefinition product = GemmDefinition(256, 256, 256, "NN", "dgemm_");
  product.mutable_gemm()->set_a_type(trace::F64);
  product.mutable_gemm()->set_b_type(trace::F64);
  product.mutable_gemm()->set_c_type(trace::F64);
  return product;
}

TEST(Float64, AdvisesWhatTheProgramCanDo) {
  for (const auto& [name, advice] : {std::pair("python3.11", "np.float32"), {"R", "sgemm for dgemm"}}) {
    CpuProgram program;
    program.process().program = name;
    program.Calls(Double(), 1, 1000, 500'000);
    const std::string said = program.Find("float64").Of(0, "advice");
    EXPECT_THAT(said, HasSubstr(advice));
    EXPECT_EQ(said.find("torch"), std::string::npos);
  }
}

TEST(LowerPrecision, ComesAfterLosses) {
  const Calibration machine = Machine();
  CpuProgram program = Program();
  const trace::OpDefinition twice = Double();
  program.Calls(twice, 1, 700'000, 100'000);
  const auto found = program.Find("lower-precision", &machine);
  ASSERT_EQ(found.table.rows.size(), 2u);
  EXPECT_EQ(Text(found.table, 0, "rule"), "float64");
  EXPECT_EQ(Text(found.table, 0, "kind"), "loss");
}

TEST(LowerPrecision, IsSilentWithoutTheInstructionsThePeakOrTheGain) {
  const Calibration machine = Machine(), unmeasured = Machine(0), same = Machine(105);
  CpuProgram older = Program();
  older.process().processor.instruction_sets = kFma | kAvx512;
  EXPECT_THAT(older.Find("lower-precision", &machine).rows, IsEmpty());
  EXPECT_THAT(Program().Find("lower-precision", &unmeasured).rows, IsEmpty());
  EXPECT_THAT(Program().Find("lower-precision", &same).rows, IsEmpty());
  EXPECT_THAT(Program().Find("lower-precision").rows, IsEmpty());
  EXPECT_THAT(Program(120'000).Find("lower-precision", &machine).rows, IsEmpty());
}

TEST(LowerPrecision, IsSilentWhereTheProgramDecided) {
  const Calibration machine = Machine();
  CpuProgram chosen = Program();
  chosen.process().settings = {{"ONEDNN_DEFAULT_FPMATH_MODE", "STRICT"}};
  EXPECT_THAT(chosen.Find("lower-precision", &machine).rows, IsEmpty());
  CpuProgram mixed = Program();
  trace::OpDefinition shorter = GemmDefinition(256, 256, 256, "NN", "cblas_gemm_bf16bf16f32");
  shorter.mutable_gemm()->set_a_type(trace::BF16);
  shorter.mutable_gemm()->set_b_type(trace::BF16);
  mixed.Calls(shorter, 1, 700'000, 1000);
  EXPECT_THAT(mixed.Find("lower-precision", &machine).rows, IsEmpty());
}

// Products of 500 us a step on a GPU.
std::vector<std::string> FoundOnGpu(uint32_t capability, const std::string& cuda, const NamesAndValues& settings = {}) {
  GpuProgram program;
  GpuDevice& device = program.builder().model().gpu_devices.front();
  device.compute_capability = capability;
  device.clock_khz = 1'400'000;
  device.memory_bytes_per_second = 1'500'000'000'000;
  program.builder().model().processes.front().settings = settings;
  const OpIndex op = program.builder().AddOp(CudaGemmDefinition("cublasSgemm_v2", 2048, 2048, 2048, cuda));
  std::vector<int64_t> starts = {0};
  for (int64_t at_ns = 0; at_ns < 6'000'000; at_ns += 1'000'000) {
    program.builder().Call(op, at_ns + 1999, 2000);
    program.Work({.start_ns = at_ns + 5000,
                  .end_ns = at_ns + 505'000,
                  .requested_ns = at_ns + 2500,
                  .call_ns = 100,
                  .thread = 0});
    starts.push_back(at_ns + 1'000'000);
  }
  program.Steps(starts);
  program.Build(6'000'000);
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "lower-precision"}})) found.push_back(Text(table, row, "advice"));
  return found;
}

TEST(LowerPrecision, Tf32) {
  EXPECT_THAT(FoundOnGpu(80, "math_mode: 0"), testing::ElementsAre(HasSubstr("TF32")));
  EXPECT_THAT(FoundOnGpu(75, "math_mode: 0"), IsEmpty());
  EXPECT_THAT(FoundOnGpu(80, "math_mode: 3"), IsEmpty());  // allowed
  EXPECT_THAT(FoundOnGpu(80, "math_mode: 2"), IsEmpty());  // pedantic
  EXPECT_THAT(FoundOnGpu(80, "math_mode: 0", {{"NVIDIA_TF32_OVERRIDE", "0"}}), IsEmpty());
}

}  // namespace lower_precision_test
}  // namespace dlhook::analyzer
