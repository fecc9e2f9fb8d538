// cuDNN's legacy interface: the descriptors, from the library's getters.
#include <gtest/gtest.h>
#include <unistd.h>

#include "preload/hook_arguments.h"
#include "preload/track/cuda_state.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace cudnn_test {

using Ints = std::vector<int32_t>;

const void* Real() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

constexpr FakeTensor kX = {0, 4, {8, 6, 32, 33}, {6336, 1056, 33, 1}, 0};
constexpr FakeTensor kY = {2, 4, {8, 10, 30, 31}, {9300, 1, 310, 10}, 0};
constexpr FakeTensor kFilter = {0, 4, {10, 3, 5, 7}, {}, 0};
constexpr FakeConvolution kConvolution = {2, {1, 2}, {3, 4}, {5, 6}, 1, 0, 2, 3};

class CudnnTest : public ::testing::Test {
 protected:
  void SetUp() override { *FakeRuntimeAnswers() = {}; }
};

struct Result {
  CudnnShape shape;
  std::vector<uint64_t> addresses;
};

Result Decode(CudnnArgs args) {
  TestRecord record(kWords<CudnnShape>, 3);
  if (args.real == nullptr) args.real = Real();
  DecodeCudnn(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  return {record.shape<CudnnShape>(), record.addresses()};
}

Ints Dims(const CudnnTensorShape& tensor) { return {tensor.dim, tensor.dim + tensor.dims}; }
Ints Strides(const CudnnTensorShape& tensor) { return {tensor.stride, tensor.stride + tensor.dims}; }

CudnnArgs Forward() {
  CudnnArgs args;
  args.operation = CudnnOperation::kConvolutionForward;
  args.x_descriptor = &kX, args.w_descriptor = &kFilter, args.y_descriptor = &kY, args.convolution = &kConvolution;
  args.x = Pointer(0x1000), args.w = Pointer(0x2000), args.y = Pointer(0x3000);
  args.algorithm = 6;
  args.workspace_bytes = 65536;
  return args;
}

TEST_F(CudnnTest, ConvolutionForward) {
  const Result result = Decode(Forward());
  const CudnnShape& shape = result.shape;
  EXPECT_EQ(shape.operation, CudnnOperation::kConvolutionForward);
  EXPECT_EQ(shape.spatial_dims, 2);
  EXPECT_EQ(shape.compute_type, DataType::kF32);
  EXPECT_EQ(shape.algorithm, 6);
  EXPECT_EQ(shape.math_type, 3);
  EXPECT_EQ(shape.mode, -1);
  EXPECT_EQ(shape.groups, 2);
  EXPECT_EQ(shape.convolution_mode, 1);
  EXPECT_EQ(Ints(shape.pad, shape.pad + 3), (Ints{1, 2, 0}));
  EXPECT_EQ(Ints(shape.stride, shape.stride + 3), (Ints{3, 4, 0}));
  EXPECT_EQ(Ints(shape.dilation, shape.dilation + 3), (Ints{5, 6, 0}));
  EXPECT_EQ(shape.workspace_bytes, 65536u);
  EXPECT_EQ(shape.tensors[0].role, TensorRole::kX);
  EXPECT_EQ(shape.tensors[0].type, DataType::kF32);
  EXPECT_EQ(Dims(shape.tensors[0]), (Ints{8, 6, 32, 33}));
  EXPECT_EQ(Strides(shape.tensors[0]), (Ints{6336, 1056, 33, 1}));
  EXPECT_EQ(shape.tensors[1].role, TensorRole::kW);
  EXPECT_EQ(Dims(shape.tensors[1]), (Ints{10, 3, 5, 7}));
  EXPECT_EQ(Strides(shape.tensors[1]), (Ints{105, 35, 7, 1}));
  EXPECT_EQ(shape.tensors[2].role, TensorRole::kY);
  EXPECT_EQ(shape.tensors[2].type, DataType::kF16);
  EXPECT_EQ(Strides(shape.tensors[2]), (Ints{9300, 1, 310, 10}));
  EXPECT_EQ(shape.tensors[3].role, TensorRole::kUnknown);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0x3000}));
}

TEST_F(CudnnTest, FiltersWithChannelsLastAndVectors) {
  FakeTensor filter = kFilter;
  filter.format = 1;  // CUDNN_TENSOR_NHWC
  CudnnArgs args = Forward();
  args.w_descriptor = &filter;
  EXPECT_EQ(Strides(Decode(args).shape.tensors[1]), (Ints{105, 1, 21, 3}));
  filter.dims = 5, filter.dim[4] = 2;
  EXPECT_EQ(Strides(Decode(args).shape.tensors[1]), (Ints{210, 1, 42, 6, 3}));
  filter.type = 8, filter.format = 2;  // INT8x32, NCHW_VECT_C
  EXPECT_EQ(Decode(args).shape.tensors[1].type, DataType::kS8);
  EXPECT_EQ(Decode(args).shape.tensors[1].vector_count, 32);
}

TEST_F(CudnnTest, BackwardCallsReadAndWriteOtherTensors) {
  CudnnArgs data;
  data.w_descriptor = &kFilter, data.dy_descriptor = &kY, data.dx_descriptor = &kX;
  data.w = Pointer(0x2000), data.dy = Pointer(0x3000), data.dx = Pointer(0x1000);
  Result result = Decode(data);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x3000, 0x2000, 0x1000}));
  EXPECT_EQ(result.shape.tensors[0].role, TensorRole::kW);
  EXPECT_EQ(result.shape.tensors[1].role, TensorRole::kDy);
  EXPECT_EQ(result.shape.tensors[2].role, TensorRole::kDx);
  CudnnArgs filter;
  filter.x_descriptor = &kX, filter.dy_descriptor = &kY, filter.dw_descriptor = &kFilter;
  filter.x = Pointer(0x1000), filter.dy = Pointer(0x3000), filter.dw = Pointer(0x2000);
  result = Decode(filter);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x1000, 0x3000, 0x2000}));
  EXPECT_EQ(result.shape.tensors[2].role, TensorRole::kDw);
  EXPECT_EQ(Strides(result.shape.tensors[2]), (Ints{105, 35, 7, 1}));
  CudnnArgs bias;
  bias.dy_descriptor = &kY, bias.db_descriptor = &kX, bias.dy = Pointer(0x3000), bias.db = Pointer(0x5000);
  result = Decode(bias);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x3000, 0, 0x5000}));
  EXPECT_EQ(result.shape.tensors[1].role, TensorRole::kDbias);
}

// No slot is written beyond the last.
TEST_F(CudnnTest, MoreTensorsThanSlots) {
  CudnnArgs args = Forward();
  args.z_descriptor = &kX, args.bias_descriptor = &kX;
  const CudnnShape shape = Decode(args).shape;
  EXPECT_EQ(shape.tensors[3].role, TensorRole::kBias);
  EXPECT_EQ(shape.tensors[4].role, TensorRole::kZ);
  args.dy_descriptor = args.dx_descriptor = args.dw_descriptor = args.db_descriptor = &kX;
  EXPECT_EQ(Decode(args).shape.tensors[CudnnShape::kTensors - 1].role, TensorRole::kDw);
  FakeTensor wide = kX;
  wide.dims = 100;
  args.x_descriptor = &wide;
  EXPECT_EQ(Decode(args).shape.tensors[0].dims, 8);
}

TEST_F(CudnnTest, Pooling) {
  const FakePooling pooling = {1, 2, {3, 2}, {1, 0}, {2, 4}};
  CudnnArgs args;
  args.operation = CudnnOperation::kPoolingForward;
  args.pooling = &pooling;
  args.x_descriptor = &kX, args.y_descriptor = &kY;
  const CudnnShape shape = Decode(args).shape;
  EXPECT_EQ(shape.mode, 1);
  EXPECT_EQ(shape.spatial_dims, 2);
  EXPECT_EQ(Ints(shape.pad, shape.pad + 2), (Ints{1, 0}));
  EXPECT_EQ(Ints(shape.stride, shape.stride + 2), (Ints{2, 4}));
  EXPECT_EQ(Ints(shape.dilation, shape.dilation + 2), (Ints{3, 2}));
  EXPECT_EQ(shape.algorithm, -1);
  EXPECT_EQ(shape.math_type, -1);
  EXPECT_EQ(shape.convolution_mode, -1);
}

TEST_F(CudnnTest, ActivationsHaveTheirModeInADescriptor) {
  const int mode = 5;
  CudnnArgs args;
  args.operation = CudnnOperation::kActivationForward;
  args.activation = &mode;
  EXPECT_EQ(Decode(args).shape.mode, 5);
  args.mode = 2;
  EXPECT_EQ(Decode(args).shape.mode, 2);
}

TEST_F(CudnnTest, DescriptorsOfFiltersAndOfReductions) {
  CudnnArgs transform;
  transform.filters = true;
  transform.x_descriptor = &kFilter, transform.y_descriptor = &kFilter;
  EXPECT_EQ(Strides(Decode(transform).shape.tensors[1]), (Ints{105, 35, 7, 1}));
  CudnnArgs reduce;
  reduce.a_descriptor = &kX, reduce.c_descriptor = &kY, reduce.a = Pointer(0x1000), reduce.c = Pointer(0x3000);
  const Result result = Decode(reduce);
  EXPECT_EQ(result.shape.tensors[0].role, TensorRole::kX);
  EXPECT_EQ(result.shape.tensors[1].role, TensorRole::kY);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x1000, 0, 0x3000}));
}

TEST_F(CudnnTest, ErrorsOfGettersAndLibrariesWithoutThem) {
  for (bool absent : {false, true}) {
    CudnnArgs args = Forward();
    if (absent) args.real = reinterpret_cast<const void*>(&getpid);
    FakeRuntimeAnswers()->status = absent ? 0 : 3;
    const Result result = Decode(args);
    EXPECT_EQ(result.shape.tensors[0].role, TensorRole::kX);
    EXPECT_EQ(result.shape.tensors[0].type, DataType::kUnknown);
    EXPECT_EQ(result.shape.tensors[0].dims, 0);
    EXPECT_EQ(result.shape.spatial_dims, 0);
    EXPECT_EQ(result.shape.math_type, -1);
    EXPECT_EQ(result.shape.convolution_mode, -1);
    EXPECT_EQ(result.shape.groups, 0);
    EXPECT_EQ(result.shape.algorithm, 6);
    EXPECT_EQ(result.addresses[0], 0x1000u);
  }
}

TEST_F(CudnnTest, CapturedThroughTheHandlesStream) {
  FakeRuntimeAnswers()->handle_stream = Pointer(0x77);
  FakeRuntimeAnswers()->capture_status = 1;
  CudnnArgs args = Forward();
  args.handle = Pointer(0x10);
  EXPECT_EQ(Decode(args).shape.captured, 0);
  TrackBeginCapture({Pointer(0x77), 0, Real()});
  EXPECT_EQ(Decode(args).shape.captured, 1);
  args.handle = nullptr;
  EXPECT_EQ(Decode(args).shape.captured, 0);
  TrackEndCapture({});
}

TEST_F(CudnnTest, RecurrentNetworks) {
  const FakeRnn rnn = {1, 2, 0, 3, 4};
  for (int layout : {0, 1, 2}) {
    const FakeRnnData x = {0, layout, 20, 8, 64}, y = {2, layout, 20, 8, 128};
    CudnnRnnArgs args;
    args.operation = CudnnOperation::kRnnForward;
    args.rnn = &rnn, args.x_descriptor = &x, args.y_descriptor = &y, args.x = Pointer(0x1000), args.y = Pointer(0x3000);
    args.workspace_bytes = 7;
    args.real = Real();
    TestRecord record(kWords<CudnnShape>, 3);
    DecodeCudnnRnn(args, record.record());
    const auto shape = record.shape<CudnnShape>();
    EXPECT_EQ(shape.operation, CudnnOperation::kRnnForward);
    EXPECT_EQ(shape.algorithm, 1);
    EXPECT_EQ(shape.mode, 2);
    EXPECT_EQ(shape.math_type, 3);
    EXPECT_EQ(shape.groups, 4);
    EXPECT_EQ(shape.compute_type, DataType::kF32);
    EXPECT_EQ(shape.workspace_bytes, 7u);
    EXPECT_EQ(shape.tensors[0].role, TensorRole::kX);
    EXPECT_EQ(shape.tensors[1].role, TensorRole::kY);
    EXPECT_EQ(Dims(shape.tensors[0]), (Ints{20, 8, 64}));
    EXPECT_EQ(Strides(shape.tensors[0]), layout == 2 ? (Ints{64, 1280, 1}) : (Ints{512, 64, 1}));
    EXPECT_EQ(shape.tensors[1].type, DataType::kF16);
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x1000, 0, 0x3000}));
  }
  FakeRuntimeAnswers()->status = 3;
  const FakeRnnData data = {0, 0, 20, 8, 64};
  CudnnRnnArgs args;
  args.rnn = &rnn, args.x_descriptor = &data, args.real = Real();
  TestRecord failed(kWords<CudnnShape>, 3);
  DecodeCudnnRnn(args, failed.record());
  EXPECT_EQ(failed.shape<CudnnShape>().tensors[0].role, TensorRole::kUnknown);
  EXPECT_EQ(failed.shape<CudnnShape>().mode, -1);
}

// cudnnConvolutionFwdAlgoPerf_t and its variants, by hand from cudnn_cnn_v9.h.
struct Performance {
  int algorithm, status;
  float milliseconds;
  size_t memory;
  int determinism, math_type, reserved[3];
};

TEST_F(CudnnTest, Searches) {
  Performance results[10] = {};
  for (int i = 0; i < 10; ++i)
    results[i] = {i, 0, 0.25f * static_cast<float>(i + 1), 1000u * static_cast<size_t>(i), 1, 2, {}};
  results[1].status = 9, results[1].milliseconds = -1;
  int32_t returned = 2;
  CudnnSearchArgs args;
  args.operation = CudnnOperation::kConvolutionBackwardData;
  args.measured = true;
  args.w_descriptor = &kFilter, args.dy_descriptor = &kY, args.dx_descriptor = &kX, args.convolution = &kConvolution;
  args.requested = 10, args.returned = &returned, args.results = results;
  args.real = Real();
  const auto decode = [&](int32_t status) {
    TestRecord record(kWords<SearchShape>, 0, status);
    DecodeCudnnSearch(args, record.record());
    EXPECT_TRUE(record.untouched_behind());
    return record.shape<SearchShape>();
  };
  SearchShape shape = decode(0);
  EXPECT_EQ(shape.problem.operation, CudnnOperation::kConvolutionBackwardData);
  EXPECT_EQ(shape.problem.tensors[2].role, TensorRole::kDx);
  EXPECT_EQ(shape.problem.groups, 2);
  EXPECT_EQ(shape.measured, 1);
  EXPECT_EQ(shape.requested, 10);
  ASSERT_EQ(shape.candidate_count, 2);
  EXPECT_EQ(shape.candidates[0].algorithm, 0);
  EXPECT_EQ(shape.candidates[0].time_ns, 250000u);
  EXPECT_EQ(shape.candidates[1].status, 9);
  EXPECT_EQ(shape.candidates[1].time_ns, 0u);
  EXPECT_EQ(shape.candidates[1].workspace_bytes, 1000u);
  EXPECT_EQ(shape.candidates[1].math_type, 2);
  EXPECT_EQ(decode(3).candidate_count, 0);  // failed: the results are invalid
  returned = 10;
  EXPECT_EQ(decode(0).candidate_count, 8);
  EXPECT_EQ(decode(0).candidates[7].algorithm, 7);
  const int32_t algorithm = 4;  // cudnnGetConvolutionForwardAlgorithm, until cuDNN 7
  args.returned = nullptr, args.results = nullptr, args.algorithm = &algorithm;
  shape = decode(0);
  ASSERT_EQ(shape.candidate_count, 1);
  EXPECT_EQ(shape.candidates[0].algorithm, 4);
  EXPECT_EQ(shape.candidates[0].math_type, -1);
  EXPECT_EQ(decode(3).candidate_count, 0);
}

}  // namespace cudnn_test
}  // namespace dlhook
