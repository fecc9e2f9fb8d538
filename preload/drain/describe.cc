// Encodes descriptive packets.
#include "preload/drain/describe.h"

#include "preload/drain/describe_cuda.h"
#include "preload/format/hook_table.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {
namespace {

// Writes one packet: PacketScope scope(out, fields::Packet::kThread); scope.writer.UInt(…);
struct PacketScope {
  PacketScope(Buffer* out, uint32_t field)
      : writer(out), packet(writer.Begin(fields::Trace::kPacket)), message(writer.Begin(field)) {}
  ~PacketScope() {
    writer.End(message);
    writer.End(packet);
  }
  PacketWriter writer;
  size_t packet;
  size_t message;
};

template <size_t N>
void WriteBounded(PacketWriter* writer, uint32_t field, const char (&text)[N]) {
  writer->Text(field, text, strnlen(text, N));
}

void WriteProcess(const SessionHeader& session, PacketWriter* writer) {
  namespace f = fields::Process;
  size_t process = writer->Begin(fields::Header::kProcess);
  writer->UInt(f::kPid, session.pid);
  writer->UInt(f::kParentPid, session.parent_pid);
  writer->UInt(f::kStartTimeJiffies, session.start_time_jiffies);
  WriteBounded(writer, f::kBootId, session.boot_id);
  WriteBounded(writer, f::kHost, session.host);
  WriteBounded(writer, f::kProgram, session.program);
  WriteBounded(writer, f::kScript, session.script);
  writer->UInt(f::kShimLoadedTicks, session.shim_loaded_ticks);
  writer->End(process);
}

void WriteClock(const SessionHeader& session, PacketWriter* writer) {
  namespace f = fields::Clock;
  size_t clock = writer->Begin(fields::Header::kClock);
  writer->UInt(f::kKind, session.clock_kind);
  writer->UInt(f::kTicksPerSecond, session.ticks_per_second);
  WriteBounded(writer, f::kFallbackReason, session.clock_fallback_reason);
  writer->End(clock);
}

void WriteRankVariables(const SessionHeader& session, PacketWriter* writer) {
  namespace f = fields::RankVariable;
  for (uint32_t i = 0; i < session.rank_variable_count && i < kMaxRankVariables; ++i) {
    size_t variable = writer->Begin(fields::Header::kRankVariable);
    WriteBounded(writer, f::kName, session.rank_variables[i].name);
    WriteBounded(writer, f::kValue, session.rank_variables[i].value);
    writer->End(variable);
  }
}

void WriteSettings(const SessionHeader& session, PacketWriter* writer) {
  namespace f = fields::Setting;
  for (uint32_t i = 0; i < session.setting_count && i < kMaxSettings; ++i) {
    size_t setting = writer->Begin(fields::Header::kSetting);
    WriteBounded(writer, f::kName, session.settings[i].name);
    WriteBounded(writer, f::kValue, session.settings[i].value);
    writer->End(setting);
  }
  writer->UInt(fields::Header::kProcessors, session.processors);
}

void WriteProcessor(const ProcessorId& id, PacketWriter* writer) {
  namespace f = fields::Processor;
  if (id.vendor[0] == '\0') return;
  size_t processor = writer->Begin(fields::Header::kProcessor);
  WriteBounded(writer, f::kVendor, id.vendor);
  WriteBounded(writer, f::kName, id.name);
  writer->UInt(f::kFamily, id.family);
  writer->UInt(f::kModel, id.model);
  writer->UInt(f::kStepping, id.stepping);
  writer->UInt(f::kThreadsPerCore, id.threads_per_core);
  writer->UInt(f::kInstructionSets, id.instruction_sets);
  writer->End(processor);
}

void WriteFamilies(uint32_t mask, PacketWriter* writer) {
  char text[256];
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

void WriteGemm(const CallRecord& record, PacketWriter* writer) {
  GemmShape shape;
  const char* words = reinterpret_cast<const char*>(&record + 1);
  memcpy(&shape, words, sizeof shape);
  size_t gemm = writer->Begin(fields::OpDefinition::kGemm);
  WriteGemmFields(shape, writer);
  if (record.header.shape_words >= kGroupedGemmShapeWords) {
    GemmGroups groups;
    memcpy(&groups, words + sizeof shape, sizeof groups);
    writer->Int(fields::Gemm::kGroups, groups.groups);
    writer->UInt(fields::Gemm::kFlops, groups.flops);
  }
  writer->End(gemm);
}

void WriteMatrix(const CallRecord& record, PacketWriter* writer) {
  namespace f = fields::MatrixOp;
  MatrixShape shape;
  memcpy(&shape, &record + 1, sizeof shape);
  size_t matrix = writer->Begin(fields::OpDefinition::kMatrix);
  writer->UInt(f::kKind, static_cast<uint32_t>(shape.kind));
  writer->UInt(f::kType, static_cast<uint32_t>(shape.type));
  writer->UInt(f::kRowMajor, shape.row_major);
  writer->Char(f::kSide, shape.side);
  writer->Char(f::kUplo, shape.uplo);
  writer->Char(f::kTrans, shape.trans);
  writer->Char(f::kDiag, shape.diag);
  writer->Int(f::kM, shape.m);
  writer->Int(f::kN, shape.n);
  writer->Int(f::kK, shape.k);
  writer->Int(f::kLda, shape.lda);
  writer->Int(f::kLdb, shape.ldb);
  writer->Int(f::kLdc, shape.ldc);
  writer->Int(f::kBatch, shape.batch);
  CudaMatrixShape cuda = {};
  if (record.header.shape_words >= kCudaMatrixShapeWords) {
    memcpy(&cuda, reinterpret_cast<const char*>(&record + 1) + sizeof shape, sizeof cuda);
    writer->Char(f::kTransB, cuda.trans_b);
    writer->UInt(f::kOrderA, cuda.order_a);
    writer->UInt(f::kOrderC, cuda.order_c);
    writer->UInt(f::kCType, static_cast<uint32_t>(cuda.c_type));
    writer->Int(f::kNonzeros, cuda.nonzeros);
  }
  writer->End(matrix);
  writer->UInt(fields::OpDefinition::kCaptured, cuda.captured);
}

// By OneDnnField.
constexpr uint32_t kOneDnnNumbers[] = {fields::OneDnn::kOperation,  fields::OneDnn::kEngine,
                                       fields::OneDnn::kPrimitive,  fields::OneDnn::kImplementation,
                                       fields::OneDnn::kPropKind,   fields::OneDnn::kMemoryDescriptors,
                                       fields::OneDnn::kAttributes, fields::OneDnn::kAuxiliary,
                                       fields::OneDnn::kProblem,    fields::OneDnn::kOther};
static_assert(sizeof kOneDnnNumbers / sizeof *kOneDnnNumbers == kOneDnnFieldCount);

}  // namespace

void WriteGemmFields(const GemmShape& shape, PacketWriter* writer) {
  namespace f = fields::Gemm;
  writer->UInt(f::kAType, static_cast<uint32_t>(shape.a_type));
  writer->UInt(f::kBType, static_cast<uint32_t>(shape.b_type));
  writer->UInt(f::kCType, static_cast<uint32_t>(shape.c_type));
  writer->UInt(f::kRowMajor, shape.row_major);
  writer->Char(f::kTransA, shape.trans_a);
  writer->Char(f::kTransB, shape.trans_b);
  writer->Int(f::kM, shape.m);
  writer->Int(f::kN, shape.n);
  writer->Int(f::kK, shape.k);
  writer->Int(f::kLda, shape.lda);
  writer->Int(f::kLdb, shape.ldb);
  writer->Int(f::kLdc, shape.ldc);
  writer->Int(f::kBatch, shape.batch);
  writer->UInt(f::kKind, static_cast<uint32_t>(shape.kind));
  writer->UInt(f::kCacheHit, shape.cache_hit);
}

void WriteHeaderPacket(const SessionHeader& session, Buffer* out) {
  namespace f = fields::Header;
  PacketScope scope(out, fields::Packet::kHeader);
  PacketWriter& writer = scope.writer;
  writer.UInt(f::kSchemaMajor, kSchemaMajor);
  writer.UInt(f::kSchemaMinor, kSchemaMinor);
  WriteBounded(&writer, f::kToolVersion, session.tool_version);
  WriteProcess(session, &writer);
  WriteClock(session, &writer);
  WriteRankVariables(session, &writer);
  WriteFamilies(session.configured_families, &writer);
  WriteBounded(&writer, f::kRunKey, session.run_key);
  WriteBounded(&writer, f::kRequestedOutput, session.requested_output);
  WriteBounded(&writer, f::kOutputRefusal, session.output_refusal);
  writer.UInt(f::kTraceBytesLimit, session.trace_bytes_limit);
  WriteSettings(session, &writer);
  WriteProcessor(session.processor, &writer);
}

void WriteClockSamplePacket(const ClockSample& sample, Buffer* out) {
  namespace f = fields::ClockSample;
  PacketScope scope(out, fields::Packet::kClockSample);
  scope.writer.UInt(f::kTicks, sample.ticks);
  scope.writer.UInt(f::kMonotonicNs, sample.monotonic_ns);
  scope.writer.UInt(f::kRealtimeNs, sample.realtime_ns);
  scope.writer.UInt(f::kUncertaintyTicks, sample.uncertainty_ticks & 0xffffffff);
}

void WriteLoadSamplePacket(const LoadSample& sample, Buffer* out) {
  namespace f = fields::LoadSample;
  PacketScope scope(out, fields::Packet::kLoadSample);
  scope.writer.UInt(f::kTicks, sample.ticks);
  scope.writer.UInt(f::kCpuNs, sample.cpu_ns);
  scope.writer.UInt(f::kWaitingNs, sample.waiting_ns);
  scope.writer.UInt(f::kThreads, sample.threads);
  scope.writer.UInt(f::kRunnable, sample.runnable);
  scope.writer.UInt(f::kProcessors, sample.processors);
  scope.writer.UInt(f::kPageFaults, sample.page_faults);
  scope.writer.UInt(f::kSystemNs, sample.system_ns);
  scope.writer.UInt(f::kResidentBytes, sample.resident_bytes);
  scope.writer.UInt(f::kPageFaultNs, sample.page_fault_ns);
  scope.writer.UInt(f::kThrottledNs, sample.throttled_ns);
  scope.writer.UInt(f::kFrequencyMhz, sample.frequency_mhz);
  scope.writer.UInt(f::kFirstThreadCpuNs, sample.first_thread_cpu_ns);
}

void WriteThreadPacket(uint32_t thread_id, uint32_t tid, uint64_t handle, const char* name, uint64_t ended_ticks,
                       Buffer* out) {
  namespace f = fields::ThreadInfo;
  PacketScope scope(out, fields::Packet::kThread);
  scope.writer.UInt(f::kThreadId, thread_id);
  scope.writer.UInt(f::kTid, tid);
  scope.writer.Text(f::kName, name, strnlen(name, sizeof(ThreadRecord::name)));
  scope.writer.UInt(f::kEndedTicks, ended_ticks);
  scope.writer.UInt(f::kHandle, handle);
}

void WriteProfilePacket(const ProfileRecord& record, Buffer* out) {
  namespace f = fields::CompilerProfile;
  PacketScope scope(out, fields::Packet::kCompilerProfile);
  scope.writer.UInt(f::kKind, static_cast<uint32_t>(record.kind));
  scope.writer.UInt(f::kNumber, record.number);
  scope.writer.UInt(f::kTotalBytes, record.total_bytes);
  scope.writer.UInt(f::kOffset, record.offset);
  scope.writer.Bytes(f::kData, &record + 1, record.text_bytes);
  scope.writer.UInt(f::kStartTicks, record.start_ticks);
  scope.writer.UInt(f::kEndTicks, record.end_ticks);
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
  namespace f = fields::Capability;
  const char* text = reinterpret_cast<const char*>(&record + 1);
  TextSpan parts[3] = {};  // name, object, reason
  size_t at = 0;
  for (TextSpan& part : parts) {
    if (at >= record.text_bytes) break;
    part = {text + at, strnlen(text + at, record.text_bytes - at)};
    at += part.size + 1;
  }
  PacketScope scope(out, fields::Packet::kCapability);
  scope.writer.Text(f::kName, parts[0].data, parts[0].size);
  scope.writer.UInt(f::kState, record.value);
  scope.writer.Text(f::kObject, parts[1].data, parts[1].size);
  scope.writer.Text(f::kReason, parts[2].data, parts[2].size);
  scope.writer.UInt(f::kTicks, record.ticks);
}

void WriteCaptureStatePacket(bool recording, uint64_t ticks, Buffer* out) {
  namespace f = fields::CaptureState;
  PacketScope scope(out, fields::Packet::kCaptureState);
  scope.writer.UInt(f::kRecording, recording);
  scope.writer.UInt(f::kTicks, ticks);
}

void WriteLossPacket(const LossDescription& loss, Buffer* out) {
  namespace f = fields::Loss;
  PacketScope scope(out, fields::Packet::kLoss);
  scope.writer.UInt(f::kReason, static_cast<uint32_t>(loss.reason));
  scope.writer.UInt(f::kThreadId, loss.thread_id);
  scope.writer.UInt(f::kCalls, loss.calls);
  scope.writer.UInt(f::kBytes, loss.bytes);
  scope.writer.String(f::kDetail, loss.detail);
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
  constexpr uint32_t kNumbers = 1u << f::kKind | 1u << f::kIsBackward | 1u << f::kLine | 1u << f::kCompileNs |
                                1u << f::kCount | 1u << f::kPart | 1u << f::kByOrder;
  PacketScope scope(out, fields::Packet::kCompiledCode);
  auto text = reinterpret_cast<const char*>(&record + 1);
  const char* end = text + record.text_bytes;
  for (uint32_t field = f::kKind; field <= f::kByOrder && text < end; ++field) {
    size_t length = strnlen(text, static_cast<size_t>(end - text));
    uint64_t number = 0;
    if ((kNumbers & 1u << field) == 0) {
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
  namespace f = fields::InternedString;
  PacketWriter writer(out);
  size_t string = writer.Begin(fields::Interned::kString);
  writer.UInt(f::kIid, iid);
  writer.Text(f::kValue, text, size);
  writer.End(string);
}

void WriteResetPacket(ResetReason reason, Buffer* out) {
  PacketScope scope(out, fields::Packet::kReset);
  scope.writer.UInt(fields::Reset::kReason, static_cast<uint32_t>(reason));
}

void WriteFooterPacket(uint32_t end, uint64_t end_ticks, uint64_t calls, Buffer* out) {
  namespace f = fields::Footer;
  PacketScope scope(out, fields::Packet::kFooter);
  scope.writer.UInt(f::kEnd, end);
  scope.writer.UInt(f::kEndTicks, end_ticks);
  scope.writer.UInt(f::kCalls, calls);
}

void WriteCallDefinition(uint32_t iid, const CallRecord& record, const DefinitionSource& definitions, Buffer* out) {
  namespace f = fields::OpDefinition;
  PacketWriter writer(out);
  size_t op = writer.Begin(fields::Interned::kOp);
  writer.UInt(f::kIid, iid);
  bool known = record.header.hook < kHookCount;
  writer.String(f::kFunction, known ? kHookNames[record.header.hook].name : "?");
  writer.String(f::kFamily, known ? kFamilyNames[kHookNames[record.header.hook].family] : "?");
  writer.UInt(f::kTimeSource, static_cast<uint32_t>(fields::TimeSource::kClockTicks));
  writer.UInt(f::kAddressCount, record.header.address_count);
  bool is_gemm = record.header.type == RecordType::kGemmCall && record.header.shape_words >= kGemmShapeWords;
  bool is_matrix = record.header.type == RecordType::kMatrixCall && record.header.shape_words >= kMatrixShapeWords;
  if (is_gemm) WriteGemm(record, &writer);
  if (is_matrix) WriteMatrix(record, &writer);
  if (!is_gemm && !is_matrix) WriteCudaShape(record, definitions, &writer);
  writer.End(op);
}

void WriteTapDefinition(uint32_t iid, const TapLine& line, const char* version, Buffer* out) {
  namespace f = fields::OpDefinition;
  PacketWriter writer(out);
  size_t op = writer.Begin(fields::Interned::kOp);
  writer.UInt(f::kIid, iid);
  bool is_execution = line.fields[kOperation].size >= 4 && memcmp(line.fields[kOperation].data, "exec", 4) == 0;
  writer.String(f::kFunction, is_execution ? "onednn:exec" : "onednn:create");
  writer.String(f::kFamily, "onednn");
  writer.UInt(f::kTimeSource, static_cast<uint32_t>(fields::TimeSource::kOnednnLog));
  size_t onednn = writer.Begin(f::kOnednn);
  for (uint32_t i = 0; i < kOneDnnFieldCount; ++i)
    writer.Text(kOneDnnNumbers[i], line.fields[i].data, line.fields[i].size);
  writer.String(fields::OneDnn::kVersion, version);
  writer.End(onednn);
  writer.End(op);
}

}  // namespace dlhook::inline drain
