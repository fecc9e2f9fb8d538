// Descriptors and words.
#include "analyzer/render/short_forms.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/model/onednn_text.h"

namespace dlhook::analyzer::inline render {
namespace {

constexpr std::pair<absl::string_view, absl::string_view> kShortWords[] = {
    {"backward", "bwd"},
    {"backward-bias", "bwd-bias"},
    {"backward-data", "bwd-data"},
    {"backward-weights", "bwd-weights"},
    {"batch_normalization", "batch_norm"},
    {"convolution", "conv"},
    {"deconvolution", "deconv"},
    {"group_normalization", "group_norm"},
    {"inner_product", "inner_prod"},
    {"layer_normalization", "layer_norm"},
};
// "trial:convolution": an activity for an op of the kind after the colon.
constexpr absl::string_view kPrefixes[] = {"create:", "search:", "trial:"};

constexpr absl::string_view kKnownNumbers[] = {"g",  "mb", "ic", "oc", "id", "ih", "iw", "od", "oh", "ow", "kd",
                                               "kh", "kw", "sd", "sh", "sw", "dd", "dh", "dw", "pd", "ph", "pw"};
constexpr absl::string_view kAxes = "dhw";
constexpr int64_t kMaxSize = int64_t{1} << 30;

// One spatial axis, with dilation as frameworks count it.
struct Axis {
  int64_t in = 0, out = 0, kernel = 1, stride = 1, dilation = 1, padding = 0;

  bool FollowsFromTheRest() const {
    const int64_t reach = dilation * (kernel - 1) + 1;
    return out == 0 || (stride > 0 && out == (in + 2 * padding - reach) / stride + 1);
  }
};

int64_t NumberOr(const ProblemNumbers& numbers, const std::string& key, int64_t otherwise) {
  const auto found = numbers.find(key);
  return found == numbers.end() ? otherwise : found->second;
}

// Those in the problem, outermost first.
std::vector<Axis> AxesOf(const ProblemNumbers& numbers) {
  std::vector<Axis> axes;
  for (const char c : kAxes) {
    const auto number = [&](absl::string_view name, int64_t otherwise) {
      return NumberOr(numbers, absl::StrCat(name, std::string(1, c)), otherwise);
    };
    if (number("i", 0) == 0) continue;
    axes.push_back(
        {number("i", 0), number("o", 0), number("k", 1), number("s", 1), number("d", 0) + 1, number("p", 0)});
  }
  return axes;
}

// "k5", "k3x1"; nothing if all axes have `usual`.
void AppendAxes(absl::string_view letter, const std::vector<Axis>& axes, int64_t Axis::*member, int64_t usual,
                std::string* out) {
  const auto is = [member](int64_t value) { return [=](const Axis& axis) { return axis.*member == value; }; };
  if (std::all_of(axes.begin(), axes.end(), is(usual))) return;
  absl::StrAppend(out, " ", letter);
  if (std::all_of(axes.begin(), axes.end(), is(axes.front().*member))) {
    absl::StrAppend(out, axes.front().*member);
    return;
  }
  absl::StrAppend(out, absl::StrJoin(axes, "x", [member](std::string* text, const Axis& axis) {
                    absl::StrAppend(text, axis.*member);
                  }));
}

// Only digits, letters and "_": a number that ParseProblemNumbers ignores must not be lost. No impossible sizes: text
// from a trace may contain anything, and they are multiplied.
bool IsDescriptor(absl::string_view text, const ProblemNumbers& numbers) {
  if (numbers.count("mb") == 0 || numbers.count("ic") == 0) return false;
  const auto is_plain = [](char c) { return c == '_' || absl::ascii_isalnum(c); };
  if (!std::all_of(text.begin(), text.end(), is_plain)) return false;
  return std::all_of(numbers.begin(), numbers.end(), [](const auto& number) {
    return number.second >= 0 && number.second <= kMaxSize &&
           std::find(std::begin(kKnownNumbers), std::end(kKnownNumbers), number.first) != std::end(kKnownNumbers);
  });
}

std::string HumanDescriptor(const ProblemNumbers& numbers) {
  const std::vector<Axis> axes = AxesOf(numbers);
  std::string text = absl::StrCat(numbers.at("mb"), "x", numbers.at("ic"));
  for (const Axis& axis : axes) absl::StrAppend(&text, "x", axis.in);
  if (const int64_t channels = NumberOr(numbers, "oc", 0); channels > 0) absl::StrAppend(&text, " oc", channels);
  if (NumberOr(numbers, "kw", 0) > 0) AppendAxes("k", axes, &Axis::kernel, 0, &text);
  AppendAxes("s", axes, &Axis::stride, 1, &text);
  AppendAxes("d", axes, &Axis::dilation, 1, &text);
  AppendAxes("p", axes, &Axis::padding, 0, &text);
  if (!std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.FollowsFromTheRest(); })) {
    AppendAxes("o", axes, &Axis::out, 0, &text);
  }
  if (const int64_t groups = NumberOr(numbers, "g", 1); groups != 1) absl::StrAppend(&text, " g", groups);
  return text;
}

}  // namespace

std::string HumanProblem(absl::string_view problem) {
  const absl::string_view descriptor = problem.substr(0, problem.find(' '));
  const std::optional<ProblemNumbers> numbers = ParseProblemNumbers(descriptor);
  if (!numbers || !IsDescriptor(descriptor, *numbers)) return std::string(problem);
  return absl::StrCat(HumanDescriptor(*numbers), problem.substr(descriptor.size()));
}

std::string ShortWord(absl::string_view word) {
  for (absl::string_view prefix : kPrefixes) {
    absl::string_view rest = word;
    if (absl::ConsumePrefix(&rest, prefix)) return absl::StrCat(prefix, ShortWord(rest));
  }
  for (const auto& [whole, part] : kShortWords) {
    if (word == whole) return std::string(part);
  }
  return std::string(word);
}

}  // namespace dlhook::analyzer::render
