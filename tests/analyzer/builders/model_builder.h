// Models for tests, written call by call instead of read from a trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/table/table.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer {

// A line of oneDNN's log ("onednn_verbose,v1,primitive,exec,cpu,…,0.0429688" or
// "dnnl_verbose,exec,cpu,…") split by the template that 2.x and 3.x print.
trace::OpDefinition OneDnnDefinition(const std::string& line);
double OneDnnMilliseconds(const std::string& line);

trace::OpDefinition GemmDefinition(int64_t m, int64_t n, int64_t k, const std::string& trans,
                                   const std::string& function = "sgemm_");

// Textproto of a trace::OpDefinition. A syntax error fails the test.
trace::OpDefinition Definition(const std::string& textproto);

class ModelBuilder {
 public:
  ModelBuilder();  // one process with one thread, wall time from 0 to the end of the last call

  ThreadIndex AddThread(ProcessIndex process = 0);
  ProcessIndex AddProcess();                             // without threads
  OpIndex AddOp(const trace::OpDefinition& definition);  // equal definitions: equal index
  void Call(OpIndex op, int64_t start_ns, int64_t duration_ns, ThreadIndex thread = 0, int32_t status = 0,
            std::vector<uint64_t> operands = {});
  // The calls in a log, one after another on thread 0 with `gap_ns` in between; the wall time continues after them.
  void Log(const std::string& text, int64_t gap_ns);
  // The last call's own Python stack.
  void StackOfLastCall(StackIndex stack) { calls_.back().python_stack = stack; }

  // Functions, innermost first, each a frame in `object`; "a|b": b, with a inlined into it. Equal outer parts of stacks
  // are shared.
  FrameIndex AddNativeStack(const std::vector<std::string>& functions,
                            const std::string& object = "/home/u/lib/libframework.so");
  void NativeStackOfLastCall(FrameIndex frame) { calls_.back().native_stack = frame; }

  // `link`: see proto/call.proto. Of scopes with the same thread and times, the one that was added first is the outer
  // one.
  void Scope(const std::string& name, ScopeKind kind, int64_t start_ns, int64_t duration_ns, ThreadIndex thread = 0,
             int64_t link = -1, StackIndex python_stack = kNone);
  NameIndex AddName(const std::string& name);  // equal names: equal index
  // `root` kNone: itself.
  ModuleIndex AddModule(const std::string& type, std::vector<std::string> names, ModuleIndex root = kNone,
                        ModuleIndex parent = kNone, ProcessIndex process = 0);
  struct Frame {
    std::string file;
    std::string function;
    uint32_t line = 0;
    ModuleIndex module = kNone;
  };
  StackIndex AddStack(const std::vector<Frame>& frames);  // innermost first

  // A sample of CPU time; `call`: the recorded one that it fell into.
  void Sample(int64_t time_ns, int64_t cpu_ns, FrameIndex frame, StackIndex python_stack = kNone,
              ThreadIndex thread = 0, CallIndex call = kNone, SampleState state = SampleState::kWhole);

  TraceModel& model() { return model_; }
  int64_t now_ns() const { return now_ns_; }

  // Orders calls and scopes, finds parents, self times, and the scope around each call. `wall_ns` 0: until the end of
  // the last call or scope.
  TraceModel Build(int64_t wall_ns = 0);

 private:
  struct PendingCall {
    OpIndex op;
    int64_t start_ns;
    int64_t duration_ns;
    ThreadIndex thread;
    int32_t status;
    std::vector<uint64_t> operands;
    StackIndex python_stack = kNone;
    FrameIndex native_stack = kNone;
  };
  struct PendingScope {
    NameIndex name;
    ScopeKind kind;
    int64_t start_ns;
    int64_t duration_ns;
    ThreadIndex thread;
    int64_t link;
    StackIndex python_stack;
  };
  void BuildScopes();
  void JoinCalls();

  TraceModel model_;
  std::map<std::string, OpIndex> op_by_definition_;
  std::map<std::pair<FrameIndex, std::string>, FrameIndex> native_frames_;  // by parent and functions
  std::vector<PendingCall> calls_;
  std::vector<PendingScope> scopes_;
  int64_t now_ns_ = 0;
};

// Makes one table as `dlhook report` does: choices resolved, totals computed.
Table RunPass(const std::string& name, TraceModel model, const Peaks* peaks = nullptr);

// Access to tables in tests.
size_t ColumnIndex(const Table& table, const std::string& name);
const Cell& At(const Table& table, size_t row, const std::string& column);
int64_t Integer(const Table& table, size_t row, const std::string& column);
double Real(const Table& table, size_t row, const std::string& column);
std::string Text(const Table& table, size_t row, const std::string& column);
int64_t Sum(const Table& table, const std::string& column);
// The only row whose cells have these texts, e.g. {{"from", "abcd"}, {"to", "aBcd16b"}}; fails the
// test otherwise.
size_t RowWhere(const Table& table, const std::vector<std::pair<std::string, std::string>>& cells);
std::vector<size_t> RowsWhere(const Table& table, const std::vector<std::pair<std::string, std::string>>& cells);

// Every row is as long as the columns, and every cell has its column's type.
void CheckShape(const Table& table);

std::string ReadTestData(const std::string& name);

}  // namespace dlhook::analyzer
