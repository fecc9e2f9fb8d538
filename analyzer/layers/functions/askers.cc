// Who made a call: see askers.h.
//
// To add a library, or helpers through which a framework calls it, add a line to kLibraries or kHelpers.
#include "analyzer/layers/functions/askers.h"

#include "analyzer/layers/functions/layer_functions.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline functions {
namespace {

constexpr absl::string_view kBetween = " < ";
constexpr char kLeftOut[] = "...";

// File name prefixes of math libraries: their inner functions are part of the call itself.
constexpr absl::string_view kLibraries[] = {"libblas",  "libcblas",         "libopenblas", "libblis",   "libmkl",
                                            "libatlas", "liblapack",        "libdnnl",     "libmkldnn", "libgomp",
                                            "libiomp",  "libcublas",        "libcudnn",    "libcudart", "libgslcblas",
                                            "libflame", "libscipy_openblas"};

// clang-format off
// Prefixes of functions of these libraries, for when they are built into a framework, and of helpers between the
// framework and the library.
constexpr absl::string_view kHelpers[] = {
    "cblas_", "dnnl_", "mkldnn_", "dnnl::", "mkldnn::", "ideep::", "zendnn", "at::native::cpublas::",
    "at::native::gemm", "at::native::addmm_impl_cpu_", "at::native::baddbmm_", "at::native::mkldnn_to_dense",
    "at::native::dense_to_mkldnn", "at::native::itensor_", "at::native::_mkldnn_convolution", "caffe::caffe_cpu_",
    "caffe::caffe_axpy", "caffe::caffe_gpu_", "caffe2::math::", "Eigen::", "dlib::blas_bindings::", "dlib::cpu::",
    "dlib::tt::", "arma::blas::", "arma::gemm", "arma::gemv", "arma::glue_times", "cv::hal::", "cv::gemm", "dlhook_"};

// Functions on the path of every call of a framework.
constexpr absl::string_view kGlue[] = {
    "at::_ops::", "torch::autograd::Engine::", "torch::autograd::Node::", "THPEngine_",
    "torch::autograd::python::PythonEngine::", "torch::autograd::VariableType::", "torch::autograd::THPVariable_",
    "dispatcher_vectorcall", "array_matrixproduct", "torch::autograd::generated::"};
// clang-format on

// Functions that only start a thread or a program.
constexpr absl::string_view kStarts[] = {
    "__libc_start_main", "__libc_start_call_main",        "_start",       "start_thread", "clone", "clone3", "__clone",
    "__clone3",          "execute_native_thread_routine", "Py_BytesMain", "Py_RunMain"};

// path entries shown: the innermost ones, and the outermost
constexpr size_t kInnerOfPath = 2;
// Namespaces that are clear from the context.
constexpr absl::string_view kKnownSpaces[] = {
    "at::native::", "at::", "torch::autograd::", "tensorflow::", "caffe::", "dlib::"};

template <size_t kCount>
bool BeginsWithOneOf(absl::string_view name, const absl::string_view (&beginnings)[kCount]) {
  return absl::c_any_of(beginnings, [&](absl::string_view beginning) { return absl::StartsWith(name, beginning); });
}

absl::string_view FileName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }
bool IsInMathLibrary(const StackEntry& entry) { return BeginsWithOneOf(FileName(entry.object), kLibraries); }
bool IsStart(const StackEntry& entry) { return absl::c_linear_search(kStarts, entry.function); }

// False for "libfoo.so+0x1234", and for "0x1234" of code outside any file.
bool HasName(const StackEntry& entry) {
  return !absl::StartsWith(entry.function, "0x") && !absl::StrContains(entry.function, "+0x");
}

bool IsSkipped(const StackEntry& entry) {
  return IsInMathLibrary(entry) || IsSharedCode(entry.object) || entry.is_plumbing ||
         (HasName(entry) && IsLibraryFunction(entry.function));
}

// A line of Python outside frameworks.
bool IsUserLine(const StackEntry& entry) {
  return entry.kind == StackEntry::Kind::kPython && entry.line != 0 && !IsFrameworkFile(entry.file);
}

// tensorflow::…Op::Compute, ComputeAsync; a layer's Forward_cpu; XLA's thunks.
bool ComputesOpOrLayer(const StackEntry& entry) {
  const absl::string_view name = entry.function;
  if (absl::EndsWith(name, "::Compute") || absl::EndsWith(name, "::ComputeAsync")) return true;
  if (absl::StrContains(name, "Thunk::Execute")) return true;
  return ReadLayerFunction(entry.full_function).has_value();
}

// Neither from a package nor from the system: the user's own program or library.
bool IsUsersObject(const StackEntry& entry) {
  const absl::string_view path = entry.object;
  if (!absl::StartsWith(path, "/") || absl::StrContains(path, "-packages/")) return false;
  for (absl::string_view folder : {"/usr/", "/lib/", "/lib64/", "/opt/"}) {
    if (absl::StartsWith(path, folder)) return absl::StartsWith(path, "/usr/local/");
  }
  const absl::string_view file = FileName(path);
  return !absl::StartsWith(file, "python") && !absl::StartsWith(file, "libpython") &&
         !absl::StrContains(path, "/lib/python3.");
}

// PyTorch's structured kernels: the class names the op.
std::string Named(const StackEntry& entry) {
  absl::string_view name = entry.function;
  if (absl::StartsWith(name, "at::native::structured_")) absl::ConsumeSuffix(&name, "::impl");
  return std::string(name);
}

std::string ShortFunction(const StackEntry& entry) {
  const std::string name = Named(entry);
  for (absl::string_view space : kKnownSpaces) {
    if (absl::StartsWith(name, space)) return name.substr(space.size());
  }
  return name;
}

// Keeps the first `inner` words and the last one.
void CutMiddle(size_t inner, std::vector<std::string>* words) {
  if (words->size() <= inner + 2) return;
  words->erase(words->begin() + static_cast<ptrdiff_t>(inner), words->end() - 2);
  (*words)[inner] = kLeftOut;
}

std::string WithLine(const StackEntry& entry) {
  if (entry.file.empty() || entry.line == 0) return entry.function;
  return absl::StrCat(entry.function, " (", FileName(entry.file), ":", entry.line, ")");
}

}  // namespace

bool IsLibraryFunction(absl::string_view function) {
  if (BeginsWithOneOf(function, kHelpers)) return true;
  // NumPy's own names for its BLAS calls.
  if (function == "gemm" || function == "gemv" || function == "syrk") return true;
  // Fortran names: "sgemm_", "dgetrf_64_".
  if (absl::StrContains(function, "::") || !absl::EndsWith(function, "_")) return false;
  return absl::StrContains(function, "gemm") || absl::StrContains(function, "gemv");
}

Askers::Askers(const TraceModel& model, const Attribution& attribution)
    : model_(model), attribution_(attribution), places_(ReadPythonPlaces(model)), stacks_(model) {}

std::string Askers::FunctionOfSample(size_t sample) {
  return AskingFunction(stacks_.OfSample(model_.samples.frame[sample], model_.samples.python_stack[sample]), Key());
}

NameIndex Askers::OpScopeOf(CallIndex call) const {
  for (ScopeIndex scope = model_.calls.ScopeOf(call); scope != kNone; scope = model_.scopes.parent[scope]) {
    if (!FactsOf(model_.scopes.look[scope].kind).is_bracket) return model_.scopes.look[scope].name;
  }
  return kNone;
}

Askers::Key Askers::KeyOf(CallIndex call) const {
  return {.frame = model_.calls.NativeStackOf(call),
          .python_stack = model_.PythonStackOf(call),
          .scope = OpScopeOf(call),
          .layer = attribution_.PlaceOfCall(call).layer,
          .op = model_.calls.op[call]};
}

Askers::Answer& Askers::Of(CallIndex call) {
  const Key key = KeyOf(call);
  const auto [found, is_new] = answers_.try_emplace(key);
  Answer& answer = found->second;
  if (!is_new) return answer;
  const absl::Span<const StackEntryIndex> stack = stacks_.Of(call);
  answer.function = AskingFunction(stack, key);
  answer.line = UserLine(stack, key, answer.function);
  return answer;
}

const Askers::Answer& Askers::WithStack(CallIndex call) {
  Answer& answer = Of(call);
  if (answer.has_stack) return answer;
  const Key key = KeyOf(call);
  const absl::Span<const StackEntryIndex> stack = stacks_.Of(call);
  answer.stack = WholeStack(stack, key);
  answer.path = Path(stack, key);
  answer.has_stack = true;
  return answer;
}

std::string Askers::AskingFunction(absl::Span<const StackEntryIndex> stack, const Key& key) const {
  const StackEntry* innermost = nullptr;
  const StackEntry* python = nullptr;
  for (StackEntryIndex index : stack) {
    const StackEntry& entry = stacks_.entry(index);
    if (entry.kind == StackEntry::Kind::kPython && absl::StartsWith(entry.file, "<__array_function__ ")) continue;
    if (entry.kind == StackEntry::Kind::kPython) python = &entry;
    if (entry.kind != StackEntry::Kind::kNative) break;
    if (HasName(entry) && ComputesOpOrLayer(entry)) return entry.function;
    if (innermost == nullptr && !IsSkipped(entry) && !IsStart(entry)) innermost = &entry;
  }
  if (innermost != nullptr) {
    return HasName(*innermost)
               ? Named(*innermost)
               : absl::StrCat("[", innermost->object.empty() ? "code that is in no file" : FileName(innermost->object),
                              "]");
  }
  if (key.scope != kNone) return model_.names[key.scope];
  return python == nullptr ? "" : python->function;
}

// The innermost function of the program outside the calling one; preferably one from another file.
std::string Askers::OwnFunction(absl::Span<const StackEntryIndex> stack, const std::string& asking) const {
  const auto asker =
      absl::c_find_if(stack, [&](StackEntryIndex index) { return Named(stacks_.entry(index)) == asking; });
  std::string innermost;
  for (auto at = asker; at != stack.end(); ++at) {
    const StackEntry& entry = stacks_.entry(*at);
    if (at == asker || entry.kind != StackEntry::Kind::kNative || !HasName(entry) || IsSkipped(entry) || IsStart(entry))
      continue;
    if (!IsUsersObject(entry) || absl::StartsWith(entry.file, "/usr/")) continue;
    if (entry.object != stacks_.entry(*asker).object) return WithLine(entry);
    if (innermost.empty() && Named(entry) != asking) innermost = WithLine(entry);
  }
  return innermost;
}

std::string Askers::UserLine(absl::Span<const StackEntryIndex> stack, const Key& key,
                             const std::string& function) const {
  if (key.python_stack != kNone) {
    std::string line = LineLabel(model_, places_[key.python_stack]);
    if (!line.empty()) return line;
  }
  if (key.layer != kNone && !attribution_.layers[key.layer].line.empty()) return attribution_.layers[key.layer].line;
  return OwnFunction(stack, function);
}

std::string Askers::WholeStack(absl::Span<const StackEntryIndex> stack, const Key& key) {
  if (stack.empty()) return "";
  std::string text = model_.ops[key.op].function;
  for (StackEntryIndex index : stack) {
    const std::string word = WithLine(stacks_.entry(index));
    text_.Take(word.size() + kBetween.size());
    absl::StrAppend(&text, kBetween, word);
  }
  return text;
}

// Whether the entry is shown in a path. A framework's Python code is shown only if there is no user code.
bool Askers::IsOnPath(const StackEntry& entry, bool has_user_lines) const {
  if (entry.kind == StackEntry::Kind::kPython) return !has_user_lines || IsUserLine(entry);
  return entry.kind == StackEntry::Kind::kCut ||
         (!IsSkipped(entry) && !IsStart(entry) && !BeginsWithOneOf(entry.function, kGlue));
}

std::string Askers::Path(absl::Span<const StackEntryIndex> stack, const Key& key) const {
  if (stack.empty()) return "";
  const bool has_user_lines =
      absl::c_any_of(stack, [&](StackEntryIndex index) { return IsUserLine(stacks_.entry(index)); });
  std::vector<std::string> native = {model_.ops[key.op].function}, python;
  for (StackEntryIndex index : stack) {
    const StackEntry& entry = stacks_.entry(index);
    if (!IsOnPath(entry, has_user_lines)) continue;
    const bool is_python = entry.kind == StackEntry::Kind::kPython;
    std::vector<std::string>& words = is_python || !python.empty() ? python : native;
    std::string word = is_python ? WithLine(entry) : ShortFunction(entry);
    if (words.empty() || word != words.back()) words.push_back(std::move(word));
  }
  CutMiddle(kInnerOfPath + 1, &native);  // the call itself does not count
  CutMiddle(kInnerOfPath, &python);
  native.insert(native.end(), python.begin(), python.end());
  return absl::StrJoin(native, kBetween);
}

}  // namespace dlhook::analyzer::functions
