// Encodes descriptive packets.
#include "preload/drain/describe.h"

#include "preload/format/hook_table.h"

namespace dlhook::inline drain {
namespace {

void WriteClock(const SessionHeader& session, PacketWriter* writer) {
  namespace f = fields::Clock;
  MessageScope clock(writer, fields::Header::kClock);
  f::Write(session, writer);
  writer->UInt(f::kKind, session.clock_kind);
  writer->Text(f::kFallbackReason, session.clock_fallback_reason);
}

void WriteFamilies(uint32_t mask, PacketWriter* writer) {
  char text[1024];
  size_t size = 0;
  for (int i = 0; i < kFamilyCount; ++i) {
    size_t length = strlen(kFamilyNames[i]);
    if ((mask >> i & 1) == 0 || size + length + 1 >= sizeof text) continue;
    if (size > 0) text[size++] = ',';
    memcpy(text + size, kFamilyNames[i], length);
    size += length;
  }
  writer->Text(fields::Header::kCaptureFamilies, text, size);
}

// Takes the text up to the next NUL, or all that is left, from the front of `rest`.
TextSpan NextText(TextSpan* rest) {
  const TextSpan text(rest->data, strnlen(rest->data, rest->size));
  const size_t taken = text.size < rest->size ? text.size + 1 : text.size;
  *rest = {rest->data + taken, rest->size - taken};
  return text;
}

template <typename Record>
TextSpan TextOf(const Record& record) {
  return {reinterpret_cast<const char*>(&record + 1), record.text_bytes};
}

// OneDnnField is in the order of the fields.
static_assert(fields::OneDnn::kOther - fields::OneDnn::kOperation == uint32_t{kOther} &&
              kOneDnnFieldCount == kOther + 1);

}  // namespace

void WriteHeaderPacket(const SessionHeader& session, Buffer* out) {
  namespace f = fields::Header;
  PacketScope scope(out, fields::Packet::kHeader);
  PacketWriter* writer = &scope.writer;
  writer->UInt(f::kSchemaMajor, kSchemaMajor);
  writer->UInt(f::kSchemaMinor, kSchemaMinor);
  f::Write(session, writer);
  {
    MessageScope process(writer, f::kProcess);
    fields::Process::Write(session, writer);
  }
  WriteClock(session, writer);
  for (uint32_t i = 0; i < session.rank_variable_count && i < kMaxRankVariables; ++i) {
    MessageScope variable(writer, f::kRankVariable);
    fields::RankVariable::Write(session.rank_variables[i], writer);
  }
  WriteFamilies(session.configured_families, writer);
  for (uint32_t i = 0; i < session.setting_count && i < kMaxSettings; ++i) {
    MessageScope setting(writer, f::kSetting);
    fields::Setting::Write(session.settings[i], writer);
  }
  if (session.processor.vendor[0] == '\0') return;
  MessageScope processor(writer, f::kProcessor);
  fields::Processor::Write(session.processor, writer);
}

void WriteProfilePacket(const ProfileRecord& record, Buffer* out) {
  PacketScope scope(out, fields::Packet::kCompilerProfile);
  fields::CompilerProfile::Write(record, &scope.writer);
  scope.writer.Bytes(fields::CompilerProfile::kData, &record + 1, record.text_bytes);
}

void WriteMappingPacket(const MappingRecord& record, Buffer* out) {
  TextSpan texts = TextOf(record);
  const TextSpan path = NextText(&texts);
  const uint32_t build_id_bytes = record.build_id_bytes <= sizeof record.build_id ? record.build_id_bytes : 0;
  fields::Mapping::WritePacket({.start = record.start,
                                .end = record.end,
                                .path = path,
                                .build_id = {reinterpret_cast<const char*>(record.build_id), build_id_bytes},
                                .role = static_cast<fields::Mapping::Role>(record.role),
                                .detail = NextText(&texts)},
                               out);
}

void WriteCapabilityPacket(const CapabilityRecord& record, Buffer* out) {
  TextSpan texts = TextOf(record);
  const TextSpan name = NextText(&texts), object = NextText(&texts);
  fields::Capability::WritePacket({.name = name,
                                   .state = static_cast<fields::Capability::State>(record.value),
                                   .object = object,
                                   .reason = NextText(&texts),
                                   .ticks = record.ticks},
                                  out);
}

// The texts are NUL-terminated; the last one may lack the NUL.
void WritePythonModulePacket(const PythonModuleRecord& record, Buffer* out) {
  namespace f = fields::PythonModule;
  PacketScope scope(out, fields::Packet::kPythonModule);
  scope.writer.UInt(f::kObject, record.object);
  TextSpan texts = TextOf(record);
  scope.writer.Text(f::kType, NextText(&texts));
  scope.writer.UInt(f::kRoot, record.root);
  while (texts.size > 0) {
    const TextSpan name = NextText(&texts);
    scope.writer.RepeatedText(f::kName, name.data, name.size);
  }
  scope.writer.UInt(f::kParent, record.parent);
}

// The record's texts are in the order of the fields, so the number of a field is its place.
void WriteCompiledCodePacket(const CompiledCodeRecord& record, Buffer* out) {
  namespace f = fields::CompiledCode;
  PacketScope scope(out, fields::Packet::kCompiledCode);
  TextSpan texts = TextOf(record);
  for (uint32_t field = f::kKind; field <= f::kByOrder && texts.size > 0; ++field) {
    const TextSpan text = NextText(&texts);
    uint64_t number = 0;
    for (size_t i = 0; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; ++i) {
      number = number * 10 + static_cast<uint64_t>(text.data[i] - '0');
    }
    (f::kForm.texts >> field & 1) != 0 ? scope.writer.Text(field, text) : scope.writer.UInt(field, number);
  }
}

void WriteStringDefinition(uint32_t iid, const char* text, size_t size, Buffer* out) {
  PacketWriter writer(out);
  MessageScope string(&writer, fields::Interned::kString);
  fields::InternedString::Write({.iid = iid, .value = {text, size}}, &writer);
}

void WriteCallDefinition(uint32_t iid, const CallRecord& record, const DefinitionSource& definitions, Buffer* out) {
  PacketWriter writer(out);
  MessageScope op(&writer, fields::Interned::kOp);
  bool known = record.header.hook < kHookCount;
  fields::OpDefinition::Write({.iid = iid,
                               .function = known ? kHookNames[record.header.hook].name : "?",
                               .family = known ? kFamilyNames[kHookNames[record.header.hook].family] : "?",
                               .time_source = fields::TimeSource::kClockTicks,
                               .address_count = record.header.address_count,
                               .captured = false},
                              &writer);
  WriteShape(record, definitions, &writer);
}

void WriteTapDefinition(uint32_t iid, const TapLine& line, const char* version, Buffer* out) {
  namespace f = fields::OneDnn;
  PacketWriter writer(out);
  MessageScope op(&writer, fields::Interned::kOp);
  bool is_execution = line.fields[kOperation].size >= 4 && memcmp(line.fields[kOperation].data, "exec", 4) == 0;
  fields::OpDefinition::Write({.iid = iid,
                               .function = is_execution ? "onednn:exec" : "onednn:create",
                               .family = "onednn",
                               .time_source = fields::TimeSource::kOnednnLog,
                               .address_count = 0,
                               .captured = false},
                              &writer);
  MessageScope onednn(&writer, fields::OpDefinition::kOnednn);
  for (uint32_t i = 0; i < kOneDnnFieldCount; ++i) writer.Text(f::kOperation + i, line.fields[i]);
  writer.Text(f::kVersion, version);
}

}  // namespace dlhook::inline drain
