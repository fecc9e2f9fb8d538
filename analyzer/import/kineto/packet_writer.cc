// See packet_writer.h and proto/README.md.
#include "analyzer/import/kineto/packet_writer.h"

#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline kineto {
namespace {

constexpr char kPacketTag = 0x0a;

void AppendVarint(uint64_t value, std::string* to) {
  for (; value > 0x7f; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

}  // namespace

void PacketWriter::Write(const trace::Packet& packet) {
  packet.SerializeToString(&scratch_);
  bytes_.push_back(kPacketTag);
  AppendVarint(scratch_.size(), &bytes_);
  bytes_ += scratch_;
}

uint32_t PacketWriter::String(absl::string_view text) {
  const auto known = strings_.find(text);
  if (known != strings_.end()) return known->second;
  if (strings_.size() >= kMaxIid) return String("");
  const auto iid = static_cast<uint32_t>(strings_.size() + 1);
  strings_.emplace(text, iid);
  trace::Packet packet;
  trace::InternedString* defined = packet.mutable_interned()->add_string();
  defined->set_iid(iid);
  defined->set_value(std::string(text));
  Write(packet);
  return iid;
}

// The message is its own key, as long as it has no id.
template <typename Message, typename Add>
uint32_t PacketWriter::Intern(Message message, Ids* ids, Add add) {
  const auto [place, is_new] = ids->try_emplace(message.SerializeAsString(), static_cast<uint32_t>(ids->size() + 1));
  if (!is_new) return place->second;
  if (ids->size() > kMaxIid) return 0;
  message.set_iid(place->second);
  trace::Packet packet;
  *add(packet.mutable_interned()) = std::move(message);
  Write(packet);
  return place->second;
}

uint32_t PacketWriter::Op(trace::OpDefinition definition) {
  return Intern(std::move(definition), &ops_, [](trace::Interned* to) { return to->add_op(); });
}

uint32_t PacketWriter::Kernel(trace::InternedGpuKernel kernel) {
  return Intern(std::move(kernel), &kernels_, [](trace::Interned* to) { return to->add_gpu_kernel(); });
}

uint32_t PacketWriter::Stack(trace::InternedPythonStack stack) {
  return Intern(std::move(stack), &stacks_, [](trace::Interned* to) { return to->add_python_stack(); });
}

}  // namespace dlhook::analyzer::kineto
