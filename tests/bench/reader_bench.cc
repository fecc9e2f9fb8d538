// The analyzer's reading speed: a synthetic trace -> model -> totals per function, on one core.
//   reader_bench [CALLS [THREADS [ROUNDS [SCOPES [GPU]]]]]
// SCOPES: of a framework around every second call, nested in one another; 0 without. GPU: number of kernels per call,
// each with its link. The figures of scopes and of GPU work are for the whole reading, including calls. Prints the
// median [smallest..largest] of the rounds, then all samples as one line of JSON. Not a test: it does not fail if it is
// slow. CPU time is repeatable on a shared machine; wall time is what a user waits.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "analyzer/reader/load_run.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer {
namespace {

constexpr int kBatchCalls = 1024;
constexpr int kShapes = 40;
constexpr int kScopeNames = 200;
constexpr int kPythonStacks = 100;
constexpr int kKernels = 50;
constexpr int64_t kFirstMonotonicNs = 5'000'000'000, kFirstRealtimeNs = 1'700'000'000'000'000'000;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Bytes of a line of /proc/self/status.
double StatusBytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return 1024.0 * std::atof(line.c_str() + key.size());
  }
  return 0;
}

void Write(const trace::Packet& packet, std::ofstream* out) {
  trace::Trace trace;
  *trace.add_packet() = packet;
  trace.SerializeToOstream(out);
}

trace::Packet Definitions() {
  trace::Packet packet;
  for (int i = 1; i <= kShapes; ++i) {
    trace::OpDefinition* op = packet.mutable_interned()->add_op();
    op->set_iid(i);
    op->set_function(i % 2 == 0 ? "cblas_sgemm" : "sgemm_");
    op->set_family("blas");
    op->set_time_source(trace::CLOCK_TICKS);
    op->set_address_count(3);
    op->mutable_gemm()->set_m(i);
    op->mutable_gemm()->set_n(64);
    op->mutable_gemm()->set_k(256);
  }
  for (int i = 1; i <= kScopeNames; ++i) {
    trace::InternedString* name = packet.mutable_interned()->add_string();
    name->set_iid(i);
    name->set_value("aten::op" + std::to_string(i));
  }
  for (int i = 1; i <= kPythonStacks; ++i) {
    trace::InternedPythonStack* stack = packet.mutable_interned()->add_python_stack();
    stack->set_iid(i);
    trace::PythonFrame* frame = stack->add_frame();
    frame->set_file_iid(1);
    frame->set_function_iid(2);
    frame->set_line(i);
  }
  for (int i = 1; i <= kKernels; ++i) {
    trace::InternedGpuKernel* kernel = packet.mutable_interned()->add_gpu_kernel();
    kernel->set_iid(i);
    kernel->set_name_iid(i);
    kernel->set_grid_x(i);
    kernel->set_block_x(256);
  }
  return packet;
}

// One thread's state while its calls are generated: every fourth call is a cblas_sgemm around a sgemm_.
struct Writer {
  uint64_t ticks = 1'000'000;
  uint64_t sequence = 0;
  std::mt19937 random;
};

void FillBatch(uint32_t thread_id, Writer* writer, trace::CallBatch* batch) {
  batch->Clear();
  batch->set_thread_id(thread_id);
  batch->set_base_sequence(writer->sequence);
  batch->set_base_end_ticks(writer->ticks);
  for (int i = 0; i < kBatchCalls; ++i) {
    const bool is_inner = i % 4 == 0;
    const bool is_outer = i % 4 == 1;
    const uint32_t duration = 500 + writer->random() % 4000;
    const uint32_t gap = is_outer ? 100 : duration + 1000 + writer->random() % 2000;
    batch->add_op_iid(1 + writer->random() % kShapes);
    batch->add_sequence_delta(is_inner ? 1 : is_outer ? -2 : i % 4 == 2 ? 1 : 0);
    batch->add_end_delta_ticks(gap);
    batch->add_duration(is_outer ? batch->duration(i - 1) + 200 : duration);
    batch->add_parent_distance(is_inner ? 1 : 0);
    for (int a = 0; a < 3; ++a) batch->add_address_iid(21 + writer->random() % 500);
    writer->ticks += gap;
  }
  writer->sequence += kBatchCalls;
}

// Scopes around the batch's unnested calls; the gaps between calls have room for them.
void FillScopes(const trace::CallBatch& calls, int scopes, std::mt19937* random, trace::ScopeBatch* batch) {
  batch->Clear();
  batch->set_thread_id(calls.thread_id());
  uint64_t sequence = calls.base_sequence(), end = calls.base_end_ticks(), last_end = 0, last_sequence = 0;
  int64_t last_link = 0;
  for (int i = 0; i < calls.op_iid_size(); ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{calls.sequence_delta(i)});
    end += static_cast<uint64_t>(calls.end_delta_ticks(i));
    for (int j = 1; j <= scopes && i % 4 >= 2; ++j) {
      const int64_t link = i * 8 + 1;
      batch->add_name_iid(1 + (*random)() % kScopeNames);
      batch->add_end_delta_ticks(static_cast<int64_t>(end + 10 * j - last_end));
      batch->add_duration_ticks(calls.duration(i) + 20 * j);
      batch->add_kind(trace::ScopeBatch::FRAMEWORK_OP);
      batch->add_link_delta(link - last_link);
      batch->add_first_sequence_delta(static_cast<int64_t>(sequence - last_sequence));
      batch->add_call_count(1);
      batch->add_python_stack_iid(j == scopes ? 1 + (*random)() % kPythonStacks : 0);
      last_end = end + 10 * j;
      last_sequence = sequence;
      last_link = link;
    }
  }
}

// `kernels` for each call of the batch, on four streams, begun 10 us after its end.
void FillGpu(const trace::CallBatch& calls, int kernels, Writer* writer, trace::GpuLinkBatch* links,
             trace::GpuActivityBatch* work) {
  links->Clear();
  work->Clear();
  links->set_thread_id(calls.thread_id());
  work->set_source(trace::GPU_TIME_CUPTI);
  uint64_t sequence = calls.base_sequence(), end = calls.base_end_ticks(), last_ticks = 0, last_sequence = 0;
  uint32_t correlation = 0;
  int64_t last_start = 0;
  for (int i = 0; i < calls.op_iid_size(); ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{calls.sequence_delta(i)});
    end += static_cast<uint64_t>(calls.end_delta_ticks(i));
    for (int j = 0; j < kernels; ++j) {
      const uint64_t ticks = end - calls.duration(i) / 2;
      const int64_t start =
          kFirstRealtimeNs + static_cast<int64_t>(static_cast<double>(end) / 2.445) + 10'000 + j * 100;
      const uint32_t next = static_cast<uint32_t>(sequence) * 8 + j;
      links->add_tick_delta(static_cast<int64_t>(ticks - last_ticks));
      links->add_correlation_delta(int64_t{next} - correlation);
      links->add_sequence_delta(static_cast<int64_t>(sequence - last_sequence));
      work->add_kind(trace::GpuActivityBatch::KERNEL);
      work->add_device(0);
      work->add_stream(7 + writer->random() % 4);
      work->add_start_delta_ns(start - last_start);
      work->add_duration_ns(1000 + writer->random() % 20000);
      work->add_correlation_delta(int64_t{next} - correlation);
      work->add_kernel_iid(1 + writer->random() % kKernels);
      last_ticks = ticks;
      last_sequence = sequence;
      last_start = start;
      correlation = next;
    }
  }
}

void WriteTrace(const std::string& path, int64_t calls, int threads, int scopes, int kernels) {
  std::ofstream out(path, std::ios::binary);
  trace::Packet header;
  header.mutable_header()->set_schema_major(1);
  header.mutable_header()->mutable_clock()->set_kind(trace::Clock::TSC);
  header.mutable_header()->mutable_clock()->set_ticks_per_second(2'445'000'000);
  Write(header, &out);
  Write(Definitions(), &out);
  trace::Packet sample;
  for (uint64_t second = 0; second < 60; ++second) {
    sample.mutable_clock_sample()->set_ticks(second * 2'445'000'000);
    sample.mutable_clock_sample()->set_monotonic_ns(kFirstMonotonicNs + second * 1'000'000'123);
    sample.mutable_clock_sample()->set_realtime_ns(kFirstRealtimeNs + second * 1'000'000'123);
    Write(sample, &out);
  }
  std::vector<Writer> writers(threads);
  trace::Packet packet, scope_packet, link_packet, gpu_packet;
  for (int64_t written = 0; written < calls; written += kBatchCalls) {
    const int thread = static_cast<int>(written / kBatchCalls % threads);
    FillBatch(thread + 1, &writers[thread], packet.mutable_call_batch());
    Write(packet, &out);
    if (kernels > 0) {
      FillGpu(packet.call_batch(), kernels, &writers[thread], link_packet.mutable_gpu_link(),
              gpu_packet.mutable_gpu_activity());
      Write(link_packet, &out);
      Write(gpu_packet, &out);
    }
    if (scopes == 0) continue;
    FillScopes(packet.call_batch(), scopes, &writers[thread].random, scope_packet.mutable_scope_batch());
    Write(scope_packet, &out);
  }
}

struct Sample {
  double load_seconds = 0;
  double total_seconds = 0;
  double cpu_seconds = 0;
  double peak_bytes = 0;
  double file_bytes = 0;
  size_t calls = 0;
  size_t scopes = 0;
  size_t gpu = 0;
};

Sample ReadOnce(const std::string& path) {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const double base_bytes = StatusBytes("VmRSS:");
  Sample sample;
  const double start = Seconds();
  const double cpu_start = CpuSeconds();
  absl::StatusOr<LoadedRun> run = LoadRun(path);
  if (!run.ok() || !run->damage.empty()) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  sample.load_seconds = Seconds() - start;
  const RunTotals totals = ComputeTotals(run->model);
  sample.total_seconds = Seconds() - start;
  sample.cpu_seconds = CpuSeconds() - cpu_start;
  for (const auto& [sentence, count] : run->model.oddities) {
    std::printf("odd: %s, %ld times\n", sentence.c_str(), static_cast<long>(count));
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  sample.file_bytes = static_cast<double>(file.tellg());
  sample.calls = run->model.calls.size();
  sample.scopes = run->model.scopes.size();
  sample.gpu = run->model.gpu.size();
  sample.peak_bytes = StatusBytes("VmHWM:") - base_bytes;
  return sample;
}

void Print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-42s %8.2f [%.2f..%.2f]\n", what, values[values.size() / 2], values.front(), values.back());
}

void PrintJson(const char* name, const std::vector<double>& values, const char* end) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.4f", i == 0 ? "" : ", ", values[i]);
  std::printf("]%s", end);
}

int Main(int argc, char** argv) {
  const int64_t calls = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const int scopes = argc > 4 ? std::atoi(argv[4]) : 0;
  const int kernels = argc > 5 ? std::atoi(argv[5]) : 0;
  const std::string path = "/tmp/dlhook_reader_bench." + std::to_string(getpid()) + ".dlh";
  WriteTrace(path, calls, threads, scopes, kernels);
  std::vector<double> rate, cpu_rate, load_ns, totals_ns, memory, file, scope_rate, scope_memory, gpu_rate, gpu_memory;
  for (int round = 0; round < rounds; ++round) {
    const Sample sample = ReadOnce(path);
    const double count = static_cast<double>(sample.calls);
    rate.push_back(count / sample.total_seconds / 1e6);
    cpu_rate.push_back(count / sample.cpu_seconds / 1e6);
    load_ns.push_back(sample.load_seconds / count * 1e9);
    totals_ns.push_back((sample.total_seconds - sample.load_seconds) / count * 1e9);
    memory.push_back(sample.peak_bytes / count);
    file.push_back(sample.file_bytes / count);
    if (sample.gpu != 0) {
      gpu_rate.push_back(static_cast<double>(sample.gpu) / sample.load_seconds / 1e6);
      gpu_memory.push_back(sample.peak_bytes / static_cast<double>(sample.gpu));
    }
    if (sample.scopes == 0) continue;
    scope_rate.push_back(static_cast<double>(sample.scopes) / sample.load_seconds / 1e6);
    scope_memory.push_back(sample.peak_bytes / (static_cast<double>(sample.scopes) + count));
  }
  std::remove(path.c_str());
  std::printf("%ld calls, %d threads, %d rounds: median [smallest..largest]\n", static_cast<long>(calls), threads,
              rounds);
  Print("M calls/s, file to totals per function", rate);
  Print("M calls/s of CPU time, the same", cpu_rate);
  Print("ns/call, file to model", load_ns);
  Print("ns/call, totals", totals_ns);
  Print("bytes/call in memory, mapped file included", memory);
  Print("bytes/call in the file", file);
  if (!scope_rate.empty()) {
    Print("M scopes/s, file to model", scope_rate);
    Print("bytes/(call or scope) in memory", scope_memory);
  }
  if (!gpu_rate.empty()) {
    Print("M kernels/s, file to model", gpu_rate);
    Print("bytes/kernel in memory, calls and all", gpu_memory);
  }
  std::printf("{");
  PrintJson("mcalls_per_second", rate, ", ");
  PrintJson("mcalls_per_cpu_second", cpu_rate, ", ");
  PrintJson("memory_bytes_per_call", memory, "}\n");
  return 0;
}

}  // namespace
}  // namespace dlhook::analyzer

int main(int argc, char** argv) { return dlhook::analyzer::Main(argc, argv); }
