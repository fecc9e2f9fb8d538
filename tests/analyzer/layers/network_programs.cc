// Matrix products of training programs: see network_programs.h.
#include "tests/analyzer/layers/network_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer {
namespace {

constexpr LayerDirection kForward = LayerDirection::kForward;
constexpr LayerDirection kData = LayerDirection::kBackwardData;
constexpr LayerDirection kWeights = LayerDirection::kBackwardWeights;
constexpr int64_t kSteps = 8;

// Batch size of a step.
int64_t Batch(const NetworkProgram& p, int64_t step) { return p.way() == Way::kDynamic ? 8 + 3 * (step % 3) : 8; }

}  // namespace

const char* WayName(Way way) {
  switch (way) {
    case Way::kBatches:
      return "batches";
    case Way::kImages:
      return "images";
    case Way::kTransposed:
      return "transposed";
    case Way::kDynamic:
      return "dynamic";
  }
  return "";
}

Matrix NetworkProgram::New(int64_t rows, int64_t columns) {
  Matrix matrix = {0, rows, columns};
  const int64_t size = (matrix.bytes() + 255) / 256 * 256;
  std::vector<uint64_t>& blocks = free_[size];
  if (blocks.empty()) {
    matrix.address = next_;
    next_ += static_cast<uint64_t>(size);
  } else {
    matrix.address = blocks.back();
    blocks.pop_back();
  }
  live_.push_back(matrix);
  return matrix;
}

void NetworkProgram::Free(const Matrix& matrix) {
  const auto same = [&](const Matrix& m) { return m.address == matrix.address; };
  const auto found = std::find_if(live_.begin(), live_.end(), same);
  if (found == live_.end()) return;
  live_.erase(found);
  free_[(matrix.bytes() + 255) / 256 * 256].push_back(matrix.address);
}

Matrix NetworkProgram::Weights(const std::string& layer, int64_t rows, int64_t columns) {
  const auto [at, is_new] = weights_.try_emplace(layer);
  if (is_new) {
    at->second = New(rows, columns);
    live_.pop_back();  // kept
    if (has_biases_) next_ += 256;
  }
  return at->second;
}

// Row-major: result[m, n] = left[m, k] right[k, n]. Every other product is column-major if the way is to mix.
void NetworkProgram::Product(int64_t m, int64_t n, int64_t k, Side left, Side right, uint64_t result,
                             const CallTruth& truth, int64_t batch) {
  const bool exchange = way_ == Way::kTransposed && truth.direction != kForward;
  if (exchange) {  // the transposed result: right' left'
    std::swap(m, n);
    std::swap(left, right);
    left.transposed = !left.transposed;
    right.transposed = !right.transposed;
  }
  const bool row_major = way_ == Way::kTransposed ? ++products_ % 3 == 0 : way_ == Way::kImages;
  if (!row_major) {  // the same memory read column-major is the transposed matrix
    std::swap(m, n);
    std::swap(left, right);
  }
  const std::string trans = absl::StrCat(left.transposed ? "T" : "N", right.transposed ? "T" : "N");
  trace::OpDefinition definition = GemmDefinition(m, n, k, trans, row_major ? "cblas_sgemm" : "sgemm_");
  trace::Gemm* gemm = definition.mutable_gemm();
  gemm->set_row_major(row_major);
  gemm->set_lda(left.transposed != row_major ? k : m);
  gemm->set_ldb(right.transposed != row_major ? n : k);
  gemm->set_batch(batch);
  std::vector<uint64_t> operands;
  if (truths_.size() < kept_) operands = {left.address, right.address, result};
  builder_.Call(builder_.AddOp(definition), builder_.now_ns() + 10, 1000, 0, 0, std::move(operands));
  truths_.push_back(truth);
}

Matrix NetworkProgram::Linear(const std::string& layer, const Matrix& x, int64_t out) {
  const Matrix w = Weights(layer, x.columns, out);
  const Matrix y = New(x.rows, out);
  const bool is_first = tape_.empty();
  Product(x.rows, out, x.columns, {x.address}, {w.address}, y.address, {layer, "linear", kForward});
  tape_.push_back([=, this] {
    const Matrix dy = GradientOf(y);
    if (!is_first) {
      const Matrix dx = GradientOf(x);
      Product(x.rows, x.columns, out, {dy.address}, {w.address, true}, dx.address, {layer, "linear", kData});
      Free(dx);
    }
    Later([=, this] {
      const Matrix dw = New(x.columns, out);
      Product(x.columns, out, x.rows, {x.address, true}, {dy.address}, dw.address, {layer, "linear", kWeights});
      Free(dw);
    });
    if (!is_deferring_) Free(dy);
  });
  return y;
}

Matrix NetworkProgram::CourseLinear(const std::string& layer, const Matrix& x, int64_t out) {
  const Matrix w = Weights(layer, out, x.columns);
  const Matrix y = New(x.rows, out);
  const bool is_first = tape_.empty();
  Product(out, x.rows, x.columns, {w.address}, {x.address}, y.address, {layer, "linear", kForward});
  tape_.push_back([=, this] {
    const Matrix dy = GradientOf(y);
    const Matrix dw = New(out, x.columns);
    Product(out, x.columns, x.rows, {dy.address}, {x.address, true}, dw.address, {layer, "linear", kWeights});
    if (!is_first) {
      const Matrix dx = GradientOf(x);
      Product(x.columns, x.rows, out, {w.address, true}, {dy.address}, dx.address, {layer, "linear", kData});
      Free(dx);
    }
    Free(dy);
  });
  return y;
}

// W = W - rate * dW
void NetworkProgram::UpdateCourseWeights() {
  for (auto& [layer, weights] : weights_) {
    const Matrix updated = New(weights.rows, weights.columns);
    live_.push_back(weights);
    Free(weights);
    std::erase_if(live_, [&](const Matrix& m) { return m.address == updated.address; });
    weights = updated;
  }
}

Matrix NetworkProgram::Conv(const std::string& layer, const Matrix& x, int64_t in, int64_t out, int64_t size,
                            int64_t kernel, int64_t stride) {
  const int64_t positions = (size / stride) * (size / stride), depth = in * kernel * kernel, images = x.rows;
  const bool by_image = way_ == Way::kImages;
  const bool is_first = tape_.empty();
  const Matrix w = Weights(layer, out, depth);
  const Matrix y = New(images, out * positions);
  const CallTruth forward = {layer, "convolution", kForward}, data = {layer, "convolution", kData},
                  weights = {layer, "convolution", kWeights};
  const auto image = [=](const Matrix& tensor, int64_t i) {
    return tensor.address + static_cast<uint64_t>(4 * i * out * positions);
  };
  if (!by_image) {
    // As in courses: columns[images * positions, depth] wT; or like Chainer's gradients: w columns.
    const Matrix columns = New(depth, images * positions);
    const bool weights_left = way_ == Way::kBatches;
    const int64_t rows = images * positions;
    if (weights_left) {
      Product(out, rows, depth, {w.address}, {columns.address}, y.address, forward);
    } else {
      Product(rows, out, depth, {columns.address}, {w.address, true}, y.address, forward);
    }
    tape_.push_back([=, this] {
      const Matrix dy = GradientOf(y);
      Later([=, this] {
        const Matrix dw = New(out, depth);
        Product(out, depth, rows, {dy.address, !weights_left}, {columns.address, weights_left}, dw.address, weights);
        Free(dw);
      });
      if (is_first) return;
      const Matrix dcolumns = New(depth, rows);
      if (weights_left) {
        Product(depth, rows, out, {w.address, true}, {dy.address}, dcolumns.address, data);
      } else {
        Product(rows, depth, out, {dy.address}, {w.address}, dcolumns.address, data);
      }
      Free(dcolumns);
    });
    return y;
  }
  const Matrix columns = New(depth, positions);
  for (int64_t i = 0; i < images; ++i) {
    Product(out, positions, depth, {w.address}, {columns.address}, image(y, i), forward);
  }
  Free(columns);
  // Every other layer like Paddle (one gradient after the other) or like Caffe (image by image).
  const bool interleaved = w.address / 256 % 2 == 0;
  tape_.push_back([=, this] {
    const Matrix dy = GradientOf(y), dw = New(out, depth), again = New(depth, positions);
    for (int64_t i = 0; i < images && !is_first && !interleaved; ++i) {
      Product(depth, positions, out, {w.address, true}, {image(dy, i)}, again.address, data);
    }
    for (int64_t i = 0; i < images; ++i) {
      Product(out, depth, positions, {image(dy, i)}, {again.address, true}, dw.address, weights);
      if (is_first || !interleaved) continue;
      Product(depth, positions, out, {w.address, true}, {image(dy, i)}, again.address, data);
    }
    Free(again);
    Free(dw);
    Free(dy);
  });
  return y;
}

Matrix NetworkProgram::Attention(const std::string& layer, const Matrix& q, const Matrix& k, const Matrix& v,
                                 int64_t heads, int64_t length) {
  const int64_t depth = q.columns / heads, batch = q.rows / length * heads;
  const Matrix scores = New(batch, length * length), weights = New(batch, length * length), y = New(q.rows, q.columns);
  const auto truth = [=](const char* which, LayerDirection direction) {
    return CallTruth{absl::StrCat(layer, which), "batched product", direction};
  };
  Product(length, length, depth, {q.address}, {k.address, true}, scores.address, truth(".scores", kForward), batch);
  Product(length, depth, length, {weights.address}, {v.address}, y.address, truth(".context", kForward), batch);
  tape_.push_back([=, this] {
    const Matrix dy = GradientOf(y), ds = GradientOf(scores);
    const Matrix dq = GradientOf(q), dk = GradientOf(k), dv = GradientOf(v);
    Product(length, length, depth, {dy.address}, {v.address, true}, ds.address, truth(".context", kData), batch);
    Product(length, depth, length, {weights.address, true}, {dy.address}, dv.address, truth(".context", kData), batch);
    const Matrix dscores = GradientOf(scores);
    Product(length, depth, length, {dscores.address}, {k.address}, dq.address, truth(".scores", kData), batch);
    Product(length, depth, length, {dscores.address, true}, {q.address}, dk.address, truth(".scores", kData), batch);
    for (const Matrix& each : {dy, ds, dq, dk, dv, dscores}) Free(each);
  });
  return y;
}

Matrix NetworkProgram::Activation(const Matrix& x) { return New(x.rows, x.columns); }

Matrix NetworkProgram::Join(const std::vector<Matrix>& parts) {
  int64_t columns = 0;
  for (const Matrix& part : parts) columns += part.columns;
  return New(parts[0].rows, columns);
}

void NetworkProgram::Other(int64_t size) {
  const Matrix a = New(size, size + 1), b = New(size + 1, size), c = New(size, size);
  Product(size, size, size + 1, {a.address}, {b.address}, c.address, {});
  for (const Matrix& each : {a, b, c}) Free(each);
}

void NetworkProgram::Later(std::function<void()> work) {
  if (!is_deferring_) return work();
  deferred_.push_back(std::move(work));
}

void NetworkProgram::Backward() {
  is_deferring_ = way_ == Way::kDynamic && ++passes_ % 2 == 0;
  for (size_t i = tape_.size(); i-- > 0;) {
    tape_[i]();
    if (way_ == Way::kDynamic && i == tape_.size() / 2) Other(17);
  }
  for (const std::function<void()>& work : deferred_) work();
  deferred_.clear();
  is_deferring_ = false;
  Forget();
}

void NetworkProgram::Forget() {
  tape_.clear();
  for (const Matrix& each : std::vector<Matrix>(live_)) Free(each);
}

namespace {

using Network = std::function<void(NetworkProgram&, int64_t batch)>;

// Dynamic: an evaluation with another batch size after every third step.
void Train(NetworkProgram& p, const Network& forward) {
  for (int64_t step = 0; step < kSteps; ++step) {
    forward(p, Batch(p, step));
    p.Backward();
    if (p.way() != Way::kDynamic || step % 3 != 2) continue;
    for (int i = 0; i < 2; ++i) {
      forward(p, 20);
      p.Forget();
    }
  }
}

Matrix Mlp(NetworkProgram& p, Matrix x, const std::vector<int64_t>& sizes, const std::string& prefix = "fc") {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) x = p.Activation(x);
    x = p.Linear(absl::StrCat(prefix, i + 1), x, sizes[i]);
  }
  return x;
}

struct ConvSpec {
  int64_t out, kernel, stride;
};

// Each followed by halving the picture if `pool` is set.
Matrix Convs(NetworkProgram& p, Matrix x, int64_t in, int64_t* size, const std::vector<ConvSpec>& specs,
             const std::vector<bool>& pool) {
  for (size_t i = 0; i < specs.size(); ++i) {
    x = p.Conv(absl::StrCat("conv", i + 1), x, in, specs[i].out, *size, specs[i].kernel, specs[i].stride);
    *size /= specs[i].stride;
    if (pool[i]) *size /= 2;
    in = specs[i].out;
    x = p.New(x.rows, in * *size * *size);
  }
  return x;
}

void TrainMlp(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) { Mlp(q, q.New(batch, 784), {256, 128, 10}); });
}

void TrainSquare(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) { Mlp(q, q.New(4 * batch, 32), {32, 32, 32, 32, 10}); });
}

void TrainLeNet(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    int64_t size = 28;
    const Matrix x = Convs(q, q.New(batch, 784), 1, &size, {{6, 5, 1}, {16, 5, 1}}, {true, true});
    Mlp(q, x, {120, 84, 10});
  });
}

void TrainAlexNet(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    int64_t size = 64;
    const Matrix x =
        Convs(q, q.New(batch, 3 * 64 * 64), 3, &size, {{16, 11, 4}, {32, 5, 1}, {48, 3, 1}, {48, 3, 1}, {32, 3, 1}},
              {true, true, false, false, true});
    Mlp(q, x, {256, 256, 10});
  });
}

void TrainVgg(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    int64_t size = 32;
    const Matrix x = Convs(q, q.New(batch, 3 * 1024), 3, &size,
                           {{8, 3, 1}, {8, 3, 1}, {16, 3, 1}, {16, 3, 1}, {16, 3, 1}, {16, 3, 1}},
                           {false, true, false, false, false, true});
    Mlp(q, x, {64, 10});
  });
}

void TrainResNet(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    Matrix x = q.Conv("stem", q.New(batch, 3 * 256), 3, 16, 16, 3);
    for (const char* block : {"a", "b"}) {
      Matrix y = q.Conv(absl::StrCat(block, ".1"), q.Activation(x), 16, 16, 16, 3);
      y = q.Conv(absl::StrCat(block, ".2"), q.Activation(y), 16, 16, 16, 3);
      x = q.Activation(y);
    }
    Matrix y = q.Conv("c.1", x, 16, 32, 16, 3, 2);
    y = q.Conv("c.2", q.Activation(y), 32, 32, 8, 3);
    q.Conv("c.down", x, 16, 32, 16, 1, 2);
    q.Linear("fc", q.New(batch, 32), 10);
  });
}

void TrainInception(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    const Matrix x = q.Activation(q.Conv("stem", q.New(batch, 3 * 256), 3, 24, 16, 3));
    const Matrix a = q.Conv("1x1", x, 24, 16, 16, 1);
    const Matrix b = q.Conv("3x3", q.Activation(q.Conv("3x3.reduce", x, 24, 12, 16, 1)), 12, 32, 16, 3);
    const Matrix c = q.Conv("5x5", q.Activation(q.Conv("5x5.reduce", x, 24, 4, 16, 1)), 4, 8, 16, 5);
    const Matrix d = q.Conv("pool.1x1", q.Activation(x), 24, 8, 16, 1);
    q.Join({a, b, c, d});
    q.Linear("fc", q.New(batch, 64), 10);
  });
}

void TrainRnn(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    Matrix h = q.New(batch, 48);
    for (int t = 0; t < 6; ++t) {
      q.Linear("input", q.New(batch, 20), 48);
      h = q.Activation(q.Linear("hidden", h, 48));
    }
    q.Linear("fc", h, 10);
  });
}

void TrainTransformer(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    Matrix x = q.Linear("embed", q.New(batch * 12, 30), 64);
    for (int block = 1; block <= 2; ++block) {
      const std::string name = absl::StrCat("block", block);
      const Matrix in = q.Activation(x);
      const Matrix query = q.Linear(name + ".q", in, 64), key = q.Linear(name + ".k", in, 64),
                   value = q.Linear(name + ".v", in, 64);
      const Matrix y = q.Attention(name + ".attention", query, key, value, 4, 12);
      x = q.Activation(q.Linear(name + ".out", y, 64));
      x = q.Linear(name + ".ffn2", q.Activation(q.Linear(name + ".ffn1", x, 256)), 64);
    }
    q.Linear("head", q.Activation(x), 30);
  });
}

void TrainAutoencoder(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) { Mlp(q, q.New(batch, 784), {128, 32, 128, 784}); });
}

// The discriminator on real and on generated pictures; then the generator through the discriminator.
void TrainGan(NetworkProgram& p) {
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t batch = Batch(p, step);
    const auto generate = [&] { return Mlp(p, p.New(batch, 24), {96, 400}, "g"); };
    const auto judge = [&](const Matrix& x) { Mlp(p, p.Activation(x), {112, 1}, "d"); };
    const Matrix made = generate();
    p.Forget();
    judge(p.New(batch, 400));
    p.Backward();
    judge(made);
    p.Backward();
    judge(generate());
    p.Backward();
  }
}

void TrainSiamese(NetworkProgram& p) {
  Train(p, [](NetworkProgram& q, int64_t batch) {
    Mlp(q, q.New(batch, 784), {256, 64});
    Mlp(q, q.New(batch, 784), {256, 64});
  });
}

void TrainCourse(NetworkProgram& p) {
  for (int64_t step = 0; step < kSteps; ++step) {
    const Matrix images = p.New(Batch(p, step), 784);
    Matrix x = p.CourseLinear("fc1", images, 100);
    x = p.CourseLinear("fc2", p.Activation(x), 40);
    p.CourseLinear("fc3", p.Activation(x), 10);
    p.Backward();
    p.UpdateCourseWeights();
  }
}

}  // namespace

void TrainAnyNetwork(NetworkProgram& p, uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&](const std::vector<int64_t>& values) { return values[random() % values.size()]; };
  p.SetBiases(random() % 2 == 0);
  const int64_t batch = any({4, 8, 16, 32, 64}), steps = any({4, 8, 12}), first_size = any({8, 12, 16, 28, 32});
  std::vector<ConvSpec> convs(random() % 6);
  std::vector<bool> pool;
  int64_t left = first_size;
  for (ConvSpec& conv : convs) {
    conv = {any({4, 6, 8, 12, 16, 20, 32, 64}), any({1, 3, 3, 5}), 1};
    pool.push_back(left % 2 == 0 && left > 4 && random() % 2 == 0);
    if (pool.back()) left /= 2;
  }
  std::vector<int64_t> linear(1 + random() % 4);
  for (int64_t& size : linear) size = any({10, 16, 32, 64, 100, 128});
  const int64_t channels = any({2, 3, 16});
  const bool evaluates = random() % 3 == 0;
  for (int64_t step = 0; step < steps; ++step) {
    const auto run = [&](int64_t samples) {
      int64_t size = first_size;
      Matrix x = p.New(samples, channels * size * size);
      if (!convs.empty()) x = Convs(p, x, channels, &size, convs, pool);
      Mlp(p, x, linear);
    };
    run(p.way() == Way::kDynamic && step % 3 == 2 ? batch / 2 + 1 : batch);
    p.Backward();
    for (int i = 0; evaluates && step % 4 == 3 && i < 3; ++i) {
      run(2 * batch);
      p.Forget();
    }
  }
}

const std::vector<NetworkCase>& NetworkCases() {
  static const auto* const cases = new std::vector<NetworkCase>{{"MLP", TrainMlp, 100},
                                                                {"equal layers", TrainSquare, 100},
                                                                {"LeNet", TrainLeNet, 100},
                                                                {"AlexNet", TrainAlexNet, 85},
                                                                {"VGG", TrainVgg, 100},
                                                                {"ResNet", TrainResNet, 75},
                                                                {"Inception", TrainInception, 85},
                                                                {"RNN", TrainRnn, 100},
                                                                {"transformer", TrainTransformer, 100},
                                                                {"autoencoder", TrainAutoencoder, 100},
                                                                {"GAN", TrainGan, 100},
                                                                {"siamese", TrainSiamese, 100},
                                                                {"NumPy course", TrainCourse, 100}};
  return *cases;
}

RecordedProgram ReadRecordedProgram(const std::string& name) {
  std::ifstream file(absl::StrCat(DLHOOK_RECORDED, "/", name, ".txt"));
  EXPECT_TRUE(file.good()) << name;
  RecordedProgram program;
  ModelBuilder builder;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "#")) continue;
    std::istringstream words(line);
    int64_t m = 0, n = 0, k = 0;
    bool row_major = false;
    std::string trans, direction;
    CallTruth truth;
    uint64_t a = 0, b = 0, c = 0;
    words >> m >> n >> k >> trans >> row_major >> std::hex >> a >> b >> c >> truth.layer >> direction;
    trace::OpDefinition definition = GemmDefinition(m, n, k, trans, "cblas_sgemm");
    definition.mutable_gemm()->set_row_major(row_major);
    builder.Call(builder.AddOp(definition), builder.now_ns() + 10, 1000, 0, 0, {a, b, c});
    truth.type = absl::StartsWith(truth.layer, "conv") ? "convolution" : "linear";
    for (LayerDirection each : {kForward, kData, kWeights}) {
      if (direction == LayerDirectionName(each)) truth.direction = each;
    }
    program.truths.push_back(truth);
  }
  program.model = builder.Build();
  return program;
}

}  // namespace dlhook::analyzer
