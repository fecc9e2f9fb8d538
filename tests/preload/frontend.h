// The calls of a cuDNN frontend, as the tracker sees them: attribute numbers and types of cudnn_graph_v9.h.
#pragma once

#include <vector>

#include "preload/track/cudnn_graph.h"
#include "proto/op.pb.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {

using Handle = const void*;
using Numbers = std::vector<int64_t>;

enum AttributeType : int32_t {
  kDataTypeValue = 1,
  kBooleanValue = 2,
  kInt64Value = 3,
  kDoubleValue = 5,
  kConvolutionModeValue = 7,
  kHeuristicModeValue = 8,
  kPointwiseModeValue = 14,
  kDescriptorValue = 15,
  kCharValue = 24,
  kNormModeValue = 27
};

inline const void* BackendReal() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

// A descriptor at a new address, or at the given one.
inline Handle Create(int32_t type, uint64_t address = 0, int32_t status = 0) {
  static uint64_t next = 0x100000;
  void* descriptor = const_cast<void*>(Pointer(address != 0 ? address : next += 64));
  TrackBackendCreate({type, &descriptor, status, BackendReal()});
  return descriptor;
}

inline void SetRaw(Handle descriptor, int32_t name, int32_t type, int64_t count, const void* elements,
                   int32_t status = 0) {
  TrackBackendSet({descriptor, name, type, count, elements, status, BackendReal()});
}
inline void Set(Handle descriptor, int32_t name, const Numbers& numbers) {
  SetRaw(descriptor, name, kInt64Value, static_cast<int64_t>(numbers.size()), numbers.data());
}
inline void Set(Handle descriptor, int32_t name, int32_t type, int32_t value) {
  SetRaw(descriptor, name, type, 1, &value);
}
inline void Set(Handle descriptor, int32_t name, const std::vector<Handle>& children) {
  SetRaw(descriptor, name, kDescriptorValue, static_cast<int64_t>(children.size()), children.data());
}
inline void Finalize(Handle descriptor, int32_t status = 0) {
  TrackBackendFinalize({descriptor, status, BackendReal()});
}
inline void Destroy(Handle descriptor) { TrackBackendDestroy({descriptor, 0, BackendReal()}); }
inline void Destroy(const std::vector<Handle>& descriptors) {
  for (Handle descriptor : descriptors) Destroy(descriptor);
}

inline Handle Tensor(int64_t uid, int32_t type, const Numbers& dims, const Numbers& strides, bool is_virtual = false) {
  Handle tensor = Create(17);
  Set(tensor, 901, kDataTypeValue, type);
  Set(tensor, 902, dims);
  Set(tensor, 903, strides);
  Set(tensor, 906, Numbers{uid});
  SetRaw(tensor, 907, kBooleanValue, 1, &is_virtual);
  Finalize(tensor);
  return tensor;
}

inline Handle Convolution(const Numbers& pad, const Numbers& post_pad, const Numbers& stride, const Numbers& dilation) {
  Handle convolution = Create(1);
  Set(convolution, 100, kDataTypeValue, 0);
  Set(convolution, 101, kConvolutionModeValue, 1);  // CUDNN_CROSS_CORRELATION
  Set(convolution, 106, Numbers{static_cast<int64_t>(pad.size())});
  Set(convolution, 105, pad);
  Set(convolution, 104, post_pad);
  Set(convolution, 103, stride);
  Set(convolution, 102, dilation);
  Finalize(convolution);
  return convolution;
}

// An operation: attributes that hold one descriptor each.
inline Handle Operation(int32_t type, const std::vector<std::pair<int32_t, Handle>>& children) {
  Handle operation = Create(type);
  for (const auto& [name, child] : children) Set(operation, name, std::vector<Handle>{child});
  const double alpha = 1;
  SetRaw(operation, 700, kDoubleValue, 1, &alpha);
  Finalize(operation);
  return operation;
}

inline Handle Graph(const std::vector<Handle>& operations) {
  Handle graph = Create(15);
  Set(graph, 801, operations);
  Finalize(graph);
  return graph;
}

// Configurations filled by the heuristics of `mode`: `requested` of them created, `returned` filled.
inline std::vector<Handle> Heuristics(Handle graph, int32_t mode, int64_t requested, int64_t returned) {
  Handle heuristic = Create(4);
  Set(heuristic, 201, std::vector<Handle>{graph});
  Set(heuristic, 200, kHeuristicModeValue, mode);
  Finalize(heuristic);
  std::vector<Handle> configurations;
  for (int64_t i = 0; i < requested; ++i) configurations.push_back(Create(3));
  TrackBackendGet({heuristic, 202, kDescriptorValue, requested, &returned, configurations.data(), 0, BackendReal()});
  Destroy(heuristic);
  return configurations;
}

inline Handle Plan(Handle configuration, int32_t status = 0) {
  Handle plan = Create(5);
  Set(plan, 401, std::vector<Handle>{configuration});
  Finalize(plan, status);
  return plan;
}

inline Handle Pack(const Numbers& uids, const std::vector<const void*>& pointers) {
  Handle pack = Create(16);
  SetRaw(pack, 1001, 6, static_cast<int64_t>(pointers.size()), pointers.data());
  Set(pack, 1000, uids);
  Finalize(pack);
  return pack;
}

struct Execution {
  PlanShape shape;
  std::vector<uint64_t> addresses;
};
inline Execution Execute(Handle plan, Handle pack, bool into_graph = false) {
  TestRecord record(kWords<PlanShape>, 3);
  PlanArgs args;
  args.into_graph = into_graph;
  args.handle = Pointer(0x10), args.plan = plan, args.variant_pack = pack, args.real = BackendReal();
  DecodePlan(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  return {record.shape<PlanShape>(), record.addresses()};
}

// The plan as an execution defines it. `build_ticks` and `number` differ between runs: checked and removed.
inline trace::Cudnn Described(Handle plan, uint32_t* number = nullptr) {
  const std::string bytes = DefinitionText(Execute(plan, nullptr).shape.plan, DefinitionKind::kCudnnPlan);
  trace::Cudnn cudnn;
  EXPECT_TRUE(cudnn.ParseFromString(bytes));
  EXPECT_EQ(cudnn.SerializeAsString(), bytes);  // as libprotobuf would write it
  EXPECT_GT(cudnn.plan().number(), 0u);
  if (number != nullptr) *number = cudnn.plan().number();
  if (cudnn.has_plan()) {
    cudnn.mutable_plan()->clear_number();
    cudnn.mutable_plan()->clear_build_ticks();
  }
  return cudnn;
}

}  // namespace dlhook
