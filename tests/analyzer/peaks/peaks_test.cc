// Bounds of calls by hand: which of compute, memory, launching and dividing decides, and what is said where something is not known.
#include "analyzer/peaks/peaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "preload/format/processor_id.h"

namespace dlhook::analyzer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ProcessorInfo kZen3 = {"AuthenticAMD", "AMD EPYC 7763", 25, 1, 1, 2, kFma};

Measurement Measured(const std::string& what, uint32_t threads, double best) {
  return {{best, best, best, best, 9}, what, threads, "", ""};
}

// 1 thread: 100 GFLOP/s, 4: 300. L2 of 1 MB, L3 of 8 MB.
Calibration MeasuredPeaks() {
  Calibration calibration;
  calibration.processor = kZen3;
  calibration.processors = 4;
  calibration.l2_bytes = 1'000'000;
  calibration.l3_bytes = 8'000'000;
  calibration.date = "2026-11-23T05:40:00Z";
  calibration.measured = {Measured("f32", 1, 100),      Measured("f32", 4, 300),      Measured(kL2Read, 1, 50),
                          Measured(kL2Read, 4, 200),    Measured(kL3Read, 1, 30),     Measured(kL3Read, 4, 100),
                          Measured(kMemoryRead, 1, 10), Measured(kMemoryRead, 4, 20), Measured(kCallCost, 1, 200),
                          Measured(kDividing, 4, 1000)};
  return calibration;
}

TraceModel RunOf(uint32_t processors = 4, const std::string& threads = "") {
  TraceModel model;
  ProcessInfo& process = model.processes.emplace_back();
  process.processor = kZen3;
  process.processors = processors;
  if (!threads.empty()) process.settings.emplace_back("OMP_NUM_THREADS", threads);
  process.clock = ClockKind::kTsc;
  process.ticks_per_second = 2'000'000'000;
  return model;
}

Op Product(double flops, double bytes, const std::string& types = "f32") {
  Op op;
  op.kind = "gemm";
  op.types = types;
  if (flops > 0) op.flops = static_cast<int64_t>(flops);
  if (bytes > 0) op.bytes = static_cast<int64_t>(bytes);
  return op;
}

std::string Words(const std::optional<Bound>& bound) {
  return bound ? absl::StrCat(absl::SixDigits(bound->ns), " ", BoundKindName(bound->kind)) : "none";
}

TEST(Peaks, BoundByWhatTakesLongest) {
  const Calibration calibration = MeasuredPeaks();
  const Peaks peaks(RunOf(), &calibration);
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e8, 1e6))), "1.001e+06 compute");
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e5, 2e7))), "1.001e+06 memory");  // from memory
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e5, 7e6))), "71000 memory");      // from L3
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e5, 3e6))), "16000 memory");      // from the L2 of four cores
  EXPECT_EQ(Words(peaks.BoundOf(Product(0, 2e7))), "1.001e+06 memory");    // moves only
  EXPECT_EQ(Words(peaks.BoundOf(Product(1e5, 1000))), "1000 serial");      // one thread is faster than handing it over
  EXPECT_EQ(Words(peaks.BoundOf(Product(1e3, 1000))), "200 launch");
  EXPECT_THAT(peaks.notes(), ElementsAre(HasSubstr("measured on 2026-11-23, for 4 threads")));
  EXPECT_EQ(peaks.RateOf(Product(1, 1)), 300);
}

// Where all threads together are no faster than one, too little work is not the reason.
TEST(Peaks, AreSerialOnlyWhereThreadsWouldHelp) {
  Calibration calibration = MeasuredPeaks();
  for (Measurement& measurement : calibration.measured) {
    if (measurement.what == "f32") measurement.best = measurement.threads == 1 ? 100 : 80;
  }
  const Peaks peaks(RunOf(), &calibration);
  EXPECT_EQ(peaks.RateOf(Product(1, 1)), 100);
  EXPECT_EQ(Words(peaks.BoundOf(Product(1e5, 1000))), "1000 compute");
}

TEST(Peaks, SayNothingOfWhatIsNotKnown) {
  const Calibration calibration = MeasuredPeaks();
  const Peaks peaks(RunOf(), &calibration);
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e9, 1e7, "bf16"))), "none");
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e9, 1e7, "f16"))), "none");
  EXPECT_EQ(Words(peaks.BoundOf(Product(0, 0))), "none");
  EXPECT_EQ(Words(peaks.BoundOf(Product(3e8, 0))), "1.001e+06 ");  // compute or memory: it can't be told
  EXPECT_EQ(peaks.RateOf(Product(1, 1, "bf16")), std::nullopt);
  EXPECT_FALSE(Peaks().IsKnown());
  Op creation = Product(3e9, 1e7);
  creation.is_creation = true;
  EXPECT_EQ(Words(peaks.BoundOf(creation)), "none");
}

TEST(Peaks, AreThoseOfTheThreadsThatTheRunMayUse) {
  const Calibration calibration = MeasuredPeaks();
  const auto rate = [&](uint32_t processors, const std::string& threads) {
    return *Peaks(RunOf(processors, threads), &calibration).RateOf(Product(1, 1));
  };
  EXPECT_EQ(rate(4, ""), 300);
  EXPECT_EQ(rate(2, ""), 200);   // two, each alone
  EXPECT_EQ(rate(4, "3"), 300);  // not more than all together
  EXPECT_EQ(rate(4, "1"), 100);
  EXPECT_EQ(rate(4, "2,1"), 200);  // by level of nesting
  EXPECT_EQ(rate(4, "99"), 300);
  EXPECT_EQ(rate(4, "many"), 300);
  const Peaks alone(RunOf(4, "1"), &calibration);
  EXPECT_EQ(Words(alone.BoundOf(Product(1e5, 1000))), "1000 compute");  // nothing could be divided
}

TEST(Peaks, AreStatedWhereNothingWasMeasured) {
  const Peaks peaks(RunOf(), nullptr);
  EXPECT_EQ(peaks.RateOf(Product(1, 1)), 32 * 2.0 * 2);  // four threads on two cores of 2 GHz
  EXPECT_EQ(peaks.RateOf(Product(1, 1, "f64")), 16 * 2.0 * 2);
  EXPECT_EQ(Words(peaks.BoundOf(Product(128e6, 1e6))), "1e+06 ");
  EXPECT_EQ(Words(peaks.BoundOf(Product(0, 1e6))), "none");
  EXPECT_THAT(peaks.notes(), ElementsAre(HasSubstr("stated peaks: 2 cores")));
  TraceModel old = RunOf();
  old.processes.front().processor = {};
  EXPECT_FALSE(Peaks(old, nullptr).IsKnown());
  EXPECT_THAT(Peaks(old, nullptr).notes(), IsEmpty());
}

TEST(Peaks, AreNoneOfSeveralKindsOfMachines) {
  TraceModel model = RunOf();
  model.processes.push_back(model.processes.front());
  EXPECT_TRUE(Peaks(model, nullptr).IsKnown());
  model.processes.back().processor.model = 17;
  EXPECT_FALSE(Peaks(model, nullptr).IsKnown());
  EXPECT_THAT(Peaks(model, nullptr).notes(), ElementsAre(HasSubstr("different machines")));
}

// An A100: 19.5 TFLOP/s of f32, 156 of tf32, 1555 GB/s.
TEST(Peaks, OfGpusFollowTypesAndMemory) {
  TraceModel model = RunOf();
  GpuDevice device;
  device.name = "A100";
  device.compute_capability = 80;
  device.multiprocessors = 108;
  device.clock_khz = 1410000;
  device.memory_bytes_per_second = 1'555'000'000'000;
  model.gpu_devices = {device, device};
  Op product = Product(3.898368e9, 1000);
  product.on_gpu = true;
  EXPECT_EQ(Words(Peaks(model, nullptr).BoundOf(product)), "200000 compute");
  product.tensor_core = TensorCore{.eligible = true};
  EXPECT_EQ(Words(Peaks(model, nullptr).BoundOf(product)), "25000 compute");
  product.bytes = 1'555'000'000;
  EXPECT_EQ(Words(Peaks(model, nullptr).BoundOf(product)), "1e+06 memory");
  Calibration calibration = MeasuredPeaks();
  calibration.gpu = "A100";
  calibration.measured.push_back(Measured(kGpuLaunch, 0, 2000));
  product.flops = 1000;
  product.bytes = 1555;
  EXPECT_EQ(Words(Peaks(model, &calibration).BoundOf(product)), "1 launch");
  EXPECT_THAT(Peaks(model, nullptr).notes(), Contains(HasSubstr("A100, and its memory's bandwidth")));
  for (GpuDevice& one : model.gpu_devices) one.memory_bytes_per_second = 0;
  product.flops = 3'898'368'000;
  EXPECT_EQ(Words(Peaks(model, nullptr).BoundOf(product)), "25000 ");
  EXPECT_THAT(Peaks(model, nullptr).notes(), Contains(HasSubstr("Its memory's bandwidth is not known")));
  model.gpu_devices.back().name = "V100";
  EXPECT_EQ(Words(Peaks(model, nullptr).BoundOf(product)), "none");
}

// Vendors' data sheets.
TEST(StatedPeaks, OfGpusAreAsPublished) {
  const auto teraflops = [](uint32_t capability, uint32_t multiprocessors, uint32_t mhz, const char* type) {
    GpuDevice device;
    device.compute_capability = capability;
    device.multiprocessors = multiprocessors;
    device.clock_khz = mhz * 1000;
    return StatedGpuRate(device, type).value_or(0) / 1000;
  };
  EXPECT_NEAR(teraflops(70, 80, 1530, "f32"), 15.7, 0.05);  // V100 SXM2
  EXPECT_NEAR(teraflops(70, 80, 1530, "f64"), 7.8, 0.05);
  EXPECT_NEAR(teraflops(70, 80, 1530, "f16"), 125, 0.5);
  EXPECT_EQ(teraflops(70, 80, 1530, "bf16"), 0);
  EXPECT_NEAR(teraflops(94, 304, 2100, "f16"), 1307.4, 0.5);  // MI300X
  EXPECT_NEAR(teraflops(94, 304, 2100, "tf32"), 653.7, 0.5);
  EXPECT_NEAR(teraflops(94, 304, 2100, "f64"), 163.4, 0.5);
  EXPECT_NEAR(teraflops(75, 40, 1590, "f32"), 8.1, 0.05);  // T4
  EXPECT_NEAR(teraflops(75, 40, 1590, "f16"), 65, 0.5);
  EXPECT_NEAR(teraflops(80, 108, 1410, "f32"), 19.5, 0.05);  // A100
  EXPECT_NEAR(teraflops(80, 108, 1410, "f64"), 19.5, 0.05);
  EXPECT_NEAR(teraflops(80, 108, 1410, "tf32"), 156, 0.5);
  EXPECT_NEAR(teraflops(80, 108, 1410, "bf16"), 312, 0.5);
  EXPECT_NEAR(teraflops(80, 108, 1410, "int8"), 624, 1);
  EXPECT_NEAR(teraflops(90, 132, 1980, "f32"), 67, 0.1);  // H100 SXM5
  EXPECT_NEAR(teraflops(90, 132, 1830, "f16"), 989.5, 1);
  EXPECT_EQ(teraflops(12, 100, 1000, "f32"), 0);
  GpuDevice h200;  // its clock reaches more than its tensor cores are specified at
  h200.name = "NVIDIA H200";
  h200.compute_capability = 90;
  h200.multiprocessors = 132;
  h200.clock_khz = 1980000;
  EXPECT_NEAR(StatedGpuRate(h200, "bf16").value_or(0) / 1000, 989.5, 1);
  EXPECT_NEAR(StatedGpuRate(h200, "f32").value_or(0) / 1000, 67, 0.1);
  GpuDevice imported;  // no clock: as specified
  imported.name = "NVIDIA A100-SXM4-80GB";
  imported.compute_capability = 80;
  imported.multiprocessors = 108;
  EXPECT_NEAR(StatedGpuRate(imported, "bf16").value_or(0) / 1000, 312, 0.5);
  imported.name = "NVIDIA RTX A1000";
  imported.compute_capability = 86;
  EXPECT_FALSE(StatedGpuRate(imported, "bf16"));
}

TEST(StatedPeaks, OfCoresFollowTheirUnits) {
  const auto flops = [](const char* vendor, uint32_t family, uint32_t model, uint32_t sets, const char* type) {
    return CoreFlopsPerCycle({vendor, "", family, model, 0, 1, sets}, type).value_or(0);
  };
  EXPECT_EQ(flops("AuthenticAMD", 0x17, 0x01, kFma, "f32"), 16);            // Zen
  EXPECT_EQ(flops("AuthenticAMD", 0x19, 0x11, kFma | kAvx512, "f32"), 32);  // Zen 4
  EXPECT_EQ(flops("AuthenticAMD", 0x1a, 0x02, kFma | kAvx512, "f64"), 32);  // Zen 5
  EXPECT_EQ(flops("GenuineIntel", 6, 0x55, kFma | kAvx512, "f32"), 64);     // Skylake-SP
  EXPECT_EQ(flops("GenuineIntel", 6, 0x55, kFma, "f32"), 32);               // a virtual machine without AVX-512
  EXPECT_EQ(flops("GenuineIntel", 6, 0x8f, kAmxBf16 | kAmxInt8, "bf16"), 1024);
  EXPECT_EQ(flops("GenuineIntel", 6, 0x8f, kAmxBf16 | kAmxInt8, "int8"), 2048);
  EXPECT_EQ(flops("GenuineIntel", 6, 0xff, kFma, "f32"), 0);
}

}  // namespace
}  // namespace dlhook::analyzer
