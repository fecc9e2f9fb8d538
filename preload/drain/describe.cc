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
  namespace f = fields::Mapping;
  PacketScope scope(out, fields::Packet::kMapping);
  const char* path = reinterpret_cast<const char*>(&record + 1);
  size_t path_bytes = strnlen(path, record.text_bytes);
  scope.writer.UInt(f::kStart, record.start);
  scope.writer.UInt(f::kEnd, record.end);
  scope.writer.Text(f::kPath, path, path_bytes);
  uint32_t build_id_bytes = record.build_id_bytes <= sizeof record.build_id ? record.build_id_bytes : 0;
  scope.writer.Bytes(f::kBuildId, record.build_id, build_id_bytes);
  scope.writer.UInt(f::kRole, record.role);
  if (path_bytes + 1 < record.text_bytes) {
    scope.writer.Text(f::kDetail, path + path_bytes + 1,
                      strnlen(path + path_bytes + 1, record.text_bytes - path_bytes - 1));
  }
}

void WriteCapabilityPacket(const CapabilityRecord& record, Buffer* out) {
  const char* text = reinterpret_cast<const char*>(&record + 1);
  TextSpan parts[3] = {};  // name, object, reason
  size_t at = 0;
  for (TextSpan& part : parts) {
    if (at >= record.text_bytes) break;
    part = {text + at, strnlen(text + at, record.text_bytes - at)};
    at += part.size + 1;
  }
  fields::Capability::WritePacket({.name = parts[0],
                                   .state = static_cast<fields::Capability::State>(record.value),
                                   .object = parts[1],
                                   .reason = parts[2],
                                   .ticks = record.ticks},
                                  out);
}

// The texts are NUL-terminated; the last one may lack the NUL.
void WritePythonModulePacket(const PythonModuleRecord& record, Buffer* out) {
  namespace f = fields::PythonModule;
  PacketScope scope(out, fields::Packet::kPythonModule);
  scope.writer.UInt(f::kObject, record.object);
  auto text = reinterpret_cast<const char*>(&record + 1);
  const char* end = text + record.text_bytes;
  size_t length = strnlen(text, record.text_bytes);
  scope.writer.Text(f::kType, text, length);
  scope.writer.UInt(f::kRoot, record.root);
  for (text += length + 1; text < end; text += length + 1) {
    length = strnlen(text, static_cast<size_t>(end - text));
    scope.writer.RepeatedText(f::kName, text, length);
  }
  scope.writer.UInt(f::kParent, record.parent);
}

// The record's texts are in the order of the fields, so the number of a field is its place.
void WriteCompiledCodePacket(const CompiledCodeRecord& record, Buffer* out) {
  namespace f = fields::CompiledCode;
  PacketScope scope(out, fields::Packet::kCompiledCode);
  auto text = reinterpret_cast<const char*>(&record + 1);
  const char* end = text + record.text_bytes;
  for (uint32_t field = f::kKind; field <= f::kByOrder && text < end; ++field) {
    size_t length = strnlen(text, static_cast<size_t>(end - text));
    uint64_t number = 0;
    if ((f::kForm.texts >> field & 1) != 0) {
      scope.writer.Text(field, text, length);
    } else {
      for (size_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; ++i) {
        number = number * 10 + static_cast<uint64_t>(text[i] - '0');
      }
      scope.writer.UInt(field, number);
    }
    text += length + 1;
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
