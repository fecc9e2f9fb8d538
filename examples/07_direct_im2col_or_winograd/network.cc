// The convolutions of a small network, forward and backward, in one of three ways:
//
//   network direct     oneDNN's direct convolutions
//   network im2col     a matrix of patches, and OpenBLAS's product
//   network winograd   oneDNN's Winograd where it has one, else what it chooses
//
// Prints the mean size of each layer's results, which does not depend on the way.
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <dnnl.hpp>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Floats = std::vector<float>;
constexpr int kImages = 8, kSteps = 10;

struct Shape {
  int in, out, size, kernel, stride;
  int Pad() const { return kernel / 2; }
  int Result() const { return (size + 2 * Pad() - kernel) / stride + 1; }
};

Floats Numbers(size_t count, int period) {
  Floats numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(static_cast<int>(i) % period - period / 2) / 16;
  return numbers;
}

// Of one layer: what it reads and writes is N, C, H, W; the filters are K, C, R, S.
class Convolution {
 public:
  explicit Convolution(const Shape& shape)
      : shape_(shape),
        input_(Numbers(size_t{kImages} * shape.in * shape.size * shape.size, 13)),
        filter_(Numbers(size_t(shape.out) * shape.in * shape.kernel * shape.kernel, 11)),
        output_(size_t{kImages} * shape.out * shape.Result() * shape.Result()) {}
  virtual ~Convolution() = default;
  virtual void Forward() = 0;
  virtual void Backward() = 0;  // both gradients, of the result itself
  virtual const Floats& Output() { return output_; }

 protected:
  const Shape shape_;
  Floats input_, filter_, output_;
};

class Im2col : public Convolution {
 public:
  explicit Im2col(const Shape& shape)
      : Convolution(shape), patches_(size_t(Rows()) * Columns()), data_(input_.size()), weights_(filter_.size()) {}

  void Forward() override {
    for (int image = 0; image < kImages; ++image) {
      Walk(image, [&](float& patch, size_t at) { patch = input_[at]; });
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, shape_.out, Columns(), Rows(), 1, filter_.data(), Rows(),
                  patches_.data(), Columns(), 0, Result(image), Columns());
    }
  }

  void Backward() override {
    std::fill(data_.begin(), data_.end(), 0.f);
    for (int image = 0; image < kImages; ++image) {
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, Rows(), Columns(), shape_.out, 1, filter_.data(), Rows(),
                  Result(image), Columns(), 0, patches_.data(), Columns());
      Walk(image, [&](float& patch, size_t at) { data_[at] += patch; });
      Walk(image, [&](float& patch, size_t at) { patch = input_[at]; });
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape_.out, Rows(), Columns(), 1, Result(image), Columns(),
                  patches_.data(), Columns(), image == 0 ? 0 : 1, weights_.data(), Rows());
    }
  }

 private:
  int Rows() const { return shape_.in * shape_.kernel * shape_.kernel; }
  int Columns() const { return shape_.Result() * shape_.Result(); }
  float* Result(int image) { return &output_[size_t(image) * shape_.out * Columns()]; }

  // Each element of the matrix of patches with its place in the input; those beyond the border are 0.
  template <typename Function>
  void Walk(int image, Function&& function) {
    float* patch = patches_.data();
    const int result = shape_.Result(), size = shape_.size;
    for (int row = 0; row < Rows(); ++row) {
      const int s = row % shape_.kernel, r = row / shape_.kernel % shape_.kernel,
                c = row / shape_.kernel / shape_.kernel;
      for (int p = 0; p < result; ++p) {
        for (int q = 0; q < result; ++q, ++patch) {
          const int h = p * shape_.stride + r - shape_.Pad(), w = q * shape_.stride + s - shape_.Pad();
          if (h < 0 || w < 0 || h >= size || w >= size) {
            *patch = 0;
          } else {
            function(*patch, ((size_t(image) * shape_.in + c) * size + h) * size + w);
          }
        }
      }
    }
  }

  Floats patches_, data_, weights_;
};

class OneDnn : public Convolution {
 public:
  OneDnn(const Shape& shape, dnnl::algorithm algorithm) : Convolution(shape), algorithm_(algorithm) {
    using dnnl::memory;
    const memory::dims in = {kImages, shape.in, shape.size, shape.size},
                       out = {kImages, shape.out, shape.Result(), shape.Result()};
    const memory::dims filter = {shape.out, shape.in, shape.kernel, shape.kernel};
    const auto any = [](const memory::dims& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    const memory::dims stride = {shape.stride, shape.stride}, pad = {shape.Pad(), shape.Pad()};
    const auto forward = Describe<dnnl::convolution_forward>([&](dnnl::algorithm by) {
      const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, by, any(in), any(filter), any(out),
                                                 stride, pad, pad);
      return dnnl::convolution_forward::primitive_desc(desc, engine_, /*allow_empty=*/true);
    });
    const auto data = Describe<dnnl::convolution_backward_data>([&](dnnl::algorithm by) {
      const dnnl::convolution_backward_data::desc desc(by, any(in), any(filter), any(out), stride, pad, pad);
      return dnnl::convolution_backward_data::primitive_desc(desc, engine_, forward, /*allow_empty=*/true);
    });
    const auto weights = Describe<dnnl::convolution_backward_weights>([&](dnnl::algorithm by) {
      const dnnl::convolution_backward_weights::desc desc(by, any(in), any(filter), any(out), stride, pad, pad);
      return dnnl::convolution_backward_weights::primitive_desc(desc, engine_, forward, /*allow_empty=*/true);
    });
    result_ = memory(forward.dst_desc(), engine_);
    Add(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, From(input_, in, forward.src_desc())},
                                             {DNNL_ARG_WEIGHTS, From(filter_, filter, forward.weights_desc())},
                                             {DNNL_ARG_DST, result_}});
    Add(dnnl::convolution_backward_data(data), {{DNNL_ARG_DIFF_DST, memory(data.diff_dst_desc(), engine_)},
                                                {DNNL_ARG_WEIGHTS, From(filter_, filter, data.weights_desc())},
                                                {DNNL_ARG_DIFF_SRC, memory(data.diff_src_desc(), engine_)}});
    Add(dnnl::convolution_backward_weights(weights),
        {{DNNL_ARG_DIFF_DST, memory(weights.diff_dst_desc(), engine_)},
         {DNNL_ARG_SRC, From(input_, in, weights.src_desc())},
         {DNNL_ARG_DIFF_WEIGHTS, memory(weights.diff_weights_desc(), engine_)}});
  }

  void Forward() override { Execute(0); }
  void Backward() override {
    Execute(1);
    Execute(2);
  }
  const Floats& Output() override {
    const dnnl::memory::dims dims = {kImages, shape_.out, shape_.Result(), shape_.Result()};
    dnnl::memory plain({dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::abcd}, engine_, output_.data());
    Reorder(result_, plain);
    return output_;
  }

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  template <typename Primitive, typename Make>
  typename Primitive::primitive_desc Describe(Make&& make) {
    const typename Primitive::primitive_desc wanted = make(algorithm_);
    return wanted ? wanted : make(dnnl::algorithm::convolution_auto);
  }

  void Add(const dnnl::primitive& primitive, Arguments arguments) {
    calls_.emplace_back(primitive, std::move(arguments));
  }

  void Execute(int i) {
    calls_[i].first.execute(stream_, calls_[i].second);
    stream_.wait();
  }

  void Reorder(dnnl::memory& from, dnnl::memory& to) {
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }

  dnnl::memory From(Floats& numbers, const dnnl::memory::dims& dims, const dnnl::memory::desc& desc) {
    dnnl::memory plain({dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::abcd}, engine_, numbers.data());
    dnnl::memory memory(desc, engine_);
    Reorder(plain, memory);
    return memory;
  }

  const dnnl::algorithm algorithm_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<std::pair<dnnl::primitive, Arguments>> calls_;
  dnnl::memory result_;
};

std::unique_ptr<Convolution> Make(const std::string& way, const Shape& shape) {
  if (way == "im2col") return std::make_unique<Im2col>(shape);
  return std::make_unique<OneDnn>(
      shape, way == "winograd" ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "direct";
  const Shape shapes[] = {{32, 64, 28, 3, 1}, {64, 64, 28, 3, 2}, {64, 128, 14, 1, 1}};
  std::vector<std::unique_ptr<Convolution>> convolutions;
  for (const Shape& shape : shapes) convolutions.push_back(Make(way, shape));
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 3; ++i) convolutions[i]->Forward();
    for (int i = 2; i >= 0; --i) convolutions[i]->Backward();
  }
  for (int i = 0; i < 3; ++i) {
    const Floats& output = convolutions[i]->Output();
    double sum = 0;
    for (const float value : output) sum += std::abs(value);
    std::printf("conv%d %.4f\n", i + 1, sum / static_cast<double>(output.size()));
  }
}
