// The drain over rings of a host that scribbles, with drains that take over and outputs that fail. Whatever the rings
// contain, the output is a trace, not much larger than the input; and no call of a host that keeps to the format is
// missing.
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/io/packet_reader.h"
#include "preload/drain/drain.h"
#include "proto/trace.pb.h"
#include "tests/fuzz/hostile_session.h"
#include "tests/fuzz/input.h"

namespace dlhook {
namespace {

constexpr size_t kMostBytes = 32 << 20;  // of a trace of at most 400 records

// Memory that may be full or unavailable.
class FuzzSink final : public ByteSink {
 public:
  WriteResult Write(const char* data, size_t size, bool) override {
    const WriteResult result = next;
    next = WriteResult::kOk;
    if (result == WriteResult::kOk) {
      bytes.append(data, size);
      Require(bytes.size() <= kMostBytes, "a drain writes not much more than it was given");
    } else {
      has_failed = true;
      error_ = ENOSPC;
      if (result == WriteResult::kGone) bytes.clear();
    }
    return result;
  }
  bool Truncate(uint64_t size) override {
    if (size > bytes.size()) return false;
    bytes.resize(size);
    return true;
  }

  std::string bytes;
  WriteResult next = WriteResult::kOk;
  bool has_failed = false;
};

uint64_t CheckTrace(absl::string_view bytes) {
  analyzer::PacketReader reader("drained", {bytes});
  trace::Packet packet;
  uint64_t calls = 0;
  while (reader.Next()) {
    Require(reader.Parse(reader.payload(), &packet), "the drain writes packets that can be parsed");
    if (packet.has_call_batch()) calls += static_cast<uint64_t>(packet.call_batch().op_iid_size());
    if (packet.has_call_aggregate()) calls += packet.call_aggregate().count();
  }
  Require(reader.status().ok(), "the drain writes whole packets");
  return calls;
}

void DrainHostile(Input* input) {
  HostileSession host(input);
  SessionHeader* header = host.session()->header();
  const uint8_t options = input->Byte();
  if (options % 8 == 0) header->trace_bytes_limit = 4096u * (options / 8);
  FuzzSink sink;
  auto drain = std::make_unique<Drain>();
  bool is_open = drain->Open(header, host.session()->bytes(), &sink);
  host.Play([&](uint8_t choice) {
    if (choice % 16 == 0) sink.next = choice % 32 == 0 ? WriteResult::kFailed : WriteResult::kGone;
    if (choice % 16 == 1) {  // another one takes over
      drain = std::make_unique<Drain>();
      is_open = drain->Open(header, host.session()->bytes(), &sink);
    }
    if (is_open) drain->Step(choice % 2 == 0, false);
  });
  if (!is_open) return;
  sink.next = WriteResult::kOk;
  drain->Finish(options % 2 == 0 ? ProcessEnd::kVanished : ProcessEnd::kExited, false);
  const uint64_t calls = CheckTrace(sink.bytes);
  if (!host.is_scribbled() && !sink.has_failed) Require(calls == host.calls(), "no committed call is missing");
}

}  // namespace
}  // namespace dlhook

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlhook::Input input(data, size);
  dlhook::DrainHostile(&input);
  return 0;
}
