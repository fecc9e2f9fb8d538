// Graphs built by frontends: plans as recorded at their execution, compared with messages written by hand.
#include "preload/track/cudnn_graph.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/preload/frontend.h"

namespace dlhook {
namespace {

trace::Cudnn Parse(const std::string& text) {
  trace::Cudnn message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Contained in every plan of which nothing more is known.
constexpr char kNothing[] = "algorithm: -1 math_type: -1 mode: -1";

class CudnnGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Attach(), nullptr);
    *FakeRuntimeAnswers() = {};
    *FakeBackendAnswers() = {};
  }
  void TearDown() override { EXPECT_EQ(FakeBackendAnswers()->live, 0); }  // those created by dlhook are destroyed
};

struct ConvolutionGraph {
  std::vector<Handle> parts;  // all but the graph
  Handle graph;
};

// 2 groups: x [8,6,32,33], w [10,3,5,7], y [8,10,30,29].
ConvolutionGraph Convolution2d(int32_t type, int32_t x_name, int32_t w_name, int32_t y_name,
                               int32_t configuration_name) {
  Handle x = Tensor('x', 2, {8, 6, 32, 33}, {6336, 1, 198, 6});
  Handle w = Tensor('w', 2, {10, 3, 5, 7}, {105, 1, 21, 3});
  Handle y = Tensor('y', 2, {8, 10, 30, 29}, {8700, 1, 290, 10});
  Handle convolution = Convolution({1, 2}, {1, 3}, {1, 1}, {1, 1});
  Handle operation = Operation(type, {{x_name, x}, {w_name, w}, {y_name, y}, {configuration_name, convolution}});
  return {{x, w, y, convolution, operation}, Graph({operation})};
}

std::string TensorText(const std::string& role, char uid) {
  const std::string dims = uid == 'x'   ? "dim: [8, 6, 32, 33] stride: [6336, 1, 198, 6]"
                           : uid == 'w' ? "dim: [10, 3, 5, 7] stride: [105, 1, 21, 3]"
                                        : "dim: [8, 10, 30, 29] stride: [8700, 1, 290, 10]";
  return "tensor { role: " + role + " type: F16 " + dims + " uid: " + std::to_string(uid) + " }";
}

constexpr char kConvolutionText[] =
    "pad: [1, 2] post_pad: [1, 3] stride: [1, 1] dilation: [1, 1] convolution_mode: 1 compute_type: F32 ";

TEST_F(CudnnGraphTest, ConvolutionsOfThreeDirections) {
  struct Case {
    int32_t type, x, w, y, configuration;
    const char *name, *x_role, *w_role, *y_role;
    Numbers in, out;
    std::vector<char> order;  // of addresses
  };
  const Case cases[] = {
      {10, 704, 703, 705, 702, "convolution_forward", "X", "W", "Y", {'w', 'x'}, {'y'}, {'x', 'w', 'y'}},
      {12, 710, 709, 711, 708, "convolution_backward_data", "DX", "W", "DY", {'w', 'y'}, {'x'}, {'y', 'w', 'x'}},
      {11, 716, 715, 717, 714, "convolution_backward_weights", "X", "DW", "DY", {'x', 'y'}, {'w'}, {'x', 'y', 'w'}}};
  *FakeBackendAnswers() = {4096, 38, 2, {1, 12}, {7, -1}, 2, {0, 5}, {1, 2}};
  for (const Case& c : cases) {
    ConvolutionGraph built = Convolution2d(c.type, c.x, c.w, c.y, c.configuration);
    const std::vector<Handle> configurations = Heuristics(built.graph, 3, 10, 4);
    Handle plan = Plan(configurations[2]);
    // Frontends keep nothing but the plan.
    Destroy(built.parts), Destroy(built.graph), Destroy(configurations);
    std::string node = std::string("node { operation: \"") + c.name + "\" ";
    for (int64_t uid : c.in) node += "input_uid: " + std::to_string(uid) + " ";
    for (int64_t uid : c.out) node += "output_uid: " + std::to_string(uid) + " ";
    node += std::string(kConvolutionText) + "}";
    const trace::Cudnn expected = Parse(
        std::string("operation: \"") + c.name + "\" " + TensorText(c.x_role, 'x') + TensorText(c.w_role, 'w') +
        TensorText(c.y_role, 'y') + kConvolutionText + "groups: 2 workspace_bytes: 4096 " + kNothing + " plan { " +
        node +
        " engine: 38 knob { type: 1 value: 7 } knob { type: 12 value: -1 } numerical_note: [0, 5] behavior_note: [1, 2]"
        " chooser: HEURISTIC heuristic_mode: 3 heuristic_rank: 2 heuristic_requested: 10 heuristic_results: 4 }");
    EXPECT_EQ(Described(plan).DebugString(), expected.DebugString());
    // Operands by uid, whatever their order in the pack.
    Handle pack = Pack({'y', 'x', 'w'}, {Pointer('y'), Pointer('x'), Pointer('w')});
    const Execution execution = Execute(plan, pack);
    EXPECT_EQ(execution.addresses, std::vector<uint64_t>(c.order.begin(), c.order.end())) << c.name;
    Destroy(pack), Destroy(plan);
  }
}

// The order in which the operation's attributes are set determines the order of its tensors, nothing else.
TEST_F(CudnnGraphTest, FusedNodes) {
  Handle x = Tensor(1, 0, {8, 3, 32, 32}, {3072, 1024, 32, 1});
  Handle w = Tensor(2, 0, {16, 3, 3, 3}, {27, 9, 3, 1});
  Handle sum = Tensor(3, 0, {8, 16, 32, 32}, {16384, 1024, 32, 1}, true);
  Handle bias = Tensor(4, 0, {1, 16, 1, 1}, {16, 1, 1, 1});
  Handle biased = Tensor(5, 0, {8, 16, 32, 32}, {16384, 1024, 32, 1}, true);
  Handle y = Tensor(6, 0, {8, 16, 32, 32}, {16384, 1024, 32, 1});
  Handle convolution = Convolution({1, 1}, {1, 1}, {1, 1}, {1, 1});
  Handle add = Create(0), relu = Create(0);
  Set(add, 0, kPointwiseModeValue, 0), Set(add, 1, kDataTypeValue, 0);
  Set(relu, 0, kPointwiseModeValue, 100), Set(relu, 1, kDataTypeValue, 2);
  const double clip = 0;
  SetRaw(relu, 3, kDoubleValue, 1, &clip);
  Handle second = Operation(13, {{750, add}, {751, sum}, {752, bias}, {753, biased}});
  Handle first = Operation(10, {{704, x}, {703, w}, {705, sum}, {702, convolution}});
  Handle third = Operation(13, {{750, relu}, {751, biased}, {753, y}});
  Handle graph = Graph({second, first, third});  // the convolution names the graph at any place
  Handle plan = Plan(Heuristics(graph, 1, 1, 1)[0]);
  const trace::Cudnn cudnn = Described(plan);
  EXPECT_EQ(cudnn.operation(), "convolution_forward");
  EXPECT_EQ(cudnn.groups(), 1);
  ASSERT_EQ(cudnn.tensor_size(), 6);
  const int64_t uids[] = {1, 2, 3, 4, 5, 6};
  const trace::CudnnTensor::Role roles[] = {trace::CudnnTensor::X,      trace::CudnnTensor::W,
                                            trace::CudnnTensor::Y,      trace::CudnnTensor::INPUT,
                                            trace::CudnnTensor::OUTPUT, trace::CudnnTensor::OUTPUT};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(cudnn.tensor(i).uid(), uids[i]);
    EXPECT_EQ(cudnn.tensor(i).role(), roles[i]) << i;
    EXPECT_EQ(cudnn.tensor(i).is_virtual(), i == 2 || i == 4);
  }
  ASSERT_EQ(cudnn.plan().node_size(), 3);
  const auto expect_node = [&](int i, const std::string& text) {
    trace::CudnnNode expected;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
    EXPECT_EQ(cudnn.plan().node(i).DebugString(), expected.DebugString());
  };
  expect_node(0, "operation: \"pointwise\" mode: \"0\" input_uid: [3, 4] output_uid: 5 compute_type: F32");
  expect_node(1,
              "operation: \"convolution_forward\" input_uid: [2, 1] output_uid: 3 pad: [1, 1] post_pad: [1, 1]"
              " stride: [1, 1] dilation: [1, 1] convolution_mode: 1 compute_type: F32");
  expect_node(2, "operation: \"pointwise\" mode: \"100\" input_uid: 5 output_uid: 6 compute_type: F16");
  Destroy(plan);
}

TEST_F(CudnnGraphTest, MatmulAndNormalization) {
  Handle a = Tensor(1, 9, {4, 64, 32}, {2048, 32, 1}), b = Tensor(2, 9, {4, 32, 16}, {512, 16, 1});
  Handle c = Tensor(3, 9, {4, 64, 16}, {1024, 16, 1});
  Handle matmul = Create(18);
  Set(matmul, 1500, kDataTypeValue, 0);
  Handle plan = Plan(Heuristics(Graph({Operation(19, {{1520, a}, {1521, b}, {1522, c}, {1523, matmul}})}), 0, 1, 1)[0]);
  const trace::Cudnn product = Described(plan);
  EXPECT_EQ(product.operation(), "matmul");
  EXPECT_EQ(product.compute_type(), trace::F32);
  EXPECT_EQ(product.groups(), 0);
  EXPECT_EQ(product.plan().heuristic_mode(), 0);
  EXPECT_EQ(product.plan().node(0).DebugString(),
            "operation: \"matmul\"\ninput_uid: 1\ninput_uid: 2\noutput_uid: 3\ncompute_type: F32\n");
  Handle norm = Create(29);
  Set(norm, 2000, kNormModeValue, 2);
  for (const auto& [name, tensor] : {std::pair(2002, a), std::pair(2005, b), std::pair(2013, c)})
    Set(norm, name, std::vector<Handle>{tensor});
  Handle normalization = Plan(Heuristics(Graph({norm}), 0, 1, 1)[0]);
  const trace::Cudnn normalized = Described(normalization);
  EXPECT_EQ(normalized.operation(), "normalization_forward");
  EXPECT_EQ(normalized.plan().node(0).mode(), "2");
  EXPECT_EQ(normalized.tensor(1).role(), trace::CudnnTensor::SCALE);
  EXPECT_EQ(normalized.tensor(2).role(), trace::CudnnTensor::Y);
}

// The library reuses addresses immediately; graphs contain the descriptors from the time when they were set.
TEST_F(CudnnGraphTest, DescriptorsDestroyedAndTheirAddressesUsedAgain) {
  ConvolutionGraph built = Convolution2d(10, 704, 703, 705, 702);
  for (Handle part : built.parts) {
    Destroy(part);
    Create(17, reinterpret_cast<uint64_t>(part));  // a tensor in its place
    Set(part, 906, Numbers{999});
  }
  const std::vector<Handle> configurations = Heuristics(built.graph, 3, 2, 2);
  Destroy(built.graph);
  Create(15, reinterpret_cast<uint64_t>(built.graph));  // an empty graph
  Handle plan = Create(5);
  Set(plan, 401, std::vector<Handle>{configurations[0]});
  Destroy(configurations[0]);
  Create(3, reinterpret_cast<uint64_t>(configurations[0]));
  Finalize(plan);
  const trace::Cudnn first = Described(plan);
  EXPECT_EQ(first.operation(), "convolution_forward");
  EXPECT_EQ(first.tensor(0).uid(), 'x');
  EXPECT_EQ(first.plan().heuristic_rank(), 0);
  // The plan's own address, too.
  Destroy(plan);
  Create(5, reinterpret_cast<uint64_t>(plan));
  Set(plan, 401, std::vector<Handle>{configurations[1]});
  Finalize(plan);
  EXPECT_EQ(Described(plan).plan().heuristic_rank(), 1);
}

TEST_F(CudnnGraphTest, SetAgain) {
  Handle tensor = Tensor('x', 2, {1, 2, 3, 4}, {24, 12, 4, 1});
  Set(tensor, 902, Numbers{8, 6, 32, 33});
  Set(tensor, 903, Numbers{6336, 1, 198, 6});
  Handle wrong = Tensor('z', 0, {1}, {1});
  ConvolutionGraph built = Convolution2d(10, 704, 703, 705, 702);
  Handle operation = built.parts[4];
  Set(operation, 704, std::vector<Handle>{wrong});
  Set(operation, 704, std::vector<Handle>{tensor});
  const double refused[] = {1, 2};
  SetRaw(tensor, 902, kInt64Value, 2, refused, 3);  // refused by the library
  const trace::Cudnn cudnn = Described(Plan(Heuristics(built.graph, 3, 1, 1)[0]));
  ASSERT_EQ(cudnn.tensor_size(), 3);
  bool seen = false;
  for (const trace::CudnnTensor& t : cudnn.tensor()) seen |= t.uid() == 'x' && t.dim(0) == 8 && t.dim_size() == 4;
  EXPECT_TRUE(seen);
}

// An engine that the caller named: no heuristics took part.
TEST_F(CudnnGraphTest, FixedEngine) {
  ConvolutionGraph built = Convolution2d(10, 704, 703, 705, 702);
  Handle engine = Create(2), configuration = Create(3);
  Set(engine, 1300, std::vector<Handle>{built.graph});
  Set(engine, 1301, Numbers{5});
  Set(configuration, 300, std::vector<Handle>{engine});
  FakeBackendAnswers()->engine = 5;
  const trace::Cudnn cudnn = Described(Plan(configuration));
  EXPECT_EQ(cudnn.operation(), "convolution_forward");
  EXPECT_EQ(cudnn.plan().chooser(), trace::FIXED);
  EXPECT_EQ(cudnn.plan().heuristic_mode(), -1);
  EXPECT_EQ(cudnn.plan().heuristic_rank(), -1);
  EXPECT_EQ(cudnn.plan().heuristic_requested(), 0u);
  EXPECT_EQ(cudnn.plan().engine(), 5);
}

// By the graph's contents: after a failure frontends build the same graph again.
TEST_F(CudnnGraphTest, FailedPlansAreCountedOnTheirGraph) {
  static int64_t uid = 500;  // the counts are the process's
  uid += 3;
  const auto build = [](int64_t pad) {
    Handle x = Tensor(uid, 0, {1, 8, 9, 9}, {648, 81, 9, 1}), w = Tensor(uid + 1, 0, {8, 8, 3, 3}, {72, 9, 3, 1});
    Handle y = Tensor(uid + 2, 0, {1, 8, 9, 9}, {648, 81, 9, 1});
    Handle convolution = Convolution({pad, 1}, {1, 1}, {1, 1}, {1, 1});
    return Graph({Operation(10, {{704, x}, {703, w}, {705, y}, {702, convolution}})});
  };
  Handle graph = build(1);
  const std::vector<Handle> configurations = Heuristics(graph, 3, 4, 4);
  for (size_t i = 0; i < 3; ++i) {
    Handle failed = Plan(configurations[i], 3000);
    EXPECT_EQ(Execute(failed, nullptr).shape.plan, 0u);
    Destroy(failed);
  }
  uint32_t first = 0, second = 0;
  EXPECT_EQ(Described(Plan(configurations[3]), &first).plan().failed_before(), 3u);
  EXPECT_EQ(Described(Plan(Heuristics(build(1), 3, 1, 1)[0]), &second).plan().failed_before(), 3u);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(Described(Plan(Heuristics(build(2), 3, 1, 1)[0])).plan().failed_before(), 0u);
  Plan(Heuristics(build(2), 3, 1, 1)[0], 3000);
  EXPECT_EQ(Described(Plan(Heuristics(build(2), 3, 1, 1)[0])).plan().failed_before(), 1u);
  EXPECT_EQ(Described(Plan(Heuristics(build(1), 3, 1, 1)[0])).plan().failed_before(), 3u);
}

TEST_F(CudnnGraphTest, PlansFromJson) {
  const std::string json = "{\"engine\": 38}";
  Handle plan = Create(5);
  SetRaw(plan, 405, kCharValue, static_cast<int64_t>(json.size()), json.data());
  EXPECT_EQ(Execute(plan, nullptr).shape.plan, 0u);  // not finalized: nothing is defined
  Finalize(plan);
  Destroy(Create(5));  // threads look plans up again
  const trace::Cudnn cudnn = Described(plan);
  EXPECT_EQ(cudnn.operation(), "graph");
  EXPECT_EQ(cudnn.plan().json(), json);
  EXPECT_EQ(cudnn.plan().chooser(), trace::CACHED);
  EXPECT_FALSE(cudnn.plan().json_cut());
  const std::string longer(20000, 'j');
  Handle cut = Create(5);
  SetRaw(cut, 405, kCharValue, 20000, longer.data());
  Finalize(cut);
  EXPECT_EQ(Described(cut).plan().json(), longer.substr(0, 16384));
  EXPECT_TRUE(Described(cut).plan().json_cut());
}

// A graph larger than the maximum size of a definition is counted, not truncated.
TEST_F(CudnnGraphTest, ManyOperations) {
  for (size_t count : {5, 34, 35, 100, 8000}) {
    std::vector<Handle> operations;
    for (size_t i = 0; i < count; ++i) {
      operations.push_back(Operation(13, {{751, Tensor(static_cast<int64_t>(i), 0, {1, 2}, {2, 1})},
                                          {753, Tensor(static_cast<int64_t>(i + 1), 0, {1, 2}, {2, 1})}}));
    }
    const uint64_t refused = GetProcess()->session->refused_definitions;
    Handle plan = Plan(Heuristics(Graph(operations), 3, 1, 1)[0]);
    if (count == 8000) {
      EXPECT_EQ(Execute(plan, nullptr).shape.plan, 0u);
      EXPECT_EQ(GetProcess()->session->refused_definitions, refused + 1);
      continue;
    }
    const trace::Cudnn cudnn = Described(plan);
    ASSERT_EQ(cudnn.plan().node_size(), static_cast<int>(count));
    for (int i = 0; i < static_cast<int>(count); ++i) EXPECT_EQ(cudnn.plan().node(i).input_uid(0), i);
    EXPECT_EQ(cudnn.tensor_size(), static_cast<int>(count) + 1);
  }
}

TEST_F(CudnnGraphTest, WhatTheLibraryDoesNotTell) {
  for (int32_t refused : {401, 300, 302, 402, 1301, 1303, 1305}) {
    *FakeBackendAnswers() = {4096, 38, 1, {1}, {7}, 1, {5}, {2}, refused};
    ConvolutionGraph built = Convolution2d(10, 704, 703, 705, 702);
    const trace::Cudnn cudnn = Described(Plan(Heuristics(built.graph, 3, 1, 1)[0]));
    EXPECT_EQ(cudnn.operation(), "convolution_forward");
    EXPECT_EQ(cudnn.plan().engine(), refused == 401 || refused == 300 || refused == 1301 ? -1 : 38) << refused;
    EXPECT_EQ(cudnn.plan().knob_size(), refused == 401 || refused == 302 ? 0 : 1) << refused;
    EXPECT_EQ(cudnn.workspace_bytes(), refused == 402 ? 0u : 4096u) << refused;
    EXPECT_EQ(FakeBackendAnswers()->live, 0) << refused;
  }
}

}  // namespace
}  // namespace dlhook
