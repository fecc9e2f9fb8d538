// A framework like Caffe, which does not report its layers: two convolutions of one shape (image by image, im2col) and
// two linear layers, trained for some steps. layered STEPS
#include <cblas.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace caffe {

constexpr int kImages = 3, kChannels = 4, kPositions = 36, kArea = 9;

template <typename T>
class Layer {
 public:
  virtual ~Layer() = default;
  virtual void Forward_cpu(const T* bottom, T* top) = 0;
  virtual void Backward_cpu(const T* bottom, const T* top_diff, T* bottom_diff) = 0;
};

template <typename T>
class ConvolutionLayer : public Layer<T> {
 public:
  void Forward_cpu(const T*, T* top) override {
    for (int i = 0; i < kImages; ++i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kChannels, kPositions, kChannels * kArea, 1,
                  weights_.data(), kChannels * kArea, columns_.data(), kPositions, 0, top + i * kChannels * kPositions,
                  kPositions);
    }
  }
  void Backward_cpu(const T*, const T* top_diff, T* bottom_diff) override {
    for (int i = 0; i < kImages; ++i) {
      const T* const diff = top_diff + i * kChannels * kPositions;
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, kChannels, kChannels * kArea, kPositions, 1, diff,
                  kPositions, columns_.data(), kPositions, 1, weights_diff_.data(), kChannels * kArea);
      if (bottom_diff == nullptr) continue;
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, kChannels * kArea, kPositions, kChannels, 1, weights_.data(),
                  kChannels * kArea, diff, kPositions, 0, columns_diff_.data(), kPositions);
    }
  }

 private:
  std::vector<T> weights_ = std::vector<T>(kChannels * kChannels * kArea, 0.1), weights_diff_ = weights_;
  std::vector<T> columns_ = std::vector<T>(kChannels * kArea * kPositions, 0.1), columns_diff_ = columns_;
};

template <typename T>
class InnerProductLayer : public Layer<T> {
 public:
  InnerProductLayer(int inputs, int outputs)
      : inputs_(inputs), outputs_(outputs), weights_(inputs * outputs, 0.1), diff_(weights_) {}
  void Forward_cpu(const T* bottom, T* top) override {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, kImages, outputs_, inputs_, 1, bottom, inputs_,
                weights_.data(), inputs_, 0, top, outputs_);
  }
  void Backward_cpu(const T* bottom, const T* top_diff, T* bottom_diff) override {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs_, inputs_, kImages, 1, top_diff, outputs_, bottom,
                inputs_, 1, diff_.data(), inputs_);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kImages, inputs_, outputs_, 1, top_diff, outputs_,
                weights_.data(), inputs_, 0, bottom_diff, inputs_);
  }

 private:
  int inputs_, outputs_;
  std::vector<T> weights_, diff_;
};

template class ConvolutionLayer<float>;
template class InnerProductLayer<float>;

}  // namespace caffe

int main(int argc, char** argv) {
  using namespace caffe;
  constexpr int kFeatures = kChannels * kPositions;
  std::vector<std::unique_ptr<Layer<float>>> net;
  net.emplace_back(new ConvolutionLayer<float>);
  net.emplace_back(new ConvolutionLayer<float>);
  net.emplace_back(new InnerProductLayer<float>(kFeatures, 20));
  net.emplace_back(new InnerProductLayer<float>(20, 5));
  std::vector<std::vector<float>> data(5, std::vector<float>(kImages * kFeatures, 0.1f)), diff = data;
  const int steps = argc > 1 ? atoi(argv[1]) : 1;
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < net.size(); ++i) net[i]->Forward_cpu(data[i].data(), data[i + 1].data());
    for (size_t i = net.size(); i-- > 0;) {
      net[i]->Backward_cpu(data[i].data(), diff[i + 1].data(), i == 0 ? nullptr : diff[i].data());
    }
  }
}
