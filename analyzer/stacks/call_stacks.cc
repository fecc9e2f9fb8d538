#include "analyzer/stacks/call_stacks.h"

#include "analyzer/io/byte_source.h"
#include "analyzer/names/fold_names.h"

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
  return absl::StartsWith(function, "__libc_start_") || absl::c_linear_search(kStarts, function);
}

// The number of groups of frames that one loop each runs; the incomplete group at a cut counts.
size_t GroupsOf(const PythonStack& stack) {
  size_t groups = 0;
  bool is_open = false;
  for (const PythonFrame& frame : stack.frames) {
    groups += frame.is_entry;
    is_open = !frame.is_entry;
  }
  return groups + is_open;
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
  return absl::c_any_of(symbols, [this](const NativeSymbol& symbol) { return loops_.contains(symbol.function); });
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

// Innermost first, without the frames that start a thread.
struct CallStacks::NativeStack {
  std::vector<FrameIndex> frames;
  size_t loops = 0;
  bool is_cut = false;
};

const CallStacks::Woven& CallStacks::WovenOf(FrameIndex native, StackIndex python) {
  const auto [place, is_new] = woven_.try_emplace({native, python});
  if (is_new) {
    place->second = Weave(native, python);
    frames_.Take(place->second.entries.size());
  }
  return place->second;
}

CallStacks::Woven CallStacks::Weave(FrameIndex innermost, StackIndex python) {
  Woven woven;
  if (innermost == kNone) {
    if (python != kNone) AddAllFrom(model_.python_stacks[python], 0, &woven);
    return woven;
  }
  const NativeStack native = Unroll(innermost);
  if (native.loops == 0 && python != kNone) {
    WeaveByObject(native, python, &woven);
  } else {
    WeaveByLoops(native, python, &woven);
  }
  return woven;
}

void CallStacks::WeaveByLoops(const NativeStack& native, StackIndex python, Woven* out) {
  const PythonStack* stack = python == kNone ? nullptr : &model_.python_stacks[python];
  if (stack != nullptr) {
    const size_t groups = GroupsOf(*stack);
    const bool is_too_short = groups < native.loops && !stack->is_cut;
    const bool is_too_long = groups > native.loops && !native.is_cut;
    if (is_too_short || is_too_long) stack = nullptr;
  }
  size_t next = 0;
  for (const FrameIndex frame : native.frames) {
    if (!interpreter_.IsLoop(frame)) {
      if (!interpreter_.IsInside(frame)) AddNative(frame, out);
    } else if (stack != nullptr && next < stack->frames.size()) {
      next = AddGroup(*stack, next, out);
    } else {
      AddUnknownPython(out);
    }
  }
  if (out->entries.empty() && stack == nullptr) AddUnknownPython(out);  // the interpreter itself, as when it starts
  if (!native.is_cut) return;
  AddCut(out);
  if (stack != nullptr && next < stack->frames.size()) AddAllFrom(*stack, next, out);
}

void CallStacks::WeaveByObject(const NativeStack& native, StackIndex python, Woven* out) {
  for (const FrameIndex frame : native.frames) {
    if (interpreter_.IsInPython(frame)) {
      AddAllFrom(model_.python_stacks[python], 0, out);
      return AddCut(out);
    }
    AddNative(frame, out);
  }
  if (!native.is_cut) return;
  AddCut(out);
  AddAllFrom(model_.python_stacks[python], 0, out);
}

CallStacks::NativeStack CallStacks::Unroll(FrameIndex innermost) {
  NativeStack stack;
  const NativeFrameColumns& frames = model_.native_frames;
  for (FrameIndex frame = innermost; frame != kNone; frame = frames.parent[frame]) {
    frames_.Take(1);
    stack.frames.push_back(frame);
    stack.loops += interpreter_.IsLoop(frame);
    stack.is_cut = frames.cut[frame] != StackCut::kWhole;
  }
  while (!stack.is_cut && stack.frames.size() > 1 && interpreter_.IsStart(stack.frames.back())) stack.frames.pop_back();
  return stack;
}

void CallStacks::AddNative(FrameIndex frame, Woven* out) {
  const uint64_t address = model_.native_frames.address[frame];
  if (model_.native_symbols.empty()) return out->Add(NativeEntry({}, address), frame);
  for (const NativeSymbol& symbol : model_.native_symbols.Of(frame)) out->Add(NativeEntry(symbol, address), frame);
}

void CallStacks::AddMarker(StackEntry::Kind kind, const char* text, StackEntryIndex* marker, Woven* out) {
  if (*marker == kNone) *marker = Add({.kind = kind, .function = text, .full_function = text});
  if (out->entries.empty() || out->entries.back() != *marker) out->Add(*marker);
}

size_t CallStacks::AddGroup(const PythonStack& stack, size_t first, Woven* out) {
  size_t next = first;
  bool is_last = false;
  while (!is_last && next < stack.frames.size()) {
    is_last = stack.frames[next].is_entry;
    out->Add(PythonEntry(stack.frames[next++]));
  }
  if (!is_last && stack.is_cut) AddCut(out);
  return next;
}

void CallStacks::AddAllFrom(const PythonStack& stack, size_t first, Woven* out) {
  for (size_t i = first; i < stack.frames.size(); ++i) out->Add(PythonEntry(stack.frames[i]));
  if (stack.is_cut) AddCut(out);
}

StackEntryIndex CallStacks::NativeEntry(const NativeSymbol& symbol, uint64_t address) {
  const bool is_named = symbol.function != kNone;
  const uint64_t place = is_named ? symbol.line : symbol.object != kNone ? symbol.offset : address;
  const auto [known, is_new] = native_entries_.try_emplace({symbol.function, symbol.object, symbol.file, place});
  if (!is_new) return known->second;
  const auto name = [this](NameIndex index) { return index == kNone ? std::string() : model_.names[index]; };
  StackEntry entry;
  entry.object = name(symbol.object);
  entry.file = name(symbol.file);
  entry.line = symbol.line;
  if (is_named) {
    entry.full_function = name(symbol.function);
    entry.function = FoldFunction(entry.full_function);
    entry.is_plumbing = IsPlumbing(entry.full_function);
  } else {
    const std::string of_object = symbol.object == kNone ? "" : absl::StrCat(BaseName(entry.object), "+");
    entry.function = entry.full_function = absl::StrCat(of_object, "0x", absl::Hex(place));
  }
  return known->second = Add(std::move(entry));
}

StackEntryIndex CallStacks::PythonEntry(const PythonFrame& frame) {
  const auto [known, is_new] = python_entries_.try_emplace({frame.function, frame.file, frame.line});
  if (!is_new) return known->second;
  const std::string& function = model_.names[frame.function];
  return known->second = Add({.kind = StackEntry::Kind::kPython,
                              .function = function,
                              .full_function = function,
                              .file = model_.names[frame.file],
                              .line = frame.line});
}

StackEntryIndex CallStacks::Add(StackEntry entry) {
  entries_.push_back(std::move(entry));
  return static_cast<StackEntryIndex>(entries_.size() - 1);
}

}  // namespace dlhook::analyzer::stacks
