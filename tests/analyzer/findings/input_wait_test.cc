// Rule input-wait: how many workers help, by who was late and which processors are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace input_wait_test {

using testing::HasSubstr;

constexpr int kSteps = 40;
constexpr int64_t kMs = 1'000'000;

struct Spec {
  int64_t input_ms = 30;  // of a step of 40 ms
  double cpu = 1;         // threads of the program that run
  uint32_t processors = 2;
};

// The gain in milliseconds, and the advice.
std::pair<int64_t, std::string> Found(const Spec& spec) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex product = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * 40 * kMs;
    program.Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at_ns, at_ns + spec.input_ms * kMs);
    builder.Call(product, at_ns + spec.input_ms * kMs, (40 - spec.input_ms) * kMs);
    starts.push_back(at_ns + 40 * kMs);
    LoadSample sample;
    sample.time_ns = at_ns;
    sample.cpu_ns = static_cast<int64_t>(spec.cpu * static_cast<double>(at_ns));
    sample.processors = spec.processors;
    builder.model().loads.push_back(sample);
  }
  builder.model().processes.front().processors = spec.processors;
  program.Steps(starts);
  program.Build(kSteps * 40 * kMs);
  const Table table = program.Make(ReportTables().front());
  const std::vector<size_t> rows = RowsWhere(table, {{"rule", "input-wait"}});
  if (rows.size() != 1) return {};
  return {(Integer(table, rows[0], "gain") + kMs / 2) / kMs, Text(table, rows[0], "advice")};
}

TEST(InputWait, WhatSleepsNeedsNoProcessors) {
  const auto [gain_ms, advice] = Found({.cpu = 0.25});
  EXPECT_EQ(gain_ms, 30);
  EXPECT_THAT(advice, HasSubstr("num_workers=3,"));
}

TEST(InputWait, WhatComputesGetsTheProcessorsThatAreThere) {
  const auto [gain_ms, advice] = Found({.cpu = 1});
  EXPECT_EQ(gain_ms, 20) << "40 ms of processor time on two processors";
  EXPECT_THAT(advice, HasSubstr("num_workers=2,"));
  EXPECT_THAT(advice, HasSubstr("then all processors (2) compute"));
}

TEST(InputWait, WithoutFreeProcessorsWorkersDoNotHelp) {
  const auto [gain_ms, advice] = Found({.cpu = 1, .processors = 1});
  EXPECT_EQ(gain_ms, 30) << "at most all of the wait, by less work";
  EXPECT_THAT(advice, HasSubstr("More workers do not help, as all processors (1) compute"));
}

TEST(InputWait, WorkersAreNotWithoutNumber) {
  const auto [gain_ms, advice] = Found({.input_ms = 39, .cpu = 0.1});
  EXPECT_THAT(advice, HasSubstr("num_workers=16,"));
  EXPECT_EQ(gain_ms, 38) << "39 ms in 16 workers are 2.4 ms a batch";
}

TEST(InputWait, LittleOfItIsNone) { EXPECT_EQ(Found({.input_ms = 1}).second, ""); }

// A loader starts its workers anew for each of two epochs: of a step of 40 units they compute 4 and are blocked in `place`.
struct WorkersSpec {
  const char* place = "sleep";
  int64_t unit_ns = kMs;
  bool has_samples = false;
  std::array<int64_t, 2> states = {4, 36};  // running and in `place`
  std::string file = "train.py";
};

// The finding and its advice.
std::string OfWorkers(const WorkersSpec& spec) {
  const int64_t unit_ns = spec.unit_ns;
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex product = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * 40 * unit_ns;
    program.Scope("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at_ns, at_ns + 30 * unit_ns);
    builder.Call(product, at_ns + 30 * unit_ns, 10 * unit_ns);
    starts.push_back(at_ns + 40 * unit_ns);
  }
  const StackIndex item = builder.AddStack({{spec.file, "Rows.__getitem__", 17}, {spec.file, "<module>", 3}});
  const StackIndex read = builder.AddStack({{"train.py", "Rows.read", 11}, {"train.py", "Rows.__getitem__", 17}});
  TraceModel& model = builder.model();
  model.processes.front().realtime_offset_ns = (std::time(nullptr) + 60) * 1'000'000'000;  // after its file was written
  for (uint32_t worker = 0; worker < 4; ++worker) {
    const ProcessIndex process = builder.AddProcess();
    const ThreadIndex thread = builder.AddThread(process);
    const int64_t first = worker < 2 ? 0 : kSteps / 2;
    model.processes[process].pid = 70 + worker;
    model.processes[process].parent_pid = model.processes[0].pid;
    CounterSeries series = {.process = process, .thread = thread, .tid = 70 + worker, .kind = CounterKind::kStates};
    for (const char* name : {"running", "queued", "child", spec.place}) series.names.push_back(builder.AddName(name));
    for (int64_t step = first; step < first + kSteps / 2; ++step) {
      series.time_ns.push_back(step * 40 * unit_ns + 20 * unit_ns);
      for (const int64_t units : {spec.states[0], int64_t{0}, int64_t{0}, spec.states[1]})
        series.value.push_back(static_cast<uint64_t>((step - first) * units * unit_ns));
      for (const int64_t units : {0, 20})
        builder.Scope("aten::empty", ScopeKind::kFrameworkOp, (step * 40 + units) * unit_ns, unit_ns, thread, -1, item);
      if (spec.has_samples) builder.Sample((step * 40 + 10) * unit_ns, 4 * unit_ns, kNone, read, thread);
    }
    model.states.push_back(std::move(series));
  }
  program.Steps(starts);
  for (const int64_t start_ns : starts) program.Phase(PhaseKind::kInput, start_ns, start_ns + 30 * unit_ns);
  program.Build(kSteps * 40 * unit_ns);
  const Table table = program.Make(ReportTables().front());
  const size_t row = RowWhere(table, {{"rule", "input-wait"}});
  return Text(table, row, "finding") + " " + Text(table, row, "advice");
}

TEST(InputWait, OnlyWorkersOfTheSameTimeAreCounted) {
  const std::string found = OfWorkers({});
  EXPECT_THAT(found, HasSubstr("Meanwhile its 2 workers computed 10 %"));
  EXPECT_THAT(found, HasSubstr("Most of their time passes at Rows.__getitem__ (train.py:17)."));
  EXPECT_THAT(found, HasSubstr("num_workers=8,"));
}

TEST(InputWait, SamplesTellTheFunctionOfWorkers) {
  EXPECT_THAT(OfWorkers({.has_samples = true}), HasSubstr("Most samples met them in Rows.read (train.py:11)"));
}

TEST(InputWait, WorkersWaitForEachOthersLock) {
  EXPECT_THAT(OfWorkers({.place = "lock"}),
              HasSubstr("The workers wait for a lock: if it is one for all of them, more of them do not"));
  EXPECT_THAT(OfWorkers({.place = "other"}), HasSubstr("(not if they take turns at it: a file's lock, say)"));
  EXPECT_THAT(OfWorkers({}), testing::Not(HasSubstr("take turns")));
}

TEST(InputWait, WorkersWaitForALockOfAFileThatTheirLinesName) {
  const std::string file = testing::TempDir() + "/train.py";
  for (const char* call : {"fcntl.flock(f, fcntl.LOCK_EX)", "time.clock(); block(f)"}) {
    std::ofstream(file) << "def item(f):" << std::string(15, '\n') << "  " << call << "\n  return f\n";
    const bool is_lock = call[0] == 'f';
    EXPECT_THAT(
        OfWorkers({.place = "other", .file = file}),
        HasSubstr(is_lock ? "the program names a lock: if it is one for all" : "mostly waits for something else"));
  }
  std::filesystem::remove(file);
}

// What samples met at a line comes before what may be done about all of it.
TEST(InputWait, WhatSamplesMetIsToBeLookedAtFirst) {
  const std::string found = OfWorkers({.has_samples = true, .states = {36, 4}});
  EXPECT_THAT(found, HasSubstr("Look at train.py:11 first: what it opens, reads, decodes"));
  EXPECT_THAT(found, HasSubstr(" Else: DataLoader("));
  EXPECT_THAT(OfWorkers({.states = {36, 4}}), HasSubstr("dlhook run --sample names the line."));
}

// The program itself prepares batches of 32 rows; samples of it are in these libraries, at these lines of one function each.
using Places = std::vector<std::pair<const char*, uint32_t>>;
std::string OfProgram(const Places& places, int64_t batch = 32, int numbers = 0) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex product = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  std::vector<int64_t> starts = {0};
  const StackIndex rows = builder.AddStack({{"train.py", "Rows.__getitem__", 34}, {"train.py", "<module>", 3}}),
                   collate =
                       builder.AddStack({{"/v/site-packages/torch/utils/data/_utils/collate.py", "collate_float_fn", 9},
                                         {"train.py", "<module>", 3}});
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * 40 * kMs;
    builder.Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ScopeKind::kUserRange, at_ns,
                  30 * kMs);
    for (int64_t row = 0; row < (numbers == 0 ? 32 : 0); ++row)
      builder.Scope("aten::empty", ScopeKind::kFrameworkOp, at_ns + row * 900'000, 1'000, 0, -1, rows);
    for (int number = 0; number < numbers; ++number)
      builder.Scope("aten::lift_fresh", ScopeKind::kFrameworkOp, at_ns + number * 30 * kMs / numbers, 500, 0, -1,
                    collate);
    for (size_t i = 0; i < places.size(); ++i) {
      const auto& [library, line] = places[i];
      const StackIndex stack =
          builder.AddStack({{"train.py", "Rows.f" + std::to_string(line), line}, {"train.py", "Rows.__getitem__", 30}});
      const FrameIndex native =
          library == nullptr ? kNone : builder.AddNativeStack({"f"}, std::string("/lib/") + library);
      builder.Sample(at_ns + static_cast<int64_t>(i + 1) * 900'000 + 500'000, kMs, native, stack);
    }
    builder.Call(product, at_ns + 30 * kMs, 10 * kMs);
    starts.push_back(at_ns + 40 * kMs);
  }
  program.Steps(starts);
  if (batch > 0) program.Batch(batch);
  program.Build(kSteps * 40 * kMs);
  const Table table = program.Make(ReportTables().front());
  const size_t row = RowWhere(table, {{"rule", "input-wait"}});
  return Text(table, row, "line") + ": " + Text(table, row, "finding") + " " + Text(table, row, "advice");
}

// A line is one whoever's code computes there; a library one wherever it is called.
TEST(InputWait, SamplesAreSummedByLineThenByLibrary) {
  const std::string by_line = OfProgram({{nullptr, 18}, {"libnumpy.so", 18}, {"libjson.so", 20}});
  EXPECT_THAT(by_line,
              HasSubstr("Most samples met it in Rows.f18 (train.py:18), computing in Python and libnumpy.so."));
  EXPECT_THAT(by_line, HasSubstr("train.py:18: The program prepares"));
  EXPECT_THAT(
      OfProgram({{"liblmdb.so", 19}, {"liblmdb.so", 33}, {"libnumpy.so", 40}, {"liblmdb.so", 19}, {nullptr, 50}}),
      HasSubstr("Most samples met it in liblmdb.so, most of these called in Rows.f19 (train.py:19)."));
  EXPECT_THAT(OfProgram({{nullptr, 10}, {nullptr, 11}, {nullptr, 12}, {nullptr, 12}}),
              HasSubstr("50 % of the samples met it in Rows.f12 (train.py:12), computing in Python."));
}

TEST(InputWait, RowsAreCountedByTheBatch) {
  EXPECT_THAT(OfProgram({}), HasSubstr("Rows are fetched one by one, 32 a training step, in Rows.__getitem__"));
  EXPECT_THAT(OfProgram({}, 0), HasSubstr("Rows are fetched one by one in Rows.__getitem__"));
}

TEST(InputWait, ListsOfNumbersAreCollatedByPosition) {
  EXPECT_THAT(OfProgram({}, 32, 300), HasSubstr("default_collate makes 300 tensors for a batch, one of each position. "
                                                "Return one tensor or array for each item"));
  EXPECT_THAT(OfProgram({}, 32, 2), testing::Not(HasSubstr("default_collate")));
}

// What takes them 1 ms at most is handed over for as much.
TEST(InputWait, WorkersOfCheapBatchesAreOneTooMany) {
  EXPECT_THAT(OfWorkers({.place = "poll", .unit_ns = 30'000}),
              HasSubstr("num_workers=0: a batch takes the workers at most 780 us, hardly more than to hand it over"));
  EXPECT_THAT(OfWorkers({.place = "poll"}), HasSubstr("The workers wait for work: more batches ahead"));
}

// A pipeline of tf.data: two of TensorFlow's threads prepare a batch in 30 ms of a step of 40 ms. `states`: what one of them did in
// a step, in milliseconds: running, queued, in a lock, asleep.
struct PipelineSpec {
  std::vector<std::string> nodes;
  std::array<int64_t, 4> states = {};
  int64_t rows = 2;  // of a batch, each computed by a node of its own
};

// The finding and its advice.
std::string OfPipeline(const PipelineSpec& spec) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex product = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  const std::array threads = {builder.AddThread(), builder.AddThread()};
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * 40 * kMs;
    builder.Scope("Iterator::Root::Prefetch", ScopeKind::kTraceMe, at_ns, 30 * kMs);
    for (const ThreadIndex thread : threads) {
      const int64_t node_ns = 58 * kMs / spec.rows;
      for (int64_t row = 0; row < spec.rows / 2; ++row)
        builder.Scope(spec.nodes[static_cast<size_t>(step) % spec.nodes.size()], ScopeKind::kGraphNode,
                      at_ns + row * node_ns, node_ns, thread);
    }
    builder.Call(product, at_ns + 30 * kMs, 10 * kMs);
    starts.push_back(at_ns + 40 * kMs);
  }
  for (const ThreadIndex thread : threads) {
    CounterSeries series = {.thread = thread, .tid = 70 + thread, .kind = CounterKind::kStates};
    for (const char* name : {"running", "queued", "lock", "sleep"}) series.names.push_back(builder.AddName(name));
    for (int step = 0; step < kSteps; ++step) {
      series.time_ns.push_back(step * 40 * kMs + 20 * kMs);
      for (const int64_t ms : spec.states) series.value.push_back(static_cast<uint64_t>(step * ms * kMs));
    }
    builder.model().states.push_back(std::move(series));
  }
  builder.model().processes.front().processors = 2;
  program.Steps(starts);
  if (spec.rows > 2) program.Batch(64);
  for (const int64_t start_ns : starts) program.Phase(PhaseKind::kInput, start_ns, start_ns + 30 * kMs);
  program.Build(kSteps * 40 * kMs);
  const Table table = program.Make(ReportTables().front());
  const std::vector<size_t> rows = RowsWhere(table, {{"rule", "input-wait"}});
  return rows.size() == 1 ? Text(table, rows[0], "finding") + " " + Text(table, rows[0], "advice") : "";
}

TEST(InputWaitOfTensorFlow, PythonThatSleeps) {
  const std::string found = OfPipeline({{"PyFunc:PyFunc"}, {4, 0, 0, 36}});
  EXPECT_THAT(found, HasSubstr("waits for its pipeline of tf.data: 30.0 ms of a 40.0 ms training step"));
  EXPECT_THAT(found,
              HasSubstr("Meanwhile the pipeline's operations (mostly PyFunc, in 2 threads) computed 10 %, waited for a "
                        "processor 0 %, were blocked 90 % (in sleep)"));
  EXPECT_THAT(found, HasSubstr("num_parallel_calls=8) and .prefetch(tf.data.AUTOTUNE)"));
}

TEST(InputWaitOfTensorFlow, RowsOneByOne) {
  const std::string found = OfPipeline({{"map/Relu:Relu"}, {20, 0, 20, 0}, 64});
  EXPECT_THAT(found, HasSubstr("It computes each row on its own: Relu runs about 64 times a training step."));
  EXPECT_THAT(found, HasSubstr("Dataset.batch(n) before .map(f)"));
  EXPECT_THAT(OfPipeline({{"map/Relu:Relu"}, {20, 0, 20, 0}, 32}), testing::Not(HasSubstr("on its own")));
  const std::string decoded = OfPipeline({{"map/DecodePng:DecodePng"}, {20, 0, 20, 0}, 64});
  EXPECT_THAT(decoded, HasSubstr("It reads or decodes each row: DecodePng runs about 64 times a training step."));
  EXPECT_THAT(decoded, HasSubstr("If each epoch reads the same, Dataset.cache() behind that. Else: "));
}

TEST(InputWaitOfTensorFlow, PythonThatComputes) {
  const std::string found = OfPipeline({{"PyFunc:PyFunc"}, {20, 0, 20, 0}});
  EXPECT_THAT(found, HasSubstr("computed 50 %, waited for a processor 0 %, were blocked 50 % (in lock)"));
  EXPECT_THAT(found, HasSubstr("of which mostly one at a time computes"));
}

TEST(InputWaitOfTensorFlow, ThreadsOfItsPool) {
  const std::string found = OfPipeline({{"resize:ScaleAndTranslate"}, {8, 8, 24, 0}});
  EXPECT_THAT(found, HasSubstr("or for threads of TensorFlow's own that compute: more of them do not help."));
  EXPECT_THAT(found, HasSubstr("Dataset.cache() behind what makes the same in each epoch"));
}

TEST(InputWaitOfTensorFlow, PythonWithoutAProcessor) {
  EXPECT_THAT(OfPipeline({{"PyFunc:PyFunc"}, {10, 25, 5, 0}}),
              HasSubstr("wait for a processor: more of them do not help"));
}

TEST(InputWaitOfTensorFlow, SeveralOperationsWithoutAProcessor) {
  const std::string found = OfPipeline({{"a:DecodeJpeg", "b:Resize", "c:Cast"}, {10, 30, 0, 0}});
  EXPECT_THAT(found, HasSubstr("the pipeline's operations (in 2 threads) computed 25 %, waited for a processor 75 %"));
  EXPECT_THAT(found, HasSubstr("wait for a processor: more of them do not help"));
}

// A process of a pool that computes for 1 ms of each 4: not if it computes for most of the time, nor if it has children itself.
TEST(InputWait, IsAPoolsToo) {
  constexpr int kRequests = 60;
  const auto finding = [](int64_t pause_ns, bool has_child) {
    GpuProgram program;
    ModelBuilder& builder = program.builder();
    const OpIndex product = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
    const StackIndex stack =
        builder.AddStack({{"/home/u/work.py", "work", 5}, {"/usr/lib/multiprocessing/pool.py", "worker", 125}});
    std::vector<int64_t> starts;
    for (int request = 0; request <= kRequests; ++request) starts.push_back(request * 4 * kMs);
    for (int request = 0; request < kRequests; ++request) {
      builder.Scope("range", ScopeKind::kUserRange, starts[static_cast<size_t>(request)], 100, 0, -1, stack);
      builder.Call(product, starts[static_cast<size_t>(request)] + 1000, 4 * kMs - pause_ns - 2000);
    }
    builder.model().processes.front().pid = 7;
    builder.model().processes.front().parent_pid = has_child ? 7 : 1;
    program.Steps(starts, 0, StepKind::kInference, pause_ns);
    program.Build(kRequests * 4 * kMs);
    const Table table = program.Make(ReportTables().front());
    const std::vector<size_t> rows = RowsWhere(table, {{"rule", "input-wait"}});
    return rows.size() == 1 ? Text(table, rows[0], "finding") : "";
  };
  EXPECT_THAT(finding(3 * kMs, false), HasSubstr("Processes of a pool (1) compute for 25 % of the time"));
  EXPECT_EQ(finding(kMs, false), "");
  EXPECT_EQ(finding(3 * kMs, true), "");
}

}  // namespace input_wait_test
}  // namespace dlhook::analyzer
