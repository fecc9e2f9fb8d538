// The user's layer of each instruction of an HLO module.
//
// An instruction carries the op_name and the stack of the JAX operation that it came from; a fusion those of the operation
// that weighs most in it. What XLA made without either (17 % of a step's time are usual, half of it is possible) belongs to
// what uses its result, where that leads only to the update of a parameter, to the layer whose forward pass reads that
// parameter, because then it is its gradient; else to what it is made of.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/xla/xla_profiles.h"
#include "proto/xla.pb.h"

namespace dlhook::analyzer::inline xla {
namespace {

using dlhook::xla::HloComputation;
using dlhook::xla::HloInstruction;
using dlhook::xla::HloModule;
using dlhook::xla::OpMetadata;
using dlhook::xla::Shape;
using dlhook::xla::StackFrameIndex;

constexpr int kNearDepth = 8;        // steps along the data flow
constexpr size_t kNearNodes = 1000;  // on the way

struct Frame {
  std::string function;
  std::string file;
  int line = 0;
};

bool IsLibrary(absl::string_view file) {
  return absl::StrContains(file, "/site-packages/") || absl::StrContains(file, "/dist-packages/") ||
         absl::StrContains(file, "/lib/python3");
}

std::string BaseNameOf(absl::string_view file) { return std::string(file.substr(file.rfind('/') + 1)); }

// "CNN.__call__" -> "CNN", "outer.<locals>.inner" -> "inner".
std::string ShortFunction(absl::string_view function) {
  if (absl::EndsWith(function, ".__call__")) function.remove_suffix(9);
  return std::string(function.substr(function.rfind('.') + 1));
}

template <typename Items>
const auto* ItemAt(const Items& items, int64_t id) {
  return id > 0 && id <= items.size() ? &items[static_cast<int>(id - 1)] : nullptr;
}

// Outermost first.
std::vector<Frame> FramesOf(const StackFrameIndex& index, int64_t id) {
  std::vector<Frame> frames;
  constexpr size_t kMostFrames = 256;
  while (const StackFrameIndex::StackFrame* frame = ItemAt(index.stack_frames(), id)) {
    if (frames.size() == kMostFrames) break;
    id = frame->parent_frame_id();
    const StackFrameIndex::FileLocation* place = ItemAt(index.file_locations(), frame->file_location_id());
    if (place == nullptr) continue;
    const std::string* function = ItemAt(index.function_names(), place->function_name_id());
    const std::string* file = ItemAt(index.file_names(), place->file_name_id());
    if (function != nullptr && file != nullptr) frames.push_back({*function, *file, place->line()});
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

// The program's own calls, from its outermost function inwards: "net:13", "conv_block:5", and the library's class that the
// last one called. Where XLA inlined a call, the frames around it stand there twice.
struct UserCalls {
  std::vector<std::string> chain;
  std::string line;
  bool is_optimizer = false;
};

UserCalls CallsOf(const std::vector<Frame>& frames) {
  UserCalls calls;
  auto innermost = frames.end();
  for (auto frame = frames.begin(); frame != frames.end(); ++frame) {
    calls.is_optimizer |= absl::StrContains(frame->file, "/optax/");
    if (IsLibrary(frame->file)) continue;
    calls.line = absl::StrCat(BaseNameOf(frame->file), ":", frame->line);
    if (frame->function == "<module>") continue;
    const std::string call = absl::StrCat(ShortFunction(frame->function), ":", frame->line);
    const auto before = std::find(calls.chain.begin(), calls.chain.end(), call);
    calls.chain.erase(before, calls.chain.end());
    calls.chain.push_back(call);
    innermost = frame;
  }
  if (innermost != frames.end() && innermost + 1 != frames.end() &&
      absl::EndsWith((innermost + 1)->function, "__call__")) {
    calls.chain.push_back(ShortFunction((innermost + 1)->function));
  }
  return calls;
}

// "f32[24,40]".
std::string ShapeText(const Shape& shape) {
  static constexpr absl::string_view kTypes[] = {"?",   "pred", "s8",  "s16", "s32",   "s64", "u8",  "u16", "u32",
                                                 "u64", "f16",  "f32", "f64", "tuple", "?",   "c64", "bf16"};
  const auto type = static_cast<size_t>(shape.element_type());
  return absl::StrCat(type < std::size(kTypes) ? kTypes[type] : "?", "[", absl::StrJoin(shape.dimensions(), ","), "]");
}

class ProgramReader {
 public:
  explicit ProgramReader(const HloModule& module) : module_(module) {
    for (const HloComputation& computation : module.computations()) computations_[computation.id()] = &computation;
  }

  std::vector<XlaOp> Read() {
    const auto entry = computations_.find(module_.entry_computation_id());
    if (entry != computations_.end()) ReadComputation(*entry->second, nullptr, 0);
    NameByCalls();
    NameByLines();
    return std::move(ops_);
  }

 private:
  struct Tag {
    XlaOpName name;
    const OpMetadata* metadata = nullptr;
  };
  // A computation's instructions and the flow of data between them.
  struct Flow {
    std::vector<const HloInstruction*> nodes;
    std::vector<std::vector<size_t>> users;
    std::vector<std::vector<size_t>> operands;
    std::vector<Tag> tags;  // what the instruction itself says
  };

  static bool IsProduct(const HloInstruction& instruction) {
    return instruction.opcode() == "dot" || instruction.opcode() == "convolution";
  }

  static bool IsProduct(const XlaOp& op) {
    return absl::StartsWith(op.primitive, "dot_general") || absl::StartsWith(op.primitive, "conv_general");
  }

  static Tag TagOfMetadata(const OpMetadata& metadata) { return {ReadOpName(metadata.op_name()), &metadata}; }

  Tag OwnTag(const HloInstruction& instruction) const {
    const HloInstruction* last = nullptr;
    const HloInstruction* product = nullptr;
    for (const int64_t called : instruction.called_computation_ids()) {
      const auto inner = computations_.find(called);
      if (instruction.opcode() != "fusion" || inner == computations_.end()) continue;
      for (const HloInstruction& part : inner->second->instructions()) {
        if (part.metadata().op_name().empty()) continue;
        last = &part;
        if (IsProduct(part)) product = &part;
      }
    }
    Tag own;
    if (!instruction.metadata().op_name().empty()) own = TagOfMetadata(instruction.metadata());
    if (product != nullptr && own.name.pass == XlaPass::kOther) return TagOfMetadata(product->metadata());
    return own.metadata == nullptr && last != nullptr ? TagOfMetadata(last->metadata()) : own;
  }

  Flow FlowOf(const HloComputation& computation) const {
    Flow flow;
    absl::flat_hash_map<int64_t, size_t> place;
    for (const HloInstruction& instruction : computation.instructions()) {
      place[instruction.id()] = flow.nodes.size();
      flow.nodes.push_back(&instruction);
      flow.tags.push_back(instruction.opcode() == "parameter" ? Tag() : OwnTag(instruction));
    }
    flow.users.resize(flow.nodes.size());
    flow.operands.resize(flow.nodes.size());
    for (size_t node = 0; node < flow.nodes.size(); ++node) {
      for (const int64_t id : flow.nodes[node]->operand_ids()) {
        const auto operand = place.find(id);
        if (operand == place.end()) continue;
        flow.operands[node].push_back(operand->second);
        flow.users[operand->second].push_back(node);
      }
    }
    return flow;
  }

  // The nearest node along `edges` for which `is_it` holds, not beyond those that `is_way` excludes; -1: none.
  template <typename IsIt, typename IsWay>
  static int64_t Nearest(size_t from, const std::vector<std::vector<size_t>>& edges, int depth, IsIt is_it,
                         IsWay is_way) {
    absl::flat_hash_set<size_t> seen = {from};
    std::vector<size_t> front = {from};
    for (int step = 0; step < depth && !front.empty() && seen.size() < kNearNodes; ++step) {
      std::vector<size_t> next;
      for (const size_t node : front) {
        for (const size_t other : edges[node]) {
          if (!seen.insert(other).second) continue;
          if (is_it(other)) return static_cast<int64_t>(other);
          if (is_way(other)) next.push_back(other);
        }
      }
      front = std::move(next);
    }
    return -1;
  }

  // The forward operation that reads a parameter, directly or through untagged copies.
  static int64_t ForwardReader(const Flow& flow, size_t parameter) {
    return Nearest(
        parameter, flow.users, kNearDepth / 2,
        [&](size_t node) { return flow.tags[node].name.pass == XlaPass::kForward; },
        [&](size_t node) { return flow.tags[node].metadata == nullptr; });
  }

  static size_t WithoutViews(const Flow& flow, size_t node) {
    static constexpr absl::string_view kViews[] = {"bitcast", "copy",      "transpose",        "reshape",
                                                   "convert", "broadcast", "get-tuple-element"};
    for (int step = 0; step < kNearDepth && !flow.operands[node].empty(); ++step) {
      const std::string& opcode = flow.nodes[node]->opcode();
      if (std::find(std::begin(kViews), std::end(kViews), opcode) == std::end(kViews)) break;
      node = flow.operands[node][0];
    }
    return node;
  }

  // For an instruction whose result only updates a parameter: the forward reader of that.
  static int64_t ReaderOfUpdated(const Flow& flow, size_t from) {
    int64_t reader = -1;
    const auto finds = [&](size_t node) {
      const Tag& tag = flow.tags[node];
      if (tag.metadata != nullptr && tag.name.pass != XlaPass::kOther) return false;
      for (const size_t operand : flow.operands[node]) {
        const size_t source = WithoutViews(flow, operand);
        if (flow.nodes[source]->opcode() == "parameter") reader = ForwardReader(flow, source);
        if (reader >= 0) return true;
      }
      return false;
    };
    const auto is_way = [&](size_t node) {
      return flow.tags[node].metadata == nullptr || flow.tags[node].name.pass == XlaPass::kOther;
    };
    Nearest(from, flow.users, kNearDepth, finds, is_way);
    return reader;
  }

  static Tag InheritedTag(const Flow& flow, size_t node) {
    const auto is_tagged = [&](size_t other) { return flow.tags[other].metadata != nullptr; };
    const auto any = [](size_t) { return true; };
    const int64_t user = Nearest(node, flow.users, kNearDepth, is_tagged, any);
    if (user >= 0 && flow.tags[static_cast<size_t>(user)].name.pass != XlaPass::kOther) {
      return flow.tags[static_cast<size_t>(user)];
    }
    if (const int64_t reader = ReaderOfUpdated(flow, node); reader >= 0) {
      Tag tag = flow.tags[static_cast<size_t>(reader)];
      tag.name.pass = XlaPass::kBackward;
      return tag;
    }
    if (user >= 0) return flow.tags[static_cast<size_t>(user)];
    const int64_t operand = Nearest(node, flow.operands, kNearDepth, is_tagged, any);
    return operand >= 0 ? flow.tags[static_cast<size_t>(operand)] : Tag();
  }

  // Operations outside of derivatives: they use gradients, or they don't.
  static void SettlePasses(const Flow& flow, XlaPass around, std::vector<Tag>* tags) {
    std::vector<size_t> front;
    for (size_t node = 0; node < tags->size(); ++node) {
      if ((*tags)[node].name.pass == XlaPass::kBackward) front.push_back(node);
    }
    const bool has_gradients = !front.empty();
    std::vector<bool> uses_gradients(tags->size());
    while (!front.empty()) {
      const size_t node = front.back();
      front.pop_back();
      for (const size_t user : flow.users[node]) {
        if (!uses_gradients[user]) front.push_back(user);
        uses_gradients[user] = true;
      }
    }
    for (size_t node = 0; node < tags->size(); ++node) {
      XlaPass& pass = (*tags)[node].name.pass;
      if (pass != XlaPass::kOther) continue;
      pass = around != XlaPass::kOther               ? around
             : has_gradients && uses_gradients[node] ? XlaPass::kUpdate
                                                     : XlaPass::kForward;
    }
  }

  void ReadComputation(const HloComputation& computation, const Tag* around, int depth) {
    constexpr int kDeepest = 64;
    if (depth == kDeepest || !read_.insert(computation.id()).second) return;
    const Flow flow = FlowOf(computation);
    std::vector<Tag> tags = flow.tags;
    for (size_t node = 0; node < tags.size(); ++node) {
      if (tags[node].metadata != nullptr || flow.nodes[node]->opcode() == "parameter") continue;
      tags[node] = InheritedTag(flow, node);
      if (tags[node].metadata == nullptr && around != nullptr) tags[node] = *around;
    }
    SettlePasses(flow, around == nullptr ? XlaPass::kOther : around->name.pass, &tags);
    for (size_t node = 0; node < tags.size(); ++node) {
      AddOp(*flow.nodes[node], tags[node], flow.tags[node].metadata != nullptr, around == nullptr);
      if (flow.nodes[node]->opcode() == "fusion") continue;  // runs as one
      for (const int64_t called : flow.nodes[node]->called_computation_ids()) {
        const auto inner = computations_.find(called);
        if (inner != computations_.end()) ReadComputation(*inner->second, &tags[node], depth + 1);
      }
    }
  }

  void AddOp(const HloInstruction& instruction, const Tag& tag, bool is_own, bool is_entry) {
    XlaOp op;
    op.program = module_.name();
    op.instruction = instruction.name();
    op.opcode = instruction.opcode();
    op.primitive = is_own && !tag.name.primitive.empty() ? tag.name.primitive : instruction.opcode();
    if (op.opcode == "dot") op.primitive = "dot_general";  // a gradient's name may end with the transpose around it
    if (op.opcode == "convolution") op.primitive = "conv_general_dilated";
    op.pass = tag.name.pass;
    if (is_entry && op.opcode == "parameter") {
      const std::string& name = instruction.metadata().op_name();
      op.argument = absl::StrCat(name.empty() ? op.instruction : name, " ", ShapeText(instruction.shape()));
    }
    UserCalls calls;
    if (tag.metadata != nullptr) {
      calls = CallsOf(FramesOf(module_.stack_frame_index(), tag.metadata->stack_frame_id()));
    }
    op.line = calls.line;
    op.layer = tag.name.path;
    op.is_scope = !op.layer.empty();
    if (!op.is_scope && calls.is_optimizer) {
      op.layer = "optimizer (optax)";
      op.pass = XlaPass::kUpdate;
    }
    ops_.push_back(std::move(op));
    calls_.push_back(std::move(calls.chain));
  }

  // The calls that all products have in common say nothing about layers.
  void NameByCalls() {
    std::vector<std::string> common;
    bool is_first = true;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!IsProduct(ops_[i]) || calls_[i].empty()) continue;
      if (is_first) common.assign(calls_[i].begin(), calls_[i].end() - 1);
      is_first = false;
      common.resize(static_cast<size_t>(CommonCalls(common, calls_[i])));
    }
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!ops_[i].layer.empty() || calls_[i].empty()) continue;
      if (ops_[i].pass == XlaPass::kUpdate) {
        ops_[i].layer = absl::StrCat("update (", ops_[i].line, ")");
        continue;
      }
      ops_[i].layer = absl::StrJoin(calls_[i].begin() + CommonCalls(common, calls_[i]), calls_[i].end(), ">");
    }
  }

  // How many outer calls they share; not the innermost one.
  static std::ptrdiff_t CommonCalls(const std::vector<std::string>& common, const std::vector<std::string>& calls) {
    const auto end = calls.empty() ? calls.end() : calls.end() - 1;
    return std::mismatch(calls.begin(), end, common.begin(), common.end()).first - calls.begin();
  }

  // Scopes that are classes (Equinox) are the same for several layers, which the lines of their products distinguish: those
  // of the forward pass, as a backward pass of the program's own (custom_vjp) has lines of its own.
  void NameByLines() {
    absl::flat_hash_map<std::string, absl::flat_hash_set<std::string>> lines;
    for (const XlaOp& op : ops_) {
      const bool is_forward = op.pass == XlaPass::kForward || op.pass == XlaPass::kOther;
      if (op.is_scope && is_forward && IsProduct(op) && !op.line.empty()) lines[op.layer].insert(op.line);
    }
    for (XlaOp& op : ops_) {
      if (!op.is_scope || op.line.empty() || lines[op.layer].size() < 2) continue;
      absl::StrAppend(&op.layer, op.line.substr(op.line.rfind(':')));
    }
  }

  const HloModule& module_;
  absl::flat_hash_map<int64_t, const HloComputation*> computations_;
  absl::flat_hash_set<int64_t> read_;
  std::vector<XlaOp> ops_;
  std::vector<std::vector<std::string>> calls_;  // by op
};

}  // namespace

std::vector<XlaOp> OpsOfProgram(const std::string& bytes, std::string* name, int64_t* id, bool* is_whole) {
  HloModule module;
  *is_whole = module.ParseFromString(bytes);
  if (!*is_whole) return {};
  *name = module.name();
  *id = module.id();
  return ProgramReader(module).Read();
}

}  // namespace dlhook::analyzer::xla
