#include "analyzer/reader/xla_builder.h"

#include "analyzer/model/op_cost.h"
#include "analyzer/ops/decode_op.h"
#include "preload/format/taps.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr uint64_t kMostProfileBytes = uint64_t{512} << 20;  // of a process

// Numbers the executions of programs: by window and program, then by XLA's number, which is a random one.
class Runs {
 public:
  explicit Runs(const XlaProfiles& profiles) : profiles_(profiles) {
    for (const XlaEvent& event : profiles.events()) {
      Run& run = ByProgram(event)[event.run];
      run.start_ns = std::min(run.start_ns, event.start_ns);
      if (!event.is_continuation) ++run.operations;
      const std::string& opcode = profiles.ops()[event.op].opcode;
      if (opcode.empty() || opcode == "while" || opcode == "conditional") programs_[ProgramOf(event)].varies = true;
    }
    for (auto& [program, by_id] : by_program_) {
      MarkEdges(&by_id);
      Program& known = programs_[program.second];
      for (const auto& [id, run] : by_id) {
        if (!run.is_edge) known.operations = std::max(known.operations, run.operations);
      }
    }
    int64_t number = 0;
    for (auto& [program, by_id] : by_program_) {
      for (auto& [id, run] : by_id) run.number = IsPart(programs_[program.second], run) ? 0 : ++number;
    }
  }

  // 0: a part of it is outside of the window.
  int64_t NumberOf(const XlaEvent& event) { return ByProgram(event)[event.run].number; }

 private:
  struct Run {
    int64_t number = 0;
    int64_t start_ns = INT64_MAX;
    int64_t operations = 0;
    bool is_edge = false;  // the first or the last one of a window
  };
  using ById = std::map<uint32_t, Run>;
  using ProgramKey = std::pair<std::string, int64_t>;  // name and id
  struct Program {
    int64_t operations = 0;  // of a whole execution, at most; 0: not known
    bool varies = false;     // a loop or a branch in it decides how many, or it is not in the trace
  };

  ProgramKey ProgramOf(const XlaEvent& event) const {
    const XlaOp& op = profiles_.ops()[event.op];
    return {op.program, op.program_id};
  }
  ById& ByProgram(const XlaEvent& event) { return by_program_[{event.window, ProgramOf(event)}]; }

  static void MarkEdges(ById* by_id) {
    const auto is_earlier = [](const auto& a, const auto& b) { return a.second.start_ns < b.second.start_ns; };
    const auto [first, last] = std::minmax_element(by_id->begin(), by_id->end(), is_earlier);
    first->second.is_edge = last->second.is_edge = true;
  }

  // Several may have begun before their window, if several threads run the program.
  static bool IsPart(const Program& program, const Run& run) {
    const bool may_be = run.is_edge || !program.varies;
    return may_be && (program.operations == 0 || run.operations < program.operations);
  }

  const XlaProfiles& profiles_;
  std::map<std::pair<uint32_t, ProgramKey>, ById> by_program_;
  std::map<ProgramKey, Program> programs_;
};

// Calls of the products among XLA's operations.
class ProductCalls {
 public:
  ProductCalls(const XlaProfiles& profiles, std::vector<Op>* ops) : of_op_(profiles.ops().size()) {
    for (const XlaEvent& event : profiles.events()) of_op_[event.op].is_late |= event.is_continuation;
    for (size_t i = 0; i < of_op_.size(); ++i) {
      if (profiles.ops()[i].product.primitive.empty()) continue;
      of_op_[i].op = static_cast<OpIndex>(ops->size());
      ops->push_back(OpOf(profiles.ops()[i]));
      ops->back().is_asynchronous = of_op_[i].is_late;
      if (!of_op_[i].is_late) continue;
      ops->push_back(ops->back());
      ops->back().is_continuation = true;
      ops->back().flops.reset();
      ops->back().bytes.reset();
    }
  }

  // kNone: it is no product.
  OpIndex OpOf(const XlaEvent& event) const {
    const OpIndex op = of_op_[event.op].op;
    return op != kNone && event.is_continuation ? op + 1 : op;
  }

 private:
  struct Calls {
    OpIndex op = kNone;    // its continuation's is the next one
    bool is_late = false;  // some calls had returned before their work was done
  };

  static Op OpOf(const XlaOp& xla) {
    trace::OneDnn line;
    line.set_operation("exec");
    line.set_primitive(xla.product.primitive);
    line.set_prop_kind(xla.product.direction);
    line.set_problem(xla.product.problem);
    line.set_memory_descriptors(xla.product.tensors);
    line.set_implementation(xla.product.library);
    Op op;
    op.function = "XLA's profiler";
    op.family = kJaxTap.family;
    DecodeOneDnn(line, op);
    op.asked = TranslatedCall{op.problem};
    if (op.flops && absl::StartsWith(op.types, "c")) op.flops = Product({4, *op.flops});
    if (op.direction == Direction::kUnknown && xla.pass == CompiledPass::kForward) op.direction = Direction::kForward;
    if (op.direction == Direction::kUnknown && xla.pass == CompiledPass::kBackward) op.direction = Direction::kBackward;
    return op;
  }

  std::vector<Calls> of_op_;
};

}  // namespace

void XlaBuilder::Add(const trace::CompilerProfile& piece, Oddities* oddities) {
  total_bytes_ += piece.data().size();
  if (total_bytes_ > kMostProfileBytes)
    return oddities->Count("a piece of XLA's profiles beyond the size that is read");
  Whole& whole = wholes_[piece.number()];
  if (whole.bytes.empty()) {
    whole.head = piece;
    whole.head.clear_data();
  }
  if (piece.offset() == whole.bytes.size()) whole.bytes += piece.data();
}

void XlaBuilder::Decode(const Whole& whole, Oddities* oddities) {
  if (whole.bytes.size() != whole.head.total_bytes()) {
    return oddities->Count("a profile of XLA of which a piece is missing (it was left out)");
  }
  const bool is_space = whole.head.kind() == trace::CompilerProfile::XSPACE;
  const bool is_read = is_space ? profiles_.AddSpace(whole.bytes) : profiles_.AddProgram(whole.bytes);
  if (!is_read) return oddities->Count("a profile of XLA that can't be read");
  if (is_space && whole.head.end_ticks() > whole.head.start_ticks()) {
    windows_.emplace_back(whole.head.start_ticks(), whole.head.end_ticks());
  }
}

void XlaBuilder::Finish(ProcessIndex process, const ClockMap& clock, const std::vector<trace::ClockSample>& samples,
                        NameTable* names, TraceModel* model, Oddities* oddities) {
  if (wholes_.empty()) return;
  for (const auto& [number, whole] : wholes_) Decode(whole, oddities);
  wholes_.clear();
  profiles_.Finish();
  for (const XlaProgram& program : profiles_.programs()) {
    model->compiled_programs.push_back({process, program.name, program.arguments});
  }
  const auto events = static_cast<int64_t>(profiles_.events().size());
  const RealtimeMap realtime(clock, samples);
  if (!realtime.has_clock()) return oddities->Count("an operation of XLA without a clock", events);
  const size_t base = model->compiled_ops.size();
  if (profiles_.ops().size() > CompiledLink::kMostOps - base) {
    return oddities->Count("an operation of XLA beyond those that one report can hold", events);
  }
  std::map<int64_t, size_t> place;
  for (const XlaThread& thread : profiles_.threads()) {
    place[thread.id] = threads_.size();
    threads_.push_back({thread.id, thread.name, {}, {}});
  }
  std::vector<NameIndex> name;
  for (const XlaOp& op : profiles_.ops()) {
    model->compiled_ops.push_back(op);
    name.push_back(names->Name(op.primitive));
  }
  const auto ticks_at = [&](int64_t realtime_ns) { return clock.ToTicks(realtime.ToNs(realtime_ns)); };
  Runs runs(profiles_);
  const ProductCalls products(profiles_, &model->ops);
  for (const XlaEvent& event : profiles_.events()) {
    RecordedScope scope;
    scope.end_ticks = ticks_at(event.end_ns);
    scope.duration_ticks = scope.end_ticks - ticks_at(event.start_ns);
    scope.link = CompiledLink{static_cast<uint32_t>(base + event.op), runs.NumberOf(event)}.Encoded();
    scope.name = name[event.op];
    scope.kind = static_cast<uint32_t>(ScopeKind::kXlaOp);
    Thread& thread = threads_[place[event.thread]];
    thread.scopes.push_back(scope);
    if (profiles_.ops()[event.op].product.of_one_fusion > 1 && !event.is_continuation) {
      oddities->Count("a fusion of several products (without rows of their own: their times cannot be separated)");
    }
    const OpIndex op = products.OpOf(event);
    if (op == kNone) continue;
    thread.calls.push_back(
        {static_cast<int64_t>(scope.end_ticks), static_cast<int64_t>(scope.duration_ticks), kNoSequence, op, 0});
  }
}

}  // namespace dlhook::analyzer::reader
