// Ranges of XLA's domain "TSL", as XLA writes them:
//   TSL: XlaCompile:#module=jit_train_step#
//     TSL: XlaPass:#name=dce,module=jit_train_step,program_id=3#      a part of it, on this or on other threads
//   TSL: XlaModule:#hlo_module=cudnn-conv.4#                          on those threads: one algorithm of several is tried
//   TSL: XlaModule:#hlo_module=jit_train_step,program_id=3#           the program runs
//     TSL: Thunk:#name=jit(train_step)/jvp(conv1)/conv_general_dilated,hlo_op=cudnn-conv.4,unique_hlo_op_id=5#
//     TSL: Thunk:#hlo_op=command_buffer_7#                            a CUDA graph; inside, operations that it got anew

#include "analyzer/reader/xla_builder.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr absl::string_view kDomain = "TSL: ";

enum class RangeKind : uint8_t { kOther, kCompiles, kRuns, kTries, kOp };

struct Range {
  RangeKind kind = RangeKind::kOther;
  std::string name;     // op_name of an operation; of a compilation its pass
  std::string program;  // not of an operation
  int64_t id = 0;
  std::string instruction;
};

// The value of `key`, up to the next key. An op_name may have commas, and so may all that comes before `key`.
absl::string_view ValueOf(absl::string_view fields, absl::string_view key) {
  const size_t at = absl::StartsWith(fields, key) ? 0 : fields.find(absl::StrCat(",", key));
  if (at == absl::string_view::npos) return "";
  fields.remove_prefix(fields.find('=', at) + 1);
  size_t end = fields.find(',');
  if (key == "name=") end = std::min(fields.find(",hlo_op="), fields.find(",module="));
  return fields.substr(0, end);
}

Range ReadRange(absl::string_view text) {
  Range range;
  if (!absl::ConsumePrefix(&text, kDomain)) return range;
  text = absl::StripSuffix(text, "#");  // a long text is cut off
  const size_t hash = text.find(":#");
  if (hash == absl::string_view::npos) return range;
  const absl::string_view what = text.substr(0, hash), fields = text.substr(hash + 2);
  range.name = std::string(ValueOf(fields, "name="));
  const absl::string_view id = ValueOf(fields, "program_id=");
  if (what == "Thunk") {
    range.kind = RangeKind::kOp;
    range.instruction = std::string(ValueOf(fields, "hlo_op="));
  } else if (what == "XlaModule") {
    const bool is_known = absl::SimpleAtoi(id, &range.id);
    range.kind = is_known ? RangeKind::kRuns : RangeKind::kTries;
    range.program = std::string(ValueOf(fields, "hlo_module="));
  } else if (absl::StartsWith(what, "Xla")) {
    range.kind = RangeKind::kCompiles;
    range.program = std::string(ValueOf(fields, "module="));
  }
  return range;
}

class RangeReader {
 public:
  RangeReader(size_t first, const XlaProfiles& programs, NameTable* names, TraceModel* model)
      : first_(first), programs_(programs), names_(*names), model_(*model) {}

  void Read() {
    around_.assign(model_.scopes.size() - first_, kNone);
    for (size_t scope = first_; scope < model_.scopes.size(); ++scope) ReadScope(static_cast<ScopeIndex>(scope));
  }

 private:
  // A program that runs, or of which algorithms are tried (number 0).
  struct Run {
    const Range* program = nullptr;
    int64_t number = 0;
  };

  const Range& RangeOf(NameIndex name) {
    const auto [at, is_new] = ranges_.try_emplace(name, nullptr);
    if (is_new) at->second = std::make_unique<Range>(ReadRange(model_.names[name]));
    return *at->second;
  }

  void ReadScope(ScopeIndex scope) {
    const ScopeIndex parent = model_.scopes.parent[scope];
    if (parent != kNone) around_[scope - first_] = around_[parent - first_];
    const ScopeLook look = model_.scopes.look[scope];
    if (look.kind != ScopeKind::kNvtxRange) return;
    const Range& range = RangeOf(look.name);
    if (range.kind == RangeKind::kOther) return;
    if (range.kind == RangeKind::kRuns || range.kind == RangeKind::kTries) {
      around_[scope - first_] = static_cast<uint32_t>(runs_.size());
      runs_.push_back({&range, range.kind == RangeKind::kRuns ? ++last_number_ : 0});
    }
    const uint32_t run = around_[scope - first_];
    if (range.kind == RangeKind::kOp && run != kNone && runs_[run].number != 0) return SetOp(scope, range, runs_[run]);
    model_.scopes.look.Set(scope, {names_.Name(TitleOf(range, run)), look.kind, look.stack});
  }

  std::string TitleOf(const Range& range, uint32_t run) const {
    if (range.kind == RangeKind::kCompiles) {
      return absl::StrCat(kXlaCompiles, range.program, range.name.empty() ? "" : ": ", range.name);
    }
    if (run == kNone) return absl::StrCat(kXlaRuns, range.instruction);
    return absl::StrCat(runs_[run].number == 0 ? kXlaTries : kXlaRuns, runs_[run].program->program);
  }

  void SetOp(ScopeIndex scope, const Range& range, const Run& run) {
    const ScopeLook look = model_.scopes.look[scope];
    const auto [at, is_new] = ops_.try_emplace(
        absl::StrCat(run.program->program, "/", run.program->id, "/", range.instruction), model_.compiled_ops.size());
    if (is_new && at->second < CompiledLink::kMostOps) model_.compiled_ops.push_back(OpOf(range, *run.program));
    if (at->second >= CompiledLink::kMostOps) return;
    model_.scopes.look.Set(scope,
                           {names_.Name(model_.compiled_ops[at->second].primitive), ScopeKind::kXlaOp, look.stack});
    model_.scopes.link.Set(scope, CompiledLink{static_cast<uint32_t>(at->second), run.number}.Encoded());
  }

  // Without its program, what the range's name tells. A CUDA graph has operations of many layers.
  XlaOp OpOf(const Range& range, const Range& program) const {
    if (absl::StartsWith(range.instruction, "command_buffer")) {
      XlaOp graph;
      graph.program = program.program;
      graph.instruction = range.instruction;
      graph.opcode = graph.primitive = "CUDA graph";
      return graph;
    }
    if (const XlaOp* known = programs_.Find(program.program, program.id, range.instruction)) return *known;
    const XlaOpName name = ReadOpName(range.name);
    XlaOp op;
    op.program = program.program;
    op.instruction = range.instruction;
    op.layer = name.path;
    op.has_scopes = !name.path.empty();
    op.pass = name.pass;
    // A name without a path is that of a function or an argument.
    const bool is_operation = absl::StrContains(range.name, '/') && !name.primitive.empty();
    op.primitive = is_operation ? name.primitive : range.instruction.substr(0, range.instruction.find('.'));
    return op;
  }

  const size_t first_;
  const XlaProfiles& programs_;
  NameTable& names_;
  TraceModel& model_;
  absl::flat_hash_map<NameIndex, std::unique_ptr<Range>> ranges_;
  std::vector<uint32_t> around_;  // by scope: of runs_; kNone: none
  std::vector<Run> runs_;
  int64_t last_number_ = 0;
  absl::flat_hash_map<std::string, size_t> ops_;  // of compiled_ops
};

}  // namespace

void ReadXlaRanges(size_t first, const XlaProfiles& programs, NameTable* names, TraceModel* model) {
  const auto is_one = [](const std::string& name) { return absl::StartsWith(name, absl::StrCat(kDomain, "Xla")); };
  if (absl::c_any_of(model->names, is_one)) RangeReader(first, programs, names, model).Read();
}

}  // namespace dlhook::analyzer::reader
