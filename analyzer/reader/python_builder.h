// Names, Python stacks and modules of one process trace, and their ids between Resets.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

using ThreadIndices = std::map<uint32_t, ThreadIndex>;  // by id in the trace

// Whether a batch has as much of each column; else it is left out.
template <typename Rows>
bool FitsTogether(const Rows& row, absl::string_view what, Oddities* oddities) {
  if (row.count == row.longest) return true;
  oddities->Count(absl::StrCat("a batch of ", what, " whose arrays do not fit together (it was left out)"));
  return false;
}

// What is distinct over the run: the same names and stacks recur after a Reset, and in other processes.
class NameTable {
 public:
  explicit NameTable(TraceModel* model) : model_(model) {}
  NameIndex Name(absl::string_view name);
  StackIndex Stack(PythonStack stack);

 private:
  TraceModel* model_;
  absl::flat_hash_map<std::string, NameIndex> names_;
  absl::flat_hash_map<std::string, StackIndex> stacks_;  // by their frames' bytes
};

class PythonBuilder {
 public:
  PythonBuilder(TraceModel* model, NameTable* table, Oddities* oddities)
      : model_(model),
        table_(table),
        oddities_(oddities),
        process_(static_cast<ProcessIndex>(model->processes.size())),
        first_module_(model->modules.size()) {}

  void AddDefinitions(const trace::Interned& interned);
  void AddModule(const trace::PythonModule& module);
  void AddCompiled(const trace::CompiledCode& compiled);
  void Reset();

  // For an id since the last Reset. An undefined id is an oddity: the name "[unknown name]", no stack.
  NameIndex FindName(uint32_t iid) {
    return iid < name_by_iid_.size() && name_by_iid_[iid] != kNone ? name_by_iid_[iid] : UnknownName();
  }
  StackIndex FindStack(uint32_t iid) {
    return iid == 0                                                    ? kNone
           : iid < stack_by_iid_.size() && stack_by_iid_[iid] != kNone ? stack_by_iid_[iid]
                                                                       : UnknownStack();
  }

  bool IsScopeWindow(NameIndex name) const { return name == scope_window_ || IsSlowStep(name); }
  bool IsSlowStep(NameIndex name) const { return name == slow_step_; }

  // Call after the last packet: removes cycles among modules.
  void Finish();

 private:
  void AddStack(const trace::InternedPythonStack& stack);
  bool IsPossible(uint32_t iid);
  ModuleIndex FindModule(uint32_t object);
  NameIndex UnknownName();
  StackIndex UnknownStack();

  TraceModel* model_;
  NameTable* table_;
  Oddities* oddities_;
  ProcessIndex process_;
  size_t first_module_;                                 // of this process
  NameIndex scope_window_ = kNone, slow_step_ = kNone;  // kScopeWindowName and kSlowStepName, once they are defined
  std::vector<NameIndex> name_by_iid_;
  std::vector<StackIndex> stack_by_iid_;
  absl::flat_hash_map<uint32_t, ModuleIndex> module_by_object_;
};

}  // namespace dlhook::analyzer::reader
