#include "analyzer/calls/scope_names.h"

namespace dlhook::analyzer::inline calls {
namespace {

// Ops that return a view, or inspect a tensor: microseconds of framework time that belong to the op that needs the
// view.
// clang-format off
constexpr absl::string_view kViews[] = {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten", "transpose", "transpose_", "t", "permute",
    "unsqueeze", "squeeze", "expand", "expand_as", "slice", "select", "narrow", "detach", "detach_", "alias", "split",
    "split_with_sizes", "chunk", "unbind", "as_strided", "as_strided_", "contiguous", "numpy_T", "swapaxes", "movedim",
    "unfold", "view_as", "diagonal", "size", "resolve_conj", "resolve_neg", "swapdims", "mT", "result_type", "is_nonzero",
    "requires_grad_", "broadcast_tensors", "broadcast_to", "lift_fresh", "set_", "resize_", "channels_last"};
// clang-format on

// Functions of torch.distributed.nn, in both directions: mostly waits for other ranks.
constexpr absl::string_view kDistributedFunctions[] = {"_AllReduce",      "_AlltoAll",  "_AlltoAllSingle", "_AllGather",
                                                       "_AllGatherBase",  "_Broadcast", "_Gather",         "_Reduce",
                                                       "_Reduce_Scatter", "_Scatter"};

// clang-format off
constexpr absl::string_view kBookkeeping[] = {
    "to", "_to_copy", "copy_", "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full",
    "full_like", "fill_", "zero_", "randn", "rand", "randint", "randperm", "normal_", "uniform_", "random_", "tensor", "arange",
    "linspace", "item", "_local_scalar_dense", "scalar_tensor", "clone", "stack", "eye", "manual_seed", "bernoulli_", "numpy",
    "is_pinned", "pin_memory", "_pin_memory", "record_stream", "equal", "eq", "argmax", "empty_permuted", "isnan", "isfinite",
    "allclose", "from_file", "detach", "kaiming_uniform_", "randn_like", "rand_like", "new_empty", "new_zeros", "set_data",
    "TorchDynamo Cache Lookup"};
// clang-format on

constexpr absl::string_view kProducts[] = {"mm", "addmm",  "bmm", "baddbmm", "addmv",
                                           "mv", "matmul", "dot", "linear",  "addbmm"};

struct Word {
  absl::string_view part;  // of the op's name in lower case without underscores, or of the module's type in lower case
  absl::string_view work;
};

// The first match counts: longer and rarer words first.
// clang-format off
constexpr Word kWords[] = {
    {"scaleddotproduct", "attention"}, {"multihead", "attention"}, {"attention", "attention"},
    {"transformerencoderlayer", "transformer encoder layer"}, {"embedding", "embedding"},
    {"convtranspose", "transposed convolution"}, {"deconv", "transposed convolution"},
    {"conv2dtranspose", "transposed convolution"},
    {"depthwiseconv", "convolution"}, {"separableconv", "convolution"}, {"conv", "convolution"},
    {"batchnorm", "batch norm"}, {"batchnormalization", "batch norm"}, {"layernorm", "layer norm"},
    {"layernormalization", "layer norm"}, {"groupnorm", "group norm"}, {"instancenorm", "instance norm"},
    {"localresponsenorm", "local response norm"}, {"rmsnorm", "RMS norm"},
    {"crossentropy", "loss"}, {"nllloss", "loss"}, {"loss", "loss"}, {"kldiv", "loss"},
    {"adaptiveavgpool", "average pooling"}, {"avgpool", "average pooling"}, {"averagepooling", "average pooling"},
    {"adaptivemaxpool", "max pooling"}, {"maxpool", "max pooling"}, {"lppool", "pooling"},
    {"lstm", "lstm"}, {"gru", "gru"}, {"rnn", "rnn"},
    {"addmm", "linear"}, {"linear", "linear"}, {"dense", "linear"},
    {"baddbmm", "matmul"}, {"bmm", "matmul"}, {"matmul", "matmul"}, {"einsum", "matmul"},
    {"leakyrelu", "leaky relu"}, {"prelu", "prelu"}, {"relu6", "relu"}, {"relu", "relu"}, {"hardtanh", "hardtanh"},
    {"gelu", "gelu"}, {"silu", "silu"}, {"sigmoid", "sigmoid"}, {"logsoftmax", "log softmax"}, {"softmax", "softmax"},
    {"dropout", "dropout"}, {"flatten", "reshape"}, {"reshape", "reshape"}, {"upsample", "upsampling"}};
// clang-format on

std::string Letters(absl::string_view name) {
  std::string letters = absl::AsciiStrToLower(name);
  letters.erase(std::remove(letters.begin(), letters.end(), '_'), letters.end());
  return letters;
}

const Word* FindWord(absl::string_view name) {
  const std::string letters = Letters(name);
  for (const Word& word : kWords) {
    if (absl::StrContains(letters, word.part)) return &word;
  }
  return nullptr;
}

bool IsWeightedWork(absl::string_view work) {
  static constexpr absl::string_view kWeighted[] = {
      "attention", "embedding", "convolution", "transposed convolution",   "lstm", "gru",
      "rnn",       "linear",    "matmul",      "transformer encoder layer"};
  return absl::c_linear_search(kWeighted, work);
}

// "Optimizer.step#SGD.step" -> "SGD".
std::string OptimizerOf(absl::string_view name) {
  const size_t hash = name.find('#');
  if (hash == absl::string_view::npos) return std::string(name);
  name.remove_prefix(hash + 1);
  return std::string(name.substr(0, name.rfind('.')));
}

ScopeName ReadName(absl::string_view name, ScopeRole role) {
  ScopeName read;
  if (IsOptimizer(role)) {
    read.op = OptimizerOf(name);
    return read;
  }
  const size_t colons = name.rfind("::");
  read.op = std::string(colons == absl::string_view::npos ? name : name.substr(colons + 2));
  read.is_function = colons == absl::string_view::npos && !name.empty() && absl::ascii_isupper(name[0]);
  read.is_view = absl::c_linear_search(kViews, read.op);
  read.is_communication =
      IsDistributedOp(name) || absl::c_linear_search(kDistributedFunctions, absl::StripSuffix(read.op, "Backward"));
  read.is_bookkeeping = absl::c_linear_search(kBookkeeping, read.op);
  read.is_layout_copy = read.op == "contiguous";
  read.is_product = absl::c_linear_search(kProducts, read.op);
  const Word* const word = FindWord(read.op);
  read.is_weighted = read.op == "mm" || read.op == "mv" || (word != nullptr && IsWeightedWork(word->work));
  return read;
}

constexpr absl::string_view kResume = "torch_dynamo_resume_in_";

struct Numbering {
  absl::string_view compiler;
  absl::string_view prefix;
  char before_number;
};
constexpr Numbering kNumberings[] = {{"torch.compile", kTorchRegionPrefix, '/'},
                                     {"tf.function", "EagerLocalExecute: __inference_", '_'}};

}  // namespace

std::vector<ScopeName> ReadScopeNames(const TraceModel& model) {
  std::vector<ScopeName> names;
  names.reserve(model.names.size());
  for (NameIndex name = 0; name < model.names.size(); ++name) {
    names.push_back(ReadName(model.names[name], model.roles[name]));
  }
  return names;
}

std::string WorkOfOp(absl::string_view op) {
  if (op == "mm" || op == "mv") return "matmul";
  if (const Word* const word = FindWord(op)) return std::string(word->work);
  while (absl::ConsumePrefix(&op, "_")) continue;
  while (absl::ConsumeSuffix(&op, "_")) continue;
  return absl::StrReplaceAll(op, {{"_", " "}});
}

std::string WorkOfModule(absl::string_view type) {
  const Word* const word = FindWord(type);
  return word == nullptr ? "" : std::string(word->work);
}

std::string ShortType(absl::string_view type) {
  const size_t dot = type.rfind('.');
  return std::string(dot == absl::string_view::npos ? type : type.substr(dot + 1));
}

std::string LiteratureName(absl::string_view work) {
  if (work == "convolution") return "conv";
  if (work == "transposed convolution") return "deconv";
  if (work == "linear") return "fc";
  if (work == "batch norm") return "bn";
  if (absl::EndsWith(work, "pooling")) return "pool";
  return absl::StrReplaceAll(work, {{" ", "_"}});
}

bool NodeFitsOp(absl::string_view node, absl::string_view op) {
  node = node.substr(0, node.rfind("Backward"));
  const size_t colons = op.rfind("::");
  if (colons != absl::string_view::npos) op.remove_prefix(colons + 2);
  const std::string of_op = Letters(op);
  const std::string of_node = Letters(node);
  // Matches in-place variants and forward parts: nll_loss_forward, relu_, _log_softmax.
  return absl::StartsWith(of_op, of_node) || absl::StartsWith(of_node, of_op);
}

std::optional<CollectiveKind> CollectiveOf(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "gloo:") && !absl::ConsumePrefix(&name, "ucc:")) return std::nullopt;
  // all_gather and _allgather_base, all_reduce and sparse_all_reduce; names that contain another one come first.
  static constexpr std::pair<absl::string_view, CollectiveKind> kKinds[] = {
      {"allreduce", CollectiveKind::kAllReduce}, {"reducescatter", CollectiveKind::kReduceScatter},
      {"reduce", CollectiveKind::kReduce},       {"allgather", CollectiveKind::kAllGather},
      {"gather", CollectiveKind::kGather},       {"scatter", CollectiveKind::kScatter},
      {"broadcast", CollectiveKind::kBroadcast}, {"alltoall", CollectiveKind::kAllToAll},
      {"barrier", CollectiveKind::kBarrier},     {"send", CollectiveKind::kSend},
      {"recv", CollectiveKind::kReceive}};
  const std::string letters = absl::StrReplaceAll(name, {{"_", ""}});
  for (const auto& [word, kind] : kKinds) {
    if (absl::StrContains(letters, word)) return kind;
  }
  return CollectiveKind::kUnknown;
}

bool IsDistributedOp(absl::string_view name) {
  const size_t colons = name.find("::");
  return colons != absl::string_view::npos && absl::StrContains(name.substr(0, colons), "c10d");
}

std::vector<bool> CollectiveNames(const TraceModel& model) {
  std::vector<bool> names;
  for (const std::string& name : model.names) names.push_back(CollectiveOf(name).has_value());
  return names;
}

bool IsResumed(const CompiledCode& code) { return absl::StartsWith(code.function, kResume); }

std::string CompiledFunctionName(absl::string_view function) {
  if (!absl::ConsumePrefix(&function, kResume)) return std::string(function);
  const size_t at = function.rfind("_at_");
  if (at == absl::string_view::npos) return std::string(function);
  return absl::StrCat(function.substr(0, at), " from line ", function.substr(at + 4), " on");
}

CompiledRun CompiledRunOf(absl::string_view scope) {
  for (const Numbering& numbering : kNumberings) {
    absl::string_view function = scope;
    if (!absl::ConsumePrefix(&function, numbering.prefix)) continue;
    const size_t end = function.rfind(numbering.before_number);
    if (end != absl::string_view::npos) return {numbering.compiler, function.substr(0, end)};
  }
  return {};
}

std::string FileLine(const CompiledCode& code) {
  if (code.file.empty()) return "";
  return absl::StrCat(absl::string_view(code.file).substr(code.file.rfind('/') + 1), ":", code.line);
}

const CompiledCode* FindCompilation(const TraceModel& model, ProcessIndex process, absl::string_view region) {
  for (const CompiledCode& code : model.compiled) {
    const bool is_it = code.kind == CompiledKind::kCompilation && code.process == process && !code.is_backward;
    if (is_it && code.region == region) return &code;
  }
  return nullptr;
}

bool IsTorchRegion(const TraceModel& model, ScopeIndex scope) {
  return scope != kNone && model.RoleOf(scope) == ScopeRole::kTorchRegion;
}

bool IsBetweenGraphs(const TraceModel& model, ScopeIndex scope) {
  const ScopeIndex region = model.scopes.parent[scope];
  const StackIndex stack = model.scopes.look[scope].stack;
  if (stack == kNone || !IsTorchRegion(model, region) || model.scopes.look[region].stack == kNone) return false;
  const auto& frames = model.python_stacks[stack].frames;
  const size_t outer = model.python_stacks[model.scopes.look[region].stack].frames.size();
  if (frames.size() <= outer || model.python_stacks[stack].is_cut) return false;
  return std::none_of(frames.begin(), frames.end() - static_cast<ptrdiff_t>(outer), [&](const PythonFrame& frame) {
    const std::string& file = model.names[frame.file];
    return absl::StrContains(file, "/torch/_") || absl::StrContains(file, "/torch/fx/") || absl::StartsWith(file, "<");
  });
}

}  // namespace dlhook::analyzer::calls
