#include <initializer_list>
#include <new>

#include "preload/abi/arguments.h"
#include "preload/abi/cuda_types.h"
#include "preload/decode/decoders.h"
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
  if (api.tensor == nullptr || api.tensor(descriptor, kMaxDims, &type, &dims, tensor->dim, tensor->stride) != 0) return;
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
  if (api.filter == nullptr || api.filter(descriptor, kMaxDims, &type, &format, &dims, tensor->dim) != 0) return;
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

void ReadConvolution(const CudnnApi& api, const void* descriptor, CudnnShape* shape) {
  int pad[kMaxDims] = {};
  int stride[kMaxDims] = {};
  int dilation[kMaxDims] = {};
  int dims = 0;
  int type = -1;
  if (api.convolution == nullptr || descriptor == nullptr) return;
  if (api.convolution(descriptor, kMaxDims - 2, &dims, pad, stride, dilation, &shape->convolution_mode, &type) != 0)
    return;
  shape->spatial_dims = static_cast<uint8_t>(dims < 3 ? dims : 3);
  for (int i = 0; i < shape->spatial_dims; ++i) {
    shape->pad[i] = pad[i];
    shape->stride[i] = stride[i];
    shape->dilation[i] = dilation[i];
  }
  shape->compute_type = CudnnType(type);
  shape->groups = 1;
  if (api.groups != nullptr) api.groups(descriptor, &shape->groups);
  if (api.math_type != nullptr) api.math_type(descriptor, &shape->math_type);
}

// The window is stored as dilation, which poolings do not have.
void ReadPooling(const CudnnApi& api, const void* descriptor, CudnnShape* shape) {
  int window[kMaxDims] = {};
  int pad[kMaxDims] = {};
  int stride[kMaxDims] = {};
  int dims = 0;
  int nan = 0;
  if (api.pooling == nullptr || descriptor == nullptr) return;
  if (api.pooling(descriptor, kMaxDims - 2, &shape->mode, &nan, &dims, window, pad, stride) != 0) return;
  shape->spatial_dims = static_cast<uint8_t>(dims < 3 ? dims : 3);
  for (int i = 0; i < shape->spatial_dims; ++i) {
    shape->pad[i] = pad[i];
    shape->stride[i] = stride[i];
    shape->dilation[i] = window[i];
  }
}

// Modes that are in a separate descriptor.
void ReadMode(const CudnnApi& api, const CudnnArgs& args, CudnnShape* shape) {
  int unused[4];
  double coefficient;
  if (args.activation != nullptr && api.activation != nullptr && args.mode < 0) {
    api.activation(args.activation, &shape->mode, &unused[0], &coefficient);
  }
  if (args.pointwise != nullptr && api.pointwise != nullptr)
    api.pointwise(args.pointwise, &shape->mode, &unused[0], &unused[1]);
  if (args.reduction != nullptr && api.reduction != nullptr) {
    api.reduction(args.reduction, &shape->mode, &unused[0], &unused[1], &unused[2], &unused[3]);
  }
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
  if (const CudnnApi* api = ApiOf<CudnnApi>(args.real)) {
    ReadTensors(*api, args, &shape);
    ReadConvolution(*api, args.convolution, &shape);
    ReadPooling(*api, args.pooling, &shape);
    ReadMode(*api, args, &shape);
    shape.captured = IsHandleCaptured(&StreamApi::cudnn, args.handle, args.real);
  }
  new (record->shape()) CudnnShape(shape);
  StoreAddresses(args, record);
}

void DecodeCudnnRnn(const CudnnRnnArgs& args, CallRecord* record) {
  CudnnShape shape = EmptyShape(args.operation);
  shape.workspace_bytes = args.workspace_bytes;
  if (const CudnnApi* api = ApiOf<CudnnApi>(args.real)) {
    const void* const descriptors[] = {args.x_descriptor, args.y_descriptor};
    const TensorRole roles[] = {TensorRole::kX, TensorRole::kY};
    for (int i = 0; i < 2; ++i) {
      int type = -1;
      int layout = 0;
      double fill;
      CudnnTensorShape& tensor = shape.tensors[i];
      if (api->rnn_data == nullptr || descriptors[i] == nullptr) continue;
      // Steps, batch, features; with a null array the lengths are not queried.
      if (api->rnn_data(descriptors[i], &type, &layout, &tensor.dim[0], &tensor.dim[1], &tensor.dim[2], 0, nullptr,
                        &fill) != 0) {
        continue;
      }
      tensor.role = roles[i];
      tensor.type = CudnnType(type);
      tensor.dims = 3;
      tensor.stride[2] = 1;
      bool batch_major = layout == 2;  // CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED
      tensor.stride[batch_major ? 0 : 1] = tensor.dim[2];
      tensor.stride[batch_major ? 1 : 0] = tensor.dim[2] * tensor.dim[batch_major ? 0 : 1];
    }
    int unused[16];
    void* dropout;
    uint32_t flags;
    int type = -1;
    if (api->rnn != nullptr && args.rnn != nullptr &&
        api->rnn(args.rnn, &shape.algorithm, &shape.mode, &unused[0], &unused[1], &unused[2], &unused[3], &type,
                 &shape.math_type, &unused[4], &unused[5], &unused[6], &shape.groups, &dropout, &flags) == 0) {
      shape.compute_type = CudnnType(type);
    }
    shape.captured = IsHandleCaptured(&StreamApi::cudnn, args.handle, args.real);
  }
  new (record->shape()) CudnnShape(shape);
  record->SetAddresses(args.x, nullptr, args.y);
}

void DecodeCudnnSearch(const CudnnSearchArgs& args, CallRecord* record) {
  SearchShape shape = {};
  shape.problem = EmptyShape(args.operation);
  shape.measured = args.measured;
  shape.requested = static_cast<uint16_t>(args.requested);
  if (const CudnnApi* api = ApiOf<CudnnApi>(args.real)) {
    CudnnArgs problem;
    problem.x_descriptor = args.x_descriptor;
    problem.w_descriptor = args.w_descriptor;
    problem.y_descriptor = args.y_descriptor;
    problem.dx_descriptor = args.dx_descriptor;
    problem.dw_descriptor = args.dw_descriptor;
    problem.dy_descriptor = args.dy_descriptor;
    ReadTensors(*api, problem, &shape.problem);
    ReadConvolution(*api, args.convolution, &shape.problem);
  }
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
