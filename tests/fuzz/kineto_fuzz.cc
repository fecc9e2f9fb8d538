// A file of another tool: bytes -> ImportKineto -> TraceBuilder -> model.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlhook::analyzer;
  static const int file = memfd_create("kineto", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  dlhook::Require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
                  "the input is there");
  const absl::StatusOr<ImportedTrace> imported = ImportKineto(path);
  dlhook::Require(imported.ok() || !imported.status().message().empty(), "a refusal says why");
  if (!imported.ok()) return 0;
  TraceBuilder builder("t");
  dlhook::Require(builder.AddTrace(path, {ByteChunk(imported->packets)}).ok(), "what is imported can be read");
  const TraceModel model = std::move(builder).Build();
  for (const CallIndex call : model.gpu.call)
    dlhook::Require(call == kNone || call < model.calls.size(), "work is of a call");
  return 0;
}
