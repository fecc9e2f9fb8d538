#include <initializer_list>
#include <new>

#include "preload/abi/arguments.h"
#include "preload/abi/cuda_types.h"
#include "preload/link/library_api.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline decode {
namespace {

constexpr int kMaxDims = 8;  // CUDNN_DIM_MAX

struct CudnnApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*tensor)(const void* descriptor, int requested, int* type, int* dims, int* dim,
                int* stride) = Find("cudnnGetTensorNdDescriptor");
  int (*filter)(const void* descriptor, int requested, int* type, int* format, int* dims,
                int* dim) = Find("cudnnGetFilterNdDescriptor");
  int (*convolution)(const void* descriptor, int requested, int* dims, int* pad, int* stride, int* dilation, int* mode,
                     int* type) = Find("cudnnGetConvolutionNdDescriptor");
  int (*groups)(const void* descriptor, int* groups) = Find("cudnnGetConvolutionGroupCount");
  int (*math_type)(const void* descriptor, int* math_type) = Find("cudnnGetConvolutionMathType");
  int (*pooling)(const void* descriptor, int requested, int* mode, int* nan, int* dims, int* window, int* pad,
                 int* stride) = Find("cudnnGetPoolingNdDescriptor");
  int (*activation)(const void* descriptor, int* mode, int* nan,
                    double* coefficient) = Find("cudnnGetActivationDescriptor");
  int (*pointwise)(const void* descriptor, int* mode, int* type, int* nan) = Find("cudnnGetOpTensorDescriptor");
  int (*reduction)(const void* descriptor, int* mode, int* type, int* nan, int* indices,
                   int* index_type) = Find("cudnnGetReduceTensorDescriptor");
  int (*rnn)(const void* descriptor, int* algorithm, int* cell, int* bias, int* direction, int* input, int* type,
             int* precision, int* math_type, int* input_size, int* hidden_size, int* projection_size, int* layers,
             void** dropout, uint32_t* flags) = Find("cudnnGetRNNDescriptor_v8");
  int (*rnn_data)(const void* descriptor, int* type, int* layout, int* length, int* batch, int* vector, int requested,
                  int* lengths, void* fill) = Find("cudnnGetRNNDataDescriptor");
};

CudnnShape EmptyShape(CudnnOperation operation) {
  CudnnShape shape = {};
  shape.operation = operation;
  shape.algorithm = shape.math_type = shape.mode = shape.convolution_mode = -1;
  return shape;
}

void ReadTensor(const CudnnApi& api, const void* descriptor, TensorRole role, CudnnTensorShape* tensor) {
  int type = -1;
  int dims = 0;
  tensor->role = role;
  if (!Query(api.tensor, descriptor, kMaxDims, &type, &dims, tensor->dim, tensor->stride)) return;
  tensor->type = CudnnType(type);
  tensor->vector_count = CudnnVectorCount(type);
  tensor->dims = static_cast<uint8_t>(dims < kMaxDims ? dims : kMaxDims);
}

// Filters have a format instead of strides: K, C, R, S in memory order, or with C last (CUDNN_TENSOR_NHWC).
void ReadFilter(const CudnnApi& api, const void* descriptor, TensorRole role, CudnnTensorShape* tensor) {
  int type = -1;
  int format = 0;
  int dims = 0;
  tensor->role = role;
  if (!Query(api.filter, descriptor, kMaxDims, &type, &format, &dims, tensor->dim)) return;
  if (dims > kMaxDims) dims = kMaxDims;
  tensor->type = CudnnType(type);
  tensor->vector_count = CudnnVectorCount(type);
  tensor->dims = static_cast<uint8_t>(dims);
  bool channels_last = format == 1;
  int32_t distance = 1;
  if (channels_last && dims > 1) {
    tensor->stride[1] = 1;
    distance = tensor->dim[1];
  }
  for (int i = dims - 1; i >= 0; --i) {
    if (channels_last && i == 1) continue;
    tensor->stride[i] = distance;
    // In vectors, like the strides of tensors from the library.
    distance *= i == 1 ? tensor->dim[i] / tensor->vector_count : tensor->dim[i];
  }
}

// Steps, batch, features; with a null array the lengths are not queried.
void ReadRnnData(const CudnnApi& api, const void* descriptor, TensorRole role, CudnnTensorShape* tensor) {
  int type = -1;
  int layout = 0;
  double fill;
  int32_t* dim = tensor->dim;
  if (descriptor == nullptr ||
      !Query(api.rnn_data, descriptor, &type, &layout, &dim[0], &dim[1], &dim[2], 0, nullptr, &fill))
    return;
  tensor->role = role;
  tensor->type = CudnnType(type);
  tensor->dims = 3;
  bool batch_major = layout == 2;  // CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED
  tensor->stride[2] = 1;
  tensor->stride[batch_major ? 0 : 1] = dim[2];
  tensor->stride[batch_major ? 1 : 0] = dim[2] * dim[batch_major ? 0 : 1];
}

// The tensors of a call in the order of their slots: at most CudnnShape::kTensors of them.
class TensorList {
 public:
  TensorList(const CudnnApi& api, CudnnShape* shape) : api_(api), shape_(shape) {}
  void Tensor(TensorRole role, const void* descriptor, bool is_filter = false) {
    if (descriptor == nullptr || count_ == CudnnShape::kTensors) return;
    (is_filter ? ReadFilter : ReadTensor)(api_, descriptor, role, &shape_->tensors[count_++]);
  }

 private:
  const CudnnApi& api_;
  CudnnShape* shape_;
  int count_ = 0;
};

// Where a convolution or pooling looks, by the library's getters, which may write more than a shape has room for.
struct Window {
  int dims = 0;
  int pad[kMaxDims] = {}, stride[kMaxDims] = {}, dilation[kMaxDims] = {};

  void Store(CudnnShape* shape) const {
    shape->spatial_dims = static_cast<uint8_t>(dims < 3 ? dims : 3);
    memcpy(shape->pad, pad, sizeof shape->pad[0] * shape->spatial_dims);
    memcpy(shape->stride, stride, sizeof shape->stride[0] * shape->spatial_dims);
    memcpy(shape->dilation, dilation, sizeof shape->dilation[0] * shape->spatial_dims);
  }
};

void ReadConvolution(const CudnnApi& api, const void* descriptor, CudnnShape* shape) {
  Window window;
  int type = -1;
  if (descriptor == nullptr || !Query(api.convolution, descriptor, kMaxDims - 2, &window.dims, window.pad,
                                      window.stride, window.dilation, &shape->convolution_mode, &type))
    return;
  window.Store(shape);
  shape->compute_type = CudnnType(type);
  shape->groups = 1;
  Query(api.groups, descriptor, &shape->groups);
  Query(api.math_type, descriptor, &shape->math_type);
}

// The window is stored as dilation, which poolings do not have.
void ReadPooling(const CudnnApi& api, const void* descriptor, CudnnShape* shape) {
  Window window;
  int nan = 0;
  if (descriptor != nullptr && Query(api.pooling, descriptor, kMaxDims - 2, &shape->mode, &nan, &window.dims,
                                     window.dilation, window.pad, window.stride))
    window.Store(shape);
}

// Modes that are in a separate descriptor.
void ReadMode(const CudnnApi& api, const CudnnArgs& args, CudnnShape* shape) {
  int unused[4];
  double coefficient;
  if (args.activation != nullptr && args.mode < 0)
    Query(api.activation, args.activation, &shape->mode, &unused[0], &coefficient);
  if (args.pointwise != nullptr) Query(api.pointwise, args.pointwise, &shape->mode, &unused[0], &unused[1]);
  if (args.reduction != nullptr)
    Query(api.reduction, args.reduction, &shape->mode, &unused[0], &unused[1], &unused[2], &unused[3]);
}

void ReadTensors(const CudnnApi& api, const CudnnArgs& args, CudnnShape* shape) {
  TensorList tensors(api, shape);
  tensors.Tensor(TensorRole::kX, args.x_descriptor, args.filters);
  tensors.Tensor(TensorRole::kX, args.a_descriptor);
  tensors.Tensor(TensorRole::kW, args.w_descriptor, true);
  tensors.Tensor(TensorRole::kDy, args.dy_descriptor);
  tensors.Tensor(TensorRole::kDx, args.dx_descriptor);
  tensors.Tensor(TensorRole::kDw, args.dw_descriptor, true);
  tensors.Tensor(TensorRole::kY, args.y_descriptor, args.filters);
  tensors.Tensor(TensorRole::kY, args.c_descriptor);
  tensors.Tensor(TensorRole::kDbias, args.db_descriptor);
  tensors.Tensor(TensorRole::kBias, args.bias_descriptor);
  tensors.Tensor(TensorRole::kZ, args.z_descriptor);
  tensors.Tensor(TensorRole::kZ, args.b_descriptor);
}

const void* FirstOf(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (pointer != nullptr) return pointer;
  }
  return nullptr;
}

void StoreAddresses(const CudnnArgs& args, CallRecord* record) {
  bool reads_dy = args.x != nullptr && args.dy != nullptr;
  record->SetAddresses(FirstOf({args.x, args.a, args.dy}), reads_dy ? args.dy : FirstOf({args.w, args.b}),
                       FirstOf({args.dx, args.dw, args.db, args.y, args.c}));
}

}  // namespace

void DecodeCudnn(const CudnnArgs& args, CallRecord* record) {
  CudnnShape shape = EmptyShape(args.operation);
  shape.algorithm = args.algorithm;
  shape.mode = args.mode;
  shape.workspace_bytes = args.workspace_bytes;
  const CudnnApi& api = ApiOf<CudnnApi>(args.real);
  ReadTensors(api, args, &shape);
  ReadConvolution(api, args.convolution, &shape);
  ReadPooling(api, args.pooling, &shape);
  ReadMode(api, args, &shape);
  shape.captured = IsHandleCaptured(&StreamApi::cudnn, args.handle, args.real);
  new (record->shape()) CudnnShape(shape);
  StoreAddresses(args, record);
}

void DecodeCudnnRnn(const CudnnRnnArgs& args, CallRecord* record) {
  CudnnShape shape = EmptyShape(args.operation);
  shape.workspace_bytes = args.workspace_bytes;
  const CudnnApi& api = ApiOf<CudnnApi>(args.real);
  ReadRnnData(api, args.x_descriptor, TensorRole::kX, &shape.tensors[0]);
  ReadRnnData(api, args.y_descriptor, TensorRole::kY, &shape.tensors[1]);
  int unused[16];
  void* dropout;
  uint32_t flags;
  int type = -1;
  if (args.rnn != nullptr &&
      Query(api.rnn, args.rnn, &shape.algorithm, &shape.mode, &unused[0], &unused[1], &unused[2], &unused[3], &type,
            &shape.math_type, &unused[4], &unused[5], &unused[6], &shape.groups, &dropout, &flags)) {
    shape.compute_type = CudnnType(type);
  }
  shape.captured = IsHandleCaptured(&StreamApi::cudnn, args.handle, args.real);
  new (record->shape()) CudnnShape(shape);
  record->SetAddresses(args.x, nullptr, args.y);
}

void DecodeCudnnSearch(const CudnnSearchArgs& args, CallRecord* record) {
  SearchShape shape = {};
  shape.problem = EmptyShape(args.operation);
  shape.measured = args.measured;
  shape.requested = static_cast<uint16_t>(args.requested);
  const CudnnApi& api = ApiOf<CudnnApi>(args.real);
  ReadTensors(api, CudnnArgs::Like(args), &shape.problem);
  ReadConvolution(api, args.convolution, &shape.problem);
  // cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, the same in cuDNN 5 to 9 up to the reserved words.
  struct Performance {
    int32_t algorithm;
    int32_t status;
    float milliseconds;
    uint64_t memory_bytes;
    int32_t determinism;
    int32_t math_type;
    int32_t reserved[3];
  };
  static_assert(sizeof(Performance) == 48);
  int32_t count = record->status == 0 && args.returned != nullptr ? *args.returned : 0;
  for (int32_t i = 0; i < count && i < SearchShape::kCandidates && args.results != nullptr; ++i) {
    Performance result;
    memcpy(&result, static_cast<const char*>(args.results) + static_cast<size_t>(i) * sizeof result, sizeof result);
    uint64_t time_ns = Nanoseconds(result.milliseconds);
    shape.candidates[shape.candidate_count++] = {result.algorithm,    result.status,      time_ns,
                                                 result.memory_bytes, result.determinism, result.math_type};
  }
  if (args.algorithm != nullptr && record->status == 0) {
    shape.candidates[shape.candidate_count++] = {*args.algorithm, 0, 0, 0, -1, -1};
  }
  new (record->shape()) SearchShape(shape);
}

}  // namespace dlhook::inline decode
