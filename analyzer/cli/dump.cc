// `dlhook dump`: the packets of a run as text, one trace::Trace message, for people and golden tests.
#include <google/protobuf/text_format.h>

#include "analyzer/cli/output.h"
#include "analyzer/import/imported_traces.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/render/escape.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// OutOfRange: the reader has gone.
absl::Status DumpPackets(PacketReader* reader) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  trace::Trace trace;
  trace::Packet* packet = trace.add_packet();
  while (reader->Next()) {
    if (!reader->Parse(reader->payload(), packet)) continue;
    std::string printed;
    printer.PrintToString(trace, &printed);
    text += EscapedTextproto(printed);
    if (text.size() < kBufferBytes) continue;
    RETURN_IF_ERROR(WriteOutput(text));
    text.clear();
  }
  return WriteOutput(text);
}

// Writes one process trace; errors go to `damage`.
absl::Status DumpTrace(const std::string& path, absl::Status* damage) {
  if (IsOthersTrace(path)) {
    const absl::StatusOr<std::vector<ImportedTrace>> imported = ImportTraces(path);
    *damage = imported.ok() ? imported->front().damage : imported.status();
    if (!imported.ok()) return absl::OkStatus();
    for (const ImportedTrace& trace : *imported) {
      PacketReader reader(path, {ByteChunk(trace.packets)});
      RETURN_IF_ERROR(DumpPackets(&reader));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<TraceBytes> trace = TraceBytes::Open(path, DrainLeftoverRings);
  if (!trace.ok()) {
    *damage = trace.status();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(WriteOutput(absl::StrCat("# file: ", VisibleText(BaseName(path)), "\n")));
  PacketReader reader(path, trace->chunks());
  const absl::Status status = DumpPackets(&reader);
  *damage = reader.status().ok() ? trace->leftover_status() : reader.status();
  return status;
}

absl::StatusOr<int> RunDump(const Args& args) {
  ASSIGN_OR_RETURN(const RunFiles files, FindRun(args.operands().front()));
  int exit_code = kExitOk;
  for (const std::string& path : files.paths) {
    absl::Status damage;
    const absl::Status status = DumpTrace(path, &damage);
    if (absl::IsOutOfRange(status)) return kExitOk;
    for (const absl::Status& error : {status, damage}) {
      if (error.ok()) continue;
      PrintError(error.message());
      exit_code = kExitBadInput;
    }
    if (!status.ok()) break;
  }
  return exit_code;
}

}  // namespace

Command DumpCommand() {
  return {.name = "dump",
          .summary = "print the packets of a run as textproto",
          .operands = "RUN",
          .flags = {},
          .examples = {{"dlhook dump RUN | less", "everything that was recorded, as text"}},
          .operand_count = {1, 1},
          .run = RunDump};
}

}  // namespace dlhook::analyzer::cli
