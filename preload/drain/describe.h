// Packets that describe something once and are more than a copy of a record's members (fields::…::WritePacket): header,
// mappings, capabilities, texts, and the definitions of ops. Encoding only.
// Thread: the drain's. The session and the records are untrusted: strings are bounded, enums are passed through.
#pragma once

#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/format/session.h"
#include "preload/format/tap_line.h"

namespace dlhook::inline drain {

using LossReason = fields::Loss::Reason;
using LoadSample = fields::LoadSample::Values;
using ResetReason = fields::Reset::Reason;

void WriteHeaderPacket(const SessionHeader& session, Buffer* out);
void WriteProfilePacket(const ProfileRecord& record, Buffer* out);
void WriteMappingPacket(const MappingRecord& record, Buffer* out);
void WriteCapabilityPacket(const CapabilityRecord& record, Buffer* out);
void WritePythonModulePacket(const PythonModuleRecord& record, Buffer* out);
void WriteCompiledCodePacket(const CompiledCodeRecord& record, Buffer* out);

// Where to find the definitions that a record refers to.
struct DefinitionSource {
  const SessionHeader* session;
  uint64_t mapping_bytes;
};

// Appends an element of Interned.string.
void WriteStringDefinition(uint32_t iid, const char* text, size_t size, Buffer* out);
// Append an element of Interned.op.
void WriteCallDefinition(uint32_t iid, const CallRecord& record, const DefinitionSource& definitions, Buffer* out);
void WriteTapDefinition(uint32_t iid, const TapLine& line, const char* version, Buffer* out);

// Writes what a call computed into the open OpDefinition, and OpDefinition.captured; nothing for other record types.
// Counts are bounded.
void WriteShape(const CallRecord& record, const DefinitionSource& definitions, PacketWriter* writer);

// Whether bytes from the host are a serialized trace::Cudnn that a parser accepts: an invalid one would spoil the whole
// packet, and everything after it. Pure; no allocation.
bool IsCudnnMessage(const void* bytes, size_t size);

}  // namespace dlhook::inline drain
