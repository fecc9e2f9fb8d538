#include "analyzer/model/onednn_text.h"

namespace dlhook::analyzer::inline model {
namespace {

// dnnl_dt2str of 3.7; longer names first, because types also occur at the end of "src_iter_f32".
constexpr std::array<absl::string_view, 18> kTypes = {"f8_e5m2", "f8_e4m3", "f4_e2m1", "f4_e3m0", "boolean", "undef",
                                                      "bf16",    "e8m0",    "f16",     "f32",     "f64",     "s32",
                                                      "s8",      "u8",      "s4",      "u4",      "s64",     "bin"};

bool IsType(absl::string_view text) { return absl::c_linear_search(kTypes, text); }

// Splits "diff_wei_bf16" into role and type (formats before 3.6).
bool SplitRoleAndType(absl::string_view text, Tensor& tensor) {
  for (absl::string_view type : kTypes) {
    absl::string_view rest = text;
    if (!absl::ConsumeSuffix(&rest, type) || !absl::ConsumeSuffix(&rest, "_")) continue;
    tensor.role = std::string(rest);
    tensor.type = std::string(type);
    return true;
  }
  return false;
}

// "f0", "f1:s8m1", "f0_mask2": extra flags at the end of a descriptor.
bool IsExtra(absl::string_view word) {
  return word.size() >= 2 && word[0] == 'f' && absl::ascii_isdigit(static_cast<unsigned char>(word[1]));
}

// words: from the format kind on, e.g. {"blocked", "abcd", "", "f0"} or {"blocked", "abcd", "f0"}
// or {"undef", "", ""}.
void ReadFormat(const std::vector<absl::string_view>& words, size_t first, Tensor& tensor) {
  const absl::string_view kind = first < words.size() ? words[first] : "";
  const absl::string_view tag = first + 1 < words.size() ? words[first + 1] : "";
  const absl::string_view strides = first + 2 < words.size() ? words[first + 2] : "";
  const bool has_tag = !tag.empty() && !IsExtra(tag);
  tensor.format = std::string(has_tag ? tag : kind);
  if (has_tag && !IsExtra(strides)) tensor.strides = std::string(strides);
}

// MKL-DNN 0.x: "fsrc:nChw8c" (f for format), and for reorders "in:f32_nchw out:f32_nChw8c".
Tensor ParseFormatOnly(absl::string_view role, absl::string_view format) {
  Tensor tensor;
  if (role == "in" || role == "out") {
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(format, absl::MaxSplits('_', 1));
    tensor.role = role == "in" ? "src" : "dst";
    tensor.type = std::string(words.first);
    tensor.format = std::string(words.second);
    return tensor;
  }
  absl::ConsumePrefix(&role, "f");
  tensor.role = std::string(role);
  tensor.format = std::string(format);
  tensor.defined = format != "undef";
  return tensor;
}

Tensor ParseMemoryDescriptor(absl::string_view text) {
  Tensor tensor;
  const std::vector<absl::string_view> words = absl::StrSplit(text, ':');
  if (words.size() == 2) return ParseFormatOnly(words[0], words[1]);
  if (words.size() >= 4 && IsType(words[1])) {
    tensor.role = std::string(words[0]);
    tensor.type = std::string(words[1]);
    ReadFormat(words, 3, tensor);
  } else if (words.size() >= 3 && SplitRoleAndType(words[0], tensor)) {
    ReadFormat(words, 2, tensor);
  } else {  // an unknown form: keep the words
    tensor.role = std::string(words[0]);
    tensor.format = absl::StrJoin(words.begin() + 1, words.end(), ":");
  }
  tensor.defined = tensor.type != "undef";
  return tensor;
}

// The text between the quotes after `key`, or up to the next blank.
absl::string_view AttributeValue(absl::string_view attributes, absl::string_view key) {
  const size_t at = attributes.find(key);
  if (at == absl::string_view::npos) return {};
  absl::string_view value = attributes.substr(at + key.size());
  if (absl::ConsumePrefix(&value, "'")) return value.substr(0, value.find('\''));
  return value.substr(0, value.find(' '));
}

// Consumes digits with an optional sign at the front of `text`; the fraction of a real number is consumed, too, but not
// returned.
std::optional<int64_t> ConsumeInteger(absl::string_view& text) {
  size_t end = !text.empty() && text[0] == '-' ? 1 : 0;
  const auto digits = [&] {
    while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) ++end;
  };
  digits();
  const size_t integer_end = end;
  if (end < text.size() && text[end] == '.') {
    ++end;
    digits();
  }
  if (end + 1 < text.size() && text[end] == 'e' && (text[end + 1] == '-' || text[end + 1] == '+')) {
    end += 2;
    digits();
  }
  int64_t value = 0;
  const bool is_integer = end == integer_end && absl::SimpleAtoi(text.substr(0, end), &value);
  text.remove_prefix(end);
  if (!is_integer) return std::nullopt;
  return value;
}

}  // namespace

std::vector<Tensor> ParseMemoryDescriptors(absl::string_view text) {
  std::vector<Tensor> tensors;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    tensors.push_back(ParseMemoryDescriptor(word));
  }
  return tensors;
}

std::vector<std::string> ParsePostOps(absl::string_view attributes) {
  absl::string_view value = AttributeValue(attributes, "post-ops:");
  if (value.empty()) value = AttributeValue(attributes, "post_ops:");
  std::vector<std::string> names;
  for (absl::string_view op : absl::StrSplit(value, absl::ByAnyChar("+;"), absl::SkipEmpty())) {
    // A parameter "1e+06" is split here, too: what is left of it does not begin like a name.
    const absl::string_view name = op.substr(0, op.find(':'));
    if (!name.empty() && absl::ascii_isalpha(static_cast<unsigned char>(name[0]))) names.emplace_back(name);
  }
  return names;
}

absl::string_view AuxiliaryValue(absl::string_view auxiliary, absl::string_view key) {
  for (absl::string_view word : absl::StrSplit(auxiliary, ' ', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&word, key) && absl::ConsumePrefix(&word, ":")) return word;
  }
  return {};
}

std::optional<ProblemNumbers> ParseProblemNumbers(absl::string_view problem) {
  ProblemNumbers numbers;
  while (!problem.empty()) {
    if (problem[0] == '_') {
      problem.remove_prefix(1);
      continue;
    }
    size_t letters = 0;
    while (letters < problem.size() && absl::ascii_isalpha(static_cast<unsigned char>(problem[letters]))) ++letters;
    const std::string key(problem.substr(0, letters));
    problem.remove_prefix(letters);
    const size_t before = problem.size();
    const std::optional<int64_t> value = ConsumeInteger(problem);
    if (key.empty() || problem.size() == before) return std::nullopt;
    if (value) numbers[key] = *value;
  }
  if (numbers.empty()) return std::nullopt;
  return numbers;
}

std::optional<std::vector<Dims>> ParseDimsList(absl::string_view problem) {
  std::vector<Dims> list;
  for (absl::string_view part : absl::StrSplit(problem, ':')) {
    Dims dims;
    for (absl::string_view word : absl::StrSplit(part, 'x')) {
      int64_t value = 0;
      if (!absl::SimpleAtoi(word, &value)) return std::nullopt;
      dims.push_back(value);
    }
    list.push_back(std::move(dims));
  }
  return list;
}

}  // namespace dlhook::analyzer::model
