// Changes traces so that they remain traces: with random bytes they fail at the first varint. For targets that read
// traces; one input of eight is changed as bytes nevertheless, for the framing.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/trace.pb.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace dlhook {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  bool OneIn(uint32_t n) { return Below(n) == 0; }

  void ChangeTrace(trace::Trace* trace) {
    const int packets = trace->packet_size();
    switch (Below(8)) {
      case 0:
        if (packets > 1) trace->mutable_packet()->DeleteSubrange(static_cast<int>(Below(packets)), 1);
        return;
      case 1:
        if (packets > 0) *trace->add_packet() = trace->packet(static_cast<int>(Below(packets)));
        return;
      case 2:
        if (packets > 1) {
          trace->mutable_packet()->SwapElements(static_cast<int>(Below(packets)), static_cast<int>(Below(packets)));
        }
        return;
      default:
        if (packets == 0) trace->add_packet();
        ChangeMessage(trace->mutable_packet(static_cast<int>(Below(trace->packet_size()))));
    }
  }

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  // Descends into the message and changes one field somewhere.
  void ChangeMessage(Message* message) {
    const Reflection* reflection = message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(*message, &fields);
    const google::protobuf::Descriptor* type = message->GetDescriptor();
    if (type->field_count() == 0) return;
    const FieldDescriptor* field = fields.empty() || OneIn(6)
                                       ? type->field(static_cast<int>(Below(type->field_count())))
                                       : fields[Below(fields.size())];
    if (field->is_repeated()) return ChangeRepeated(message, field);
    if (OneIn(10)) return reflection->ClearField(message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return ChangeMessage(reflection->MutableMessage(message, field));
    }
    SetScalar(message, field, -1);
  }

  void ChangeRepeated(Message* message, const FieldDescriptor* field) {
    const Reflection* reflection = message->GetReflection();
    const int size = reflection->FieldSize(*message, field);
    const uint64_t way = Below(8);
    if (size == 0 || way == 0) return Add(message, field);
    const int at = static_cast<int>(Below(size));
    if (way == 1) return reflection->RemoveLast(message, field);
    if (way == 2) return reflection->SwapElements(message, field, at, static_cast<int>(Below(size)));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return ChangeMessage(reflection->MutableRepeatedMessage(message, field, at));
    }
    SetScalar(message, field, at);
  }

  void Add(Message* message, const FieldDescriptor* field) {
    const Reflection* reflection = message->GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ChangeMessage(reflection->AddMessage(message, field));
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection->AddString(message, field, Text(field, ""));
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection->AddBool(message, field, OneIn(2));
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection->AddEnumValue(message, field, static_cast<int>(Number(1)));
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection->AddInt32(message, field, static_cast<int32_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection->AddUInt32(message, field, static_cast<uint32_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection->AddInt64(message, field, static_cast<int64_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection->AddUInt64(message, field, Number(0));
      default:
        return;  // the schema has no others
    }
  }

  // For a singular field, or for element `at` of a repeated one.
  void SetScalar(Message* message, const FieldDescriptor* field, int at) {
    const Reflection* r = message->GetReflection();
    const auto set = [&](auto get, auto get_repeated, auto put, auto put_repeated) {
      if (at < 0) return (r->*put)(message, field, Changed(field, (r->*get)(*message, field)));
      (r->*put_repeated)(message, field, at, Changed(field, (r->*get_repeated)(*message, field, at)));
    };
    using R = Reflection;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return set(&R::GetString, &R::GetRepeatedString, &R::SetString, &R::SetRepeatedString);
      case FieldDescriptor::CPPTYPE_BOOL:
        return set(&R::GetBool, &R::GetRepeatedBool, &R::SetBool, &R::SetRepeatedBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return set(&R::GetEnumValue, &R::GetRepeatedEnumValue, &R::SetEnumValue, &R::SetRepeatedEnumValue);
      case FieldDescriptor::CPPTYPE_INT32:
        return set(&R::GetInt32, &R::GetRepeatedInt32, &R::SetInt32, &R::SetRepeatedInt32);
      case FieldDescriptor::CPPTYPE_UINT32:
        return set(&R::GetUInt32, &R::GetRepeatedUInt32, &R::SetUInt32, &R::SetRepeatedUInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return set(&R::GetInt64, &R::GetRepeatedInt64, &R::SetInt64, &R::SetRepeatedInt64);
      case FieldDescriptor::CPPTYPE_UINT64:
        return set(&R::GetUInt64, &R::GetRepeatedUInt64, &R::SetUInt64, &R::SetRepeatedUInt64);
      default:
        return;
    }
  }

  template <typename T>
  T Changed(const FieldDescriptor*, T value) {
    return static_cast<T>(Number(static_cast<uint64_t>(value)));
  }
  std::string Changed(const FieldDescriptor* field, const std::string& value) { return Text(field, value); }

  // Near the old value, small like ids and counts, or at the end of a range.
  uint64_t Number(uint64_t before) {
    switch (Below(6)) {
      case 0:
        return before + 1;
      case 1:
        return before - 1;
      case 2:
        return uint64_t{1} << Below(64);
      case 3:
        return (uint64_t{1} << Below(64)) - 1;
      case 4:
        return ~uint64_t{0} - Below(4);
      default:
        return Below(24);
    }
  }

  std::string Text(const FieldDescriptor* field, const std::string& before) {
    std::string text = before;
    const size_t room = text.size() + 64;
    text.resize(room);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), before.size(), room));
    if (field->type() == FieldDescriptor::TYPE_BYTES) return text;
    for (char& c : text) c = static_cast<char>(c & 0x7f);  // invalid UTF-8 would make the packet unreadable
    return text;
  }

  std::minstd_rand random_;
};

}  // namespace
}  // namespace dlhook

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  const google::protobuf::LogSilencer quiet;
  dlhook::Mutator mutator(seed);
  dlhook::trace::Trace trace;
  if (mutator.OneIn(8) || !trace.ParseFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  mutator.ChangeTrace(&trace);
  while (trace.ByteSizeLong() > max_size) trace.mutable_packet()->RemoveLast();
  trace.SerializeWithCachedSizesToArray(data);
  return trace.GetCachedSize();
}
