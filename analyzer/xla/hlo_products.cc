// See xla_profiles.h. Sizes come from a file: what is out of range leaves a product without a problem.
#include <cstddef>

#include "analyzer/xla/xla_profiles.h"
#include "proto/xla.pb.h"

namespace dlhook::analyzer::inline xla {
namespace {

using dlhook::xla::ConvolutionDimensionNumbers;
using dlhook::xla::HloInstruction;
using dlhook::xla::Shape;
using Dimensions = google::protobuf::RepeatedField<int64_t>;

constexpr size_t kMostSpatial = 3;

// -1: it has no such dimension.
int64_t SizeOf(const Shape& shape, int64_t dimension) {
  return dimension >= 0 && dimension < shape.dimensions_size() ? shape.dimensions(static_cast<int>(dimension)) : -1;
}

// Of some of its dimensions; -1: out of range.
int64_t SizeOf(const Shape& shape, const std::vector<int64_t>& dimensions) {
  int64_t size = 1;
  for (const int64_t dimension : dimensions) {
    const int64_t factor = SizeOf(shape, dimension);
    if (factor < 0 || __builtin_mul_overflow(size, factor, &size)) return -1;
  }
  return size;
}

std::vector<int64_t> List(const Dimensions& dimensions) { return {dimensions.begin(), dimensions.end()}; }
bool Has(const Dimensions& dimensions, int64_t dimension) { return absl::c_linear_search(dimensions, dimension); }

// From the one whose elements are farthest apart to the one whose elements are neighbours.
std::vector<int64_t> MajorToMinor(const Shape& shape) {
  std::vector<int64_t> order(shape.layout().minor_to_major().rbegin(), shape.layout().minor_to_major().rend());
  if (order.size() == static_cast<size_t>(shape.dimensions_size())) return order;
  order.resize(static_cast<size_t>(shape.dimensions_size()));
  absl::c_iota(order, 0);
  return order;
}

// oneDNN's names: "f32", "s8", "c32" for complex numbers of two f32; "?" if it has none.
std::string HloTypeName(const Shape& shape) {
  static constexpr absl::string_view kTypes[] = {"?",   "bool", "s8",   "s16", "s32", "s64",     "u8",
                                                 "u16", "u32",  "u64",  "f16", "f32", "f64",     "?",
                                                 "?",   "c32",  "bf16", "?",   "c64", "f8_e5m2", "f8_e4m3"};
  const auto type = static_cast<size_t>(shape.element_type());
  return std::string(type < std::size(kTypes) ? kTypes[type] : "?");
}

std::string TensorWord(absl::string_view role, const Shape& shape, absl::string_view format) {
  return absl::StrCat(role, ":", HloTypeName(shape), "::blocked:", format, "::f0");
}

// One operand of a dot, as a matrix of rows (or, on the right, columns) by sums.
struct Operand {
  Operand(const Shape& shape, const Dimensions& batch, const Dimensions& contracting) : shape(shape) {
    for (int64_t dimension = 0; dimension < shape.dimensions_size(); ++dimension) {
      if (!Has(batch, dimension) && !Has(contracting, dimension)) free.push_back(dimension);
    }
    count = SizeOf(shape, free);
    sums = SizeOf(shape, List(contracting));
  }

  // "ab": sums lie next to each other; "ba": the others do; "any": neither.
  std::string FormatWith(bool is_batched, bool is_right, const Dimensions& contracting) const {
    const std::vector<int64_t> order = MajorToMinor(shape);
    std::string kinds;
    for (const int64_t dimension : order) {
      const bool is_sum = Has(contracting, dimension);
      const bool is_free = absl::c_linear_search(free, dimension);
      const char kind = is_sum ? 's' : 'f';
      if ((is_sum || is_free) && (kinds.empty() || kinds.back() != kind)) kinds += kind;
    }
    if (kinds.size() > 2) return "any";
    const bool is_plain = (kinds.empty() || kinds.back() == 's') != is_right || kinds.size() < 2;
    if (is_batched) return is_plain ? "abc" : "acb";
    return is_plain ? "ab" : "ba";
  }

  const Shape& shape;
  std::vector<int64_t> free;
  int64_t count = 0;
  int64_t sums = 0;
};

// The sizes of one axis of a convolution as oneDNN states them.
std::string AxisWord(char axis, int64_t in, int64_t out, const dlhook::xla::Window::Dimension& of) {
  const std::string a(1, axis);
  const int64_t dilation = std::max<int64_t>(of.window_dilation(), 1);
  const bool is_spread = of.base_dilation() > 1;  // the input's elements have zeros between them
  const int64_t stride = is_spread ? of.base_dilation() : std::max<int64_t>(of.stride(), 1);
  const int64_t pad = is_spread ? (of.size() - 1) * dilation - of.padding_low() : of.padding_low();
  return absl::StrCat("i", a, in, "o", a, out, "k", a, of.size(), "s", a, stride, "d", a, dilation - 1, "p", a, pad);
}

// Letters of oneDNN's tags in the order of memory; `letters`: by dimension.
std::string FormatOf(const Shape& shape, const std::vector<std::pair<int64_t, char>>& letters) {
  std::string format;
  for (const int64_t dimension : MajorToMinor(shape)) {
    for (const auto& [of, letter] : letters) {
      if (of == dimension) format += letter;
    }
  }
  return format.size() == letters.size() ? format : "any";
}

std::vector<std::pair<int64_t, char>> Letters(int64_t first, int64_t second, const Dimensions& spatial) {
  std::vector<std::pair<int64_t, char>> letters = {{first, 'a'}, {second, 'b'}};
  for (const int64_t dimension : spatial) letters.emplace_back(dimension, static_cast<char>('a' + letters.size()));
  return letters;
}

bool IsSane(const HloInstruction& convolution) {
  const ConvolutionDimensionNumbers& numbers = convolution.convolution_dimension_numbers();
  const auto count = static_cast<size_t>(convolution.window().dimensions_size());
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto is_size = [](int64_t value) { return value >= 0 && value <= kMost; };
  if (!is_size(convolution.feature_group_count()) || !is_size(convolution.batch_group_count())) return false;
  for (const auto& axis : convolution.window().dimensions()) {
    for (const int64_t value : {axis.size(), axis.stride(), axis.window_dilation(), axis.base_dilation()}) {
      if (!is_size(value)) return false;
    }
    if (axis.padding_low() < -kMost || axis.padding_low() > kMost) return false;
  }
  return count >= 1 && count <= kMostSpatial && numbers.input_spatial_dimensions_size() == static_cast<int>(count) &&
         numbers.output_spatial_dimensions_size() == static_cast<int>(count);
}

// The numbers of a convolution as oneDNN states them.
struct Sizes {
  Sizes(const HloInstruction& convolution, const Shape& left) {
    const ConvolutionDimensionNumbers& numbers = convolution.convolution_dimension_numbers();
    const int64_t batches = std::max<int64_t>(convolution.batch_group_count(), 1);
    groups = std::max<int64_t>(convolution.feature_group_count(), 1) * batches;
    const int64_t all_images = SizeOf(left, numbers.input_batch_dimension());
    images = all_images / batches;
    in_channels = SizeOf(left, numbers.input_feature_dimension());
    out_channels = SizeOf(convolution.shape(), numbers.output_feature_dimension());
    is_known = all_images >= 0 && in_channels >= 0 && out_channels >= 0 &&
               !__builtin_mul_overflow(in_channels, batches, &in_channels);
    for (int axis = 0; axis < convolution.window().dimensions_size(); ++axis) {
      in.push_back(SizeOf(left, numbers.input_spatial_dimensions(axis)));
      out.push_back(SizeOf(convolution.shape(), numbers.output_spatial_dimensions(axis)));
    }
  }

  bool Grows() const { return std::equal(out.begin(), out.end(), in.begin(), std::greater_equal<>()); }

  // As the convolution whose input's gradient it computes.
  void Swap() {
    std::swap(in_channels, out_channels);
    std::swap(in, out);
  }

  std::string Problem(const HloInstruction& convolution) const {
    constexpr absl::string_view kAxes = "dhw";
    std::string problem =
        absl::StrCat(groups > 1 ? absl::StrCat("g", groups) : "", "mb", images, "_ic", in_channels, "oc", out_channels);
    for (size_t i = 0; i < in.size(); ++i) {
      absl::StrAppend(&problem, "_",
                      AxisWord(kAxes[kMostSpatial - in.size() + i], in[i], out[i],
                               convolution.window().dimensions(static_cast<int>(i))));
    }
    return problem;
  }

  int64_t groups = 1, images = 0, in_channels = 0, out_channels = 0;
  std::vector<int64_t> in, out;
  bool is_known = false;
};

std::string TensorsOf(const HloInstruction& convolution, const Shape& left, const Shape& right, bool is_gradient) {
  const ConvolutionDimensionNumbers& numbers = convolution.convolution_dimension_numbers();
  const auto in =
      Letters(numbers.input_batch_dimension(), numbers.input_feature_dimension(), numbers.input_spatial_dimensions());
  const auto weights = Letters(numbers.kernel_output_feature_dimension(), numbers.kernel_input_feature_dimension(),
                               numbers.kernel_spatial_dimensions());
  const auto out = Letters(numbers.output_batch_dimension(), numbers.output_feature_dimension(),
                           numbers.output_spatial_dimensions());
  const Shape& result = convolution.shape();
  return absl::StrCat(TensorWord(is_gradient ? "dst" : "src", left, FormatOf(left, in)), " ",
                      TensorWord("wei", right, FormatOf(right, weights)), " ",
                      TensorWord(is_gradient ? "src" : "dst", result, FormatOf(result, out)));
}

}  // namespace

XlaProduct ProductOfDot(const HloInstruction& dot, const Shape& left, const Shape& right) {
  const auto& numbers = dot.dot_dimension_numbers();
  const Operand a(left, numbers.lhs_batch_dimensions(), numbers.lhs_contracting_dimensions());
  const Operand b(right, numbers.rhs_batch_dimensions(), numbers.rhs_contracting_dimensions());
  const int64_t batch = SizeOf(left, List(numbers.lhs_batch_dimensions()));
  if (a.count < 0 || b.count < 0 || batch < 0 || a.sums < 0 || a.sums != b.sums) return {};
  const bool is_batched = !numbers.lhs_batch_dimensions().empty();
  const std::string times = is_batched ? absl::StrCat(batch, "x") : "";
  return {.primitive = "matmul",
          .problem = absl::StrCat(times, a.count, "x", a.sums, ":", times, b.sums, "x", b.count),
          .tensors = absl::StrCat(
              TensorWord("src", left, a.FormatWith(is_batched, false, numbers.lhs_contracting_dimensions())), " ",
              TensorWord("wei", right, b.FormatWith(is_batched, true, numbers.rhs_contracting_dimensions())), " ",
              TensorWord("dst", dot.shape(), is_batched ? "abc" : "ab"))};
}

XlaProduct ProductOfConvolution(const HloInstruction& convolution, const Shape& left, const Shape& right,
                                CompiledPass pass) {
  if (!IsSane(convolution)) return {};
  Sizes sizes(convolution, left);
  if (!sizes.is_known) return {};
  const auto& axes = convolution.window().dimensions();
  const bool is_spread = absl::c_any_of(axes, [](const auto& axis) { return axis.base_dilation() > 1; });
  const bool is_gradient = is_spread && sizes.Grows() && pass == CompiledPass::kBackward;
  if (is_gradient) sizes.Swap();
  return {.primitive = is_spread && !is_gradient ? "deconvolution" : "convolution",
          .direction = is_gradient ? "backward_data" : "",
          .problem = sizes.Problem(convolution),
          .tensors = TensorsOf(convolution, left, right, is_gradient)};
}

}  // namespace dlhook::analyzer::xla
