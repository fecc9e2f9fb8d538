#include "analyzer/import/kineto/python_frames.h"

#include <cctype>

namespace dlhook::analyzer::inline kineto {
namespace {

using absl::string_view;

constexpr string_view kModule = "nn.Module: ";
constexpr char kModuleFile[] = "site-packages/torch/nn/modules/module.py", kModuleFunction[] = "Module.__call__";
constexpr size_t kMostFrames = 64;  // of a stack, the innermost ones

// Kineto cuts off the folders that Python imports from. What is installed, and Python's own files, would look like the
// program's.
constexpr string_view kPackages =
    "torch torchvision torchaudio torchtext torchdata torchrec fbgemm_gpu triton numpy scipy pandas sklearn PIL cv2 "
    "tqdm einops lightning accelerate datasets pytorch_lightning deepspeed apex flash_attn xformers vllm megatron peft "
    "transformer_engine bitsandbytes transformers diffusers timm monai ultralytics keras ignite huggingface_hub "
    "sentence_transformers ray";
constexpr string_view kOfPython =
    "threading contextlib functools runpy enum typing abc copy inspect queue random weakref warnings re os types "
    "pickle dataclasses subprocess signal tempfile traceback socket heapq bisect operator numbers selectors "
    "collections importlib concurrent asyncio json logging multiprocessing unittest encodings site codecs";

bool IsAmong(string_view words, string_view word) { return absl::c_linear_search(absl::StrSplit(words, ' '), word); }

std::string FullPath(string_view file) {
  if (absl::StartsWith(file, "/") || absl::StartsWith(file, "<")) return std::string(file);
  const string_view first = file.substr(0, file.find('/'));
  if (first != file && IsAmong(kPackages, first)) return absl::StrCat("site-packages/", file);
  if (IsAmong(kOfPython, absl::StripSuffix(first, ".py"))) return absl::StrCat("/lib/python3.x/", file);
  return std::string(file);
}

// PyTorch's own classes, by what their names end in: of others only the class is known.
bool IsOfTorch(string_view type) {
  while (!type.empty() && std::isdigit(static_cast<unsigned char>(type.back()))) type.remove_suffix(1);
  for (const char* end : {"1d", "2d", "3d", "Loss"}) {
    if (absl::EndsWith(type, end)) return true;
  }
  constexpr string_view kClasses =
      "Linear Bilinear Embedding EmbeddingBag LayerNorm GroupNorm RMSNorm SyncBatchNorm ReLU GELU SiLU Sigmoid Tanh "
      "Softmax LogSoftmax LeakyReLU ELU PReLU Hardswish Hardsigmoid Mish Softplus GLU Dropout Flatten Identity RNN "
      "LSTM GRU MultiheadAttention Upsample PixelShuffle Sequential ModuleList Transformer TransformerEncoder "
      "TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer LocalResponseNorm Unflatten Hardtanh Unfold "
      "Fold";
  return IsAmong(kClasses, type);
}

// "train.py", 12 and "main" of "train.py(12): main".
bool ReadPlace(string_view name, string_view* file, uint32_t* line, string_view* function) {
  const size_t close = name.find("): ");
  const size_t open = close == name.npos ? name.npos : name.rfind('(', close);
  if (open == name.npos || !absl::SimpleAtoi(name.substr(open + 1, close - open - 1), line)) return false;
  *file = name.substr(0, open);
  *function = name.substr(close + 3);
  return true;
}

}  // namespace

bool IsPythonFrame(string_view name) {
  string_view file, function;
  uint32_t line;
  return absl::StartsWith(name, kModule) || ReadPlace(name, &file, &line, &function);
}

std::string ScriptOf(string_view name) {
  string_view file, function;
  uint32_t line;
  if (!ReadPlace(name, &file, &line, &function) || function != "<module>" || FullPath(file) != file || file[0] == '<')
    return "";
  return std::string(file.substr(file.rfind('/') + 1));
}

void PythonFrames::Open(const std::string& name, int64_t end_ns) {
  const auto [place, is_new] = known_.try_emplace(name);
  Frame& frame = place->second;
  if (is_new && absl::StartsWith(name, kModule)) {
    frame = {writer_->String(kModuleFile), writer_->String(kModuleFunction), 0, ObjectOf(name), false};
  } else if (is_new) {
    string_view file, function;
    ReadPlace(name, &file, &frame.line, &function);
    frame.file = writer_->String(FullPath(file));
    frame.is_inductors = absl::StrContains(file, "/torchinductor_");
    frame.function = writer_->String(function);
  }
  const uint32_t around = open_.empty() ? 0 : open_.back().object;
  open_.push_back({frame, open_.empty() ? end_ns : std::min(end_ns, open_.back().end_ns),
                   frame.object != 0 ? frame.object : around});
}

// The number of a module: "nn.Module: CLASS_NUMBER" names one object. Its place follows from the modules around its first call.
uint32_t PythonFrames::ObjectOf(const std::string& name) {
  const string_view label = absl::StripPrefix(name, kModule);
  const string_view type = label.substr(0, label.rfind('_'));
  const uint32_t parent = open_.empty() ? 0 : open_.back().object;
  const auto object = static_cast<uint32_t>(modules_.size() + 1);
  Module& module = modules_.emplace_back();
  module.root = parent == 0 ? object : modules_[parent - 1].root;
  if (parent != 0) {
    const std::string& around = modules_[parent - 1].path;
    module.path = absl::StrCat(around, around.empty() ? "" : ".", label);
  }
  trace::Packet packet;
  trace::PythonModule* defined = packet.mutable_python_module();
  defined->set_object(object);
  defined->set_type(absl::StrCat(IsOfTorch(type) ? "torch.nn." : "", type));
  defined->set_root(module.root);
  defined->set_parent(parent);
  defined->add_name(module.path);
  writer_->Write(packet);
  return object;
}

uint32_t PythonFrames::Stack() {
  if (open_.empty()) return 0;
  uint32_t& stack = open_.back().stack;
  if (stack != 0) return stack;
  trace::InternedPythonStack defined;
  const size_t depth = std::min(open_.size(), kMostFrames);
  for (size_t i = 0; i < depth; ++i) {
    const Frame& open = open_[open_.size() - 1 - i].frame;
    trace::PythonFrame* frame = defined.add_frame();
    frame->set_file_iid(open.file);
    frame->set_function_iid(open.function);
    frame->set_line(open.line);
    frame->set_object(open.object);
  }
  defined.set_is_cut(depth < open_.size());
  return stack = writer_->Stack(std::move(defined));
}

}  // namespace dlhook::analyzer::kineto
