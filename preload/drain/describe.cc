// Encoding of describing packets; field numbers are those of proto/*.proto.
#include "preload/drain/describe.h"

#include "preload/drain/describe_cuda.h"
#include "preload/format/hook_table.h"

namespace dlhook {
namespace {

// Packet field numbers (trace.proto).
enum PacketField : uint32_t {
  kInterned = 2, kClockSamplePacket = 3, kHeader = 8, kThread = 9, kMappingPacket = 10, kCapabilityPacket = 11,
  kLossPacket = 12, kReset = 13, kCaptureStatePacket = 14, kFooter = 15, kLoadSamplePacket = 21
};

// Writes one packet: PacketScope scope(out, kThread); scope.writer.UInt(…);
struct PacketScope {
  PacketScope(Buffer* out, PacketField field) : writer(out), packet(writer.Begin(1)), message(writer.Begin(field)) {}
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
  size_t process = writer->Begin(4);
  writer->UInt(1, session.pid);
  writer->UInt(2, session.parent_pid);
  writer->UInt(3, session.start_time_jiffies);
  WriteBounded(writer, 4, session.boot_id);
  WriteBounded(writer, 5, session.host);
  WriteBounded(writer, 6, session.program);
  WriteBounded(writer, 7, session.script);
  writer->UInt(8, session.shim_loaded_ticks);
  writer->End(process);
}

void WriteClock(const SessionHeader& session, PacketWriter* writer) {
  size_t clock = writer->Begin(5);
  writer->UInt(1, session.clock_kind);
  writer->UInt(2, session.ticks_per_second);
  WriteBounded(writer, 3, session.clock_fallback_reason);
  writer->End(clock);
}

void WriteRankVariables(const SessionHeader& session, PacketWriter* writer) {
  for (uint32_t i = 0; i < session.rank_variable_count && i < kMaxRankVariables; ++i) {
    size_t variable = writer->Begin(6);
    WriteBounded(writer, 1, session.rank_variables[i].name);
    WriteBounded(writer, 2, session.rank_variables[i].value);
    writer->End(variable);
  }
}

void WriteSettings(const SessionHeader& session, PacketWriter* writer) {
  for (uint32_t i = 0; i < session.setting_count && i < kMaxSettings; ++i) {
    size_t setting = writer->Begin(12);
    WriteBounded(writer, 1, session.settings[i].name);
    WriteBounded(writer, 2, session.settings[i].value);
    writer->End(setting);
  }
  writer->UInt(13, session.processors);
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
  writer->Text(7, text, size);
}

void WriteGemm(const CallRecord& record, PacketWriter* writer) {
  GemmShape shape;
  const char* words = reinterpret_cast<const char*>(&record + 1);
  memcpy(&shape, words, sizeof shape);
  size_t gemm = writer->Begin(6);
  WriteGemmFields(shape, writer);
  if (record.header.shape_words >= kGroupedGemmShapeWords) {
    GemmGroups groups;
    memcpy(&groups, words + sizeof shape, sizeof groups);
    writer->Int(15, groups.groups);
    writer->UInt(16, groups.flops);
  }
  writer->End(gemm);
}

void WriteMatrix(const CallRecord& record, PacketWriter* writer) {
  MatrixShape shape;
  memcpy(&shape, &record + 1, sizeof shape);
  size_t matrix = writer->Begin(8);
  writer->UInt(1, static_cast<uint32_t>(shape.kind));
  writer->UInt(2, static_cast<uint32_t>(shape.type));
  writer->UInt(3, shape.row_major);
  writer->Char(4, shape.side);
  writer->Char(5, shape.uplo);
  writer->Char(6, shape.trans);
  writer->Char(7, shape.diag);
  const int64_t sizes[] = {shape.m, shape.n, shape.k, shape.lda, shape.ldb, shape.ldc, shape.batch};
  for (uint32_t i = 0; i < 7; ++i) writer->Int(8 + i, sizes[i]);
  CudaMatrixShape cuda = {};
  if (record.header.shape_words >= kCudaMatrixShapeWords) {
    memcpy(&cuda, reinterpret_cast<const char*>(&record + 1) + sizeof shape, sizeof cuda);
    writer->Char(15, cuda.trans_b);
    writer->UInt(16, cuda.order_a);
    writer->UInt(17, cuda.order_c);
    writer->UInt(18, static_cast<uint32_t>(cuda.c_type));
    writer->Int(19, cuda.nonzeros);
  }
  writer->End(matrix);
  writer->UInt(15, cuda.captured);  // OpDefinition.captured
}

constexpr uint32_t kSourceClock = 1;
constexpr uint32_t kSourceOneDnnLog = 2;

}  // namespace

void WriteGemmFields(const GemmShape& shape, PacketWriter* writer) {
  writer->UInt(1, static_cast<uint32_t>(shape.a_type));
  writer->UInt(2, static_cast<uint32_t>(shape.b_type));
  writer->UInt(3, static_cast<uint32_t>(shape.c_type));
  writer->UInt(4, shape.row_major);
  writer->Char(5, shape.trans_a);
  writer->Char(6, shape.trans_b);
  const int64_t sizes[] = {shape.m, shape.n, shape.k, shape.lda, shape.ldb, shape.ldc, shape.batch};
  for (uint32_t i = 0; i < 7; ++i) writer->Int(7 + i, sizes[i]);
  writer->UInt(14, static_cast<uint32_t>(shape.kind));
}

void WriteHeaderPacket(const SessionHeader& session, Buffer* out) {
  PacketScope scope(out, kHeader);
  PacketWriter& writer = scope.writer;
  writer.UInt(1, kSchemaMajor);
  writer.UInt(2, kSchemaMinor);
  WriteBounded(&writer, 3, session.tool_version);
  WriteProcess(session, &writer);
  WriteClock(session, &writer);
  WriteRankVariables(session, &writer);
  WriteFamilies(session.configured_families, &writer);
  WriteBounded(&writer, 8, session.run_key);
  WriteBounded(&writer, 9, session.requested_output);
  WriteBounded(&writer, 10, session.output_refusal);
  writer.UInt(11, session.trace_bytes_limit);
  WriteSettings(session, &writer);
}

void WriteClockSamplePacket(const ClockSample& sample, Buffer* out) {
  PacketScope scope(out, kClockSamplePacket);
  scope.writer.UInt(1, sample.ticks);
  scope.writer.UInt(2, sample.monotonic_ns);
  scope.writer.UInt(3, sample.realtime_ns);
  scope.writer.UInt(4, sample.uncertainty_ticks & 0xffffffff);
}

void WriteLoadSamplePacket(const LoadSample& sample, Buffer* out) {
  PacketScope scope(out, kLoadSamplePacket);
  scope.writer.UInt(1, sample.ticks);
  scope.writer.UInt(2, sample.cpu_ns);
  scope.writer.UInt(3, sample.waiting_ns);
  scope.writer.UInt(4, sample.threads);
  scope.writer.UInt(5, sample.runnable);
  scope.writer.UInt(6, sample.processors);
}

void WriteThreadPacket(uint32_t thread_id, uint32_t tid, const char* name, uint64_t ended_ticks, Buffer* out) {
  PacketScope scope(out, kThread);
  scope.writer.UInt(1, thread_id);
  scope.writer.UInt(2, tid);
  scope.writer.Text(3, name, strnlen(name, sizeof(ThreadRecord::name)));
  scope.writer.UInt(4, ended_ticks);
}

void WriteMappingPacket(const MappingRecord& record, Buffer* out) {
  PacketScope scope(out, kMappingPacket);
  const char* path = reinterpret_cast<const char*>(&record + 1);
  size_t path_bytes = strnlen(path, record.text_bytes);
  scope.writer.UInt(1, record.start);
  scope.writer.UInt(2, record.end);
  scope.writer.Text(3, path, path_bytes);
  uint32_t build_id_bytes = record.build_id_bytes <= sizeof record.build_id ? record.build_id_bytes : 0;
  scope.writer.Bytes(4, record.build_id, build_id_bytes);
  scope.writer.UInt(5, record.role);
  if (path_bytes + 1 < record.text_bytes) {
    scope.writer.Text(6, path + path_bytes + 1, strnlen(path + path_bytes + 1, record.text_bytes - path_bytes - 1));
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
  PacketScope scope(out, kCapabilityPacket);
  scope.writer.Text(1, parts[0].data, parts[0].size);
  scope.writer.UInt(2, record.value);
  scope.writer.Text(3, parts[1].data, parts[1].size);
  scope.writer.Text(4, parts[2].data, parts[2].size);
  scope.writer.UInt(5, record.ticks);
}

void WriteCaptureStatePacket(bool recording, uint64_t ticks, Buffer* out) {
  PacketScope scope(out, kCaptureStatePacket);
  scope.writer.UInt(1, recording);
  scope.writer.UInt(2, ticks);
}

void WriteLossPacket(const LossDescription& loss, Buffer* out) {
  PacketScope scope(out, kLossPacket);
  scope.writer.UInt(1, loss.reason);
  scope.writer.UInt(2, loss.thread_id);
  scope.writer.UInt(3, loss.calls);
  scope.writer.UInt(4, loss.bytes);
  scope.writer.String(5, loss.detail);
}

// The texts end with a NUL each; of the last one it may be missing.
void WritePythonModulePacket(const PythonModuleRecord& record, Buffer* out) {
  PacketWriter writer(out);
  size_t packet = writer.Begin(1);
  size_t module = writer.Begin(16);
  writer.UInt(1, record.object);
  auto text = reinterpret_cast<const char*>(&record + 1);
  const char* end = text + record.text_bytes;
  size_t length = strnlen(text, record.text_bytes);
  writer.Text(2, text, length);
  writer.UInt(3, record.root);
  for (text += length + 1; text < end; text += length + 1) {
    length = strnlen(text, static_cast<size_t>(end - text));
    writer.RepeatedText(4, text, length);
  }
  writer.UInt(5, record.parent);
  writer.End(module);
  writer.End(packet);
}

void WriteStringDefinition(uint32_t iid, const char* text, size_t size, Buffer* out) {
  PacketWriter writer(out);
  size_t string = writer.Begin(1);  // Interned.string
  writer.UInt(1, iid);
  writer.Text(2, text, size);
  writer.End(string);
}

void WriteResetPacket(uint32_t reason, Buffer* out) {
  PacketScope scope(out, kReset);
  scope.writer.UInt(1, reason);
}

void WriteFooterPacket(uint32_t end, uint64_t end_ticks, uint64_t calls, Buffer* out) {
  PacketScope scope(out, kFooter);
  scope.writer.UInt(1, end);
  scope.writer.UInt(2, end_ticks);
  scope.writer.UInt(3, calls);
}

void WriteCallDefinition(uint32_t iid, const CallRecord& record, const DefinitionSource& definitions, Buffer* out) {
  PacketWriter writer(out);
  size_t op = writer.Begin(2);  // Interned.op
  writer.UInt(1, iid);
  bool known = record.header.hook < kHookCount;
  writer.String(2, known ? kHookNames[record.header.hook].name : "?");
  writer.String(3, known ? kFamilyNames[kHookNames[record.header.hook].family] : "?");
  writer.UInt(4, kSourceClock);
  writer.UInt(5, record.header.address_count);
  bool is_gemm = record.header.type == RecordType::kGemmCall && record.header.shape_words >= kGemmShapeWords;
  bool is_matrix = record.header.type == RecordType::kMatrixCall && record.header.shape_words >= kMatrixShapeWords;
  if (is_gemm) WriteGemm(record, &writer);
  if (is_matrix) WriteMatrix(record, &writer);
  if (!is_gemm && !is_matrix) WriteCudaShape(record, definitions, &writer);
  writer.End(op);
}

void WriteTapDefinition(uint32_t iid, const TapLine& line, const char* version, Buffer* out) {
  PacketWriter writer(out);
  size_t op = writer.Begin(2);
  writer.UInt(1, iid);
  bool is_execution = line.fields[kOperation].size >= 4 && memcmp(line.fields[kOperation].data, "exec", 4) == 0;
  writer.String(2, is_execution ? "onednn:exec" : "onednn:create");
  writer.String(3, "onednn");
  writer.UInt(4, kSourceOneDnnLog);
  size_t onednn = writer.Begin(7);
  for (uint32_t i = 0; i < kOneDnnFieldCount; ++i) writer.Text(i + 1, line.fields[i].data, line.fields[i].size);
  writer.String(11, version);
  writer.End(onednn);
  writer.End(op);
}

}  // namespace dlhook
