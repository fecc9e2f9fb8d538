// Texts that records refer to by number: names of kernels, plans of cuDNN. They are in the session's mapping, so that
// any drain can look them up, even after the process was killed. Append-only, bounded.
#pragma once

#include "preload/format/session.h"

namespace dlhook::inline format {

// The contents of a definition.
enum class DefinitionKind : uint32_t {
  kKernel = 1,       // a mangled name, not terminated
  kCudnnPlan = 2,    // a serialized trace::Cudnn
  kText = 3,         // a name of a Python file or function, not terminated
  kPythonStack = 4,  // PythonStackDefinition
};

struct Definition {
  uint32_t kind;
  uint32_t bytes;  // that follow
};
constexpr size_t kMaxDefinitionBytes = 64 << 10;

// A stack of Python frames, innermost first; `frame_count` PythonFrameDefinitions follow.
struct PythonStackDefinition {
  uint32_t frame_count;
  uint32_t is_cut;  // 1: there were more outer frames
};
struct PythonFrameDefinition {
  uint32_t file;          // kText
  uint32_t function;      // kText
  uint32_t line : 31;     // 0: not known
  uint32_t is_entry : 1;  // trace::PythonFrame.is_entry
  uint32_t object;        // trace::PythonModule.object, 0: none
};

// The result of FindDefinition. `bytes` was checked: the mapping may change meanwhile.
struct DefinedBytes {
  const char* data;  // null: there is none
  uint32_t bytes;
};

// The definition with this number, if it has that kind. Trusts nothing in the mapping.
// Thread: the drain's.
inline DefinedBytes FindDefinition(const SessionHeader* session, uint64_t mapping_bytes, uint32_t number,
                                   DefinitionKind kind) {
  constexpr DefinedBytes kNone = {nullptr, 0};
  uint64_t end = session->definitions_bytes.load(std::memory_order_acquire);
  uint64_t offset = (uint64_t{number} - 1) * 8;
  if (number == 0 || end > kDefinitionsCapacity || mapping_bytes < kSessionDataStart + end) return kNone;
  if (offset + sizeof(Definition) > end) return kNone;
  auto data = reinterpret_cast<const char*>(session) + kSessionDataStart + offset;
  auto definition = reinterpret_cast<const Definition*>(data);
  uint32_t bytes = __atomic_load_n(&definition->bytes, __ATOMIC_RELAXED);
  bool whole = bytes <= end - offset - sizeof(Definition) && bytes <= kMaxDefinitionBytes;
  if (!whole || definition->kind != static_cast<uint32_t>(kind)) return kNone;
  return {data + sizeof(Definition), bytes};
}

}  // namespace dlhook::inline format
