// Packets that describe something once: header, clock samples, ops, mappings, capabilities, losses. Encoding only.
// Thread: the drain's. The session and the records are untrusted: strings are bounded, enums are passed through.
#ifndef DLHOOK_PRELOAD_DRAIN_DESCRIBE_H_
#define DLHOOK_PRELOAD_DRAIN_DESCRIBE_H_

#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/format/session.h"
#include "preload/format/tap_line.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

using LossReason = fields::Loss::Reason;
using ResetReason = fields::Reset::Reason;

void WriteHeaderPacket(const SessionHeader& session, Buffer* out);
void WriteClockSamplePacket(const ClockSample& sample, Buffer* out);
// trace::LoadSample
struct LoadSample {
  uint64_t ticks;
  uint64_t cpu_ns;
  uint64_t waiting_ns;
  uint32_t threads;
  uint32_t runnable;
  uint32_t processors;
  uint64_t page_faults;
  uint64_t system_ns;
  uint64_t resident_bytes;
  uint32_t page_fault_ns;
  uint64_t throttled_ns;
  uint32_t frequency_mhz;
  uint64_t first_thread_cpu_ns;
};
void WriteLoadSamplePacket(const LoadSample& sample, Buffer* out);
// `handle`: its pthread_t, 0: not known.
void WriteThreadPacket(uint32_t thread_id, uint32_t tid, uint64_t handle, const char* name, uint64_t ended_ticks,
                       Buffer* out);
void WriteProfilePacket(const ProfileRecord& record, Buffer* out);
void WriteMappingPacket(const MappingRecord& record, Buffer* out);
void WriteCapabilityPacket(const CapabilityRecord& record, Buffer* out);
void WriteCaptureStatePacket(bool recording, uint64_t ticks, Buffer* out);

struct LossDescription {
  LossReason reason;
  uint32_t thread_id;
  uint64_t calls;
  uint64_t bytes;
  const char* detail;
};
void WriteLossPacket(const LossDescription& loss, Buffer* out);
void WritePythonModulePacket(const PythonModuleRecord& record, Buffer* out);
void WriteCompiledCodePacket(const CompiledCodeRecord& record, Buffer* out);
void WriteResetPacket(ResetReason reason, Buffer* out);
void WriteFooterPacket(uint32_t end, uint64_t end_ticks, uint64_t calls, Buffer* out);

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

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_DESCRIBE_H_
