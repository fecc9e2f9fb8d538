// cuDNN's interface with one function per operation, with descriptors of the genuine library and without a handle. Each
// line shows the values that the descriptors were made from. Numbers: cudnn_ops_v9.h, cudnn_cnn_v9.h, cudnn_adv_v9.h.
#include <string>
#include <vector>

#include "backend.h"
#include "direct.h"

namespace genuine {
namespace {

using Ints = std::vector<int>;

void* g_library;

// Calls a function by name. The arguments' types must be exactly the function's: there is no prototype to convert them.
template <typename... Arguments>
int Call(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(Lookup(g_library, name))(arguments...);
}

// An address that no device ever had, identified by a number.
void* Data(int number) { return reinterpret_cast<void*>(0x7fb000000000 + static_cast<uintptr_t>(number) * 65536); }

std::string Json(const Ints& values) {
  std::string text;
  for (int value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}

// A descriptor of the genuine library and the values it was made from. Never destroyed: the program is short.
struct Made {
  void* descriptor = nullptr;
  std::string json;
};

Made Create(const char* function) {
  Made made;
  GENUINE_CHECK(Call(function, &made.descriptor));
  return made;
}

// `type`: cudnnDataType_t. Strides in elements, in the order of the dimensions.
Made Tensor(int type, const Ints& dims, const Ints& strides) {
  Made made = Create("cudnnCreateTensorDescriptor");
  GENUINE_CHECK(Call("cudnnSetTensorNdDescriptor", made.descriptor, type, static_cast<int>(dims.size()), dims.data(),
                     strides.data()));
  made.json = "{\"type\":" + std::to_string(type) + ",\"dims\":" + Json(dims) + ",\"strides\":" + Json(strides) + "}";
  return made;
}

// `format`: cudnnTensorFormat_t: 0 NCHW, 1 NHWC, 2 NCHW_VECT_C.
Made Packed(int type, int format, const Ints& dims) {
  Made made = Create("cudnnCreateTensorDescriptor");
  GENUINE_CHECK(Call("cudnnSetTensor4dDescriptor", made.descriptor, format, type, dims[0], dims[1], dims[2], dims[3]));
  made.json =
      "{\"type\":" + std::to_string(type) + ",\"dims\":" + Json(dims) + ",\"format\":" + std::to_string(format) + "}";
  return made;
}

Made Filter(int type, int format, const Ints& dims) {
  Made made = Create("cudnnCreateFilterDescriptor");
  GENUINE_CHECK(
      Call("cudnnSetFilterNdDescriptor", made.descriptor, type, format, static_cast<int>(dims.size()), dims.data()));
  made.json =
      "{\"type\":" + std::to_string(type) + ",\"dims\":" + Json(dims) + ",\"format\":" + std::to_string(format) + "}";
  return made;
}

struct Window {
  Ints pad, stride, dilation;
  int mode = 1, compute_type = 0, groups = 1, math_type = 0;
};

Made Convolution(const Window& window) {
  Made made = Create("cudnnCreateConvolutionDescriptor");
  GENUINE_CHECK(Call("cudnnSetConvolutionNdDescriptor", made.descriptor, static_cast<int>(window.pad.size()),
                     window.pad.data(), window.stride.data(), window.dilation.data(), window.mode,
                     window.compute_type));
  GENUINE_CHECK(Call("cudnnSetConvolutionGroupCount", made.descriptor, window.groups));
  GENUINE_CHECK(Call("cudnnSetConvolutionMathType", made.descriptor, window.math_type));
  made.json = "\"pad\":" + Json(window.pad) + ",\"stride\":" + Json(window.stride) +
              ",\"dilation\":" + Json(window.dilation) + ",\"convolution_mode\":" + std::to_string(window.mode) +
              ",\"compute_type\":" + std::to_string(window.compute_type) +
              ",\"groups\":" + std::to_string(window.groups) + ",\"math_type\":" + std::to_string(window.math_type);
  return made;
}

struct Argument {
  const char* role;
  const Made& tensor;
};

// One line. `fields`: further members; `data`: the numbers of the addresses that dlhook records.
class Lines {
 public:
  explicit Lines(std::FILE* out) : out_(out) {}
  void Write(const char* function, int status, const char* operation, const std::vector<Argument>& tensors,
             const std::string& fields, const Ints& data) {
    std::string list;
    for (const Argument& argument : tensors) {
      list += (list.empty() ? "" : ",") + ("[\"" + std::string(argument.role) + "\"," + argument.tensor.json + "]");
    }
    std::fprintf(out_, "{\"function\":\"%s\",\"status\":%d,\"operation\":\"%s\",\"tensors\":[%s]%s%s,\"data\":%s}\n",
                 function, status, operation, list.c_str(), fields.empty() ? "" : ",", fields.c_str(),
                 Json(data).c_str());
  }

 private:
  std::FILE* out_;
};

constexpr float kOne = 1;
constexpr float kZero = 0;
constexpr void* kNoHandle = nullptr;
constexpr int kF64 = 1, kInt8x4 = 5;

// Forward, backward by data, backward by filter, bias of one convolution, with three algorithms and workspaces.
void CallConvolutions(Lines* lines, const Made& x, const Made& w, const Made& y, const Window& window) {
  Made convolution = Convolution(window);
  auto more = [&](int algorithm, size_t workspace) {
    return convolution.json + ",\"algorithm\":" + std::to_string(algorithm) +
           ",\"workspace\":" + std::to_string(workspace);
  };
  const void* one = &kOne;
  const void* zero = &kZero;
  int status = Call("cudnnConvolutionForward", kNoHandle, one, x.descriptor, Data(1), w.descriptor, Data(2),
                    convolution.descriptor, 6, Data(9), size_t{4096}, zero, y.descriptor, Data(3));
  lines->Write("cudnnConvolutionForward", status, "convolution_forward", {{"X", x}, {"W", w}, {"Y", y}}, more(6, 4096),
               {1, 2, 3});
  status = Call("cudnnConvolutionBackwardData", kNoHandle, one, w.descriptor, Data(2), y.descriptor, Data(3),
                convolution.descriptor, 4, Data(9), size_t{1} << 33, zero, x.descriptor, Data(1));
  lines->Write("cudnnConvolutionBackwardData", status, "convolution_backward_data", {{"W", w}, {"DY", y}, {"DX", x}},
               more(4, size_t{1} << 33), {3, 2, 1});
  status = Call("cudnnConvolutionBackwardFilter", kNoHandle, one, x.descriptor, Data(1), y.descriptor, Data(3),
                convolution.descriptor, 0, Data(9), size_t{0}, zero, w.descriptor, Data(2));
  lines->Write("cudnnConvolutionBackwardFilter", status, "convolution_backward_weights",
               {{"X", x}, {"DY", y}, {"DW", w}}, more(0, 0), {1, 3, 2});
}

void CallAllConvolutions(Lines* lines) {
  CallConvolutions(lines, Packed(kF32, 0, {8, 96, 27, 27}), Filter(kF32, 0, {256, 48, 5, 5}),
                   Packed(kF32, 0, {8, 256, 27, 27}), {{2, 2}, {1, 1}, {1, 1}, 1, kF32, 2, 0});
  CallConvolutions(lines, Packed(kF16, 1, {8, 64, 56, 60}), Filter(kF16, 1, {128, 64, 3, 3}),
                   Packed(kF16, 1, {8, 128, 28, 30}), {{1, 1}, {2, 2}, {1, 1}, 1, kF32, 1, 1});
  CallConvolutions(lines, Packed(kBf16, 1, {2, 32, 16, 16}), Filter(kBf16, 1, {32, 1, 3, 3}),
                   Packed(kBf16, 1, {2, 32, 16, 16}), {{2, 2}, {1, 1}, {2, 2}, 0, kF32, 32, 2});
  // Batch innermost, as cuda-convnet stored its images.
  CallConvolutions(lines, Tensor(kF32, {128, 3, 32, 32}, {1, 32 * 32 * 128, 32 * 128, 128}),
                   Filter(kF32, 0, {64, 3, 5, 5}), Tensor(kF32, {128, 64, 32, 32}, {1, 32 * 32 * 128, 32 * 128, 128}),
                   {{2, 2}, {1, 1}, {1, 1}, 1, kF32, 1, 3});
  CallConvolutions(lines, Tensor(kF64, {2, 4, 9, 17, 21}, {4 * 9 * 17 * 21, 9 * 17 * 21, 17 * 21, 21, 1}),
                   Filter(kF64, 0, {6, 4, 3, 1, 5}),
                   Tensor(kF64, {2, 6, 9, 9, 19}, {6 * 9 * 9 * 19, 9 * 9 * 19, 9 * 19, 19, 1}),
                   {{2, 0, 3}, {1, 2, 1}, {2, 1, 2}, 1, kF64, 1, 0});
  CallConvolutions(lines, Packed(kInt8x4, 2, {4, 64, 14, 14}), Filter(kInt8x4, 2, {64, 64, 3, 3}),
                   Packed(kInt8x4, 2, {4, 64, 14, 14}), {{1, 1}, {1, 1}, {1, 1}, 1, 4, 1, 0});
}

void CallFusedConvolution(Lines* lines) {
  Made x = Packed(kF16, 0, {4, 16, 10, 10}), w = Filter(kF16, 0, {32, 16, 3, 3}), y = Packed(kF16, 0, {4, 32, 8, 8});
  Made bias = Packed(kF16, 0, {1, 32, 1, 1});
  Made convolution = Convolution({{0, 0}, {1, 1}, {1, 1}, 1, kF32, 1, 1});
  Made activation = Create("cudnnCreateActivationDescriptor");
  GENUINE_CHECK(Call("cudnnSetActivationDescriptor", activation.descriptor, 1, 0, 0.0));
  const void* one = &kOne;
  int status = Call("cudnnConvolutionBiasActivationForward", kNoHandle, one, x.descriptor, Data(1), w.descriptor,
                    Data(2), convolution.descriptor, 1, Data(9), size_t{77}, one, y.descriptor, Data(4),
                    bias.descriptor, Data(5), activation.descriptor, y.descriptor, Data(3));
  lines->Write("cudnnConvolutionBiasActivationForward", status, "convolution_bias_activation",
               {{"X", x}, {"W", w}, {"Y", y}, {"BIAS", bias}, {"Z", y}},
               convolution.json + ",\"algorithm\":1,\"workspace\":77,\"mode\":1", {1, 2, 3});
  status = Call("cudnnConvolutionBackwardBias", kNoHandle, one, y.descriptor, Data(3), one, bias.descriptor, Data(5));
  lines->Write("cudnnConvolutionBackwardBias", status, "convolution_backward_bias", {{"DY", y}, {"DBIAS", bias}}, "",
               {3, 0, 5});
}

void CallPooling(Lines* lines) {
  Made x = Packed(kF32, 0, {8, 64, 112, 112}), y = Packed(kF32, 0, {8, 64, 56, 56});
  Made pooling = Create("cudnnCreatePoolingDescriptor");
  int window[] = {3, 2}, pad[] = {1, 0}, stride[] = {2, 2};
  GENUINE_CHECK(Call("cudnnSetPoolingNdDescriptor", pooling.descriptor, 2, 0, 2, &window[0], &pad[0], &stride[0]));
  const std::string said = "\"pad\":[1,0],\"stride\":[2,2],\"dilation\":[3,2],\"mode\":2";
  const void* one = &kOne;
  int status = Call("cudnnPoolingForward", kNoHandle, pooling.descriptor, one, x.descriptor, Data(1), one, y.descriptor,
                    Data(3));
  lines->Write("cudnnPoolingForward", status, "pooling_forward", {{"X", x}, {"Y", y}}, said, {1, 0, 3});
  status = Call("cudnnPoolingBackward", kNoHandle, pooling.descriptor, one, y.descriptor, Data(3), y.descriptor,
                Data(6), x.descriptor, Data(1), one, x.descriptor, Data(7));
  lines->Write("cudnnPoolingBackward", status, "pooling_backward", {{"X", x}, {"DY", y}, {"DX", x}, {"Y", y}}, said,
               {1, 6, 7});
}

void CallActivations(Lines* lines) {
  Made x = Tensor(kF16, {8, 10, 4, 6}, {480, 48, 12, 2}), y = Packed(kF16, 1, {8, 10, 4, 6});
  const void* one = &kOne;
  Made activation = Create("cudnnCreateActivationDescriptor");
  GENUINE_CHECK(Call("cudnnSetActivationDescriptor", activation.descriptor, 4, 0, 1.0));
  int status = Call("cudnnActivationForward", kNoHandle, activation.descriptor, one, x.descriptor, Data(1), one,
                    y.descriptor, Data(3));
  lines->Write("cudnnActivationForward", status, "activation_forward", {{"X", x}, {"Y", y}}, "\"mode\":4", {1, 0, 3});
  status = Call("cudnnSoftmaxForward", kNoHandle, 2, 1, one, x.descriptor, Data(1), one, y.descriptor, Data(3));
  lines->Write("cudnnSoftmaxForward", status, "softmax_forward", {{"X", x}, {"Y", y}}, "\"algorithm\":2,\"mode\":1",
               {1, 0, 3});
  status = Call("cudnnSoftmaxBackward", kNoHandle, 1, 0, one, y.descriptor, Data(3), y.descriptor, Data(6), one,
                x.descriptor, Data(1));
  lines->Write("cudnnSoftmaxBackward", status, "softmax_backward", {{"DY", y}, {"DX", x}, {"Y", y}},
               "\"algorithm\":1,\"mode\":0", {6, 0, 1});
}

void CallElementwise(Lines* lines) {
  Made x = Tensor(kF16, {8, 10, 4, 6}, {480, 48, 12, 2}), y = Packed(kF16, 1, {8, 10, 4, 6});
  Made bias = Packed(kF16, 0, {1, 10, 1, 1});
  const void* one = &kOne;
  int status = Call("cudnnAddTensor", kNoHandle, one, bias.descriptor, Data(5), one, y.descriptor, Data(3));
  lines->Write("cudnnAddTensor", status, "add_tensor", {{"X", bias}, {"Y", y}}, "", {5, 0, 3});
  status = Call("cudnnScaleTensor", kNoHandle, y.descriptor, Data(3), one);
  lines->Write("cudnnScaleTensor", status, "scale_tensor", {{"Y", y}}, "", {0, 0, 3});
  Made function = Create("cudnnCreateOpTensorDescriptor");
  GENUINE_CHECK(Call("cudnnSetOpTensorDescriptor", function.descriptor, 1, 0, 0));
  status = Call("cudnnOpTensor", kNoHandle, function.descriptor, one, x.descriptor, Data(1), one, bias.descriptor,
                Data(5), one, y.descriptor, Data(3));
  lines->Write("cudnnOpTensor", status, "op_tensor", {{"X", x}, {"Z", bias}, {"Y", y}}, "\"mode\":1", {1, 5, 3});
  Made reduction = Create("cudnnCreateReduceTensorDescriptor");
  GENUINE_CHECK(Call("cudnnSetReduceTensorDescriptor", reduction.descriptor, 5, 0, 0, 0, 0));
  status = Call("cudnnReduceTensor", kNoHandle, reduction.descriptor, Data(8), size_t{0}, Data(9), size_t{512}, one,
                x.descriptor, Data(1), one, bias.descriptor, Data(5));
  lines->Write("cudnnReduceTensor", status, "reduce_tensor", {{"X", x}, {"Y", bias}}, "\"mode\":5,\"workspace\":512",
               {1, 0, 5});
}

void CallTransforms(Lines* lines) {
  Made x = Tensor(kF16, {8, 10, 4, 6}, {480, 48, 12, 2}), y = Packed(kF16, 1, {8, 10, 4, 6});
  const void* one = &kOne;
  int status = Call("cudnnTransformTensor", kNoHandle, one, x.descriptor, Data(1), one, y.descriptor, Data(3));
  lines->Write("cudnnTransformTensor", status, "transform_tensor", {{"X", x}, {"Y", y}}, "", {1, 0, 3});
  Made filters = Filter(kF32, 0, {8, 10, 4, 6}), reordered = Filter(kF32, 1, {8, 10, 4, 6});
  Made transform = Create("cudnnCreateTensorTransformDescriptor");
  status = Call("cudnnTransformFilter", kNoHandle, transform.descriptor, one, filters.descriptor, Data(1), one,
                reordered.descriptor, Data(3));
  lines->Write("cudnnTransformFilter", status, "transform_filter", {{"X", filters}, {"Y", reordered}}, "", {1, 0, 3});
}

// Queries of the library about a convolution; batch and response normalization are missing: they follow the handle
// before they check it.
void CallSearch(Lines* lines) {
  Made x = Packed(kF16, 1, {8, 64, 56, 60}), w = Filter(kF16, 1, {128, 64, 3, 3}),
       y = Packed(kF16, 1, {8, 128, 28, 30});
  Made convolution = Convolution({{1, 1}, {2, 2}, {1, 1}, 1, kF32, 1, 1});
  std::vector<char> results(48 * 8);
  int returned = 0;
  void* room = results.data();
  void* out = &returned;
  const std::string said = convolution.json + ",\"requested\":8";
  int status = Call("cudnnFindConvolutionBackwardDataAlgorithm", kNoHandle, w.descriptor, y.descriptor,
                    convolution.descriptor, x.descriptor, 8, out, room);
  lines->Write("cudnnFindConvolutionBackwardDataAlgorithm", status, "convolution_backward_data",
               {{"W", w}, {"DY", y}, {"DX", x}}, said + ",\"measured\":true", {});
  status = Call("cudnnFindConvolutionBackwardFilterAlgorithmEx", kNoHandle, x.descriptor, Data(1), y.descriptor,
                Data(3), convolution.descriptor, w.descriptor, Data(2), 8, out, room, Data(9), size_t{4096});
  lines->Write("cudnnFindConvolutionBackwardFilterAlgorithmEx", status, "convolution_backward_weights",
               {{"X", x}, {"DY", y}, {"DW", w}}, said + ",\"measured\":true", {});
}

}  // namespace

void CallLegacy(void* library, std::FILE* out) {
  g_library = library;
  Lines lines(out);
  CallAllConvolutions(&lines);
  CallFusedConvolution(&lines);
  CallPooling(&lines);
  CallActivations(&lines);
  CallElementwise(&lines);
  CallTransforms(&lines);
  CallSearch(&lines);
}

}  // namespace genuine
