// Appends protobuf fields to a Buffer, each in the same bytes as libprotobuf (tests compare them): lengths are minimal,
// zero scalars and empty fields are omitted as in proto3.
// Thread: the drain's.
#pragma once

#include <concepts>
#include <type_traits>

#include "preload/base/buffer.h"
#include "preload/format/character.h"

namespace dlhook::inline format {

struct TextSpan {
  const char* data = nullptr;
  size_t size = 0;

  constexpr TextSpan() = default;
  constexpr TextSpan(const char* text, size_t bytes) : data(text), size(bytes) {}
  constexpr TextSpan(const char* text) : data(text), size(__builtin_strlen(text)) {}
};

// The types of a message's fields, by number. Others than these are numbers.
struct MessageForm {
  uint32_t texts;               // bit i: field i is a string
  uint32_t columns;             // … a packed field of numbers
  uint32_t messages;            // … a message, whose form is
  const MessageForm* inner[3];  // that of the first such field, of the next …
};

// Header.schema_major and schema_minor of the traces that this version writes. They are the newest that it knows, too.
constexpr uint32_t kSchemaMajor = 1;
constexpr uint32_t kSchemaMinor = 1;

class PacketWriter {
 public:
  explicit PacketWriter(Buffer* out) : out_(out) {}

  void UInt(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    out_->AppendVarint(value);
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void UInt(uint32_t field, Enum value) { UInt(field, static_cast<uint64_t>(value)); }
  // int32/int64: negative values take ten bytes.
  void Int(uint32_t field, int64_t value) { UInt(field, static_cast<uint64_t>(value)); }
  void SInt32(uint32_t field, int32_t value) { UInt(field, ZigZag(value) & 0xffffffff); }
  void SInt64(uint32_t field, int64_t value) { UInt(field, ZigZag(value)); }
  void Bytes(uint32_t field, const void* data, size_t size) {
    if (size == 0) return;
    AlwaysBytes(field, data, size);
  }
  // A digest; none if it is all zeros, which is not known.
  template <size_t N>
  void Bytes(uint32_t field, const uint8_t (&digest)[N]) {
    for (uint8_t byte : digest) {
      if (byte != 0) return Bytes(field, digest, N);
    }
  }
  void Bytes(uint32_t field, TextSpan bytes) { Bytes(field, bytes.data, bytes.size); }
  // A string field: invalid UTF-8 becomes '?' (names of threads, programs and files may be anything, but a parser
  // rejects a packet with an invalid string).
  void Text(uint32_t field, const char* text, size_t size) {
    if (size != 0) RepeatedText(field, text, size);
  }
  // An element of a repeated string field.
  void RepeatedText(uint32_t field, const char* text, size_t size) {
    if (!AlwaysBytes(field, text, size)) return;
    char* copy = out_->data() + out_->size() - size;
    for (size_t i = 0; i < size;) {
      const Character character = FirstCharacter(copy + i, size - i);
      if (!character.is_utf8) copy[i] = '?';
      i += character.bytes;
    }
  }
  void Text(uint32_t field, TextSpan text) { Text(field, text.data, text.size); }
  // Up to the first NUL, or all of it.
  template <size_t N>
  void Text(uint32_t field, const char (&text)[N]) {
    Text(field, text, strnlen(text, N));
  }
  // One character, none for NUL.
  void Text(uint32_t field, const std::same_as<char> auto& c) { Text(field, &c, c == '\0' ? 0 : 1); }
  // The name of an enumerator.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Text(uint32_t field, Enum value) { Text(field, TextSpan(EnumName(value))); }
  // A packed repeated field whose encoded elements are in `column`.
  void Packed(uint32_t field, const Buffer& column) {
    if (column.size() == 0) return;
    Tag(field, 2);
    out_->AppendVarint(column.size());
    out_->Append(column);
  }

  template <typename T>
  void PackedInts(uint32_t field, const T* values, uint32_t count) {
    if (count == 0) return;
    size_t mark = Begin(field);
    for (uint32_t i = 0; i < count; ++i) Varint(static_cast<uint64_t>(static_cast<int64_t>(values[i])));
    End(mark);
  }

  // Inside Begin and End: an element of a packed field, or fields encoded elsewhere.
  void Varint(uint64_t value) { out_->AppendVarint(value); }
  void Raw(const void* data, size_t size) { out_->Append(data, size); }

  // An element of a repeated field is written even when it is empty. False if out of memory.
  bool AlwaysBytes(uint32_t field, const void* data, size_t size) {
    Tag(field, 2);
    out_->AppendVarint(size);
    return out_->Append(data, size);
  }

  // A nested message: returns a mark for End. Messages must nest properly.
  size_t Begin(uint32_t field) {
    Tag(field, 2);
    out_->AppendVarint(0);  // reserves one byte for the length
    return out_->size();
  }
  void End(size_t mark) {
    size_t size = out_->size() - mark;
    uint8_t length[10];
    size_t length_bytes = 0;
    for (size_t rest = size;;) {
      length[length_bytes++] = static_cast<uint8_t>(rest >= 0x80 ? rest | 0x80 : rest);
      if ((rest >>= 7) == 0) break;
    }
    size_t extra = length_bytes - 1;
    if (out_->has_failed() || !out_->Reserve(out_->size() + extra)) return;
    out_->Resize(out_->size() + extra);
    memmove(out_->data() + mark + extra, out_->data() + mark, size);
    memcpy(out_->data() + mark - 1, length, length_bytes);
  }

 private:
  void Tag(uint32_t field, uint32_t wire_type) { out_->AppendVarint(field << 3 | wire_type); }

  Buffer* out_;
};

// A nested message, until the end of the scope.
class MessageScope {
 public:
  MessageScope(PacketWriter* writer, uint32_t field) : writer_(writer), mark_(writer->Begin(field)) {}
  ~MessageScope() { writer_->End(mark_); }
  MessageScope(const MessageScope&) = delete;
  MessageScope& operator=(const MessageScope&) = delete;

 private:
  PacketWriter* writer_;
  size_t mark_;
};

// A packet with this field of Packet: PacketScope scope(out, fields::Packet::kThread); scope.writer.UInt(…);
struct PacketScope {
  PacketScope(Buffer* out, uint32_t field)
      : writer(out), packet(&writer, 1), message(&writer, field) {}  // Trace.packet
  PacketWriter writer;
  MessageScope packet, message;
};

}  // namespace dlhook::inline format
