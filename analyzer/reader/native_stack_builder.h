// Native stacks of one process trace: their ids between Resets, and the frames that are distinct over the process.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/operand_builder.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

class NativeStackBuilder {
 public:
  NativeStackBuilder(TraceModel* model, Oddities* oddities)
      : model_(model), oddities_(oddities), process_(static_cast<ProcessIndex>(model->processes.size())) {}

  // `addresses` already has those of `interned`.
  void AddDefinitions(const trace::Interned& interned, const OperandBuilder& addresses);
  void Reset() { frame_by_iid_.clear(); }

  // A frame at this interrupted instruction; `outer_iid`: the stack outside of it, 0: none, and `cut` says why.
  FrameIndex Interrupted(uint64_t address, uint32_t outer_iid, StackCut cut) {
    const FrameIndex outer = Find(outer_iid);
    return Intern(address, outer, outer == kNone ? cut : StackCut::kWhole);
  }

  // The innermost frame of the stack with this id since the last Reset. An id that the trace does not define is an
  // oddity.
  FrameIndex Find(uint32_t iid) {
    return iid == 0                                                    ? kNone
           : iid < frame_by_iid_.size() && frame_by_iid_[iid] != kNone ? frame_by_iid_[iid]
                                                                       : Unknown();
  }

 private:
  void Add(const trace::InternedStack& stack, uint64_t address);
  FrameIndex Intern(uint64_t address, FrameIndex parent, StackCut cut);
  FrameIndex Unknown();

  TraceModel* model_;
  Oddities* oddities_;
  ProcessIndex process_;
  std::vector<FrameIndex> frame_by_iid_;
  absl::flat_hash_map<std::tuple<uint64_t, FrameIndex, int>, FrameIndex> frames_;  // by address, parent and cut
};

}  // namespace dlhook::analyzer::reader
