// Splits a demangled name into the parts of its path and keeps the significant ones.
#include "analyzer/names/fold_names.h"

#include <cstddef>

namespace dlhook::analyzer::inline names {
namespace {

using absl::string_view;

// The only template argument of a function or class that is kept: it gives the precision of a computation.
// clang-format off
constexpr string_view kElementTypes[] = {
    "float", "double", "int", "long", "unsigned int", "unsigned long", "short", "signed char", "unsigned char",
    "char", "bool", "_Float16", "__bf16", "c10::Half", "c10::BFloat16", "c10::quint8", "c10::qint8", "Eigen::half",
    "Eigen::bfloat16", "std::complex<float>", "std::complex<double>", "c10::complex<float>", "c10::complex<double>"};
// clang-format on

// Namespaces that only distinguish releases and builds, or nothing at all.
bool IsSilentPart(string_view part) {
  constexpr string_view kSilent[] = {"(anonymous namespace)", "__cxx11", "__1", "__ndk1", "_V2", "__detail"};
  return absl::c_linear_search(kSilent, part) || absl::StartsWith(part, "lts_20") ||
         absl::StartsWith(part, "json_abi_v");
}

// Prefixes of folded names of functions that only forward a call.
constexpr string_view kPlumbingPrefixes[] = {
    // The C++ library's callables, threads and containers.
    "std::", "__gnu_cxx::", "__cxxabiv1::", "boost::function", "boost::detail::function",
    "boost::_bi::", "boost::python::",
    // PyTorch's dispatcher, and the code generated for every operator.
    "c10::Dispatcher::", "c10::KernelFunction::", "c10::BoxedKernel",
    "c10::OperatorHandle::", "c10::TypedOperatorHandle::", "c10::callUnboxedKernelFunction",
    "c10::impl::", "c10::detail::", "c10::guts::", "c10::intrusive_ptr", "c10::function_ref", "at::wrapper_",
    "at::RecordFunction", "at::autocast::", "at::functionalization::", "at::tracer::", "torch::TraceType::",
    "torch::ADInplaceOrView::", "torch::autograd::VariableType::", "torch::jit::Operation",
    "torch::jit::Operator::", "torch::autograd::CppFunction", "torch::autograd::Node::operator()",
    "torch::autograd::call_function",
    // PyTorch's kernel loops: the functor's owner is further out.
    "at::TensorIteratorBase::", "at::native::DEFAULT::VectorizedLoop2d", "at::native::AVX2::VectorizedLoop2d",
    "at::native::AVX512::VectorizedLoop2d", "at::native::DispatchStub", "at::internal::", "at::parallel_for",
    // Bindings to Python.
    "pybind11::", "nanobind::", "torch::detail::wrap_pybind_function", "ffi_call",
    // Abseil's callables; Eigen's evaluators and thread pool.
    "absl::functional_internal::", "absl::internal_any_invocable::", "absl::AnyInvocable", "absl::FunctionRef",
    "absl::base_internal::", "absl::synchronization_internal::", "absl::container_internal::", "Eigen::internal::",
    "Eigen::TensorEvaluator", "Eigen::TensorDevice", "Eigen::Tensor", "Eigen::ThreadLocal", "Eigen::ThreadPoolTempl",
    "Eigen::ThreadPoolDevice", "Eigen::NonBlockingThreadPool", "Eigen::StlThreadEnvironment",
    // oneDNN's log is written by these.
    "dnnl::impl::verbose",
    // LLVM's callables, in XLA.
    "llvm::unique_function", "llvm::function_ref", "llvm::detail::", "tsl::internal::", "tsl::gtl::internal",
    "xla::internal::"};

// clang-format off
// Full folded names.
constexpr string_view kPlumbingNames[] = {
    "_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "start_thread", "clone",
    "clone3", "__clone", "__clone3", "execute_native_thread_routine", "__restore_rt", "tsl::PThread::ThreadFn", "_FUN"};
// clang-format on

bool IsWordCharacter(char character) { return absl::ascii_isalnum(character) || character == '_' || character == '$'; }

class NameParser {
 public:
  explicit NameParser(string_view text) : text_(text) {}

  std::vector<NamePart> Parse() {
    while (at_ < text_.size()) {
      if (!Step()) return {};
    }
    FinishPart();
    return std::move(parts_);
  }

 private:
  string_view rest() const { return text_.substr(at_); }

  bool Step() {
    if (AtOperator()) return TakeOperator();
    if (absl::StartsWith(rest(), "::")) {
      FinishPart();
      at_ += 2;
      return true;
    }
    switch (text_[at_]) {
      case '(':
        return TakeParentheses();
      case '<':
        return TakeTemplateArguments();
      case '{':
        return TakeBalanced('{', '}', &part_.name);
      case '[': {  // "[abi:cxx11]"
        std::string ignored;
        return TakeBalanced('[', ']', &ignored);
      }
      case ' ':
        return TakeSpace();
      default:
        part_.name += text_[at_++];
        return true;
    }
  }

  void FinishPart() {
    if (!part_.name.empty()) parts_.push_back(part_);
    part_ = {};
  }

  bool AtOperator() const {
    constexpr string_view kWord = "operator";
    if (!part_.name.empty() || !absl::StartsWith(rest(), kWord)) return false;
    return at_ + kWord.size() == text_.size() || !IsWordCharacter(text_[at_ + kWord.size()]);
  }

  // "operator()", "operator<<", "operator new[]", "operator at::Tensor": everything up to the template arguments or
  // arguments.
  bool TakeOperator() {
    part_.name = "operator";
    at_ += part_.name.size();
    for (const string_view symbol : {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"}) {
      if (!absl::StartsWith(rest(), symbol)) continue;
      part_.name.append(symbol.data(), symbol.size());
      at_ += symbol.size();
      if (absl::StartsWith(rest(), " <")) ++at_;  // "operator<< <char>": its template arguments
      return true;
    }
    while (at_ < text_.size() && text_[at_] != '(') {  // a type: its brackets belong to it
      if (text_[at_] == '<') {
        if (!TakeBalanced('<', '>', &part_.name)) return false;
      } else {
        part_.name += text_[at_++];
      }
    }
    return true;
  }

  // Appends everything from an opening bracket to its partner, inclusive.
  bool TakeBalanced(char opening, char closing, std::string* into) {
    const size_t begin = at_;
    int depth = 0;
    int other_depth = 0;  // inside parentheses, '<' and '>' may be operators
    for (; at_ < text_.size(); ++at_) {
      const char character = text_[at_];
      if (opening == '<' && (character == '(' || character == ')')) other_depth += character == '(' ? 1 : -1;
      if (other_depth != 0 || (character == '>' && at_ > 0 && text_[at_ - 1] == '-')) continue;
      if (character == opening) ++depth;
      if (character == closing && --depth == 0) {
        ++at_;
        into->append(text_.data() + begin, at_ - begin);
        return true;
      }
    }
    return false;
  }

  bool TakeTemplateArguments() {
    std::string arguments;
    if (!TakeBalanced('<', '>', &arguments)) return false;
    if (part_.name.empty()) {  // "<T as Trait>::f" in Rust
      part_.name = arguments;
    } else {
      part_.template_arguments = arguments.substr(1, arguments.size() - 2);
    }
    return true;
  }

  // "(anonymous namespace)" is a part; other parentheses are arguments, or belong to the return type.
  bool TakeParentheses() {
    constexpr string_view kAnonymous = "(anonymous namespace)";
    if (part_.name.empty() && absl::StartsWith(rest(), kAnonymous)) {
      part_.name = std::string(kAnonymous);
      at_ += kAnonymous.size();
      return true;
    }
    std::string arguments;
    const bool is_type = part_.name.empty() || part_.name == "decltype";
    if (!TakeBalanced('(', ')', &arguments)) return false;
    if (is_type) return true;
    SkipQualifiers();
    return at_ == text_.size() || absl::StartsWith(rest(), "::");
  }

  // " const", "&&" and the like after arguments.
  void SkipQualifiers() {
    constexpr string_view kQualifiers[] = {" const", " volatile", " &&", " &", "&&", "&", " noexcept", "[abi:cxx11]"};
    bool found = true;
    while (found) {
      found = false;
      for (const string_view qualifier : kQualifiers) {
        if (!absl::StartsWith(rest(), qualifier)) continue;
        at_ += qualifier.size();
        found = true;
      }
    }
  }

  // Ends a return type, "non-virtual thunk to" and the like: the name follows.
  bool TakeSpace() {
    ++at_;
    part_ = {};
    parts_.clear();
    return true;
  }

  string_view text_;
  size_t at_ = 0;
  NamePart part_;
  std::vector<NamePart> parts_;
};

// Suffixes that compilers append to the names of clones and of parts of functions.
string_view WithoutCloneSuffixes(string_view name) {
  constexpr string_view kSuffixes[] = {".cold",     ".part.", ".isra.",        ".constprop.", ".lto_priv.",
                                       "._omp_fn.", ".llvm.", ".omp_outlined", ".__uniq."};
  if (const size_t clone = name.find(" [clone "); clone != string_view::npos) name = name.substr(0, clone);
  for (const string_view suffix : kSuffixes) {
    const size_t at = name.find(suffix);
    if (at != string_view::npos && at > 0) name = name.substr(0, at);
  }
  return name;
}

std::string PutTogether(const std::vector<NamePart>& parts) {
  std::string folded;
  bool in_lambda = false;
  for (const NamePart& part : parts) {
    if (IsSilentPart(part.name)) continue;
    const bool is_lambda = absl::StartsWith(part.name, "{lambda") || absl::StartsWith(part.name, "'lambda");
    if (in_lambda && (is_lambda || part.name == "operator()" || part.name == "_FUN")) continue;
    in_lambda = is_lambda;
    if (!folded.empty()) folded += "::";
    absl::StrAppend(&folded, is_lambda ? string_view("{lambda}") : string_view(part.name));
    if (absl::c_linear_search(kElementTypes, part.template_arguments))
      absl::StrAppend(&folded, "<", part.template_arguments, ">");
  }
  return folded;
}

}  // namespace

std::vector<NamePart> PathOf(absl::string_view demangled) {
  return NameParser(WithoutCloneSuffixes(demangled)).Parse();
}

std::string FoldFunction(absl::string_view demangled) {
  // "py::f:/path/file.py" and Java's "Lorg/Foo;::bar" are not C++.
  if (absl::StartsWith(demangled, "py::") || absl::StrContains(demangled, ";::")) return std::string(demangled);
  const string_view name = WithoutCloneSuffixes(demangled);
  if (const std::vector<string_view> path = PathOfMangled(name); !path.empty()) return absl::StrJoin(path, "::");
  if (name.find_first_of("(<: ") == string_view::npos) return std::string(name);
  const std::string folded = PutTogether(PathOf(name));
  return folded.empty() ? std::string(name) : folded;
}

bool IsPlumbing(absl::string_view function) {
  const std::string folded = FoldFunction(function);
  if (absl::c_linear_search(kPlumbingNames, folded)) return true;
  if (absl::StartsWith(folded, "at::_ops::") && absl::EndsWith(folded, "::redispatch")) return true;
  return absl::c_any_of(kPlumbingPrefixes, [&](string_view prefix) { return absl::StartsWith(folded, prefix); });
}

}  // namespace dlhook::analyzer::names
