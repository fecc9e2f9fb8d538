// A line of oneDNN's log, possibly mangled by a program's stdout, from the drain's splitting to an op in words: all
// formats from 1.x to 3.x, with the library's own template line or without.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "analyzer/calls/op_labels.h"
#include "analyzer/ops/decode_op.h"
#include "preload/drain/describe.h"
#include "preload/format/tap_line.h"
#include "proto/trace.pb.h"
#include "tests/fuzz/input.h"

namespace dlhook {
namespace {

const char* const kTemplates[] = {
    "",
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,"
    "problem_desc,exec_time",
    "timestamp,operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,"
    "auxiliary,problem_desc,"
    "exec_time",
    "operation,primitive,implementation,prop_kind,problem_desc,exec_time",
    "engine,exec_time,operation",
    ",,,",
};
constexpr size_t kTemplateCount = sizeof kTemplates / sizeof kTemplates[0];

void CheckSpan(TextSpan span, const char* text, size_t size) {
  if (span.size == 0) return;
  const bool is_inside = span.data >= text && span.size <= size && span.data + span.size <= text + size;
  Require(is_inside, "a field is part of its line");
}

void CheckOp(const TapLine& line) {
  Buffer out;
  WriteTapDefinition(1, line, "v3.7.1", &out);
  trace::Interned interned;
  Require(interned.ParseFromArray(out.data(), static_cast<int>(out.size())) && interned.op_size() == 1,
          "a line becomes a definition that can be parsed");
  const analyzer::Op op = analyzer::DecodeOp(interned.op(0));
  Require(!op.kind.empty(), "every op has a kind");
  Require(op.flops.value_or(0) >= 0 && op.bytes.value_or(0) >= 0, "no op costs less than nothing");
  analyzer::ProblemLabel(op);
  analyzer::KindLabel(op);
  analyzer::FormatsLabel(op);
}

void ReadLine(Input* input) {
  const uint8_t choice = input->Byte();
  std::string fields = choice % 8 < kTemplateCount ? kTemplates[choice % 8] : "";
  if (choice % 8 == 7) fields = input->Bytes(input->Byte());
  fields = fields.c_str();  // as a library's template would be
  const std::string bytes = input->Rest();
  const auto text = std::make_unique<char[]>(bytes.size());  // nothing after its end
  memcpy(text.get(), bytes.data(), bytes.size());
  const TapLine identity = ParseTapLine(text.get(), bytes.size(), nullptr);
  const TapLine line = ParseTapLine(text.get(), bytes.size(), fields.c_str());
  Require(line.is_call == identity.is_call && line.duration_ns == identity.duration_ns, "both ways see the same call");
  CheckSpan(line.identity, text.get(), bytes.size());
  for (const TextSpan& field : line.fields) CheckSpan(field, text.get(), bytes.size());
  if (line.is_call) CheckOp(line);
}

}  // namespace
}  // namespace dlhook

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlhook::Input input(data, size);
  dlhook::ReadLine(&input);
  return 0;
}
