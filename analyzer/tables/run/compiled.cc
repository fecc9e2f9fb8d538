// Table `compiled`: the functions that torch.compile compiled, why again, and where it had to break a graph.

#include "analyzer/calls/scope_names.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kKept = 64;  // compilations that PyTorch keeps

struct CompiledRow {
  const CompiledCode& code;
  int64_t pid;
  int64_t backward_ns = 0;  // of compiling its backward pass
  int64_t runs = 0;
  int64_t kernels = 0;
  int64_t named_kernels = 0;
  int64_t divided_kernels = 0;

  bool IsBreak() const { return code.kind == CompiledKind::kGraphBreak; }
  bool IsCompilation() const { return code.kind == CompiledKind::kCompilation; }
  std::string What() const {
    if (code.kind == CompiledKind::kRecompileLimit) return "limit reached";
    return IsBreak() ? "graph break" : absl::EndsWith(code.region, "/0") ? "compiled" : "compiled again";
  }
};

Cell Unless(bool is_unknown, int64_t value) { return is_unknown ? Cell() : Cell(value); }

TypedColumns<CompiledRow> Columns() {
  return {
      {TextColumn("what"),
       "compiled; compiled again, for other sizes or values; limit reached: not compiled again; graph break.",
       &CompiledRow::What},
      {TextColumn("region"), "As in the table layers: number of the function / how often it was compiled before.",
       [](const CompiledRow& row) { return KnownText(row.code.region); }},
      {TextColumn("function"), "Of the program.",
       [](const CompiledRow& row) { return KnownText(CompiledFunctionName(row.code.function)); }},
      {TextColumn("line"), "Where the function begins; where the graph is broken.",
       [](const CompiledRow& row) { return KnownText(FileLine(row.code)); }},
      {TimeColumn("compile_time"), "Of compiling its forward pass.",
       [](const CompiledRow& row) { return Unless(!row.IsCompilation(), row.code.compile_ns); }},
      {TimeColumn("backward_compile_time"),
       "Of compiling its backward pass, where that was done separately, when it ran first.",
       [](const CompiledRow& row) { return Unless(row.backward_ns == 0, row.backward_ns); }},
      {NumberColumn("operations"), "In its graph; 0: there was nothing to compile.",
       [](const CompiledRow& row) { return Unless(!row.IsCompilation(), row.code.count); }},
      {NumberColumn("times"),
       "How often the compiled code was recorded as it ran; how often compilation broke the graph here.",
       [](const CompiledRow& row) { return row.IsBreak() ? row.code.count : row.runs; }},
      {TextColumn("reason"), "Why it was compiled again, or the graph broken, in PyTorch's words.",
       [](const CompiledRow& row) { return KnownText(row.code.text); }},
      {Detail(NumberColumn("kernels")),
       "Operators of libraries that its code calls; with DLHOOK_COMPILED=modules also its own loops.",
       [](const CompiledRow& row) { return Unless(!row.IsCompilation(), row.kernels); }},
      {Detail(IntegerColumn("named_kernels", "", Better::kHigher)), "Of these, those whose module is known.",
       [](const CompiledRow& row) { return Unless(!row.IsCompilation(), row.named_kernels); }},
      {Detail(NumberColumn("divided_kernels")),
       "Loops over several modules; the table layers divides their time among these.",
       [](const CompiledRow& row) { return Unless(!row.IsCompilation(), row.divided_kernels); }},
      {ProcessColumn(/*are_several=*/false), &CompiledRow::pid},
  };
}

using RegionKey = std::pair<ProcessIndex, std::string>;

// Sums over the kernels, backward compilations and runs of each region.
void AddUp(const TraceModel& model, const std::map<RegionKey, size_t>& row_of, std::vector<CompiledRow>* rows) {
  if (row_of.empty()) return;  // a long run has millions of scopes
  const auto row = [&](ProcessIndex process, std::string region) {
    const auto at = row_of.find({process, std::move(region)});
    return at == row_of.end() ? nullptr : &(*rows)[at->second];
  };
  for (const CompiledCode& code : model.compiled) {
    CompiledRow* const of = row(code.process, code.region);
    if (of == nullptr) continue;
    if (code.kind == CompiledKind::kCompilation && code.is_backward) of->backward_ns += code.compile_ns;
    of->kernels += code.kind == CompiledKind::kKernel;
    of->named_kernels += code.kind == CompiledKind::kKernel && !code.module.empty();
    of->divided_kernels += code.kind == CompiledKind::kKernel && &code != &model.compiled.back() &&
                           (&code)[1].kind == CompiledKind::kKernelPart;
  }
  std::map<std::pair<ProcessIndex, NameIndex>, int64_t> runs;
  const auto runs_region = [&](const ScopeLook& look) { return model.roles[look.name] == ScopeRole::kTorchRegion; };
  ForEachScopeThat(model.scopes, runs_region, [&](ScopeIndex scope) {
    ++runs[{model.threads[model.scopes.thread[scope]].process, model.scopes.look[scope].name}];
  });
  for (const auto& [key, count] : runs) {
    if (CompiledRow* const of = row(key.first, std::string(TorchRegion(model.names[key.second])))) of->runs += count;
  }
}

}  // namespace

absl::StatusOr<Table> CompiledTable(const TraceModel& model, const TableOptions&) {
  std::vector<CompiledRow> rows;
  std::map<RegionKey, size_t> row_of;
  std::map<ProcessIndex, size_t> compilations;
  for (const CompiledCode& code : model.compiled) {
    compilations[code.process] += code.kind == CompiledKind::kCompilation;
    if (code.kind == CompiledKind::kKernel || code.kind == CompiledKind::kKernelPart || code.is_backward) continue;
    if (!code.region.empty()) row_of.try_emplace({code.process, code.region}, rows.size());
    rows.push_back({.code = code, .pid = model.processes[code.process].pid});
  }
  AddUp(model, row_of, &rows);
  Table table = NewTable("compiled", "What torch.compile compiled", Columns(), rows);
  if (rows.empty() && model.HasRole(ScopeRole::kTorchRegion)) {
    table.Note(
        "Compiled code ran, but PyTorch's information on it was not read: that happens when the interpreter exits by "
        "itself.");
  }
  for (const auto& [process, count] : compilations) {
    if (count < kKept) continue;
    table.Note("PyTorch keeps the last ", kKept, " compilations of a process: of process ",
               model.processes[process].pid, " there may have been more.");
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
