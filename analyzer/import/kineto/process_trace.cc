// Events are kept until all are known (kineto_events.h); then each thread is walked in the order of time (thread_packets.h).

#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/import/kineto/thread_packets.h"
#include "analyzer/io/byte_source.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline kineto {
namespace {

std::string Value(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

// The process trace of these events.
class ProcessTrace {
 public:
  ProcessTrace(KeptEvents kept, const TraceFacts& facts)
      : kept_(std::move(kept)), facts_(facts), threads_(kept_, Value(facts.job, "rank"), writer_) {}

  ImportedTrace Write() {
    WriteHeader();
    WriteCapabilities();
    WriteThreads();
    WriteGpu();
    WriteEnd();
    return {.packets = writer_.Take(),
            .program = program_,
            .pid = kept_.pid,
            .identity =
                absl::StrCat(kept_.pid, " of ", Value(facts_.values, "host_name"), " rank ", Value(facts_.job, "rank")),
            .start_ns = facts_.base_ns + kept_.first_ns,
            .end_ns = facts_.base_ns + kept_.last_ns};
  }

 private:
  uint64_t RealNs(int64_t ns) const { return static_cast<uint64_t>(std::max<int64_t>(facts_.base_ns + ns, 0)); }

  void WriteHeader() {
    const auto name = kept_.process_names.find(kept_.pid);
    if (name != kept_.process_names.end()) {
      program_ = BaseName(name->second);
    } else if (facts_.tool != TraceFacts().tool) {
      program_ = "program";  // not told
    }
    trace::Packet packet;
    trace::Header* header = packet.mutable_header();
    header->set_schema_major(1);
    header->set_tool_version(facts_.tool);
    trace::Process* process = header->mutable_process();
    process->set_pid(kept_.pid);
    process->set_program(program_);
    process->set_script(ScriptName());
    process->set_host(Value(facts_.values, "host_name"));
    // Traces have CLOCK_REALTIME in common: machines are not told.
    process->set_boot_id(absl::StrCat("trace from ", RealNs(kept_.first_ns)));
    process->set_shim_loaded_ticks(KeptEvents::kOriginTicks);
    header->mutable_clock()->set_kind(trace::Clock::MONOTONIC);
    header->mutable_clock()->set_ticks_per_second(1'000'000'000);
    for (const auto& [variable, key] : {std::pair("RANK", "rank"), std::pair("WORLD_SIZE", "world_size")}) {
      const std::string value = Value(facts_.job, key);
      if (value.empty()) continue;
      trace::RankVariable* rank = header->add_rank_variable();
      rank->set_name(variable);
      rank->set_value(value);
    }
    for (const auto& [key, value] : facts_.values) {
      if (!absl::EndsWith(key, "_version") || key == "schemaVersion") continue;
      trace::Setting* setting = header->add_setting();
      setting->set_name(key);
      setting->set_value(value);
    }
    writer_.Write(packet);
    WriteClock(kept_.first_ns);
  }

  // Known only from Python's frames: see PythonFrames::script.
  std::string ScriptName() {
    for (const auto& [key, events] : kept_.threads) {
      for (const HostEvent& event : events) {
        if (event.category != Category::kPython) continue;
        const std::string script = ScriptOf(kept_.names[event.name]);
        if (!script.empty()) return script;
      }
    }
    return "";
  }

  void WriteClock(int64_t ns) {
    trace::Packet packet;
    trace::ClockSample* sample = packet.mutable_clock_sample();
    sample->set_ticks(kept_.Ticks(ns));
    sample->set_monotonic_ns(kept_.Ticks(ns));
    sample->set_realtime_ns(RealNs(ns));
    writer_.Write(packet);
  }

  void WriteCapabilities() {
    const auto has = [this](Category category) {
      return absl::c_any_of(kept_.threads, [&](const auto& thread) {
        return absl::c_any_of(thread.second, [&](const HostEvent& event) { return event.category == category; });
      });
    };
    using trace::Capability;
    const auto write = [this](const char* name, Capability::State state, absl::string_view reason = "",
                              absl::string_view how = "", const char* object = "") {
      trace::Packet packet;
      packet.mutable_capability()->set_name(name);
      packet.mutable_capability()->set_state(state);
      packet.mutable_capability()->set_object(object);
      packet.mutable_capability()->set_reason(absl::StrCat(state == Capability::OFF ? facts_.tool : "", reason, how));
      writer_.Write(packet);
    };
    // torch.profiler can record these; of others the reader says how.
    const bool is_torch = facts_.tool == TraceFacts().tool;
    if (is_torch || has(Category::kOperator)) {
      write(kRecordFunctionTap.capability, has(Category::kOperator) ? Capability::ON : Capability::ABSENT, "", "",
            "libtorch_cpu.so");
    }
    if (has(Category::kPython)) {
      write("python-frames", Capability::ON, "lines are those where functions begin");
    } else {
      write("python-frames", Capability::OFF, " recorded no stacks", is_torch ? " (with_stack)" : "");
    }
    if (kept_.definitions.size() == 1) {
      write("shapes", Capability::OFF, " recorded no shapes",
            is_torch
                ? " (record_shapes): what products compute is not known"
                : ": what products compute is not known; torch.autograd.profiler.emit_nvtx(record_shapes=True) tells");
    }
    if (!kept_.memory.empty()) {
      write("memory", Capability::ON);
    } else if (is_torch) {
      write("memory", Capability::OFF, " recorded no memory (profile_memory)");
    } else {
      write("memory", Capability::ABSENT, "the trace has no memory of PyTorch's");
    }
    if (!kept_.gpu.empty()) {
      write("gpu-time", Capability::ON);
    } else if (has(Category::kRuntime)) {
      write("gpu-time", Capability::REFUSED,
            "the trace has calls of the runtime, and none of the work that they asked the GPU for: the driver gave ",
            absl::StrCat(facts_.tool, " none, or it was taken out"));
    } else {
      write("gpu-time", Capability::ABSENT, "the trace has no GPU work");
    }
    write(
        "library-calls", Capability::ABSENT, facts_.tool,
        " does not record calls of BLAS, cuBLAS, cuDNN and oneDNN: which algorithm they chose, and why, is not known");
    write("native-stacks", Capability::ABSENT, facts_.tool, " does not record them");
  }

  void WriteThreads() {
    std::vector<std::pair<int64_t, ThreadKey>> order;
    for (auto& [key, events] : kept_.threads) {
      // What surrounds comes first; of what has the same times, operators surround calls.
      absl::c_stable_sort(events, [](const HostEvent& a, const HostEvent& b) {
        return std::tie(a.start_ns, b.end_ns, a.category) < std::tie(b.start_ns, a.end_ns, b.category);
      });
      order.emplace_back(events.empty() ? INT64_MAX : events.front().start_ns, key);
    }
    absl::c_sort(order);
    for (const auto& [start_ns, key] : order) {
      std::vector<HostEvent>& events = kept_.threads[key];
      threads_.Write(key, events);
      std::vector<HostEvent>().swap(events);
    }
  }

  void WriteGpu() {
    if (kept_.gpu.empty()) return;
    absl::c_sort(kept_.gpu, [](auto& a, auto& b) { return a.start_ns < b.start_ns; });
    WriteDevices();
    trace::Packet window;
    window.mutable_gpu_window()->set_ticks(kept_.Ticks(kept_.first_ns));
    window.mutable_gpu_window()->set_source(trace::GPU_TIME_CUPTI);
    writer_.Write(window);
    for (size_t begin = 0; begin < kept_.gpu.size(); begin += kBatch) {
      WriteGpuBatch(begin, std::min(begin + kBatch, kept_.gpu.size()));
    }
  }

  // Those that did something: a job's trace lists all GPUs of its machine.
  void WriteDevices() {
    std::map<uint32_t, trace::GpuDevice> used;
    for (const GpuEvent& event : kept_.gpu) used[event.device].set_ordinal(event.device);
    for (const Device& device : facts_.devices) {
      const auto found = used.find(Clamped<uint32_t>(device.ordinal));
      if (found == used.end()) continue;
      found->second.set_name(device.name);
      found->second.set_multiprocessors(Clamped<uint32_t>(device.multiprocessors));
      found->second.set_memory_bytes(Clamped<uint64_t>(device.memory_bytes));
      found->second.set_compute_capability(
          Clamped<uint32_t>(std::min<int64_t>(device.major, 1000) * 10 + device.minor % 10));
    }
    for (auto& [ordinal, device] : used) {
      trace::Packet packet;
      packet.mutable_gpu_device()->Swap(&device);
      writer_.Write(packet);
    }
  }

  uint32_t KernelId(const GpuEvent& event) {
    if (event.category != Category::kKernel) return 0;
    trace::InternedGpuKernel kernel = kept_.kernels[event.kernel];
    kernel.set_name_iid(writer_.String(kept_.names[event.name]));
    return writer_.Kernel(std::move(kernel));
  }

  void WriteGpuBatch(size_t begin, size_t end) {
    trace::Packet packet;
    trace::GpuActivityBatch* batch = packet.mutable_gpu_activity();
    batch->set_source(trace::GPU_TIME_CUPTI);
    batch->set_base_start_ns(RealNs(kept_.gpu[begin].start_ns));
    int64_t start_ns = kept_.gpu[begin].start_ns, correlation = 0;
    for (size_t i = begin; i < end; ++i) {
      const GpuEvent& event = kept_.gpu[i];
      const trace::Copy copy = event.category == Category::kCopy ? CopyOf(kept_.names[event.name], 0) : trace::Copy();
      batch->add_kind(event.category == Category::kKernel ? trace::GpuActivityBatch::KERNEL
                      : event.category == Category::kCopy ? trace::GpuActivityBatch::COPY
                                                          : trace::GpuActivityBatch::SET);
      batch->add_device(event.device);
      batch->add_stream(event.stream);
      batch->add_start_delta_ns(event.start_ns - std::exchange(start_ns, event.start_ns));
      batch->add_duration_ns(static_cast<uint64_t>(event.duration_ns));
      batch->add_correlation_delta(event.correlation - std::exchange(correlation, event.correlation));
      batch->add_kernel_iid(KernelId(event));
      batch->add_bytes(event.bytes);
      batch->add_direction(event.category == Category::kSet ? trace::Copy::SET : copy.direction());
      batch->add_host_memory(copy.host_memory());
    }
    writer_.Write(packet);
  }

  void WriteEnd() {
    WriteClock(kept_.last_ns);
    trace::Packet packet;
    if (kept_.without_time > 0) {
      packet.mutable_loss()->set_reason(trace::Loss::BAD_RECORD);
      packet.mutable_loss()->set_calls(kept_.without_time);
      packet.mutable_loss()->set_detail("events without a possible time");
      writer_.Write(packet);
    }
    packet.mutable_footer()->set_end(trace::Footer::EXITED);
    packet.mutable_footer()->set_end_ticks(kept_.Ticks(kept_.last_ns));
    packet.mutable_footer()->set_calls(threads_.call_count());
    writer_.Write(packet);
  }

  KeptEvents kept_;
  const TraceFacts& facts_;
  PacketWriter writer_;
  ThreadPackets threads_;
  std::string program_ = "python";
};

}  // namespace

ProcessEvents::ProcessEvents() : keeper_(std::make_unique<EventKeeper>()) {}
ProcessEvents::~ProcessEvents() = default;

void ProcessEvents::Take(const Event& event) { keeper_->Take(event); }

std::optional<ImportedTrace> ProcessEvents::MakeTrace(const TraceFacts& facts, uint32_t pid) {
  KeptEvents kept = keeper_->Finish();
  if (kept.first_ns > kept.last_ns) return std::nullopt;
  if (pid != 0) kept.pid = pid;
  return ProcessTrace(std::move(kept), facts).Write();
}

bool IsKinetoTrace(const std::string& path) { return !absl::EndsWith(path, kTraceSuffix) && LooksLikeJson(path); }

absl::StatusOr<ImportedTrace> ImportKineto(const std::string& path, const std::function<void(uint64_t)>& progress) {
  ProcessEvents events;
  TraceFacts facts;
  absl::Status status = ReadTraceJson(
      path, [&](const Event& event) { events.Take(event); }, &facts, progress);
  if (!status.ok() && !absl::IsDataLoss(status)) return status;
  std::optional<ImportedTrace> trace = events.MakeTrace(facts);
  if (!trace) {
    return absl::InvalidArgumentError(absl::StrCat(status.ok() ? path : std::string(status.message()),
                                                   ": this trace has no operators, calls or GPU work; expected some of "
                                                   "what torch.profiler records (cpu_op, cuda_runtime, kernel …)"));
  }
  trace->damage = std::move(status);
  return *std::move(trace);
}

}  // namespace dlhook::analyzer::kineto
