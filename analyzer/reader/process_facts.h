// What a process trace says of its process as a whole: header, mapped files, what could be recorded, what was lost.
#pragma once

#include <map>

#include "analyzer/model/process_info.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

constexpr uint64_t kMaxCounted = uint64_t{1} << 40;  // calls or bytes of one row; far more than any real trace has

struct ProcessFacts {
  void Add(const trace::Header& told);
  void Add(const trace::Mapping& mapping);
  void Add(const trace::Capability& capability);
  void Add(const trace::Loss& loss);

  ProcessInfo process;
  trace::Header header;

 private:
  bool has_header_ = false;
  std::map<std::pair<std::string, std::string>, size_t> capability_index_;  // by name and object
  std::map<std::tuple<int, uint32_t, std::string>, size_t> loss_index_;
};

}  // namespace dlhook::analyzer::reader
