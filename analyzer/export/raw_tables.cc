#include "analyzer/export/raw_tables.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/profile/profile.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/tables/columns.h"
#include "analyzer/time/counter_division.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline exports {
namespace {

Column Number(std::string name, std::string unit, std::string explanation) {
  return IntegerColumn(std::move(name), std::move(unit), Better::kNeither, std::move(explanation));
}
Column Start() { return Number("start_ns", "ns", "Since the run began."); }
Column End() { return Number("end_ns", "ns", "Since the run began."); }
Column LayerId() { return NumberColumn("layer_id", "Of raw_layers; NULL: of no layer."); }
Column DirectionText() { return TextColumn("direction", "forward, backward-data …; NULL: not known."); }

std::optional<int64_t> NumberIn(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? std::optional(number) : std::nullopt;
}

// torchrun's job without the port, which changes at each restart; its default name is that of any job.
std::string JobText(const ProcessInfo& process) {
  const std::string address = RankVariable(process, {"MASTER_ADDR"});
  const bool is_named = !process.job.empty() && !absl::StartsWith(process.job, "torchrun-none.");
  if (is_named)
    return process.job.substr(0,
                              absl::StartsWith(process.job, "torchrun-") ? process.job.rfind('.') : std::string::npos);
  return address.empty() ? process.job : absl::StrCat(address, ":", RankVariable(process, {"MASTER_PORT"}));
}

void FillProcesses(const Timeline& run, TableRows& rows) {
  for (ProcessIndex process = 0; process < run.model.processes.size(); ++process) {
    const ProcessInfo& info = run.model.processes[process];
    const auto real_ns = [&](int64_t ns) {
      return info.realtime_offset_ns ? std::optional(ns + *info.realtime_offset_ns) : std::nullopt;
    };
    rows.Integer(process).Integer(info.pid).Integer(info.parent_pid).Text(info.host).Text(info.program);
    rows.Text(info.script).Known(NumberIn(RankOf(info)));
    rows.Text(absl::StrJoin(info.rank_variables, " ", absl::PairFormatter("="))).Text(info.file);
    rows.Integer(info.start_ns - run.model.start_ns).Integer(info.end_ns - run.model.start_ns);
    rows.Known(NumberIn(RankCountOf(info)));
    rows.Known(NumberIn(RankVariable(info, {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})));
    rows.Text(info.boot_id).Text(info.tool_version).Known(real_ns(info.start_ns)).Known(real_ns(run.model.start_ns));
    rows.Text(JobText(info)).Known(NumberIn(RankVariable(info, {"TORCHELASTIC_RESTART_COUNT"}))).End();
  }
}

void FillThreads(const Timeline& run, TableRows& rows) {
  for (ThreadIndex thread = 0; thread < run.model.threads.size(); ++thread) {
    const ThreadData& data = run.model.threads[thread];
    rows.Integer(thread).Integer(data.process).Integer(data.tid).Text(data.name).End();
  }
}

void FillOps(const Timeline& run, TableRows& rows) {
  for (OpIndex index = 0; index < run.model.ops.size(); ++index) {
    const Op& op = run.model.ops[index];
    rows.Integer(index).Text(CallLabel(op)).Text(KindLabel(op)).Text(op.function).Text(op.family);
    rows.Text(op.direction == Direction::kUnknown ? "" : DirectionName(op.direction)).Text(op.problem).Text(op.types);
    rows.Text(FormatsLabel(op)).Text(op.algorithm).Text(op.implementation).Text(absl::StrJoin(op.post_ops, ", "));
    rows.Text(op.compute_type).Text(op.math_mode).Text(ChooserName(op.chooser)).Text(op.kernel_name);
    rows.Known(op.flops).Known(op.bytes).Integer(op.on_gpu ? 1 : 0).Integer(op.is_asynchronous ? 1 : 0).End();
  }
}

void FillLayers(const Timeline& run, TableRows& rows) {
  const std::vector<Layer>& layers = run.analysis.attribution().layers;
  for (LayerIndex index = 0; index < layers.size(); ++index) {
    const Layer& layer = layers[index];
    rows.Integer(index).Text(layer.model).Text(layer.name).Text(layer.module).Text(layer.type).Text(layer.line);
    rows.Text(EvidenceName(layer.evidence)).End();
  }
}

// By process, of each of its devices, whenever they were measured.
std::vector<std::vector<IntervalSet>> ExposedCommunication(const TraceModel& model) {
  std::vector<std::vector<IntervalSet>> exposed(model.processes.size());
  for (const DeviceWork& work : WorkOfDevices(model, MeasuredTimes(model, {}))) {
    exposed[model.gpu_devices[work.device].process].push_back(work.ExposedCommunication());
  }
  return exposed;
}

void FillSteps(const Timeline& run, TableRows& rows) {
  const std::vector<ThreadStates> threads = ReadThreadStates(run.model);
  const std::vector<std::vector<IntervalSet>> exposed = ExposedCommunication(run.model);
  int64_t id = 0;
  for (const StepTrack& track : run.analysis.steps()) {
    const ThreadStates* const states = StatesOf(run.model, threads, track);
    const IntervalSet blind = GpuBlindTime(run.model, track.process);
    int64_t number = 0;
    for (const Step& step : track.steps) {
      rows.Integer(id++).Integer(track.process).Index(step.thread).Integer(number++);
      rows.Text(StepName(step.kind, step.sort)).Integer(step.start_ns - run.model.start_ns);
      const StateSums sums = states == nullptr ? StateSums() : states->In({step.start_ns, step.end_ns});
      std::optional<int64_t> batch, queued_ns, exposed_ns;
      if (step.batch > 0) batch = step.batch;
      if (sums.IsTold()) queued_ns = std::max<int64_t>(sums.queued_ns, 0);
      const bool is_measured = blind.CoveredNs(step.start_ns, step.end_ns) == 0;
      for (const IntervalSet& device : exposed[track.process]) {
        if (is_measured) exposed_ns = exposed_ns.value_or(0) + device.CoveredNs(step.start_ns, step.end_ns);
      }
      rows.Integer(step.end_ns - run.model.start_ns).Known(batch).Integer(step.is_warm_up ? 1 : 0);
      rows.Integer(step.counts() ? 1 : 0).Text(LeftOutName(step.left_out)).Known(queued_ns).Known(exposed_ns).End();
    }
  }
}

void FillPhases(const Timeline& run, TableRows& rows) {
  const StepIndex index(run.model, run.analysis.steps());
  for (uint32_t id = 0; id < index.steps().size(); ++id) {
    for (const PhaseInterval& phase : index.steps()[id].step->phases) {
      rows.Integer(id).Text(PhaseKindName(phase.kind)).Integer(phase.start_ns - run.model.start_ns);
      rows.Integer(phase.end_ns - run.model.start_ns).End();
    }
  }
}

void FillCalls(const Timeline& run, TableRows& rows) {
  const CallColumns& calls = run.model.calls;
  const Attribution& attribution = run.analysis.attribution();
  StepIndex steps(run.model, run.analysis.steps());
  const std::vector<PythonPlace> places = ReadPythonPlaces(run.model);
  ExportProgress progress(run, calls.size());
  for (CallIndex call = 0; call < calls.size(); ++call) {
    progress.Next();
    const ThreadIndex thread = calls.thread[call];
    const uint32_t step = steps.OfCall(call);
    const Place place = attribution.of_call[call];
    rows.Integer(call).Integer(thread).Integer(calls.op[call]).Integer(calls.start_ns[call] - run.model.start_ns);
    rows.Integer(calls.duration_ns[call]).Integer(calls.self_ns[call]).Index(calls.parent[call]);
    rows.Index(calls.ScopeOf(call)).Index(step).Index(place.layer).Text(DirectionWord(place.direction));
    const StackIndex stack = run.model.PythonStackOf(call);
    rows.Integer(run.model.StatusOf(call)).Text(stack == kNone ? "" : LineLabel(run.model, places[stack])).End();
  }
}

void FillTotals(const Timeline& run, TableRows& rows) {
  for (const AggregateRow& row : run.model.aggregates) {
    rows.Integer(row.thread).Integer(row.op).Integer(row.window_start_ns - run.model.start_ns);
    rows.Integer(row.window_end_ns - run.model.start_ns).Integer(row.count).Integer(row.sum_ns).Integer(row.min_ns);
    rows.Integer(row.max_ns).Integer(row.nested_count).Integer(row.nested_sum_ns).End();
  }
}

void FillScopes(const Timeline& run, TableRows& rows) {
  const ScopeColumns& scopes = run.model.scopes;
  const Attribution& attribution = run.analysis.attribution();
  const std::vector<PythonPlace> places = ReadPythonPlaces(run.model);
  ExportProgress progress(run, scopes.size());
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    progress.Next();
    const Place place = attribution.PlaceOfScope(scope);
    const StackIndex stack = scopes.look[scope].stack;
    rows.Integer(scope).Integer(scopes.thread[scope]).Text(run.model.names[scopes.look[scope].name]);
    rows.Text(EnumName(scopes.look[scope].kind)).Integer(scopes.start_ns[scope] - run.model.start_ns);
    rows.Integer(scopes.duration_ns[scope]).Index(scopes.parent[scope]);
    rows.Known(scopes.link[scope] >= 0 ? std::optional(scopes.link[scope]) : std::nullopt).Index(place.layer);
    rows.Text(DirectionWord(place.direction)).Text(stack == kNone ? "" : LineLabel(run.model, places[stack])).End();
  }
}

void FillGpu(const Timeline& run, TableRows& rows) {
  const GpuActivityColumns& gpu = run.model.gpu;
  const std::vector<Place> places = GpuPlaces(run.model, run.analysis.attribution());
  StepIndex steps(run.model, run.analysis.steps());
  ExportProgress progress(run, gpu.size());
  for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
    progress.Next();
    const GpuDevice& device = run.model.gpu_devices[gpu.device[activity]];
    const uint32_t step = steps.At(device.process, gpu.thread[activity], GpuAskedNs(run.model, activity));
    const GpuKernelIndex kernel = gpu.kernel[activity];
    const NameIndex name = kernel == kNone ? kNone : run.model.gpu_kernels[kernel].name;
    rows.Integer(activity).Integer(device.process).Integer(device.ordinal).Integer(gpu.stream[activity]);
    rows.Text(EnumName(gpu.kind[activity])).Text(name == kNone ? "" : run.model.names[name]);
    rows.Integer(gpu.start_ns[activity] - run.model.start_ns).Integer(gpu.end_ns[activity] - run.model.start_ns);
    rows.Integer(static_cast<int64_t>(gpu.bytes[activity]));
    rows.Text(gpu.direction[activity] == CopyDirection::kUnknown ? "" : EnumName(gpu.direction[activity]));
    rows.Index(gpu.launch_call[activity]).Index(gpu.call[activity]).Index(step).Index(places[activity].layer);
    rows.Text(DirectionWord(places[activity].direction)).End();
  }
}

void FillCounters(const Timeline& run, TableRows& rows) {
  const CountedRun counted = ReadCounters(run.model);
  for (const CounterTimeline& counts : counted.timelines) {
    for (size_t i = 0; i < counts.size(); ++i) {
      for (size_t counter = 0; counter < counts.counters.size(); ++counter) {
        rows.Integer(counts.process).Index(counts.thread).Integer(counts.tid);
        rows.Text(run.model.names[counted.counters[counts.counters[counter]]]);
        rows.Integer(counts.start_ns[i] - run.model.start_ns).Integer(counts.end_ns[i] - run.model.start_ns);
        rows.Integer(counts.AmountsOf(i)[counter]).End();
      }
    }
  }
}

void FillMemory(const Timeline& run, TableRows& rows) {
  for (const LoadSample& load : run.model.loads) {
    if (load.resident_bytes == 0) continue;
    rows.Integer(load.process).Integer(load.time_ns - run.model.start_ns).Integer(load.resident_bytes).End();
  }
}

}  // namespace

std::string DirectionWord(LayerDirection direction) {
  return direction == LayerDirection::kUnknown ? "" : LayerDirectionName(direction);
}

const std::vector<RawTable>& RawTables() {
  static const auto& kTables = *new std::vector<RawTable>{
      {"raw_processes",
       "Processes with recorded calls",
       true,
       {NumberColumn("process_id", "Number within the run."), NumberColumn("pid", "The system's number."),
        NumberColumn("parent_pid", "Its parent's."), TextColumn("host", "The machine."),
        TextColumn("program", "Base name."),
        TextColumn("script", "The interpreter's first argument that names a file."),
        Number("rank", "", "Its rank in the job; NULL: none is known."), TextColumn("ranks", "Variables that tell it."),
        TextColumn("file", "Its process trace."), Start(), End(),
        Number("world_size", "", "Ranks of the job, as its launcher says."),
        Number("local_rank", "", "On its machine."),
        TextColumn("boot_id", "Of the machine's kernel: the same for processes that share a clock."),
        TextColumn("dlhook_version", "That recorded it."),
        Number("start_unix_ns", "ns", "start_ns in CLOCK_REALTIME, since 1970."),
        Number("time_zero_unix_ns", "ns", "Time 0 of this export's *_ns columns, likewise. Clocks of machines differ."),
        TextColumn("job",
                   "What tells it from other jobs, by its launcher: of Slurm, MPI or torchrun its id, else "
                   "MASTER_ADDR:MASTER_PORT; NULL: nothing does."),
        Number("restart", "", "How often torchrun had restarted its workers; NULL: not known.")},
       FillProcesses},
      {"raw_threads",
       "Threads with recorded calls or scopes",
       true,
       {NumberColumn("thread_id", "Number within the run."), NumberColumn("process_id", "Of raw_processes."),
        NumberColumn("tid", "The system's number."), TextColumn("name", "As the program named it.")},
       FillThreads},
      {"raw_ops",
       "What calls computed, and how: each combination once",
       true,
       {NumberColumn("op_id", "Number within the run."),
        TextColumn("label", "Function, implementation and problem."),
        TextColumn("op", "Kind of work, as in the table ops."),
        TextColumn("function", "The function called, or tap."),
        TextColumn("family", "Of libraries."),
        TextColumn("direction", "As the op itself says."),
        TextColumn("problem", "Sizes."),
        TextColumn("types", "Of the operands."),
        TextColumn("formats", "Of the tensors in memory."),
        TextColumn("algorithm", "Chosen by the library."),
        TextColumn("implementation", "Chosen by the library."),
        TextColumn("post_ops", "Fused after it."),
        TextColumn("compute_type", "Of cuBLAS and cuDNN."),
        TextColumn("math_mode", "Of cuBLAS and cuDNN."),
        TextColumn("chosen_by", "Who chose the algorithm."),
        TextColumn("kernel", "Of a launch."),
        Number("flops", "flops", "Of a call, by the books."),
        Number("bytes", "bytes", "Of a call: operands read and written once."),
        Number("on_gpu", "", "1: a GPU's work."),
        Number("asynchronous", "", "1: calls do not wait for the work.")},
       FillOps},
      {"raw_layers",
       "Layers of the network",
       true,
       {NumberColumn("layer_id", "Number within the run."), TextColumn("model", "The network, if there are several."),
        TextColumn("name", "As in the table layers."), TextColumn("module", "The innermost module."),
        TextColumn("type", "Kind of work."), TextColumn("line", "Of the program."),
        TextColumn("matched_by", "How calls were matched to it.")},
       FillLayers},
      {"raw_steps",
       "Steps of the program",
       true,
       {NumberColumn("step_id", "Number within the run."), NumberColumn("process_id", "Of raw_processes."),
        NumberColumn("thread_id", "Whose steps they are; NULL: the whole process's."),
        Number("number", "", "Within its process or thread, from 0: index of the table steps."),
        TextColumn("kind", "training, validation, inference, and what tells it from others."), Start(), End(),
        Number("batch", "", "Batch size; NULL: not known."), Number("warm_up", "", "1: before steps are steady."),
        Number("steady", "", "1: included in the means of the tables."),
        TextColumn("left_out", "Why it is not; NULL: it is."),
        Number("no_processor_ns", "ns",
               "Its thread (of a process, the first) was runnable, waiting for a CPU; NULL: not known."),
        Number("exposed_communication_ns", "ns",
               "GPU kernels of collectives ran and no other kernel, over its GPUs; NULL: not measured.")},
       FillSteps},
      {"raw_phases",
       "Phases of steps",
       false,
       {NumberColumn("step_id", "Of raw_steps."),
        TextColumn("phase", "input, forward, backward, update, inference, other."), Start(), End()},
       FillPhases},
      {"raw_collectives",
       "Collective operations of each rank, in order",
       false,
       {NumberColumn("process_id", "Of raw_processes."),
        Number("step", "", "raw_steps.number of the step in which it was called; NULL: in none."),
        TextColumn("communicator", "Known for all ranks of the job alone, and then equal on all; NULL: not known."),
        Number("communicator_number", "", "Within the process, in the order of first use; NULL: not known."),
        Number("members", "", "Ranks in the communicator; NULL: not known."),
        Number("sequence", "",
               "Which of its communicator it is on this rank, from 0; where no communicator is known, which of its "
               "library, kind and bytes. NULL: not known, as calls before it are."),
        TextColumn("kind", "all reduce, all gather, reduce scatter, broadcast …"),
        Number("bytes", "bytes", "As in the table collectives; NULL: not known."),
        TextColumn("library", "NCCL, MPI, gloo …"), Start(),
        Number("end_ns", "ns",
               "Both of the GPU's work, where it is known, else of the call; NULL: not known, as the call does not "
               "wait.")},
       FillCollectives},
      {"raw_work",
       "What steps did, by layer and operation, over windows of 50 steps",
       false,
       {NumberColumn("process_id", "Of raw_processes."),
        Number("first_step", "", "Of the window: a multiple of 50; raw_steps.number."),
        Number("steps", "", "Steady steps of the kind in it, of which the row is."),
        TextColumn("kind", "Of these steps: raw_steps.kind."),
        TextColumn("layer", "raw_layers.name; NULL: of no layer."), DirectionText(),
        TextColumn("op", "Of a call raw_ops.op, else the framework's op; of GPU work without a call its kind."),
        TextColumn("implementation", "Chosen by the library; else the kernel."),
        Number("on_gpu", "",
               "1: a GPU's work, by its durations. 0: self time of calls and ops on their threads, without waiting for "
               "a GPU and without collectives."),
        Number("count", "", "Calls, ops or pieces of GPU work."), Number("sum_ns", "ns", "Of all."),
        Number("min_ns", "ns", "Of one, the least."), Number("max_ns", "ns", "The most.")},
       FillWork},
      {"raw_calls",
       "Library calls",
       true,
       {NumberColumn("call_id", "Number within the run."), NumberColumn("thread_id", "Of raw_threads."),
        NumberColumn("op_id", "Of raw_ops."), Start(), Number("duration_ns", "ns", "Of the call."),
        Number("self_ns", "ns", "Without calls made inside it."),
        NumberColumn("parent_call_id", "The call that it was made in."),
        NumberColumn("scope_id", "The innermost scope around it."),
        NumberColumn("step_id", "The step in which it began."), LayerId(), DirectionText(),
        Number("status", "", "What it returned; 0: success, or it returns no status."),
        TextColumn("line", "Of the program.")},
       FillCalls},
      {"raw_call_totals",
       "Calls of which only totals were kept",
       false,
       {NumberColumn("thread_id", "Of raw_threads."), NumberColumn("op_id", "Of raw_ops."), Start(), End(),
        Number("calls", "", "Calls."), Number("total_ns", "ns", "Their durations."),
        Number("min_ns", "ns", "The shortest."), Number("max_ns", "ns", "The longest."),
        Number("nested_calls", "", "Calls made in other calls."), Number("nested_ns", "ns", "Their durations.")},
       FillTotals},
      {"raw_scopes",
       "Framework ops, backward nodes, ranges of the program",
       true,
       {NumberColumn("scope_id", "Number within the run."), NumberColumn("thread_id", "Of raw_threads."),
        TextColumn("name", "As reported."), TextColumn("kind", "framework_op, backward_node, user_range …"), Start(),
        Number("duration_ns", "ns", "Of the scope."), NumberColumn("parent_scope_id", "The scope around it."),
        NumberColumn("link", "A forward op and its backward node have the same one, on the same thread."), LayerId(),
        DirectionText(), TextColumn("line", "Of the program.")},
       FillScopes},
      {"raw_gpu_activities",
       "Work of GPUs: kernels, copies, memsets, and whole calls timed by events",
       true,
       {NumberColumn("activity_id", "Number within the run."), NumberColumn("process_id", "Of raw_processes."),
        NumberColumn("device", "CUDA's number within the process."), NumberColumn("stream", "Within the process."),
        TextColumn("kind", "kernel, copy, set, op, graph."), TextColumn("kernel", "Full name."), Start(), End(),
        Number("bytes", "bytes", "Of copies and memsets."), TextColumn("copy_direction", "host_to_device …"),
        NumberColumn("launch_call_id", "The call that launched it."),
        NumberColumn("call_id", "The call that it was done for: of a graph's node the captured one."),
        NumberColumn("step_id", "The step that launched it."), LayerId(), DirectionText()},
       FillGpu},
      {"raw_time",
       "Activities over time: the wall time of each process, divided exactly",
       false,
       {NumberColumn("process_id", "Of raw_processes."),
        NumberColumn("thread_id", "Of raw_threads; NULL: no thread is known to do anything."),
        NumberColumn("step_id", "Of raw_steps; NULL: in no step."), TextColumn("phase", "Of the step; NULL: in none."),
        TextColumn("activity", "library, framework, not seen, data loading, waiting, [unattributed]."),
        NumberColumn("call_id", "Of library and waiting."), NumberColumn("scope_id", "Of framework and data loading."),
        LayerId(), DirectionText(),
        TextColumn("line", "Of what is not seen: the lines of the program it lies between."), Start(), End(),
        Number("share_ns", "ns",
               "Wall share: each instant is divided equally among the threads that work. Adds up to the wall time.")},
       FillTime},
      {"raw_counters",
       "What threads counted, by interval",
       false,
       {NumberColumn("process_id", "Of raw_processes."),
        NumberColumn("thread_id", "Of raw_threads; NULL: a thread without calls."),
        NumberColumn("tid", "The system's number."), TextColumn("counter", "Its name."), Start(), End(),
        Number("amount", "", "Counted in the interval.")},
       FillCounters},
      {"raw_memory",
       "Resident memory of processes over time",
       false,
       {NumberColumn("process_id", "Of raw_processes."), Number("time_ns", "ns", "Since the run began."),
        Number("resident_bytes", "bytes", "In the machine's memory.")},
       FillMemory},
  };
  return kTables;
}

}  // namespace dlhook::analyzer::exports
