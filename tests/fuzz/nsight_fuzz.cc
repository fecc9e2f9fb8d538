// A file of another tool: an SQLite database -> ImportNsight -> TraceBuilder -> model.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "analyzer/import/nsight/nsight_import.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlhook::analyzer;
  static const std::string path = "nsight_fuzz." + std::to_string(getpid());  // SQLite asks for a file with a name
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  dlhook::Require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "the input is there");
  close(file);
  const absl::StatusOr<std::vector<ImportedTrace>> imported = ImportNsight(path);
  unlink(path.c_str());
  dlhook::Require(imported.ok() || !imported.status().message().empty(), "a refusal says why");
  if (!imported.ok()) return 0;
  for (const ImportedTrace& trace : *imported) {
    TraceBuilder builder("t");
    dlhook::Require(builder.AddTrace(path, {ByteChunk(trace.packets)}).ok(), "what is imported can be read");
    const TraceModel model = std::move(builder).Build();
    for (const CallIndex call : model.gpu.call)
      dlhook::Require(call == kNone || call < model.calls.size(), "work is of a call");
  }
  return 0;
}
