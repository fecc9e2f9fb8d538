#include "analyzer/stacks/interpreter_frames.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline stacks {
namespace {

using absl::string_view;

// "python3.11", "python", "libpython3.11.so.1.0"; not "python-config" or "pythonize".
bool IsPythonObject(string_view path) {
  const std::string base = BaseName(path);
  string_view name = base;
  absl::ConsumePrefix(&name, "lib");
  if (!absl::ConsumePrefix(&name, "python")) return false;
  return name.empty() || (name.front() >= '0' && name.front() <= '9');
}

bool IsCLibrary(string_view path) {
  const std::string name = BaseName(path);
  return name == "libc.so.6" || absl::StartsWith(name, "libc-2.") || absl::StartsWith(name, "libpthread");
}

bool IsCName(string_view function) { return function.find_first_of(":(<") == string_view::npos; }

bool IsStartName(string_view function) {
  constexpr string_view kStarts[] = {"_start", "start_thread", "clone", "clone3", "__clone", "__clone3"};
  return absl::StartsWith(function, "__libc_start_") ||
         std::find(std::begin(kStarts), std::end(kStarts), function) != std::end(kStarts);
}

}  // namespace

bool IsEvaluationLoop(string_view function) {
  if (absl::StartsWith(function, "_TAIL_CALL_")) return true;
  return absl::ConsumePrefix(&function, "_PyEval_EvalFrameDefault") && (function.empty() || function.front() == '.');
}

InterpreterFrames::InterpreterFrames(const TraceModel& model) : model_(model) {
  for (const NativeSymbol& symbol : model.native_symbols.symbols) {
    if (symbol.object == kNone) continue;
    const std::string& object = model.names[symbol.object];
    if (IsPythonObject(object)) pythons_.insert(symbol.object);
    if (IsCLibrary(object)) c_libraries_.insert(symbol.object);
    if (symbol.function == kNone || !IsEvaluationLoop(model.names[symbol.function])) continue;
    loops_.insert(symbol.function);
    objects_.insert(symbol.object);
  }
}

bool InterpreterFrames::IsLoop(FrameIndex frame) const {
  if (loops_.empty()) return false;
  const auto symbols = model_.native_symbols.Of(frame);
  return std::any_of(symbols.begin(), symbols.end(),
                     [this](const NativeSymbol& symbol) { return loops_.contains(symbol.function); });
}

bool InterpreterFrames::IsInside(FrameIndex frame) const {
  const NativeSymbol* symbol = Outermost(frame);
  if (symbol == nullptr || !objects_.contains(symbol->object)) return false;
  if (symbol->function == kNone) return true;
  const std::string& function = model_.names[symbol->function];
  return IsCName(function) && function != "main";
}

bool InterpreterFrames::IsInPython(FrameIndex frame) const {
  const NativeSymbol* symbol = Outermost(frame);
  return symbol != nullptr && pythons_.contains(symbol->object);
}

bool InterpreterFrames::IsStart(FrameIndex frame) const {
  const NativeSymbol* symbol = Outermost(frame);
  if (symbol == nullptr) return false;
  return symbol->function == kNone ? c_libraries_.contains(symbol->object)
                                   : IsStartName(model_.names[symbol->function]);
}

const NativeSymbol* InterpreterFrames::Outermost(FrameIndex frame) const {
  return model_.native_symbols.empty() ? nullptr : &model_.native_symbols.Of(frame).back();
}

}  // namespace dlhook::analyzer::stacks
