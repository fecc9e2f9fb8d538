// Only a stack defined earlier can be a parent, so there are no cycles.
#include "analyzer/reader/native_stack_builder.h"

#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline reader {
void NativeStackBuilder::AddDefinitions(const trace::Interned& interned, const OperandBuilder& addresses) {
  for (const trace::InternedStack& stack : interned.stack()) {
    const uint64_t address = addresses.AddressOf(stack.address_iid());
    if (stack.iid() == 0 || stack.iid() > kMaxIid || address == 0) {
      oddities_->Count("a definition of a native stack with an impossible id, or without an address");
      continue;
    }
    Add(stack, address);
  }
}

void NativeStackBuilder::Add(const trace::InternedStack& stack, uint64_t address) {
  const FrameIndex parent = Find(stack.parent_iid());
  const bool is_torn = parent == kNone && stack.parent_iid() != 0;
  const StackCut cut = parent != kNone ? StackCut::kWhole
                       : is_torn       ? StackCut::kUnreadable
                                       : FromProto(stack.cut(), StackCut::kUnreadable);
  // A return address may be the first address of the next function.
  const uint64_t at = stack.is_signal_frame() ? address : address - 1;
  if (stack.iid() >= frame_by_iid_.size()) frame_by_iid_.resize(stack.iid() + 1, kNone);
  frame_by_iid_[stack.iid()] = Intern(at, parent, cut);
}

FrameIndex NativeStackBuilder::Intern(uint64_t address, FrameIndex parent, StackCut cut) {
  NativeFrameColumns& frames = model_->native_frames;
  const auto [place, is_new] =
      frames_.emplace(std::tuple(address, parent, static_cast<int>(cut)), static_cast<FrameIndex>(frames.size()));
  if (is_new) {
    frames.address.push_back(address);
    frames.parent.push_back(parent);
    frames.process.push_back(process_);
    frames.cut.push_back(cut);
  }
  return place->second;
}

FrameIndex NativeStackBuilder::Unknown() {
  oddities_->Count("a native stack that the trace does not define (its definition was lost)");
  return kNone;
}

}  // namespace dlhook::analyzer::reader
