// See model_builder.h.
#include "tests/analyzer/builders/model_builder.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/ops/decode_op.h"
#include "analyzer/reader/scope_nesting.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer {
namespace {

absl::string_view WithoutPrefix(absl::string_view line) {
  for (absl::string_view prefix :
       {"onednn_verbose,v1,primitive,", "onednn_verbose,primitive,", "onednn_verbose,", "dnnl_verbose,"}) {
    if (absl::ConsumePrefix(&line, prefix)) return line;
  }
  return line;
}

}  // namespace

trace::OpDefinition OneDnnDefinition(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(WithoutPrefix(line), ',');
  EXPECT_EQ(fields.size(), 10u) << line;
  trace::OpDefinition definition;
  definition.set_function(absl::StartsWith(fields[0], "create") ? "onednn:create" : "onednn:exec");
  definition.set_family("onednn");
  definition.set_time_source(trace::ONEDNN_LOG);
  trace::OneDnn* onednn = definition.mutable_onednn();
  onednn->set_operation(fields[0]);
  onednn->set_engine(fields[1]);
  onednn->set_primitive(fields[2]);
  onednn->set_implementation(fields[3]);
  onednn->set_prop_kind(fields[4]);
  onednn->set_memory_descriptors(fields[5]);
  onednn->set_attributes(fields[6]);
  onednn->set_auxiliary(fields[7]);
  onednn->set_problem(fields[8]);
  return definition;
}

double OneDnnMilliseconds(const std::string& line) {
  double ms = -1;
  EXPECT_TRUE(absl::SimpleAtod(line.substr(line.rfind(',') + 1), &ms)) << line;
  return ms;
}

trace::OpDefinition GemmDefinition(int64_t m, int64_t n, int64_t k, const std::string& trans,
                                   const std::string& function) {
  trace::OpDefinition definition;
  definition.set_function(function);
  definition.set_family("blas");
  definition.set_time_source(trace::CLOCK_TICKS);
  trace::Gemm* gemm = definition.mutable_gemm();
  gemm->set_a_type(trace::F32);
  gemm->set_b_type(trace::F32);
  gemm->set_c_type(trace::F32);
  gemm->set_m(m);
  gemm->set_n(n);
  gemm->set_k(k);
  gemm->set_trans_a(trans.substr(0, 1));
  gemm->set_trans_b(trans.substr(1, 1));
  gemm->set_batch(1);
  return definition;
}

trace::OpDefinition Definition(const std::string& textproto) {
  trace::OpDefinition definition;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(textproto, &definition)) << textproto;
  return definition;
}

ModelBuilder::ModelBuilder() {
  AddProcess();
  AddThread();
}

ThreadIndex ModelBuilder::AddThread(ProcessIndex process) {
  const auto index = static_cast<ThreadIndex>(model_.threads.size());
  model_.threads.push_back({process, index + 1, 4711 + index, "python3"});
  return index;
}

ProcessIndex ModelBuilder::AddProcess() {
  const auto index = static_cast<ProcessIndex>(model_.processes.size());
  ProcessInfo process;
  process.pid = 4711 + index;
  process.has_footer = true;
  process.end = ProcessEnd::kExited;
  model_.processes.push_back(process);
  return index;
}

OpIndex ModelBuilder::AddOp(const trace::OpDefinition& definition) {
  const auto [place, is_new] =
      op_by_definition_.emplace(definition.SerializeAsString(), static_cast<OpIndex>(model_.ops.size()));
  if (is_new) model_.ops.push_back(DecodeOp(definition));
  return place->second;
}

void ModelBuilder::Call(OpIndex op, int64_t start_ns, int64_t duration_ns, ThreadIndex thread, int32_t status,
                        std::vector<uint64_t> operands) {
  calls_.push_back({op, start_ns, duration_ns, thread, status, std::move(operands)});
  now_ns_ = std::max(now_ns_, start_ns + duration_ns);
}

void ModelBuilder::Scope(const std::string& name, ScopeKind kind, int64_t start_ns, int64_t duration_ns,
                         ThreadIndex thread, int64_t link, StackIndex python_stack) {
  scopes_.push_back({AddName(name), kind, start_ns, duration_ns, thread, link, python_stack});
  now_ns_ = std::max(now_ns_, start_ns + duration_ns);
}

NameIndex ModelBuilder::AddName(const std::string& name) {
  const auto place = std::find(model_.names.begin(), model_.names.end(), name);
  return place == model_.names.end() ? model_.AddName(name) : static_cast<NameIndex>(place - model_.names.begin());
}

ModuleIndex ModelBuilder::AddModule(const std::string& type, std::vector<std::string> names, ModuleIndex root,
                                    ModuleIndex parent, ProcessIndex process) {
  const auto index = static_cast<ModuleIndex>(model_.modules.size());
  Module module;
  module.process = process;
  module.object = index + 1;
  module.type = type;
  module.root = root == kNone ? index : root;
  module.parent = parent;
  module.names = std::move(names);
  model_.modules.push_back(std::move(module));
  return index;
}

StackIndex ModelBuilder::AddStack(const std::vector<Frame>& frames) {
  PythonStack stack;
  for (const Frame& frame : frames) {
    stack.frames.push_back({AddName(frame.file), AddName(frame.function), frame.line, frame.module});
  }
  model_.python_stacks.push_back(std::move(stack));
  return static_cast<StackIndex>(model_.python_stacks.size() - 1);
}

void ModelBuilder::Sample(int64_t time_ns, int64_t cpu_ns, FrameIndex frame, StackIndex python_stack,
                          ThreadIndex thread, CallIndex call, SampleState state) {
  SampleColumns& samples = model_.samples;
  samples.time_ns.push_back(time_ns);
  samples.cpu_ns.push_back(cpu_ns);
  samples.thread.push_back(thread);
  samples.frame.push_back(frame);
  samples.python_stack.push_back(python_stack);
  samples.scope.push_back(kNone);
  samples.call.push_back(call);
  samples.is_in_call.push_back(call == kNone ? 0 : 1);
  samples.state.push_back(state);
}

FrameIndex ModelBuilder::AddNativeStack(const std::vector<std::string>& functions, const std::string& object) {
  NativeFrameColumns& frames = model_.native_frames;
  NativeSymbols& symbols = model_.native_symbols;
  if (symbols.begin.empty()) symbols.begin.push_back(0);
  FrameIndex parent = kNone;
  for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
    const auto [at, is_new] = native_frames_.try_emplace({parent, *function}, static_cast<FrameIndex>(frames.size()));
    if (is_new) {
      frames.address.push_back(0x1000 + 0x10 * frames.size());
      frames.parent.push_back(parent);
      frames.process.push_back(0);
      frames.cut.push_back(StackCut::kWhole);
      const std::vector<std::string> inlined = absl::StrSplit(*function, '|');
      for (const std::string& name : inlined) {
        symbols.symbols.push_back({.function = AddName(name),
                                   .object = AddName(object),
                                   .offset = 4,
                                   .is_inlined = &name != &inlined.back()});
      }
      symbols.begin.push_back(static_cast<uint32_t>(symbols.symbols.size()));
    }
    parent = at->second;
  }
  return parent;
}

void ModelBuilder::Log(const std::string& text, int64_t gap_ns) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    if (!absl::StrContains(line, ",exec,") && !absl::StrContains(line, ",create:cache_")) continue;
    const auto duration_ns = static_cast<int64_t>(std::llround(OneDnnMilliseconds(line) * 1e6));
    Call(AddOp(OneDnnDefinition(line)), now_ns_ + gap_ns, duration_ns);
  }
}

void ModelBuilder::BuildScopes() {
  std::stable_sort(scopes_.begin(), scopes_.end(), [](const PendingScope& a, const PendingScope& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return a.duration_ns > b.duration_ns;
  });
  ScopeColumns& scopes = model_.scopes;
  std::vector<ScopeIndex> open;
  for (const PendingScope& scope : scopes_) {
    while (!open.empty() && (scopes.thread[open.back()] != scope.thread ||
                             scopes.start_ns[open.back()] + scopes.duration_ns[open.back()] <= scope.start_ns)) {
      open.pop_back();
    }
    const ScopeIndex parent = open.empty() ? kNone : open.back();
    open.push_back(static_cast<ScopeIndex>(scopes.size()));
    scopes.start_ns.push_back(scope.start_ns);
    scopes.duration_ns.push_back(scope.duration_ns);
    scopes.look.push_back({scope.name, scope.kind, scope.python_stack});
    scopes.link.push_back(scope.link);
    scopes.thread.push_back(scope.thread);
    scopes.parent.push_back(parent);
  }
}

void ModelBuilder::JoinCalls() {
  const ScopeColumns& scopes = model_.scopes;
  if (scopes.size() == 0) return;
  std::vector<InnermostIndex> threads(model_.threads.size());
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    threads[scopes.thread[scope]].Open(scopes.start_ns[scope], scopes.start_ns[scope] + scopes.duration_ns[scope],
                                       scope);
  }
  for (InnermostIndex& thread : threads) thread.Seal();
  CallColumns& calls = model_.calls;
  for (CallIndex call = 0; call < calls.size(); ++call) {
    const int64_t end_ns = calls.start_ns[call] + calls.duration_ns[call];
    calls.scope.push_back(threads[calls.thread[call]].At(end_ns - 1));
  }
}

TraceModel ModelBuilder::Build(int64_t wall_ns) {
  std::stable_sort(calls_.begin(), calls_.end(), [](const PendingCall& a, const PendingCall& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return a.duration_ns > b.duration_ns;
  });
  CallColumns& calls = model_.calls;
  std::vector<CallIndex> open;
  for (const PendingCall& call : calls_) {
    const auto index = static_cast<CallIndex>(calls.size());
    while (!open.empty() && (calls.thread[open.back()] != call.thread ||
                             calls.start_ns[open.back()] + calls.duration_ns[open.back()] <= call.start_ns)) {
      open.pop_back();
    }
    const CallIndex parent = open.empty() ? kNone : open.back();
    if (parent != kNone) calls.self_ns[parent] -= call.duration_ns;
    calls.start_ns.push_back(call.start_ns);
    calls.duration_ns.push_back(call.duration_ns);
    calls.self_ns.push_back(call.duration_ns);
    calls.op.push_back(call.op);
    calls.thread.push_back(call.thread);
    calls.parent.push_back(parent);
    calls.sequence.push_back(index + 1);
    if (call.status != 0) model_.failed_calls.push_back({index, call.status});
    if (!call.operands.empty()) {
      CallOperands& kept = model_.operands;
      kept.call.push_back(index);
      kept.begin.push_back(kept.value.size());
      kept.value.insert(kept.value.end(), call.operands.begin(), call.operands.end());
    }
    if (call.python_stack != kNone) model_.call_stacks.emplace_back(index, call.python_stack);
    if (model_.native_frames.size() > 0) calls.native_stack.push_back(call.native_stack);
    open.push_back(index);
  }
  BuildScopes();
  JoinCalls();
  model_.end_ns = wall_ns > 0 ? wall_ns : now_ns_;
  for (ProcessInfo& process : model_.processes) process.end_ns = model_.end_ns;
  return model_;
}

Table RunPass(const std::string& name, TraceModel model, const Peaks* peaks) {
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  const TableOptions options = {.choices = &choices, .totals = &totals, .analysis = &analysis, .peaks = peaks};
  for (const TableKind& kind : TableKinds()) {
    if (kind.name != name) continue;
    absl::StatusOr<Table> table = kind.run(model, options);
    EXPECT_TRUE(table.ok()) << table.status();
    CheckShape(*table);
    return *table;
  }
  ADD_FAILURE() << "no pass " << name;
  return {};
}

size_t ColumnIndex(const Table& table, const std::string& name) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == name) return i;
  }
  ADD_FAILURE() << "no column " << name << " in " << table.name;
  return 0;
}

const Cell& At(const Table& table, size_t row, const std::string& column) {
  return table.rows.at(row).at(ColumnIndex(table, column));
}

int64_t Integer(const Table& table, size_t row, const std::string& column) {
  const auto* value = std::get_if<int64_t>(&At(table, row, column));
  EXPECT_NE(value, nullptr) << column << " of row " << row;
  return value ? *value : INT64_MIN;
}

double Real(const Table& table, size_t row, const std::string& column) {
  const auto* value = std::get_if<double>(&At(table, row, column));
  EXPECT_NE(value, nullptr) << column << " of row " << row;
  return value ? *value : std::nan("");
}

std::string Text(const Table& table, size_t row, const std::string& column) {
  const auto* value = std::get_if<CellString>(&At(table, row, column));
  return value ? *value : "-";
}

int64_t Sum(const Table& table, const std::string& column) {
  int64_t sum = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    if (const auto* value = std::get_if<int64_t>(&At(table, row, column))) sum += *value;
  }
  return sum;
}

std::vector<size_t> RowsWhere(const Table& table, const std::vector<std::pair<std::string, std::string>>& cells) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const bool all = std::all_of(cells.begin(), cells.end(),
                                 [&](const auto& cell) { return Text(table, row, cell.first) == cell.second; });
    if (all) rows.push_back(row);
  }
  return rows;
}

size_t RowWhere(const Table& table, const std::vector<std::pair<std::string, std::string>>& cells) {
  const std::vector<size_t> rows = RowsWhere(table, cells);
  EXPECT_EQ(rows.size(), 1u) << "rows with " << cells[0].first << " = " << cells[0].second;
  return rows.empty() ? 0 : rows[0];
}

void CheckShape(const Table& table) {
  for (const Row& row : table.rows) {
    ASSERT_EQ(row.size(), table.columns.size()) << table.name;
    for (size_t i = 0; i < row.size(); ++i) {
      if (std::holds_alternative<std::monostate>(row[i])) continue;
      const ColumnType type = std::holds_alternative<CellString>(row[i]) ? ColumnType::kText
                              : std::holds_alternative<int64_t>(row[i])  ? ColumnType::kInteger
                                                                         : ColumnType::kReal;
      EXPECT_EQ(type, table.columns[i].type) << table.name << "." << table.columns[i].name;
    }
  }
}

std::string ReadTestData(const std::string& name) {
  std::ifstream file(std::string(DLHOOK_TESTDATA) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace dlhook::analyzer
