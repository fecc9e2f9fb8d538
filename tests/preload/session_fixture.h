// A session in ordinary memory, as shared by a recorded process, and a producer for any of its slots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "preload/format/definitions.h"
#include "preload/format/ring.h"
#include "preload/format/session.h"
#include "preload/format/stack_nodes.h"
#include "proto/trace.pb.h"

namespace dlhook {

class TestSession {
 public:
  // `ring_bytes`: of every slot, a power of two. `definitions_room`: between the header and the rings, whole pages.
  // `chunks`: of kChunkBytes, after the rings.
  explicit TestSession(uint64_t ring_bytes, uint32_t slots = 2, uint64_t definitions_room = 0, uint32_t chunks = 0);
  static constexpr uint64_t kChunkBytes = 8192;

  SessionHeader* header() { return reinterpret_cast<SessionHeader*>(pages_.data()); }
  uint64_t bytes() const { return pages_.size() * sizeof(Page); }
  // A copy of everything, as seen by another process.
  TestSession(const TestSession&) = default;

  RingProducer Producer(uint32_t slot);
  // Gives chunk `index` to the slot: `ring` continues there.
  void MoveTo(uint32_t index, uint32_t slot, RingProducer* ring);
  char* ChunkMemory(uint32_t index) { return reinterpret_cast<char*>(header()) + chunks_offset_ + index * kChunkBytes; }
  // Appends a definition like runtime/definitions.cc and returns its number.
  uint32_t PutDefinition(DefinitionKind kind, const std::string& bytes);
  // Appends a node and returns its number; the session has kStackRoom for definitions.
  uint32_t PutStackNode(const StackNode& node);
  static constexpr uint64_t kStackRoom = kRingsStart - kSessionDataStart;

 private:
  struct alignas(4096) Page {
    char bytes[4096];
  };
  std::vector<Page> pages_;
  uint64_t chunks_offset_;  // independent of writes to the header
};

// Each returns whether there was room.
bool PutThread(RingProducer* ring, uint32_t thread_id, const char* name);
struct TestGemm {
  uint64_t sequence = 1;
  uint32_t parent_distance = 0;
  uint64_t start_ticks = 1000;
  uint64_t end_ticks = 2000;
  int64_t m = 8, n = 4, k = 2;
  uint64_t address = 0x1000;
  uint32_t native_stack = 0;
};
bool PutGemm(RingProducer* ring, const TestGemm& gemm);
bool PutTapLine(RingProducer* ring, uint64_t sequence, uint64_t end_ticks, const std::string& text,
                uint32_t native_stack = 0);

// The whole trace of a session whose process has vanished. mapping_bytes 0: the session's.
std::string DrainAll(TestSession* session, uint64_t mapping_bytes = 0);

trace::Trace ParseTrace(const std::string& bytes);

// Calls of a trace, decoded from its batches according to proto/call.proto.
struct DecodedCall {
  uint32_t thread_id;
  uint64_t sequence;
  uint64_t end_ticks;
  uint64_t duration;
  uint64_t parent;  // 0: none
  uint32_t op_iid;
  std::vector<uint64_t> addresses;
  std::string function;
};
std::vector<DecodedCall> DecodeCalls(const trace::Trace& trace);

}  // namespace dlhook
