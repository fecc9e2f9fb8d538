// Protobuf's wire format, as far as a parser rejects it: broken varints and lengths, text that is not UTF-8.
#include "preload/drain/message_check.h"

#include <cstdint>

#include "preload/format/packet_writer.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {
namespace {

// The types of a message's fields, by number. Other fields are numbers or unknown: they are always valid.
struct Form {
  uint32_t texts;        // bit i: field i is a string
  uint32_t columns;      // … a packed field of numbers
  uint32_t messages;     // … a message, whose form is
  const Form* inner[3];  // that of the first such field, of the next …
};

namespace tensor = fields::CudnnTensor;
namespace node = fields::CudnnNode;
namespace knob = fields::CudnnPlan::Knob;
namespace plan = fields::CudnnPlan;
namespace cudnn = fields::Cudnn;
constexpr Form kTensor = {tensor::kTexts, tensor::kRepeated, tensor::kMessages, {}};
constexpr Form kNode = {node::kTexts, node::kRepeated, node::kMessages, {}};
constexpr Form kKnob = {knob::kTexts, knob::kRepeated, knob::kMessages, {}};
constexpr Form kPlan = {plan::kTexts, plan::kRepeated, plan::kMessages, {&kNode, &kKnob}};
constexpr Form kCudnn = {cudnn::kTexts, cudnn::kRepeated, cudnn::kMessages, {&kTensor, &kPlan}};
static_assert((tensor::kMessages | node::kMessages | knob::kMessages) == 0);
static_assert(plan::kNode < plan::kKnob && plan::kMessages == (1 << plan::kNode | 1 << plan::kKnob));
static_assert(cudnn::kTensor < cudnn::kPlan && cudnn::kMessages == (1 << cudnn::kTensor | 1 << cudnn::kPlan));

struct Bytes {
  const uint8_t* at;
  const uint8_t* end;
};

constexpr uint32_t kMaxTagBytes = 5;  // of lengths, too
constexpr uint32_t kMaxNumberBytes = 10;

bool ReadVarint(Bytes* bytes, uint32_t max_bytes, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; bytes->at < bytes->end && shift < 7 * max_bytes; shift += 7) {
    *value |= uint64_t{*bytes->at & 0x7fu} << shift;
    if ((*bytes->at++ & 0x80) == 0) return true;
  }
  return false;
}

bool AreVarints(Bytes bytes) {
  uint64_t value;
  while (bytes.at < bytes.end) {
    if (!ReadVarint(&bytes, kMaxNumberBytes, &value)) return false;
  }
  return true;
}

bool IsUtf8(Bytes bytes) {
  while (bytes.at < bytes.end) {
    size_t length = Utf8Length(reinterpret_cast<const char*>(bytes.at), static_cast<size_t>(bytes.end - bytes.at));
    if (length == 0) return false;
    bytes.at += length;
  }
  return true;
}

bool IsMessage(const Form& form, Bytes bytes);

bool FitsField(const Form& form, uint64_t field, Bytes content) {
  if (field >= 32) return true;
  uint32_t bit = 1u << field;
  if ((form.texts & bit) != 0) return IsUtf8(content);
  if ((form.columns & bit) != 0) return AreVarints(content);
  if ((form.messages & bit) == 0) return true;
  return IsMessage(*form.inner[__builtin_popcount(form.messages & (bit - 1))], content);
}

bool IsMessage(const Form& form, Bytes bytes) {
  while (bytes.at < bytes.end) {
    uint64_t tag, value;
    if (!ReadVarint(&bytes, kMaxTagBytes, &tag) || tag >> 3 == 0 || tag > UINT32_MAX) return false;
    bool is_number = (tag & 7) == 0;
    bool is_bytes = (tag & 7) == 2;
    if (!is_number && !is_bytes) return false;
    if (!ReadVarint(&bytes, is_number ? kMaxNumberBytes : kMaxTagBytes, &value)) return false;
    if (is_number) continue;
    if (value > static_cast<uint64_t>(bytes.end - bytes.at)) return false;
    Bytes content = {bytes.at, bytes.at + value};
    if (!FitsField(form, tag >> 3, content)) return false;
    bytes.at = content.end;
  }
  return true;
}

}  // namespace

bool IsCudnnMessage(const void* bytes, size_t size) {
  auto begin = static_cast<const uint8_t*>(bytes);
  return IsMessage(kCudnn, {begin, begin + size});
}

}  // namespace dlhook::inline drain
