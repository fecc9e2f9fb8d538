// Calls of a training program as its libraries see them, each with its true layer and direction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {

// A square convolution from `in` channels of `size` x `size` to `out` channels.
struct Conv {
  int64_t in = 0;
  int64_t out = 0;
  int64_t size = 0;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  int64_t groups = 1;
  int64_t out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
};

// `truth` in all methods: "conv1 forward", "conv2 backward-data" …; "" for calls outside layers.
class StructureCalls {
 public:
  void OneDnnConv(const Conv& conv, int64_t batch, const std::string& direction, const std::string& truth);
  // Any other primitive, e.g. "pooling", "forward_training", "alg:pooling_max", "mb8ic64_ih…".
  void OneDnn(const std::string& primitive, const std::string& direction, const std::string& tensors,
              const std::string& auxiliary, const std::string& problem, const std::string& truth);
  void Reorder(const std::string& dims, const std::string& from, const std::string& to, const std::string& truth);

  // Column-major, as in BLAS. Addresses of A, B and C; all 0: none.
  void Gemm(int64_t m, int64_t n, int64_t k, const std::string& trans, uint64_t a, uint64_t b, uint64_t c,
            const std::string& truth);
  void Gemv(int64_t m, int64_t k, const std::string& trans, uint64_t a, uint64_t x, uint64_t y,
            const std::string& truth);
  // A product of heads, which are parts of wider matrices: leading dimension `ld`.
  void Slice(int64_t size, const std::string& trans, int64_t ld, uint64_t a, uint64_t b, uint64_t c,
             const std::string& truth);

  // y[batch, out] = x[batch, in] wT and its gradients as in PyTorch. 0: no address.
  void Linear(int64_t batch, int64_t in, int64_t out, uint64_t x, uint64_t w, uint64_t y, const std::string& layer);
  void LinearBackward(int64_t batch, int64_t in, int64_t out, uint64_t x, uint64_t w, uint64_t dy,
                      const std::string& layer, bool has_data = true);

  // cuDNN's legacy API: `fields` of trace::Cudnn, as textproto.
  void Cudnn(const std::string& fields, uint64_t input, uint64_t filter, uint64_t result, const std::string& truth);

  // Compares every call with its truth. Returns the attribution for further checks.
  Attribution Check();
  TraceModel Build() { return builder_.Build(); }

 private:
  void Add(const trace::OpDefinition& definition, std::vector<uint64_t> operands, const std::string& truth);

  ModelBuilder builder_;
  std::vector<std::string> truths_;
};

std::vector<std::string> NamesOf(const Attribution& attribution);
// The layer of this name; fails the test if there is none.
const Layer& LayerNamed(const Attribution& attribution, const std::string& name);

}  // namespace dlhook::analyzer
