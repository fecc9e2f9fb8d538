// The text of lines of the program.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline work {

class SourceLines {
 public:
  explicit SourceLines(const TraceModel& model);

  // Of "train.py:42" or "train.py:42 to 45": {"42: x = f(y)", …}, with at most two of the lines that run after the first one
  // and, around a loop or into a function further up, four before the last one; `in_loop`: of one line, too. Empty if the
  // file is not known, is not here, was changed after the run began, is no *.py of this user or root, or if several files
  // have this name.
  std::vector<std::string> Of(absl::string_view label, bool in_loop = false) const;

  // The same lines, all of them, and those of functions of this file that they call, and that these call. Without branches
  // (if, elif, else) of which no line is on a recorded stack where another branch has one; behind lines of branches of which
  // nothing is known stands kOpenBranch.
  // `in_function`: of the whole function around the label's first line.
  std::string CodeOf(absl::string_view label, bool in_loop = false, bool in_function = false) const;
  static constexpr absl::string_view kOpenBranch = "  # if this branch runs";

  // Whether both lines are in one loop of one function.
  bool AreInOneLoop(absl::string_view label) const;

 private:
  // The text of its file, and its lines; false: as above.
  bool Find(absl::string_view label, std::string& text, size_t& first, size_t& last) const;

  std::map<std::string, std::set<std::string>> paths_;  // by name without folder
  std::map<std::string, std::set<size_t>> ran_;         // lines on recorded stacks, by path
  int64_t began_s_ = 0;                                 // by CLOCK_REALTIME; 0: not known
};

}  // namespace dlhook::analyzer::work
