// The formats and weights of `dlhook export`.
#include "analyzer/export/exporter.h"

namespace dlhook::analyzer::inline exports {

const std::vector<Exporter>& Exporters() {
  static const auto& kExporters = *new std::vector<Exporter>{
      {"folded", "one line per stack, for flame graphs: flamegraph.pl, inferno, speedscope", false, ExportFolded},
      {"pprof", "profile.proto, gzipped: pprof, go tool pprof (also -dot), speedscope", true, ExportPprof},
      {"callgrind", "for callgrind_annotate and KCachegrind", false, ExportCallgrind},
      {"perfetto", "a timeline for ui.perfetto.dev and trace_processor", true, nullptr, ExportPerfetto},
      {"chrome", "the same timeline as JSON, for chrome://tracing, Perfetto and others", false, nullptr, ExportChrome},
      {"sqlite", "a database: the tables of the report, every call and scope, and views", true, nullptr, nullptr,
       ExportSqlite},
      {"parquet", "the same tables as a folder of Parquet files, by pyarrow", true, nullptr, nullptr, ExportParquet,
       true},
  };
  return kExporters;
}

const std::vector<WeightWord>& WeightWords() {
  static const auto& kWeightWords = *new std::vector<WeightWord>{
      {"time", "ns", "time: a part of the steps' wall time, of library calls alone thread time", Weight::kTime},
      {"calls", "count", "number of calls", Weight::kCalls},
      {"flops", "count", "floating-point operations, by the textbook count", Weight::kFlops},
      {"bytes", "bytes", "operands read and written once", Weight::kBytes},
      {"gpu_time", "ns", "GPU time: of kernels and copies in the steps, divided among those that overlap",
       Weight::kGpuTime},
  };
  return kWeightWords;
}

}  // namespace dlhook::analyzer::exports
