// GPU kernels, distinct over the run, with demangled names.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/python_builder.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

class GpuKernelTable {
 public:
  GpuKernelTable(TraceModel* model, NameTable* names) : model_(model), names_(names) {}

  // `mangled`: its name; kNone: not known.
  GpuKernelIndex Kernel(const trace::InternedGpuKernel& kernel, NameIndex mangled);

 private:
  struct Names {
    NameIndex name = kNone;
    NameIndex short_name = kNone;
  };
  Names NamesOf(NameIndex mangled);

  TraceModel* model_;
  NameTable* names_;
  absl::flat_hash_map<NameIndex, Names> by_mangled_;
  absl::flat_hash_map<std::string, GpuKernelIndex> kernels_;  // by definition, with the name's index as id
};

}  // namespace dlhook::analyzer::reader
