// Layers of LIBXSMM. The numbers of a description have the names of libxsmm_dnn_….h of release 1.17.

#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_cost.h"
#include "analyzer/ops/decode_op.h"

namespace dlhook::analyzer::inline ops {
namespace {

using Libxsmm = trace::Libxsmm;
using Numbers = absl::Span<const int64_t>;

struct Words {
  std::string problem;
  std::string tensors;
  std::string auxiliary;
};

const char* DataTypeName(int64_t type) {  // libxsmm_datatype
  constexpr const char* kNames[] = {"f64", "f32", "bf16", "s64", "s32", "s16", "s8"};
  return type >= 0 && type < 7 ? kNames[type] : "unknown";
}

// libxsmm_dnn_tensor_format, as oneDNN's tag where the format has one: NHWC, NCHW, RSCK, KCRS, CK, CK packed, NC packed, NC.
const char* FormatName(int64_t format) {
  constexpr std::pair<int64_t, const char*> kNames[] = {{2, "acdb"}, {4, "abcd"},      {8, "cdba"},       {16, "abcd"},
                                                        {32, "ba"},  {64, "ckpacked"}, {128, "ncpacked"}, {256, "ab"}};
  for (const auto& [number, name] : kNames) {
    if (number == format) return name;
  }
  return "libxsmm";
}

std::string TensorWord(absl::string_view role, int64_t type, absl::string_view format) {
  return absl::StrCat(role, ":", DataTypeName(type), "::blocked:", format, "::f0");
}

// "ih32oh32kh3sh1dh0ph1": one axis of a convolution or pooling.
std::string AxisWord(char axis, int64_t input, int64_t kernel, int64_t stride, int64_t pad) {
  const std::string a(1, axis);
  const int64_t output = stride < 1 ? 0 : (input + 2 * pad - kernel) / stride + 1;
  return absl::StrCat("i", a, input, "o", a, output, "k", a, kernel, "s", a, stride, "d", a, "0p", a, pad);
}

Words Convolution(Numbers n) {
  return {absl::StrCat("mb", n[0], "_ic", n[1], "oc", n[4], "_", AxisWord('h', n[2], n[5], n[7], n[9]), "_",
                       AxisWord('w', n[3], n[6], n[8], n[10])),
          absl::StrCat(TensorWord("src", n[16], FormatName(n[18])), " ", TensorWord("wei", n[16], FormatName(n[19])),
                       " ", TensorWord("dst", n[17], FormatName(n[18]))),
          n[20] == 1 ? "alg:direct" : absl::StrCat("alg:number", n[20])};
}

Words FullyConnected(Numbers n) {
  return {absl::StrCat("mb", n[0], "ic", n[1], "oc", n[2]),
          absl::StrCat(TensorWord("src", n[7], FormatName(n[9])), " ", TensorWord("wei", n[7], FormatName(n[10])), " ",
                       TensorWord("dst", n[8], FormatName(n[9]))),
          ""};
}

Words Norm(Numbers n, int64_t batch) {
  return {absl::StrCat("mb", batch, "ic", n[2], "ih", n[3], "iw", n[4]), TensorWord("data", n[12], FormatName(n[15])),
          ""};
}

Words Pooling(Numbers n) {
  return {absl::StrCat("mb", n[0], "ic", n[1], "_", AxisWord('h', n[2], n[4], n[6], n[8]), "_",
                       AxisWord('w', n[3], n[5], n[7], n[9])),
          absl::StrCat(TensorWord("src", n[15], FormatName(n[18])), " ", TensorWord("dst", n[16], FormatName(n[18]))),
          n[19] == 2 ? "alg:pooling_avg" : "alg:pooling_max"};
}

Words RnnCell(Numbers n) {
  const char* cell = n[8] == 3 ? "vanilla_lstm" : n[8] == 4 ? "vanilla_gru" : "vanilla_rnn";
  return {absl::StrCat("l1t", n[13], "mb", n[2], "sic", n[1], "slc", n[3], "dhc", n[1], "dic", n[1]),
          absl::StrCat(TensorWord("src_layer", n[9], "abc"), " ",
                       TensorWord("wei_layer", n[9], n[12] == 64 ? "ckpacked" : "libxsmm"), " ",
                       TensorWord("dst_layer", n[10], "abc")),
          absl::StrCat("alg:", cell, " direction:unidirectional_left2right")};
}

struct LayerWords {
  Libxsmm::Layer layer;
  const char* primitive;
  int count;  // of numbers
  Words (*words)(Numbers);
};
constexpr LayerWords kLayers[] = {
    {Libxsmm::CONVOLUTION, "convolution", 23, Convolution},
    {Libxsmm::FULLY_CONNECTED, "inner_product", 12, FullyConnected},
    {Libxsmm::FUSED_BATCH_NORM, "batch_normalization", 18, [](Numbers n) { return Norm(n, n[0]); }},
    {Libxsmm::FUSED_GROUP_NORM, "group_normalization", 18, [](Numbers n) { return Norm(n, n[0]); }},
    {Libxsmm::POOLING, "pooling", 20, Pooling},
    {Libxsmm::RNN_CELL, "rnn", 14, RnnCell},
    {Libxsmm::SOFTMAX_LOSS, "softmax", 8,
     [](Numbers n) {
       return Words{absl::StrCat(n[0], "x", n[1]), TensorWord("data", n[6], FormatName(n[7])), ""};
     }},
    {Libxsmm::OPTIMIZER, "optimizer", 10,
     [](Numbers n) {
       return Words{absl::StrCat(n[1], "x", n[0]), TensorWord("data", n[8], FormatName(n[9])), "alg:sgd"};
     }},
};

// The tensor's dimensions in logical order, and oneDNN's tag for its order in memory: "aBcd16b".
struct BlockedTensor {
  std::string dims;  // "8x16x32x32"
  std::string tag;
};

// A pair (kind, size) for each dimension, the innermost one first.
BlockedTensor BlockedOf(Numbers pairs) {
  constexpr int64_t kLogical[] = {0, 4, 3, 1, 2, 5, 6};  // libxsmm_dnn_tensor_dimtype: N, K, C, H, W, R, S
  std::vector<int64_t> dims;
  std::map<size_t, std::string> tag;  // by place, the outermost first
  char letter = 'a';
  for (const int64_t kind : kLogical) {
    Dims sizes;
    for (size_t i = pairs.size(); i >= 2; i -= 2) {
      if (pairs[i - 2] != kind) continue;
      const std::string name(1, letter);
      tag[pairs.size() - i] = sizes.empty() ? name : absl::StrCat(pairs[i - 1], name);
      sizes.push_back(pairs[i - 1]);
      if (sizes.size() == 2) {  // what is divided into blocks has a capital letter
        for (auto& [place, text] : tag) text = text == name ? absl::AsciiStrToUpper(name) : text;
      }
    }
    if (sizes.empty()) continue;
    dims.push_back(ElementCount(sizes).value_or(0));
    ++letter;
  }
  const bool is_whole = tag.size() * 2 == pairs.size();  // else it has dimensions without a name of their own
  BlockedTensor tensor = {absl::StrJoin(dims, "x"), is_whole ? "" : "libxsmm"};
  for (const auto& [place, text] : tag) tensor.tag += is_whole ? text : "";
  return tensor;
}

Words Copy(Numbers n, bool into) {
  const BlockedTensor blocked = BlockedOf(n.subspan(3));
  const char* plain = FormatName(n[0]);
  return {blocked.dims,
          absl::StrCat(TensorWord("src", n[1], into ? plain : blocked.tag), " ",
                       TensorWord("dst", n[1], into ? blocked.tag : plain)),
          ""};
}

// Gradients of layers without weights are "backward".
const char* PassWord(const Libxsmm& libxsmm, bool has_weights) {
  if (libxsmm.pass() == Libxsmm::FORWARD) return "forward_training";
  if (libxsmm.pass() == Libxsmm::BACKWARD) return has_weights ? "backward_data" : "backward";
  if (libxsmm.pass() == Libxsmm::UPDATE) return "backward_weights";
  return libxsmm.pass() == Libxsmm::BACKWARD_UPDATE ? "backward" : "";
}

bool HasWeights(Libxsmm::Layer layer) {
  return layer == Libxsmm::CONVOLUTION || layer == Libxsmm::FULLY_CONNECTED || layer == Libxsmm::RNN_CELL;
}

// What is fused after a fully connected layer: bits of libxsmm_dnn_fullyconnected_fuse_op.
void AddFused(int64_t fused, Op& op) {
  if (fused & 1) op.post_ops.push_back("bias");
  if (fused & 2) op.post_ops.push_back("eltwise_relu");
  if (fused & 4) op.post_ops.push_back("eltwise_logistic");
}

void SetWords(const Libxsmm& libxsmm, trace::OneDnn& line) {
  const Numbers numbers(libxsmm.number().data(), static_cast<size_t>(libxsmm.number_size()));
  Words words;
  const bool is_sane = absl::c_all_of(numbers, [](int64_t number) { return number == static_cast<int32_t>(number); });
  const bool is_copy = libxsmm.layer() == Libxsmm::COPY_IN || libxsmm.layer() == Libxsmm::COPY_OUT;
  if (is_copy) {
    line.set_primitive("reorder");
    if (is_sane && numbers.size() > 3 && numbers.size() % 2 == 1)
      words = Copy(numbers, libxsmm.layer() == Libxsmm::COPY_IN);
  }
  for (const LayerWords& layer : kLayers) {
    if (layer.layer != libxsmm.layer()) continue;
    line.set_primitive(layer.primitive);
    if (is_sane && libxsmm.number_size() >= layer.count) words = layer.words(numbers);
  }
  line.set_problem(words.problem);
  line.set_memory_descriptors(words.tensors);
  line.set_auxiliary(words.auxiliary);
}

}  // namespace

void DecodeLibxsmm(const Libxsmm& libxsmm, Op& op) {
  trace::OneDnn line;
  line.set_operation(libxsmm.creation() ? "create" : "exec");
  line.set_prop_kind(PassWord(libxsmm, HasWeights(libxsmm.layer())));
  SetWords(libxsmm, line);
  DecodeOneDnn(line, op);
  if (libxsmm.layer() == Libxsmm::OPTIMIZER) op.direction = Direction::kUpdate;
  if (libxsmm.layer() == Libxsmm::FULLY_CONNECTED && libxsmm.number_size() >= 12) AddFused(libxsmm.number(11), op);
  op.asked = TranslatedCall{op.problem};
  if (op.problem.empty()) op.problem = op.function;
  if (!libxsmm.share()) return;
  op.subject = std::exchange(op.kind, "share");
  if (op.subject == "convolution") op.algorithm.clear();  // says how, not what
  op.flops.reset();
  op.bytes.reset();
}

}  // namespace dlhook::analyzer::ops
