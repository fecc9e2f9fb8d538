// libcudnn, legacy half: convolutions, with algorithms and times from DLHOOK_FAKE_ALGORITHMS (README.md).
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "descriptors.h"

namespace {

constexpr int kSuccess = 0;

int64_t Product(const int* values, int count) {
  int64_t product = 1;
  for (int i = 0; i < count; ++i) product *= values[i];
  return product;
}

// --- algorithms ---

struct Algorithm {
  int id = 0, percent = 100;
  size_t workspace = 0;
};

std::vector<Algorithm> Algorithms() {
  std::vector<Algorithm> algorithms;
  const char* text = fake::Setting("ALGORITHMS", "1:100:0,0:140:0,5:80:2097152");
  while (*text != 0) {
    Algorithm algorithm;
    int length = 0;
    if (sscanf(text, "%d:%d:%zu%n", &algorithm.id, &algorithm.percent, &algorithm.workspace, &length) != 3) {
      fprintf(stderr, "DLHOOK_FAKE_ALGORITHMS: found '%s', expected ALGORITHM:PERCENT:WORKSPACE\n", text);
      abort();
    }
    algorithms.push_back(algorithm);
    text += length;
    if (*text == ',') ++text;
  }
  return algorithms;
}

Algorithm AlgorithmOf(int id) {
  for (const Algorithm& algorithm : Algorithms()) {
    if (algorithm.id == id) return algorithm;
  }
  Algorithm other;
  other.id = id;
  return other;
}

// cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t
struct Result {
  int32_t algorithm, status;
  float milliseconds;
  size_t workspace;
  int32_t deterministic, math_type, reserved[3];
};
static_assert(sizeof(Result) == 48, "cudnnConvolutionFwdAlgoPerf_t");

bool ChannelsLast(const void* tensor) { return As<Tensor>(tensor)->strides[1] == 1; }

// `outer`: the tensor on the side of the output, which determines the number of products.
int64_t TimeOf(const void* outer, const void* filter, int percent) {
  const Tensor& y = *As<Tensor>(outer);
  const Filter& w = *As<Filter>(filter);
  return ConvolutionTime(Product(y.sizes, y.count), Product(w.sizes + 1, w.count - 1), percent);
}

enum class Order { kHeuristic, kMeasured };

// The results of Find and Get; Find really runs them, so it advances the clock.
int Answer(Order order, void* handle, const void* outer, const void* filter, const void* convolution, int requested,
           int* returned, void* results) {
  std::vector<Algorithm> algorithms = Algorithms();
  if (order == Order::kMeasured) {
    for (const Algorithm& algorithm : algorithms)
      LaunchConvolution(handle, TimeOf(outer, filter, algorithm.percent), ChannelsLast(outer));
    std::stable_sort(algorithms.begin(), algorithms.end(), [](auto& a, auto& b) { return a.percent < b.percent; });
  }
  *returned = std::min(requested, static_cast<int>(algorithms.size()));
  for (int i = 0; i < *returned; ++i) {
    const Algorithm& algorithm = algorithms[static_cast<size_t>(i)];
    Result result{};
    result.algorithm = algorithm.id;
    result.milliseconds = static_cast<float>(TimeOf(outer, filter, algorithm.percent)) / 1e6f;
    result.workspace = algorithm.workspace;
    result.deterministic = 1;
    result.math_type = As<Convolution>(convolution)->math_type;
    static_cast<Result*>(results)[i] = result;
    fake::Note("%d:%g", algorithm.id, static_cast<double>(result.milliseconds));
  }
  return kSuccess;
}

std::vector<int64_t> Wide(const int* values, int count) { return std::vector<int64_t>(values, values + count); }

void NoteTensor(const char* name, const void* descriptor) {
  const Tensor& tensor = *As<Tensor>(descriptor);
  NoteNumbers(name, Wide(tensor.sizes, tensor.count), Wide(tensor.strides, tensor.count));
  fake::Note("%s_type=%d", name, tensor.type);
}

struct Problem {
  const char* outer_name;  // y or dy
  const void* outer;
  const char* inner_name;  // x or dx
  const void* inner;
  const char* filter_name;  // w or dw
  const void* filter;
  const void* convolution;
};

int Convolve(void* handle, const Problem& problem, int algorithm) {
  const Filter& filter = *As<Filter>(problem.filter);
  const Convolution& convolution = *As<Convolution>(problem.convolution);
  NoteTensor(problem.inner_name, problem.inner);
  NoteNumbers(problem.filter_name, Wide(filter.sizes, filter.count), {});
  NoteTensor(problem.outer_name, problem.outer);
  NoteNumbers("pad", Wide(convolution.pads, convolution.count), {});
  NoteNumbers("stride", Wide(convolution.strides, convolution.count), {});
  NoteNumbers("dilation", Wide(convolution.dilations, convolution.count), {});
  fake::Note("groups=%d math_type=%d", convolution.groups, convolution.math_type);
  const int64_t nanoseconds = TimeOf(problem.outer, problem.filter, AlgorithmOf(algorithm).percent);
  fake::Note("ns=%lld", static_cast<long long>(nanoseconds));
  LaunchConvolution(handle, nanoseconds, ChannelsLast(problem.outer));
  return kSuccess;
}

}  // namespace

// --- convolutions ---

FAKE(int, cudnnConvolutionForward, void* handle, const void*, const void* x, const void*, const void* w, const void*,
     const void* convolution, int algorithm, void*, size_t, const void*, const void* y, void*) {
  return Convolve(handle, {"y", y, "x", x, "w", w, convolution}, algorithm);
}

FAKE(int, cudnnConvolutionBiasActivationForward, void* handle, const void*, const void* x, const void*, const void* w,
     const void*, const void* convolution, int algorithm, void*, size_t, const void*, const void*, const void*,
     const void*, const void*, const void*, const void* y, void*) {
  return Convolve(handle, {"y", y, "x", x, "w", w, convolution}, algorithm);
}

FAKE(int, cudnnConvolutionBackwardData, void* handle, const void*, const void* w, const void*, const void* dy,
     const void*, const void* convolution, int algorithm, void*, size_t, const void*, const void* dx, void*) {
  return Convolve(handle, {"dy", dy, "dx", dx, "w", w, convolution}, algorithm);
}

FAKE(int, cudnnConvolutionBackwardFilter, void* handle, const void*, const void* x, const void*, const void* dy,
     const void*, const void* convolution, int algorithm, void*, size_t, const void*, const void* dw, void*) {
  return Convolve(handle, {"dy", dy, "x", x, "dw", dw, convolution}, algorithm);
}

FAKE(int, cudnnGetConvolutionForwardAlgorithm_v7, void* handle, const void*, const void* w, const void* convolution,
     const void* y, int requested, int* returned, void* results) {
  return Answer(Order::kHeuristic, handle, y, w, convolution, requested, returned, results);
}

FAKE(int, cudnnGetConvolutionBackwardDataAlgorithm_v7, void* handle, const void* w, const void* dy,
     const void* convolution, const void*, int requested, int* returned, void* results) {
  return Answer(Order::kHeuristic, handle, dy, w, convolution, requested, returned, results);
}

FAKE(int, cudnnGetConvolutionBackwardFilterAlgorithm_v7, void* handle, const void*, const void* dy,
     const void* convolution, const void* dw, int requested, int* returned, void* results) {
  return Answer(Order::kHeuristic, handle, dy, dw, convolution, requested, returned, results);
}

// cuDNN 7 and older: the preferred one by (preference, memory limit).
FAKE(int, cudnnGetConvolutionForwardAlgorithm, void*, const void*, const void*, const void*, const void*, int, size_t,
     int* algorithm) {
  *algorithm = Algorithms().front().id;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionBackwardDataAlgorithm, void*, const void*, const void*, const void*, const void*, int,
     size_t, int* algorithm) {
  *algorithm = Algorithms().front().id;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionBackwardFilterAlgorithm, void*, const void*, const void*, const void*, const void*, int,
     size_t, int* algorithm) {
  *algorithm = Algorithms().front().id;
  return kSuccess;
}

FAKE(int, cudnnFindConvolutionForwardAlgorithm, void* handle, const void*, const void* w, const void* convolution,
     const void* y, int requested, int* returned, void* results) {
  return Answer(Order::kMeasured, handle, y, w, convolution, requested, returned, results);
}

FAKE(int, cudnnFindConvolutionBackwardDataAlgorithm, void* handle, const void* w, const void* dy,
     const void* convolution, const void*, int requested, int* returned, void* results) {
  return Answer(Order::kMeasured, handle, dy, w, convolution, requested, returned, results);
}

FAKE(int, cudnnFindConvolutionBackwardFilterAlgorithm, void* handle, const void*, const void* dy,
     const void* convolution, const void* dw, int requested, int* returned, void* results) {
  return Answer(Order::kMeasured, handle, dy, dw, convolution, requested, returned, results);
}

FAKE(int, cudnnFindConvolutionForwardAlgorithmEx, void* handle, const void*, const void*, const void* w, const void*,
     const void* convolution, const void* y, void*, int requested, int* returned, void* results, void*, size_t) {
  return Answer(Order::kMeasured, handle, y, w, convolution, requested, returned, results);
}

FAKE(int, cudnnFindConvolutionBackwardDataAlgorithmEx, void* handle, const void* w, const void*, const void* dy,
     const void*, const void* convolution, const void*, void*, int requested, int* returned, void* results, void*,
     size_t) {
  return Answer(Order::kMeasured, handle, dy, w, convolution, requested, returned, results);
}

FAKE(int, cudnnFindConvolutionBackwardFilterAlgorithmEx, void* handle, const void*, const void*, const void* dy,
     const void*, const void* convolution, const void* dw, void*, int requested, int* returned, void* results, void*,
     size_t) {
  return Answer(Order::kMeasured, handle, dy, dw, convolution, requested, returned, results);
}

FAKE(int, cudnnGetConvolutionForwardWorkspaceSize, void*, const void*, const void*, const void*, const void*,
     int algorithm, size_t* bytes) {
  *bytes = AlgorithmOf(algorithm).workspace;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionBackwardDataWorkspaceSize, void*, const void*, const void*, const void*, const void*,
     int algorithm, size_t* bytes) {
  *bytes = AlgorithmOf(algorithm).workspace;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionBackwardFilterWorkspaceSize, void*, const void*, const void*, const void*, const void*,
     int algorithm, size_t* bytes) {
  *bytes = AlgorithmOf(algorithm).workspace;
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionForwardAlgorithmMaxCount, void*, int* count) {
  *count = static_cast<int>(Algorithms().size());
  return kSuccess;
}

FAKE(int, cudnnGetConvolutionBackwardDataAlgorithmMaxCount, void* handle, int* count) {
  return behave_cudnnGetConvolutionForwardAlgorithmMaxCount(handle, count);
}

FAKE(int, cudnnGetConvolutionBackwardFilterAlgorithmMaxCount, void* handle, int* count) {
  return behave_cudnnGetConvolutionForwardAlgorithmMaxCount(handle, count);
}
