// Executes a small ReLU of oneDNN and prints, as one JSON object, what its thread and its process paid for it. Unaware
// of dlhook.
//   onednn_caller BATCHES CALLS [PAUSE_US [SETTLE_MS]]
// Makes BATCHES times CALLS executions on one thread and sleeps PAUSE_US after each batch. Four come before and are not
// measured. SETTLE_MS as in gemm_caller.
//   thread_ns      [CPU time of the thread per execution, median of the batches]
//   process_ns, background_ns   as gemm_caller prints them
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "cpu_time.h"

namespace {

using dnnl::memory;

constexpr int kWarmUp = 4;

class Relu {
 public:
  Relu() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const memory::desc data({1, 8, 8, 8}, memory::data_type::f32, memory::format_tag::nchw);
    const dnnl::eltwise_forward::desc relu(dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, data, 0.F);
    primitive_ = dnnl::eltwise_forward({relu, engine_});
    arguments_ = {{DNNL_ARG_SRC, memory(data, engine_)}, {DNNL_ARG_DST, memory(data, engine_)}};
  }

  void Execute(int times) {
    for (int i = 0; i < times; ++i) primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
};

void Sleep(long microseconds) {
  const timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&time, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: onednn_caller BATCHES CALLS [PAUSE_US [SETTLE_MS]]\n"), 2;
  const int batches = std::atoi(argv[1]), calls = std::atoi(argv[2]);
  const long pause_us = argc > 3 ? std::atol(argv[3]) : 0, settle_us = argc > 4 ? std::atol(argv[4]) * 1000 : 0;
  Relu relu;
  std::vector<double> batch_ns(static_cast<size_t>(batches));
  relu.Execute(kWarmUp);
  Sleep(settle_us);
  const double process = Nanoseconds(CLOCK_PROCESS_CPUTIME_ID), background = BackgroundNanoseconds();
  for (double& sample : batch_ns) {
    const double before = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    relu.Execute(calls);
    sample = (Nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before) / calls;
    if (pause_us > 0) Sleep(pause_us);
  }
  Sleep(settle_us);
  const double all = static_cast<double>(batches) * calls;
  const double process_ns = (Nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - process) / all;
  const double background_ns = (BackgroundNanoseconds() - background) / all;
  std::printf("{\"thread_ns\": [%.4f], \"process_ns\": %.4f, \"background_ns\": %.4f}\n",
              Median(batch_ns.data(), batches), process_ns, background_ns);
}
