// Programs of equal steps on the CPU, for tests of rules: calls at a place in each step, and what the machine did.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "analyzer/peaks/peaks.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {

class CpuProgram {
 public:
  explicit CpuProgram(StepKind kind = StepKind::kTraining) : kind_(kind) {}

  static constexpr int kSteps = 10;
  static constexpr int64_t kStepNs = 1'000'000;

  // In each step, `count` calls from `start_ns` on, `ns` each.
  void Calls(const trace::OpDefinition& definition, int count, int64_t start_ns, int64_t ns) {
    const OpIndex op = builder().AddOp(definition);
    for (int64_t step_ns = 0; step_ns < kSteps * kStepNs; step_ns += kStepNs) {
      for (int call = 0; call < count; ++call) builder().Call(op, step_ns + start_ns + call * ns, ns);
    }
  }

  // In each step, an op of the framework.
  void Scope(const std::string& name, int64_t start_ns, int64_t ns) {
    for (int64_t step_ns = 0; step_ns < kSteps * kStepNs; step_ns += kStepNs) {
      program_.Scope(name, step_ns + start_ns, step_ns + start_ns + ns);
    }
  }

  // Its threads that ran, and all that wanted one of two processors.
  void Load(double threads, uint32_t runnable) {
    for (int64_t time_ns = 0; time_ns <= kSteps * kStepNs; time_ns += kStepNs / 2) {
      builder().model().loads.push_back({.time_ns = time_ns,
                                         .cpu_ns = static_cast<int64_t>(threads * static_cast<double>(time_ns)),
                                         .threads = 2,
                                         .runnable = runnable,
                                         .processors = 2});
    }
  }

  struct Found {
    Table table;
    std::vector<size_t> rows;  // of the rule
    std::string Of(size_t i, const std::string& column) const { return Text(table, rows[i], column); }
    int64_t Gain(size_t i) const { return Integer(table, rows[i], "gain"); }
  };
  // `calibration` null: the machine was not measured.
  Found Find(const std::string& rule, const Calibration* calibration = nullptr) {
    std::vector<int64_t> starts;
    for (int step = 0; step <= kSteps; ++step) starts.push_back(step * kStepNs);
    program_.Steps(starts, 0, kind_);
    if (batch_ > 0) program_.Batch(batch_);
    return FindInRun(rule, calibration);
  }
  // The same of the whole run.
  Found FindInRun(const std::string& rule, const Calibration* calibration = nullptr) {
    const Peaks peaks(program_.Build(kSteps * kStepNs), calibration);
    Found found;
    found.table = program_.Make(ReportTables().front(), 0, &peaks);
    found.rows = RowsWhere(found.table, {{"rule", rule}});
    return found;
  }

  void LayerOf(OpIndex op, Layer layer, LayerDirection direction = LayerDirection::kForward) {
    program_.LayerOf(op, std::move(layer), direction);
  }
  void Batch(int64_t batch) { batch_ = batch; }  // of each step
  void UseTorch() { process().capabilities.push_back({.name = "library", .object = "libtorch_cpu.so", .reason = ""}); }
  ModelBuilder& builder() { return program_.builder(); }
  ProcessInfo& process() { return builder().model().processes.front(); }

 private:
  StepKind kind_;
  int64_t batch_ = 0;  // 0: not known
  GpuProgram program_;
};

}  // namespace dlhook::analyzer
