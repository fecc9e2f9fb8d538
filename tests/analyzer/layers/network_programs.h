// Writes the matrix products of training programs, each with its true layer, direction and step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {

// How a program makes its calls.
enum class Way {
  kBatches,     // one product per batch
  kImages,      // convolutions image by image, with a shared buffer of columns
  kTransposed,  // gradients with swapped operands and transposed results, row- and column-major mixed
  kDynamic,     // batches of many sizes; forward work between backward work; occasional evaluation
};
inline constexpr Way kWays[] = {Way::kBatches, Way::kImages, Way::kTransposed, Way::kDynamic};
const char* WayName(Way way);

struct CallTruth {
  std::string layer;  // "" for work outside layers
  std::string type;   // Layer.type
  LayerDirection direction = LayerDirection::kUnknown;
};

// A tensor of `rows` samples (images have `columns` numbers each).
struct Matrix {
  uint64_t address = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t bytes() const { return 4 * rows * columns; }
};

// A program of a framework that records the forward pass and replays it backward.
class NetworkProgram {
 public:
  explicit NetworkProgram(Way way) : way_(way) {}
  // Weights without biases are adjacent in memory.
  void SetBiases(bool has_biases) { has_biases_ = has_biases; }
  // Operands are recorded only for this many products.
  void KeepOperandsOf(size_t products) { kept_ = products; }

  // Freed blocks are reused, last one first, as by caching allocators.
  Matrix New(int64_t rows, int64_t columns);
  void Free(const Matrix& matrix);

  // Each computes forward; its backward work waits on the tape. A layer's weights exist from its first use on.
  Matrix Linear(const std::string& layer, const Matrix& x, int64_t out);
  Matrix Conv(const std::string& layer, const Matrix& x, int64_t in, int64_t out, int64_t size, int64_t kernel,
              int64_t stride = 1);
  Matrix Attention(const std::string& layer, const Matrix& q, const Matrix& k, const Matrix& v, int64_t heads,
                   int64_t length);
  Matrix Activation(const Matrix& x);  // no product; a new buffer
  Matrix Join(const std::vector<Matrix>& parts);
  // Weights on the left, samples in columns, new weights after each step: networks in courses.
  Matrix CourseLinear(const std::string& layer, const Matrix& x, int64_t out);

  // Computes everything on the tape backward. In the dynamic way with other products in between.
  void Backward();
  // Forward only: frees what was used.
  void Forget();
  void UpdateCourseWeights();
  // Another product of the program, e.g. a metric.
  void Other(int64_t size);

  Way way() const { return way_; }
  const std::vector<CallTruth>& truths() const { return truths_; }
  TraceModel Build() { return builder_.Build(); }

 private:
  struct Side {
    uint64_t address = 0;
    bool transposed = false;
  };
  void Product(int64_t m, int64_t n, int64_t k, Side left, Side right, uint64_t result, const CallTruth& truth,
               int64_t batch = 1);
  Matrix Weights(const std::string& layer, int64_t rows, int64_t columns);
  // Weight gradients: at once, or after those of all inputs.
  void Later(std::function<void()> work);
  Matrix GradientOf(const Matrix& tensor) { return New(tensor.rows, tensor.columns); }

  ModelBuilder builder_;
  Way way_;
  std::vector<CallTruth> truths_;
  uint64_t next_ = 0x7f0000000000;
  std::map<int64_t, std::vector<uint64_t>> free_;
  std::map<std::string, Matrix> weights_;
  std::vector<Matrix> live_;
  std::vector<std::function<void()>> tape_;
  std::vector<std::function<void()>> deferred_;
  bool is_deferring_ = false;
  bool has_biases_ = true;
  size_t kept_ = SIZE_MAX;
  int passes_ = 0;
  int products_ = 0;
};

struct NetworkCase {
  std::string name;
  void (*train)(NetworkProgram&);  // several steps
  int least_recall;                // percent of the calls that must be assigned in every way
};
const std::vector<NetworkCase>& NetworkCases();

// Convolutions and linear layers of random sizes, a different network for each seed.
void TrainAnyNetwork(NetworkProgram& program, uint32_t seed);

// The products of a real program, from recorded/NAME.txt.
struct RecordedProgram {
  TraceModel model;
  std::vector<CallTruth> truths;
};
RecordedProgram ReadRecordedProgram(const std::string& name);

}  // namespace dlhook::analyzer
