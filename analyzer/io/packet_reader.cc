// Bounds-checked framing: tag 0x0A (Trace.packet), length as a varint, that many bytes.
#include "analyzer/io/packet_reader.h"

#include <google/protobuf/message_lite.h>
#include <google/protobuf/stubs/logging.h>

#include "preload/format/packet_writer.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr char kPacketTag = 0x0A;  // field 1 of Trace, length-delimited
constexpr size_t kMaxVarintBytes = 10;
constexpr char kHeaderTag = 0x42;  // field 8 of Packet, length-delimited

}  // namespace

bool ConsumeVarint(absl::string_view* bytes, uint64_t* value) {
  *value = 0;
  for (size_t i = 0; i < bytes->size() && i < kMaxVarintBytes; ++i) {
    const uint8_t byte = (*bytes)[i];
    *value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes->remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

OnlyField OnlyFieldOf(absl::string_view message) {
  constexpr uint64_t kLengthDelimited = 2;
  uint64_t key = 0, length = 0;
  const bool is_one = ConsumeVarint(&message, &key) && (key & 7) == kLengthDelimited &&
                      ConsumeVarint(&message, &length) && length == message.size();
  return is_one ? OnlyField{key >> 3, message} : OnlyField{};
}

bool EndsAPacket(ByteChunk bytes, uint64_t at) {
  if (at > bytes.size()) return false;
  uint64_t offset = 0;
  while (offset < at) {
    const absl::StatusOr<absl::string_view> start = bytes.At(offset, 1 + kMaxVarintBytes);
    if (!start.ok() || start->empty() || start->front() != kPacketTag) return false;
    absl::string_view rest = start->substr(1);
    uint64_t length = 0;
    if (!ConsumeVarint(&rest, &length) || length > at) return false;
    offset += start->size() - rest.size() + length;
  }
  return offset == at;
}

PacketReader::PacketReader(std::string name, std::vector<ByteChunk> chunks)
    : name_(std::move(name)), chunks_(std::move(chunks)) {}

bool PacketReader::Next() {
  while (chunk_ < chunks_.size()) {
    if (NextInChunk()) return true;
    if (chunk_ >= chunks_.size()) return false;  // refused
    bytes_before_chunk_ += chunks_[chunk_].size();
    ++chunk_;
    offset_ = 0;
  }
  if (!header_seen_ && status_.ok()) {
    status_ = absl::DataLossError(
        absl::StrCat(name_, ": the file is empty; expected a dlhook trace (a header packet at byte 0): ", kWhyEmpty));
  }
  return false;
}

bool PacketReader::NextInChunk() {
  const absl::StatusOr<absl::string_view> start = chunks_[chunk_].At(offset_, 1 + kMaxVarintBytes);
  if (!start.ok()) return Unreadable(start.status());
  if (start->empty()) return false;
  packet_offset_ = offset_;
  if (start->front() != kPacketTag) {
    return Damage(offset_, absl::StrFormat("expected the start of a packet (0x0a), found 0x%02x",
                                           static_cast<uint8_t>(start->front())));
  }
  absl::string_view rest = start->substr(1);
  uint64_t length = 0;
  if (!ConsumeVarint(&rest, &length)) {
    if (rest.size() < kMaxVarintBytes) return CutOff(*start, start->size(), 0);
    return Damage(offset_ + 1, "expected the length of a packet, found no valid varint");
  }
  return ReadPayload(*start, length, start->size() - rest.size()) && (header_seen_ || CheckHeader());
}

// `start`: the part of the packet in memory; its first `framing` bytes are tag and length.
bool PacketReader::ReadPayload(absl::string_view start, uint64_t length, size_t framing) {
  const uint64_t left = chunks_[chunk_].size() - offset_;
  if (length > left - framing) return CutOff(start, left, framing + length);
  if (length > kMaxPacketBytes) {
    return Damage(offset_, absl::StrCat("a packet of ", length, " bytes; expected at most ", kMaxPacketBytes));
  }
  const absl::StatusOr<absl::string_view> whole = chunks_[chunk_].At(offset_, framing + length);
  if (!whole.ok()) return Unreadable(whole.status());
  payload_ = whole->substr(framing, length);
  offset_ += framing + length;
  return true;
}

bool PacketReader::CheckHeader() {
  const google::protobuf::LogSilencer quiet;  // status() reports what libprotobuf would print
  trace::Packet packet;
  if (payload_.empty() || payload_.front() != kHeaderTag ||
      !packet.ParseFromArray(payload_.data(), static_cast<int>(payload_.size())) ||
      packet.header().schema_major() == 0) {
    return Damage(packet_offset_, "the first packet is not a header with a schema version");
  }
  const trace::Header& header = packet.header();
  if (header.schema_major() > kSchemaMajor) {
    Refuse(absl::FailedPreconditionError(absl::StrCat(
        name_, ": schema version ", header.schema_major(), ".", header.schema_minor(), ", written by dlhook ",
        header.tool_version().empty() ? "of unknown version" : header.tool_version(),
        "; this one (dlhook " DLHOOK_VERSION ") reads up to ", kSchemaMajor,
        ".x; read it with the dlhook that wrote it")));
    return false;
  }
  header_seen_ = true;
  return true;
}

bool PacketReader::Parse(absl::string_view bytes, google::protobuf::MessageLite* message) {
  const google::protobuf::LogSilencer quiet;
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return true;
  Damage(packet_offset_,
         absl::StrCat("expected a valid packet in these ", payload_.size(), " bytes, found a malformed one"));
  offset_ = chunks_[chunk_].size();
  return false;
}

// `rest`: the part in memory of the packet's `found_bytes`.
bool PacketReader::CutOff(absl::string_view rest, uint64_t found_bytes, uint64_t expected_bytes) {
  if (!header_seen_) {
    // Text may begin with a line feed, which is also a packet's tag: only a header makes it a trace.
    absl::string_view body = rest.substr(1);
    uint64_t length = 0;
    if (ConsumeVarint(&body, &length) && !body.empty() && body.front() != kHeaderTag) {
      return Damage(packet_offset_, "the first packet is not a header with a schema version");
    }
  }
  const std::string expected = expected_bytes == 0 ? "its length" : absl::StrCat(expected_bytes, " bytes");
  if (status_.ok()) {
    status_ = absl::DataLossError(absl::StrCat(Place(packet_offset_), ": cut off inside ",
                                               header_seen_ ? "a packet" : "the header packet", ": expected ", expected,
                                               ", found the end after ", found_bytes));
  }
  return false;
}

bool PacketReader::Damage(uint64_t offset, absl::string_view what) {
  if (!header_seen_ && offset <= packet_offset_ + 1) {
    Refuse(absl::InvalidArgumentError(absl::StrCat(name_, ": not a dlhook trace (byte ", offset, ": ", what, ")")));
  } else if (status_.ok()) {
    status_ = absl::DataLossError(absl::StrCat(Place(offset), ": ", what));
  }
  return false;
}

bool PacketReader::Unreadable(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return false;
}

// Nothing more of this trace is read, including later chunks.
void PacketReader::Refuse(absl::Status status) {
  status_ = std::move(status);
  for (; chunk_ < chunks_.size(); ++chunk_) bytes_before_chunk_ += chunks_[chunk_].size();
  offset_ = 0;
}

std::string PacketReader::Place(uint64_t offset) const {
  return absl::StrCat(name_, chunk_ == 0 ? "" : " (part recovered from memory)", ": byte ", offset);
}

}  // namespace dlhook::analyzer::io
