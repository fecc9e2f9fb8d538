// Packets of a process trace in memory, and the definitions that they refer to, each written before its first use.
#pragma once

#include "analyzer/model/prelude.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline kineto {

class PacketWriter {
 public:
  void Write(const trace::Packet& packet);

  // Ids, from 1. Of strings that have none yet the packets are written by the way.
  uint32_t String(absl::string_view text);
  uint32_t Op(trace::OpDefinition definition);
  uint32_t Kernel(trace::InternedGpuKernel kernel);
  uint32_t Stack(trace::InternedPythonStack stack);

  std::string Take() { return std::move(bytes_); }

 private:
  using Ids = absl::flat_hash_map<std::string, uint32_t>;

  template <typename Message, typename Add>
  uint32_t Intern(Message message, Ids* ids, Add add);

  std::string bytes_;
  std::string scratch_;
  Ids strings_, ops_, kernels_, stacks_;
};

}  // namespace dlhook::analyzer::kineto
