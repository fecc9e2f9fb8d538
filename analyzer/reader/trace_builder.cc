#include "analyzer/reader/trace_builder.h"

#include "analyzer/io/packet_reader.h"
#include "analyzer/ops/decode_op.h"
#include "analyzer/reader/process_builder.h"

namespace dlhook::analyzer::inline reader {

constexpr uint64_t kProgressBytes = 4 << 20;

absl::Status TraceBuilder::AddTrace(const std::string& path, std::vector<ByteChunk> chunks,
                                    const ReadProgress& progress, ReadParts parts) {
  PacketReader reader(path, std::move(chunks));
  ProcessBuilder process(this, path, std::move(parts));
  bool has_packets = false;
  uint64_t next_report = kProgressBytes;
  while (reader.Next()) {
    has_packets = true;
    process.Add(&reader);
    if (progress && reader.bytes_read() >= next_report) {
      progress(reader.bytes_read());
      next_report = reader.bytes_read() + kProgressBytes;
    }
  }
  if (has_packets) process.Finish();
  return reader.status();
}

OpIndex TraceBuilder::InternOp(trace::OpDefinition definition) {
  definition.clear_iid();
  const auto [place, is_new] =
      op_by_definition_.emplace(definition.SerializeAsString(), static_cast<OpIndex>(model_.ops.size()));
  if (is_new) {
    model_.ops.push_back(DecodeOp(definition));
    const std::string& trouble = model_.ops.back().trouble;
    if (!trouble.empty()) oddities_.Count(trouble);
  }
  return place->second;
}

void TraceBuilder::PlaceOnAxis(ProcessInfo* process, ClockMap* clock, int64_t start_ns) {
  if (model_.processes.empty()) {
    has_axis_ = clock->has_axis();
    axis_boot_id_ = process->boot_id;
    axis_realtime_offset_ns_ = clock->realtime_offset_ns();
  }
  process->realtime_offset_ns = axis_realtime_offset_ns_;
  const bool shares_clock = has_axis_ && clock->has_axis();
  if (model_.processes.empty() || (shares_clock && process->boot_id == axis_boot_id_)) return;
  if (shares_clock && clock->realtime_offset_ns() && axis_realtime_offset_ns_) {
    clock->Shift(*clock->realtime_offset_ns() - *axis_realtime_offset_ns_);
    return;
  }
  process->realtime_offset_ns.reset();
  oddities_.Count(absl::StrCat("a process trace without a clock sample: it is shown as if it began with the run"));
  clock->Shift(model_.processes.front().start_ns - start_ns);
}

TraceModel TraceBuilder::Build() && {
  if (!model_.processes.empty()) {
    model_.start_ns = INT64_MAX;
    model_.end_ns = INT64_MIN;
  }
  for (const ProcessInfo& process : model_.processes) {
    model_.start_ns = std::min(model_.start_ns, process.start_ns);
    model_.end_ns = std::max(model_.end_ns, process.end_ns);
  }
  for (std::vector<uint32_t>* column : {&model_.calls.scope, &model_.calls.native_stack}) {
    if (!column->empty()) column->resize(model_.calls.size(), kNone);
  }
  FinishGpuColumns(&model_);
  model_.oddities = std::move(oddities_).Take();
  return std::move(model_);
}

}  // namespace dlhook::analyzer::reader
