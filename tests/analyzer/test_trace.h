// Traces for tests, written as textproto or built in memory, without files unless requested.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer {

// Textproto of a trace::Trace. A syntax error fails the test.
trace::Trace ParseTrace(const std::string& textproto);

// The bytes of a trace file.
std::string TraceBytesOf(const std::string& textproto);
std::string TraceBytesOf(const trace::Trace& trace);

// A header on CLOCK_MONOTONIC, where ticks are nanoseconds; `process` is added to its Process.
std::string HeaderText(const std::string& process = "");

// op { … } of ops 1 "outer" and 2 "inner", hooks with ticks, and 3 "onednn:exec", a tap.
std::string OpsText();

// One trace -> model. Damage fails the test.
TraceModel LoadText(const std::string& textproto);

// Several traces of one run, by file name. Damage fails the test.
TraceModel LoadTexts(const std::map<std::string, std::string>& textprotos);

// How often an oddity whose sentence contains `words` occurred.
int64_t OddityCount(const TraceModel& model, const std::string& words);

// A folder that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  // Returns the path of the new file.
  std::string Write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

}  // namespace dlhook::analyzer
