// Traces of torch.profiler as JSON, read as a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/reader/load_run.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// One event; `args` without braces.
std::string Event(const std::string& category, const std::string& name, double us, double duration,
                  const std::string& args = "", int thread = 7) {
  return absl::StrCat("{\"ph\": \"X\", \"cat\": \"", category, "\", \"name\": \"", name,
                      "\", \"pid\": 7, \"tid\": ", thread, ", \"ts\": ", us, ", \"dur\": ", duration, ", \"args\": {",
                      args, "}}");
}

std::string Json(const std::vector<std::string>& events, const std::string& facts = "") {
  return absl::StrCat("{\"schemaVersion\": 1, ", facts, "\"traceEvents\": [\n", absl::StrJoin(events, ",\n"),
                      "\n], \"baseTimeNanoseconds\": 1700000000000000000}");
}

constexpr char kTwoMatrices[] =
    R"("Input Dims": [[4, 8], [8, 16]], "Input Strides": [[8, 1], [1, 8]], "Input type": ["c10::BFloat16", "c10::BFloat16"])";

// A product on a GPU: the operator, its launch, its kernel; inside a linear layer.
std::vector<std::string> Product() {
  return {
      Event("user_annotation", "ProfilerStep#3", 100, 50),
      Event("python_function", "train.py(3): <module>", 90, 100),
      Event("python_function", "nn.Module: Net_0", 101, 40),
      Event("python_function", "nn.Module: Linear_4", 102, 38),
      Event("cpu_op", "aten::linear", 103, 30, R"("Input Dims": [[4, 8], [16, 8]], "Input type": ["float", "float"])"),
      Event("cpu_op", "aten::mm", 104, 20, kTwoMatrices),
      Event("cuda_runtime", "cudaLaunchKernel", 106, 5, "\"correlation\": 11"),
      Event("kernel", "gemm_kernel", 120.5, 9.25,
            R"("correlation": 11, "device": 1, "stream": 7, "context": 1, "grid": [2, 3, 1], "block": [128, 1, 1])"),
      Event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 130, 2, R"("correlation": 12, "device": 1, "bytes": 4096)"),
      Event("cuda_runtime", "cudaMemcpyAsync", 126, 3, "\"correlation\": 12")};
}

class Kineto : public testing::Test {
 protected:
  absl::StatusOr<LoadedRun> Load(const std::string& name, const std::string& text) {
    return LoadRun(folder_.Write(name, text));
  }
  TraceModel Model(const std::vector<std::string>& events, const std::string& facts = "") {
    absl::StatusOr<LoadedRun> run = Load("t.json", Json(events, facts));
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_THAT(run->damage, testing::IsEmpty());
    return std::move(run->model);
  }
  // Why nothing, or not everything, could be read.
  std::string Trouble(const std::string& name, const std::string& text) {
    const absl::StatusOr<LoadedRun> run = Load(name, text);
    if (!run.ok()) return std::string(run.status().message());
    return run->damage.empty() ? "" : std::string(run->damage.front().message());
  }

  TemporaryFolder folder_;
};

const Op* FindOp(const TraceModel& model, const std::string& function) {
  const auto found =
      std::find_if(model.ops.begin(), model.ops.end(), [&](const Op& op) { return op.function == function; });
  return found == model.ops.end() ? nullptr : &*found;
}

TEST_F(Kineto, ProductWithItsKernel) {
  const TraceModel model = Model(Product());
  const Op* product = FindOp(model, "aten::mm");
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->problem, "m4 n16 k8 NT bf16 row-major");
  EXPECT_EQ(product->flops, 2 * 4 * 16 * 8);
  EXPECT_TRUE(product->on_gpu);
  EXPECT_EQ(FindOp(model, "aten::linear"), nullptr);  // consists of the product
  ASSERT_EQ(model.gpu.size(), 2u);
  EXPECT_EQ(model.gpu.DurationNs(0), 9250);
  const CallIndex launch = model.gpu.call[0];
  ASSERT_NE(launch, kNone);
  EXPECT_EQ(model.ops[model.calls.op[launch]].function, "cudaLaunchKernel");
  EXPECT_EQ(model.ops[model.calls.op[model.calls.parent[launch]]].function, "aten::mm");
  EXPECT_EQ(FindOp(model, "cudaMemcpyAsync")->problem, "host-to-device 4096 bytes pinned async");
}

TEST_F(Kineto, ModulesAndPlaces) {
  const TraceModel model = Model(Product());
  ASSERT_EQ(model.modules.size(), 2u);
  EXPECT_EQ(model.modules[0].type, "Net");
  EXPECT_THAT(model.modules[0].names, ElementsAre(""));
  EXPECT_EQ(model.modules[1].type, "torch.nn.Linear");
  EXPECT_THAT(model.modules[1].names, ElementsAre("Linear_4"));
  EXPECT_EQ(model.processes[0].script, "train.py");
  EXPECT_EQ(model.processes[0].pid, 7u);
}

TEST_F(Kineto, RangesOutliveTheFrameThatOpensThem) {
  const TraceModel model =
      Model({Event("python_function", "train.py(3): step", 10, 90),
             Event("python_function", "torch/autograd/profiler.py(9): __enter__", 11, 4),
             Event("user_annotation", "Optimizer.step#SGD.step", 12, 80),
             Event("python_function", "torch/optim/sgd.py(9): step", 20, 50), Event("cpu_op", "aten::add_", 30, 5)});
  ASSERT_EQ(model.scopes.size(), 2u);
  EXPECT_EQ(model.scopes.duration_ns[0], 80'000);
  EXPECT_EQ(model.scopes.parent[1], 0u);
  std::vector<std::string> files;  // innermost first
  for (const PythonFrame& frame : model.python_stacks[model.scopes.look[1].stack].frames)
    files.push_back(model.names[frame.file]);
  EXPECT_THAT(files, ElementsAre("site-packages/torch/optim/sgd.py", "train.py"));
}

TEST_F(Kineto, LoopsThatInductorCompiled) {
  const TraceModel model =
      Model({Event("python_function", "train.py(3): step", 10, 90),
             Event("python_function", "<built-in function kernel>", 12, 5),
             Event("python_function", "/tmp/torchinductor_me/ab/cab.py(9): call", 20, 50),
             Event("python_function", "<built-in function kernel>", 30, 15), Event("cpu_op", "aten::mm", 50, 5)});
  ASSERT_EQ(model.scopes.size(), 2u);
  EXPECT_EQ(model.names[model.scopes.look[0].name], "inductor::loop");
  EXPECT_EQ(model.scopes.duration_ns[0], 15'000);
}

TEST_F(Kineto, Memory) {
  const auto event = [](double us, const std::string& args, int thread = 7) {
    return absl::StrCat(R"({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": )", thread,
                        ", \"ts\": ", us, ", \"args\": {", args, "}}");
  };
  const TraceModel model = Model(
      {Event("cpu_op", "aten::empty", 10, 5),
       event(20, R"("Addr": 4096, "Bytes": -512, "Device Type": 1, "Device Id": 2, "Total Allocated": 0)", 8),
       event(
           12,
           R"("Addr": 4096, "Bytes": 512, "Device Type": 1, "Device Id": 2, "Total Allocated": 768, "Total Reserved": 2048)"),
       event(13, R"("Addr": 64, "Bytes": 8, "Device Type": 0, "Device Id": -1)"), event(14, R"("Bytes": 8)")});
  ASSERT_EQ(model.memory.size(), 3u);
  const MemoryEvent &gpu = model.memory[0], &host = model.memory[1], &freed = model.memory[2];
  EXPECT_EQ(gpu.bytes, 512);
  EXPECT_EQ(gpu.device, 3u);
  EXPECT_EQ(gpu.allocated_bytes, 768);
  EXPECT_EQ(gpu.reserved_bytes, 2048);
  ASSERT_NE(gpu.scope, kNone);
  EXPECT_EQ(model.names[model.scopes.look[gpu.scope].name], "aten::empty");
  EXPECT_EQ(host.device, 0u);
  EXPECT_EQ(freed.bytes, 0);
  EXPECT_EQ(freed.address, gpu.address);
  EXPECT_NE(freed.thread, gpu.thread);  // that made nothing else
}

TEST_F(Kineto, BackwardNodesAreThoseOfTheEngine) {
  const TraceModel model =
      Model({Event("cpu_op", "aten::relu", 10, 5, "\"Sequence number\": 3"),
             Event("cpu_op", "autograd::engine::evaluate_function: ReluBackward0", 20, 9, "\"Sequence number\": 3", 8),
             Event("cpu_op", "ReluBackward0", 21, 7, "\"Sequence number\": 3, \"Fwd thread id\": 1", 8)});
  std::vector<std::string> nodes;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    if (model.scopes.look[scope].kind != ScopeKind::kBackwardNode) continue;
    nodes.push_back(model.names[model.scopes.look[scope].name]);
    EXPECT_EQ(model.scopes.link[scope], 3);
  }
  EXPECT_THAT(nodes, ElementsAre("ReluBackward0"));
}

TEST_F(Kineto, Convolution) {
  const TraceModel model = Model(
      {Event(
           "cpu_op", "aten::_convolution", 10, 50,
           R"("Input Dims": [[2, 3, 10, 10], [6, 3, 3, 3], [], [], [], [], [], [], []], "Input type": ["float", "float"],
                "Concrete Inputs": ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"])"),
       Event("cpu_op", "aten::mkldnn_convolution", 20, 30)});
  const Op* convolution = FindOp(model, "aten::mkldnn_convolution");
  ASSERT_NE(convolution, nullptr);
  EXPECT_EQ(convolution->problem, "mb2_ic3oc6_ih10oh5kh3sh2dh0ph1_iw10ow5kw3sw2dw0pw1");
  EXPECT_EQ(convolution->direction, Direction::kForward);
  EXPECT_FALSE(convolution->on_gpu);
}

std::string Launch(double us, int correlation) {
  return Event("cuda_runtime", "cudaLaunchKernel", us, 2, absl::StrCat("\"correlation\": ", correlation));
}

std::string Kernel(const std::string& name, double us, int correlation) {
  return Event("kernel", name, us, 3, absl::StrCat("\"correlation\": ", correlation, ", \"stream\": 7"));
}

TEST_F(Kineto, KernelsTellGradientsOfAConvolutionApart) {
  const std::string arguments =
      R"("Input Dims": [[2, 6, 5, 5], [2, 3, 10, 10], [6, 3, 3, 3]], "Input type": ["float", "float", "float"],
         "Concrete Inputs": ["", "", "", "[6]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"])";
  const std::vector<std::string> launches = {Event("cpu_op", "aten::convolution_backward", 10, 50, arguments),
                                             Launch(12, 1), Launch(20, 2), Launch(30, 3), Launch(40, 4)};
  std::vector<std::string> events = launches;
  events.insert(events.end(), {Kernel("sm80_dgrad_f32", 60, 1), Kernel("nhwcToNchwKernel", 64, 2),
                               Kernel("nchwToNhwcKernel", 68, 3), Kernel("sm80_wgrad_f32", 72, 4)});
  const TraceModel model = Model(events);
  std::vector<std::string> asked;  // of each kernel
  for (const CallIndex call : model.gpu.call) {
    asked.emplace_back(DirectionName(model.ops[model.calls.op[model.calls.parent[call]]].direction));
  }
  EXPECT_THAT(asked, ElementsAre("backward-data", "backward-data", "backward-weights", "backward-weights"));
  events = launches;
  events.insert(events.end(), {Kernel("a", 60, 1), Kernel("b", 64, 2)});
  EXPECT_EQ(FindOp(Model(events), "aten::convolution_backward"), nullptr);  // names tell nothing
}

TEST_F(Kineto, CausalAttentionCountsHalf) {
  const auto of = [&](const std::string& name, const std::string& values, const std::string& key_length = "32") {
    const std::string arguments = absl::StrReplaceAll(
        R"("Input Dims": [[2, 4, 32, 16], [2, 4, KEYS, 16], [2, 4, KEYS, 16]], "Concrete Inputs": [VALUES])",
        {{"KEYS", key_length}, {"VALUES", values}});
    const TraceModel model = Model({Event("cpu_op", name, 10, 5, arguments)});
    const Op* const op = FindOp(model, name);
    EXPECT_NE(op, nullptr) << name;
    return op == nullptr ? std::pair(std::string(), int64_t{0}) : std::pair(op->problem, op->flops.value_or(0));
  };
  constexpr int64_t kWhole = 2 * 2 * 2 * 4 * 32 * 32 * 16;
  constexpr char kSdpa[] = "aten::scaled_dot_product_attention";
  EXPECT_EQ(of(kSdpa, R"("", "", "", "", "0.", "False", "", "False")"), std::pair(std::string("2x4x32x16"), kWhole));
  EXPECT_EQ(of(kSdpa, R"("", "", "", "", "0.", "True", "", "False")"),
            std::pair(std::string("2x4x32x16 causal"), kWhole / 2));
  EXPECT_EQ(of(kSdpa, R"("", "", "", "", "0.", "True", "", "False")", "64").second, 2 * kWhole);
  EXPECT_EQ(of("aten::_scaled_dot_product_efficient_attention", R"("", "", "", "", "True", "0.", "False", "")").second,
            kWhole);
  EXPECT_EQ(of("aten::_scaled_dot_product_cudnn_attention", R"("", "", "", "", "False", "0.", "True", "False")").second,
            kWhole / 2);
  EXPECT_EQ(of("aten::_flash_attention_forward", R"("", "", "", "", "", "4", "4", "0.", "True", "False")").second,
            kWhole / 32 * 4 / 2);  // lengths come before heads
}

TEST_F(Kineto, WaitsTellTheirStream) {
  const auto call = [](const std::string& name, int us, int correlation) {
    return Event("cuda_runtime", name, us, 5, absl::StrCat("\"correlation\": ", correlation));
  };
  const TraceModel model = Model(
      {call("cudaStreamSynchronize", 10, 1), call("cudaStreamWaitEvent", 20, 2), call("cudaDeviceSynchronize", 30, 3),
       Event("cuda_sync", "Stream Sync", 11, 3, R"("stream": 7, "correlation": 1)"),
       Event("cuda_sync", "Stream Wait Event", 21, 3, R"("wait_on_stream": 7, "stream": 20, "correlation": 2)"),
       Event("cuda_sync", "Context Sync", 31, 3, R"("stream": 4294967295, "correlation": 3)")});
  EXPECT_EQ(FindOp(model, "cudaStreamSynchronize")->problem, "cudaStreamSynchronize stream 7");
  EXPECT_EQ(FindOp(model, "cudaStreamWaitEvent")->problem, "cudaStreamWaitEvent stream 20, for an event of stream 7");
  EXPECT_EQ(FindOp(model, "cudaDeviceSynchronize")->problem, "cudaDeviceSynchronize");
}

TEST_F(Kineto, OverheadIsInsideTheCallThatItHeldUp) {
  const auto overhead = [](const std::string& name, int us) {
    return absl::StrReplaceAll(Event("overhead", name, us, 10),
                               {{"\"pid\": 7, \"tid\": 7", "\"pid\": -1, \"tid\": 0"}});
  };
  const auto call = [](const std::string& name, int us, int thread) {
    return Event("cuda_runtime", name, us, 20, "", thread);
  };
  const TraceModel model =
      Model({call("cudaLaunchKernel", 10, 7), overhead("Activity Buffer Request", 15), call("cudaLaunchKernel", 50, 7),
             overhead("Lazy Function Loading", 55), call("cudaLaunchKernel", 70, 7), overhead("Unrecognized", 75),
             call("cudaDeviceSynchronize", 90, 7), overhead("Buffer Flush", 95), call("cudaLaunchKernel", 130, 7),
             call("cudaLaunchKernel", 130, 8), overhead("Resource", 135)});
  std::vector<std::string> told;
  for (CallIndex i = 0; i < model.calls.size(); ++i) {
    const Op& op = model.ops[model.calls.op[i]];
    if (model.calls.parent[i] == kNone) continue;
    told.push_back(
        absl::StrCat(op.family, ": ", op.function, " in ", model.ops[model.calls.op[model.calls.parent[i]]].function));
  }
  EXPECT_THAT(told, ElementsAre("profiler: Activity Buffer Request in cudaLaunchKernel",
                                "cuda_noise: Lazy Function Loading in cudaLaunchKernel",
                                "cuda_noise: Unrecognized in cudaLaunchKernel"));
}

TEST_F(Kineto, TextThatIsNotUtf8) {
  const TraceModel model =
      Model({Event("user_annotation", "caf\xc3\xa9", 10, 5), Event("user_annotation", "caf\xe9", 20, 5)});
  EXPECT_THAT(model.names, testing::IsSupersetOf({"caf\xc3\xa9", "caf?"}));
}

TEST_F(Kineto, Collective) {
  const TraceModel model =
      Model({Event("cpu_op", "record_param_comms", 10, 50,
                   R"("Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 100, "Group size": 2,
                "Process Group Name": "1", "Process Group Ranks": "[1, 3]")"),
             Launch(12, 1), Kernel("ncclDevKernel_AllReduce", 60, 1)},
            R"("distributedInfo": {"rank": 3, "world_size": 4},)");
  const Op* collective = FindOp(model, "record_param_comms");
  ASSERT_NE(collective, nullptr);
  EXPECT_EQ(collective->family, "nccl");
  EXPECT_EQ(collective->bytes, 200);
  EXPECT_EQ(collective->collective()->rank, 1);
  EXPECT_EQ(collective->collective()->ranks, 2);
}

// NCCL counts a rank's part: torch.profiler tells what goes in and what comes out of all of them.
TEST_F(Kineto, CollectivesOfPartsCountOnePart) {
  for (const auto& [name, sent, received] :
       {std::tuple("_reduce_scatter_base", 400, 100), std::tuple("all_to_allv", 400, 400),
        std::tuple("_allgather_base", 100, 400)}) {
    const std::string facts = absl::StrFormat(
        R"("Collective name": "%s", "dtype": "Float", "In msg nelems": %d, "Out msg nelems": %d, "Group size": 4)",
        name, sent, received);
    const TraceModel model = Model({Event("cpu_op", "record_param_comms", 10, 50, facts)});
    ASSERT_NE(FindOp(model, "record_param_comms"), nullptr) << name;
    EXPECT_EQ(FindOp(model, "record_param_comms")->bytes, 400) << name;
  }
}

TEST_F(Kineto, WithoutWindowsAConvolutionIsNotGuessed) {
  const TraceModel model =
      Model({Event("cpu_op", "aten::convolution", 10, 50, R"("Input Dims": [[2, 3, 10, 10], [6, 3, 3, 3]])")});
  EXPECT_TRUE(model.ops.empty());
}

TEST_F(Kineto, DevicesThatWorkedAndRank) {
  const TraceModel model =
      Model(Product(), R"("distributedInfo": {"rank": 3, "world_size": 8}, "deviceProperties": [{"id": 0, "name": "A"},
                    {"id": 1, "name": "NVIDIA A100", "numSms": 108}],)");
  ASSERT_EQ(model.gpu_devices.size(), 1u);
  EXPECT_EQ(model.gpu_devices[0].name, "NVIDIA A100");
  EXPECT_EQ(RankOf(model.processes[0]), "3");
}

TEST_F(Kineto, CutOffFileGivesWhatItHolds) {
  const std::string whole = Json(Product());
  const absl::StatusOr<LoadedRun> run = Load("t.json", whole.substr(0, whole.find("cudaMemcpyAsync")));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->damage.size(), 1u);
  EXPECT_THAT(std::string(run->damage[0].message()), HasSubstr("the file is cut off"));
  EXPECT_NE(FindOp(run->model, "aten::mm"), nullptr);
}

std::string Gzipped(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_F(Kineto, Packed) {
  const std::string packed = Gzipped(Json(Product()));
  const absl::StatusOr<LoadedRun> run = Load("t.json.gz", packed);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->damage, testing::IsEmpty());
  EXPECT_NE(FindOp(run->model, "aten::mm"), nullptr);
  EXPECT_THAT(Trouble("cut.json.gz", packed.substr(0, packed.size() - 12)),
              HasSubstr("the packed file is cut off here"));
}

TEST_F(Kineto, ByteOrderMark) { EXPECT_EQ(Trouble("bom.txt", "\xef\xbb\xbf" + Json(Product())), ""); }

TEST_F(Kineto, RefusalsSayWhatWasExpected) {
  EXPECT_THAT(Trouble("a.json", "{\"a\": [1, 2]}"),
              HasSubstr("no list \"traceEvents\"; expected the JSON trace of torch"));
  EXPECT_THAT(Trouble("b.json", ""), HasSubstr("the file is empty"));
  EXPECT_THAT(Trouble("c.json", "{\"traceEvents\": []}"), HasSubstr("no operators, calls or GPU work"));
  EXPECT_THAT(Trouble("d.json", "{\"traceEvents\": [" + std::string(1000, '[')), HasSubstr("values inside each other"));
  EXPECT_THAT(Trouble("e.json", "not json"), HasSubstr("expected the JSON trace of torch.profiler"));
}

// In time that grows with the events, not with their square (17 s of a processor).
TEST_F(Kineto, ManyRangesInsideOneAnother) {
  const auto seconds = [this](int depth) {  // of the processor
    std::vector<std::string> events;
    for (int i = 0; i < depth; ++i) events.push_back(Event("user_annotation", "range", i, 3 * depth - 2 * i));
    const std::string path = folder_.Write("deep.json", Json(events));
    const clock_t start = clock();
    EXPECT_TRUE(ImportKineto(path).ok());
    return static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(seconds(60'000), 40 * seconds(6'000));  // 100 times, if it grew with the square
}

TEST_F(Kineto, ImpossibleTimesAreCounted) {
  const TraceModel model =
      Model({Event("cpu_op", "aten::relu", 10, 5), Event("cpu_op", "aten::gelu", 10, -5),
             absl::StrReplaceAll(Event("cpu_op", "aten::silu", 10, 5), {{"\"ts\": 10", "\"ts\": 1e300"}})});
  ASSERT_EQ(model.processes[0].losses.size(), 1u);
  EXPECT_EQ(model.processes[0].losses[0].calls, 2u);
}

TEST_F(Kineto, TracesOfOneRankAreNotOneJob) {
  const std::string rank = R"("distributedInfo": {"rank": 0, "world_size": 2},)";
  folder_.Write("a.json", Json(Product(), rank));
  folder_.Write("b.json", Json(Product(), absl::StrReplaceAll(rank, {{"\"rank\": 0", "\"rank\": 1"}})));
  EXPECT_TRUE(LoadRun(folder_.path()).ok());
  folder_.Write("c.json", Json(Product(), rank));
  EXPECT_THAT(std::string(LoadRun(folder_.path()).status().message()),
              EndsWith("both have rank 0; expected one trace of each rank"));
}

// As schedule(repeat=2) and tensorboard_trace_handler make them: the last time of each process counts.
TEST_F(Kineto, OfSeveralTimesTheLastOne) {
  const auto write = [&](const std::string& name, const std::string& time, int rank) {
    const std::string facts = absl::StrCat("\"distributedInfo\": {\"rank\": ", rank, ", \"world_size\": 2},");
    folder_.Write(name, absl::StrReplaceAll(Json(Product(), facts), {{"\"ts\": ", "\"ts\": " + time}}));
  };
  write("a.json", "9", 0);
  write("b.json", "", 0);
  write("c.json", "", 1);
  write("d.json", "9", 1);
  const absl::StatusOr<LoadedRun> run = LoadRun(folder_.path());
  ASSERT_TRUE(run.ok()) << run.status();
  std::vector<std::string> files;
  for (const ProcessInfo& process : run->model.processes) files.push_back(process.file);
  EXPECT_THAT(files, ElementsAre("a.json", "d.json"));
  ASSERT_EQ(run->model.oddities.size(), 1u);
  EXPECT_THAT(run->model.oddities.begin()->first, HasSubstr("of earlier times: b.json, c.json; to read one of these"));
}

// Torch before distributedInfo, or without torch.distributed.
TEST_F(Kineto, ProcessesWithoutRanks) {
  folder_.Write("a.json", Json(Product()));
  folder_.Write("b.json", absl::StrReplaceAll(Json(Product()), {{"\"pid\": 7", "\"pid\": 8"}}));
  const absl::StatusOr<LoadedRun> run = LoadRun(folder_.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model.processes.size(), 2u);
  folder_.Write("c.json",
                absl::StrReplaceAll(Json(Product()), {{"\"pid\": 7", "\"pid\": 9"}, {"\"ts\": ", "\"ts\": 9"}}));
  EXPECT_THAT(std::string(LoadRun(folder_.path()).status().message()), HasSubstr("they are of different times"));
}

}  // namespace
}  // namespace dlhook::analyzer
