// Records of CUDA's calls -> OpDefinition, byte for byte as libprotobuf would write it, and hostile mappings.
#include <gtest/gtest.h>

#include "preload/drain/describe.h"
#include "preload/format/hook_table.h"
#include "tests/preload/session_fixture.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace {

constexpr uint64_t kRoom = 64 << 10;

// The serialized trace::Interned that holds the op of this record.
template <typename Shape>
std::string Describe(RecordType type, const char* hook, const Shape& shape, TestSession* session,
                     uint8_t words = sizeof(Shape) / 8, uint8_t addresses = 3) {
  TestRecord record(words, addresses);
  record.record()->header.type = type;
  record.record()->header.hook = static_cast<HookId>(FindHook(hook));
  memcpy(record.record()->shape(), &shape, words * 8u < sizeof shape ? words * 8u : sizeof shape);
  Buffer out;
  WriteCallDefinition(7, *record.record(), {session->header(), session->bytes()}, &out);
  return {out.data(), out.size()};
}

trace::OpDefinition* AddOp(trace::Interned* interned, const char* function, const char* family,
                           uint32_t addresses = 3) {
  trace::OpDefinition* op = interned->add_op();
  op->set_iid(7);
  op->set_function(function);
  op->set_family(family);
  op->set_time_source(trace::CLOCK_TICKS);
  op->set_address_count(addresses);
  return op;
}

void ExpectSame(const std::string& bytes, const trace::Interned& expected) {
  trace::Interned parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  EXPECT_EQ(parsed.DebugString(), expected.DebugString());
  EXPECT_EQ(bytes.size(), expected.ByteSizeLong());
}

CudaGemmShape ExampleGemm() {
  CudaGemmShape shape = {};
  shape.gemm = {
      DataType::kF16, DataType::kBf16, DataType::kF32, 0, 'T', 'N', GemmKind::kGemm, 0, 10, 20, 30, 40, 50, 60, 70};
  shape.lt = 1;
  shape.captured = 1;
  shape.fast_accumulation = 1;
  shape.chooser = Chooser::kHeuristic;
  shape.order_a = 1, shape.order_b = 2, shape.order_d = 3;
  shape.alignment_log2 = 8;
  shape.compute_type = 68, shape.scale_type = -1, shape.math_mode = 3, shape.heuristic_rank = -1;
  shape.algorithm = -1, shape.epilogue = 132;
  shape.tile = 20, shape.stages = 11, shape.split_k = 2, shape.reduction = 1, shape.swizzle = 4,
  shape.custom_option = 5;
  shape.inner_shape = 6, shape.cluster_shape = 65535;
  shape.heuristic_requested = 8, shape.heuristic_results = 3;
  shape.scale_mode_a = 1, shape.scale_mode_b = 2, shape.scale_mode_d = 3;
  shape.workspace_bytes = uint64_t{1} << 33;
  return shape;
}

void SetExampleGemm(trace::Gemm* gemm) {
  gemm->set_a_type(trace::F16);
  gemm->set_b_type(trace::BF16);
  gemm->set_c_type(trace::F32);
  gemm->set_trans_a("T");
  gemm->set_trans_b("N");
  gemm->set_m(10), gemm->set_n(20), gemm->set_k(30), gemm->set_lda(40), gemm->set_ldb(50), gemm->set_ldc(60),
      gemm->set_batch(70);
  trace::CudaGemm* cuda = gemm->mutable_cuda();
  cuda->set_lt(true);
  cuda->set_compute_type(68), cuda->set_scale_type(-1), cuda->set_math_mode(3), cuda->set_algorithm(-1);
  cuda->set_tile(20), cuda->set_stages(11), cuda->set_split_k(2), cuda->set_reduction(1), cuda->set_swizzle(4);
  cuda->set_custom_option(5), cuda->set_inner_shape(6), cuda->set_cluster_shape(65535), cuda->set_epilogue(132);
  cuda->set_workspace_bytes(uint64_t{1} << 33);
  cuda->set_alignment_bytes(256);
  cuda->set_chooser(trace::HEURISTIC);
  cuda->set_heuristic_rank(-1), cuda->set_heuristic_requested(8), cuda->set_heuristic_results(3);
  cuda->set_order_a(1), cuda->set_order_b(2), cuda->set_order_d(3);
  cuda->set_fast_accumulation(true);
  cuda->set_scale_mode_a(1), cuda->set_scale_mode_b(2), cuda->set_scale_mode_d(3);
}

TEST(DescribeCudaTest, Gemm) {
  TestSession session(65536);
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cublasLtMatmul", "cublaslt");
  SetExampleGemm(op->mutable_gemm());
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kCudaGemmCall, "cublasLtMatmul", ExampleGemm(), &session), expected);
}

TEST(DescribeCudaTest, GroupedGemm) {
  struct {
    CudaGemmShape gemm;
    GemmGroups groups;
  } shape = {ExampleGemm(), {3, 123456789012}};
  TestSession session(65536);
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cublasSgemmGroupedBatched", "cublas");
  SetExampleGemm(op->mutable_gemm());
  op->mutable_gemm()->set_groups(3);
  op->mutable_gemm()->set_flops(123456789012);
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kCudaGemmCall, "cublasSgemmGroupedBatched", shape, &session), expected);
}

TEST(DescribeCudaTest, Matrix) {
  struct {
    MatrixShape matrix;
    CudaMatrixShape cuda;
  } shape = {{MatrixKind::kTransform, DataType::kS8, 0, 'L', 'U', 'T', 'N', 0, 1, 2, 3, 4, 5, 6, 7},
             {'C', 2, 5, DataType::kF32, 1, {}, 99}};
  TestSession session(65536);
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cublasLtMatrixTransform", "cublaslt");
  trace::MatrixOp* matrix = op->mutable_matrix();
  matrix->set_kind(trace::MatrixOp::TRANSFORM);
  matrix->set_type(trace::S8);
  matrix->set_side("L"), matrix->set_uplo("U"), matrix->set_trans("T"), matrix->set_diag("N");
  matrix->set_m(1), matrix->set_n(2), matrix->set_k(3), matrix->set_lda(4), matrix->set_ldb(5), matrix->set_ldc(6);
  matrix->set_batch(7);
  matrix->set_trans_b("C");
  matrix->set_order_a(2), matrix->set_order_c(5);
  matrix->set_c_type(trace::F32);
  matrix->set_nonzeros(99);
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kMatrixCall, "cublasLtMatrixTransform", shape, &session), expected);
}

TEST(DescribeCudaTest, Copy) {
  const CopyShape shape = {CopyDirection::kPeer, HostMemory::kPinned, 1, 1, 4, uint64_t{1} << 40, 11, 12, 13, -1, 3};
  TestSession session(65536);
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cudaMemcpyAsync", "cuda_copy");
  trace::Copy* copy = op->mutable_copy();
  copy->set_direction(trace::Copy::PEER);
  copy->set_bytes(uint64_t{1} << 40);
  copy->set_asynchronous(true);
  copy->set_host_memory(trace::Copy::PINNED);
  copy->set_copies(4);
  copy->set_width_bytes(11), copy->set_height(12), copy->set_depth(13);
  copy->set_source_device(-1), copy->set_destination_device(3);
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kCopyCall, "cudaMemcpyAsync", shape, &session), expected);
}

// Everything zero: proto3 omits default values, but the op's kind is present.
TEST(DescribeCudaTest, AnEmptyCopyIsStillACopy) {
  TestSession session(65536);
  trace::Interned expected;
  AddOp(&expected, "cudaMemset", "cuda_copy", 0)->mutable_copy();
  ExpectSame(Describe(RecordType::kCopyCall, "cudaMemset", CopyShape{}, &session, kWords<CopyShape>, 0), expected);
}

TEST(DescribeCudaTest, LaunchNamesItsKernel) {
  TestSession session(65536, 2, kRoom);
  session.PutDefinition(DefinitionKind::kKernel, "_Z5otherPf");
  const uint32_t kernel = session.PutDefinition(DefinitionKind::kKernel, "_Z3addPfS_");
  const LaunchShape shape = {kernel, {49, 2, 3}, {128, 4, 5}, 1024, 1, 1, {2, 4, 1}, 1, -5, {}};
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cudaLaunchKernel", "cuda_launch", 1);
  trace::KernelLaunch* launch = op->mutable_launch();
  launch->set_kernel("_Z3addPfS_");
  launch->set_grid_x(49), launch->set_grid_y(2), launch->set_grid_z(3);
  launch->set_block_x(128), launch->set_block_y(4), launch->set_block_z(5);
  launch->set_shared_bytes(1024);
  launch->set_cooperative(true);
  launch->set_cluster_x(2), launch->set_cluster_y(4), launch->set_cluster_z(1);
  launch->set_programmatic(true);
  launch->set_priority(-5);
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kLaunchCall, "cudaLaunchKernel", shape, &session, kWords<LaunchShape>, 1), expected);
}

CudnnShape ExampleCudnn() {
  CudnnShape shape = {};
  shape.operation = CudnnOperation::kConvolutionBackwardWeights;
  shape.spatial_dims = 2;
  shape.compute_type = DataType::kF32;
  shape.algorithm = 1, shape.math_type = -1, shape.mode = -1, shape.groups = 2, shape.convolution_mode = 1;
  shape.pad[0] = 3, shape.pad[1] = 4;
  shape.stride[0] = 1, shape.stride[1] = 2;
  shape.dilation[0] = 1, shape.dilation[1] = 1;
  shape.workspace_bytes = 65536;
  shape.tensors[0] = {TensorRole::kX, DataType::kF16, 4, 1, {8, 3, 32, 33}, {3168, 1056, 33, 1}};
  shape.tensors[1] = {TensorRole::kDy, DataType::kS8, 2, 32, {8, -1}, {300, 1}};
  return shape;
}

void SetExampleCudnn(trace::Cudnn* cudnn) {
  cudnn->set_operation("convolution_backward_weights");
  trace::CudnnTensor* x = cudnn->add_tensor();
  x->set_role(trace::CudnnTensor::X);
  x->set_type(trace::F16);
  for (int64_t dim : {8, 3, 32, 33}) x->add_dim(dim);
  for (int64_t stride : {3168, 1056, 33, 1}) x->add_stride(stride);
  x->set_vector_count(1);
  trace::CudnnTensor* dy = cudnn->add_tensor();
  dy->set_role(trace::CudnnTensor::DY);
  dy->set_type(trace::S8);
  dy->add_dim(8), dy->add_dim(-1), dy->add_stride(300), dy->add_stride(1);
  dy->set_vector_count(32);
  cudnn->add_pad(3), cudnn->add_pad(4), cudnn->add_stride(1), cudnn->add_stride(2), cudnn->add_dilation(1),
      cudnn->add_dilation(1);
  cudnn->set_groups(2);
  cudnn->set_convolution_mode(1);
  cudnn->set_compute_type(trace::F32);
  cudnn->set_workspace_bytes(65536);
  cudnn->set_algorithm(1), cudnn->set_math_type(-1), cudnn->set_mode(-1);
}

TEST(DescribeCudaTest, LegacyCudnn) {
  TestSession session(65536);
  CudnnShape shape = ExampleCudnn();
  shape.captured = 1;
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cudnnConvolutionBackwardFilter", "cudnn");
  SetExampleCudnn(op->mutable_cudnn());
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kCudnnCall, "cudnnConvolutionBackwardFilter", shape, &session), expected);
}

TEST(DescribeCudaTest, CudnnOperationsAreNamed) {
  TestSession session(65536);
  const auto name_of = [&](CudnnOperation operation) {
    CudnnShape shape = {};
    shape.operation = operation;
    trace::Interned parsed;
    EXPECT_TRUE(parsed.ParseFromString(Describe(RecordType::kCudnnCall, "cudnnPoolingForward", shape, &session)));
    return parsed.op(0).cudnn().operation();
  };
  EXPECT_EQ(name_of(CudnnOperation::kUnknown), "unknown");
  EXPECT_EQ(name_of(CudnnOperation::kRnnBackwardWeights), "rnn_backward_weights");
  EXPECT_EQ(name_of(static_cast<CudnnOperation>(255)), "unknown");
}

// More dimensions than the record has room for must not be read.
TEST(DescribeCudaTest, HostileCountsOfDimensions) {
  TestSession session(65536);
  CudnnShape shape = ExampleCudnn();
  shape.spatial_dims = 255;
  for (CudnnTensorShape& tensor : shape.tensors) tensor.role = TensorRole::kX, tensor.dims = 255;
  trace::Interned parsed;
  ASSERT_TRUE(parsed.ParseFromString(Describe(RecordType::kCudnnCall, "cudnnConvolutionForward", shape, &session)));
  EXPECT_EQ(parsed.op(0).cudnn().pad_size(), 3);
  ASSERT_EQ(parsed.op(0).cudnn().tensor_size(), CudnnShape::kTensors);
  EXPECT_EQ(parsed.op(0).cudnn().tensor(CudnnShape::kTensors - 1).dim_size(), 8);
}

TEST(DescribeCudaTest, Plan) {
  TestSession session(65536, 2, kRoom);
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cudnnBackendExecute", "cudnn");
  trace::Cudnn* cudnn = op->mutable_cudnn();
  SetExampleCudnn(cudnn);
  cudnn->mutable_plan()->set_engine(38);
  cudnn->mutable_plan()->set_number(2);
  const uint32_t plan = session.PutDefinition(DefinitionKind::kCudnnPlan, cudnn->SerializeAsString());
  cudnn->set_pack_seen_before(true);
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kPlanCall, "cudnnBackendExecute", PlanShape{plan, 1, 1, {}}, &session), expected);
}

TEST(DescribeCudaTest, Search) {
  TestSession session(65536);
  SearchShape shape = {};
  shape.problem = ExampleCudnn();
  shape.measured = 1;
  shape.requested = 8;
  shape.candidate_count = 2;
  shape.candidates[0] = {1, 0, 1500000, 4096, 1, 2};
  shape.candidates[1] = {-7, 9, 0, 0, 0, -1};
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "cudnnFindConvolutionBackwardFilterAlgorithm", "cudnn", 0);
  trace::CudnnSearch* search = op->mutable_cudnn_search();
  SetExampleCudnn(search->mutable_problem());
  search->set_measured(true);
  search->set_requested(8);
  trace::CudnnSearch::Candidate* best = search->add_candidate();
  best->set_algorithm(1), best->set_time_ns(1500000), best->set_workspace_bytes(4096), best->set_determinism(1),
      best->set_math_type(2);
  trace::CudnnSearch::Candidate* failed = search->add_candidate();
  failed->set_algorithm(-7), failed->set_status(9), failed->set_math_type(-1);
  const char* name = "cudnnFindConvolutionBackwardFilterAlgorithm";
  ExpectSame(Describe(RecordType::kSearchCall, name, shape, &session, kWords<SearchShape>, 0), expected);
  shape.candidate_count = 255;
  trace::Interned parsed;
  ASSERT_TRUE(parsed.ParseFromString(Describe(RecordType::kSearchCall, name, shape, &session, kWords<SearchShape>, 0)));
  EXPECT_EQ(parsed.op(0).cudnn_search().candidate_size(), 8);
}

TEST(DescribeCudaTest, Collective) {
  TestSession session(65536);
  const CollectiveShape shape = {
      CollectiveKind::kSendReceive, DataType::kBf16, 1, 1, -1, -1, 3, 8, 2, uint64_t{1} << 35, 77};
  trace::Interned expected;
  trace::OpDefinition* op = AddOp(&expected, "ncclAllReduce", "nccl");
  trace::Collective* collective = op->mutable_collective();
  collective->set_kind(trace::Collective::SEND_RECEIVE);
  collective->set_bytes(uint64_t{1} << 35);
  collective->set_count(77);
  collective->set_data_type(trace::BF16);
  collective->set_reduction(-1), collective->set_peer(-1), collective->set_communicator(2), collective->set_rank(3);
  collective->set_ranks(8);
  collective->set_blocking(true);
  op->set_captured(true);
  ExpectSame(Describe(RecordType::kCollectiveCall, "ncclAllReduce", shape, &session), expected);
}

TEST(DescribeCudaTest, Allocation) {
  TestSession session(65536);
  trace::Interned expected;
  trace::Allocation* allocation = AddOp(&expected, "cudaFree", "cuda_memory", 2)->mutable_allocation();
  allocation->set_kind(trace::Allocation::POOL);
  allocation->set_is_free(true);
  allocation->set_bytes(99);
  const AllocationShape shape = {AllocationKind::kPool, 1, {}, 99};
  ExpectSame(Describe(RecordType::kAllocationCall, "cudaFree", shape, &session, kWords<AllocationShape>, 2), expected);
}

TEST(DescribeCudaTest, TruncatedShapesSayNothing) {
  using T = RecordType;
  const std::pair<RecordType, int> shapes[] = {{T::kCudaGemmCall, kWords<CudaGemmShape>},
                                               {T::kCopyCall, kWords<CopyShape>},
                                               {T::kLaunchCall, kWords<LaunchShape>},
                                               {T::kCudnnCall, kWords<CudnnShape>},
                                               {T::kPlanCall, kWords<PlanShape>},
                                               {T::kSearchCall, kWords<SearchShape>},
                                               {T::kCollectiveCall, kWords<CollectiveShape>},
                                               {T::kAllocationCall, kWords<AllocationShape>},
                                               {T::kMatrixCall, kWords<MatrixShape>},
                                               {T::kGemmCall, kWords<GemmShape>}};
  TestSession session(65536);
  trace::Interned expected;
  AddOp(&expected, "cudaMemcpy", "cuda_copy");
  for (const auto& [type, words] : shapes) {
    ExpectSame(Describe(type, "cudaMemcpy", SearchShape{}, &session, static_cast<uint8_t>(words - 1)), expected);
  }
}

// Definitions that are missing, of another kind, or end beyond the region: the op is described without them.
TEST(DescribeCudaTest, HostileDefinitions) {
  const auto name_of = [](TestSession* session, uint32_t number) {
    trace::Interned parsed;
    const LaunchShape shape = {number, {1, 1, 1}, {1, 1, 1}, 0, 0, 0, {}};
    EXPECT_TRUE(parsed.ParseFromString(
        Describe(RecordType::kLaunchCall, "cudaLaunchKernel", shape, session, kWords<LaunchShape>, 1)));
    EXPECT_EQ(parsed.op(0).launch().grid_x(), 1u);
    return parsed.op(0).launch().kernel();
  };
  TestSession session(65536, 2, kRoom);
  const uint32_t plan = session.PutDefinition(DefinitionKind::kCudnnPlan, "abc");
  const uint32_t kernel = session.PutDefinition(DefinitionKind::kKernel, "kernel\xff");
  EXPECT_EQ(name_of(&session, kernel), "kernel?");
  for (uint32_t number : {0u, plan, kernel + 1, kernel + 100, UINT32_MAX})
    EXPECT_EQ(name_of(&session, number), "") << number;
  char* data = reinterpret_cast<char*>(session.header()) + kSessionDataStart;
  auto definition = reinterpret_cast<Definition*>(data + (kernel - 1) * 8);
  for (uint32_t bytes : {9u, 1000u, UINT32_MAX}) {
    definition->bytes = bytes;
    EXPECT_EQ(name_of(&session, kernel), "") << bytes;
  }
  definition->bytes = 8;  // up to the end
  EXPECT_EQ(name_of(&session, kernel).size(), 8u);
  for (uint64_t end : {uint64_t{0}, uint64_t{kernel}, kDefinitionsCapacity + 8, UINT64_MAX - 7}) {
    session.header()->definitions_bytes = end;
    EXPECT_EQ(name_of(&session, kernel), "") << end;
  }
  // A file that is shorter than its header says.
  session.header()->definitions_bytes = kRoom;
  EXPECT_EQ(FindDefinition(session.header(), kSessionDataStart + kRoom - 1, kernel, DefinitionKind::kKernel).data,
            nullptr);
  EXPECT_NE(FindDefinition(session.header(), kSessionDataStart + kRoom, kernel, DefinitionKind::kKernel).data, nullptr);
}

// A stray write of the host may corrupt a plan: the trace must still be parseable.
TEST(DescribeCudaTest, APlanThatIsNoMessageDoesNotSpoilTheTrace) {
  TestSession session(65536, 2, kRoom);
  for (const std::string& bytes : {std::string("{\"json\": 1}"),
                                   std::string("\x0a\x7f"
                                               "abc"),
                                   std::string(40, '\xff')}) {
    const uint32_t plan = session.PutDefinition(DefinitionKind::kCudnnPlan, bytes);
    trace::Interned parsed;
    ASSERT_TRUE(parsed.ParseFromString(
        Describe(RecordType::kPlanCall, "cudnnBackendExecute", PlanShape{plan, 0, 0, {}}, &session)))
        << bytes;
    EXPECT_EQ(parsed.op(0).cudnn().operation(), "unknown");
  }
}

}  // namespace
}  // namespace dlhook
