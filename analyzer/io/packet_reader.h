// Framing of a process trace: whole packets one after another, then the error in the rest, if any.
//
// Guarantees:
//   - no byte outside the given chunks is read, whatever they contain;
//   - every intact packet before the first damage of a chunk is returned;
//   - the first packet returned is a header that this program can read;
//   - status() names the trace, the byte and what was expected there.
#pragma once

#include "analyzer/io/byte_source.h"

namespace google::protobuf {
class MessageLite;
}

namespace dlhook::analyzer::inline io {

// Writers stay below 1 MiB. As objects in memory the smallest messages take some 100 times their bytes.
constexpr uint64_t kMaxPacketBytes = 4 << 20;

// Of a trace without a byte.
inline constexpr absl::string_view kWhyEmpty =
    "its process was killed before anything was written, or could write nothing (a full disk; ulimit -f)";

// Parses a varint at the front of `bytes` and advances past it. False: truncated, or longer than 10 bytes.
bool ConsumeVarint(absl::string_view* bytes, uint64_t* value);

// Of a message that holds one message alone, as a packet does: that one's field number and bytes. 0: it holds something else.
struct OnlyField {
  uint64_t number = 0;
  absl::string_view contents;
};
OnlyField OnlyFieldOf(absl::string_view message);

// True if a packet of `bytes` ends at `at`, or there is none before it.
bool EndsAPacket(ByteChunk bytes, uint64_t at);

class PacketReader {
 public:
  // `chunks`: the bytes of the file, then those recovered elsewhere (a killed process's rings). Each begins with a
  // packet of its own, so that a truncated one does not affect the next. The bytes must outlive the reader.
  PacketReader(std::string name, std::vector<ByteChunk> chunks);

  // Steps to the next packet. False at the end; then status() says whether everything was read.
  bool Next();

  // The bytes of the packet (a serialized trace::Packet, without its framing); valid until Next.
  absl::string_view payload() const { return payload_; }

  // Parses `bytes`, a part of payload(), into `message`. On failure the rest of the chunk is dropped.
  bool Parse(absl::string_view bytes, google::protobuf::MessageLite* message);

  // The first damage found.
  const absl::Status& status() const { return status_; }

  // Bytes consumed so far, over all chunks.
  uint64_t bytes_read() const { return bytes_before_chunk_ + offset_; }

 private:
  bool NextInChunk();
  bool ReadPayload(absl::string_view start, uint64_t length, size_t framing);
  bool CheckHeader();
  bool Damage(uint64_t offset, absl::string_view what);
  bool Unreadable(absl::Status status);
  bool CutOff(absl::string_view rest, uint64_t found_bytes, uint64_t expected_bytes);
  void Refuse(absl::Status status);
  std::string Place(uint64_t offset) const;

  std::string name_;
  std::vector<ByteChunk> chunks_;
  size_t chunk_ = 0;
  uint64_t offset_ = 0;         // in the chunk, after the current packet
  uint64_t packet_offset_ = 0;  // in the chunk, of the current packet
  uint64_t bytes_before_chunk_ = 0;
  bool header_seen_ = false;
  absl::string_view payload_;
  absl::Status status_;
};

}  // namespace dlhook::analyzer::io
