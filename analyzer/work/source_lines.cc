#include "analyzer/work/source_lines.h"

#include "analyzer/io/run_folder.h"

namespace dlhook::analyzer::inline work {
namespace {

constexpr uint64_t kLongestFile = 4 << 20;
constexpr size_t kLongestStatement = 40;  // lines
constexpr size_t kMostLinesAfter = 2;     // the first one …
constexpr size_t kMostLinesBefore = 4;    // … and the last one

// Lines from 1; 0: none.
class PythonText {
 public:
  explicit PythonText(std::vector<absl::string_view> lines) : lines_(std::move(lines)) {}
  size_t count() const { return lines_.size(); }
  absl::string_view Code(size_t line) const { return absl::StripAsciiWhitespace(lines_[line - 1]); }
  bool HasCode(size_t line) const { return !Code(line).empty() && Code(line).front() != '#'; }

  // Of a line without code: any.
  size_t Indent(size_t line) const {
    const size_t indent = lines_[line - 1].find_first_not_of(" \t\r");
    return HasCode(line) && indent != absl::string_view::npos ? indent : SIZE_MAX;
  }

  static bool Loops(absl::string_view code) {
    return absl::StartsWith(code, "for ") || absl::StartsWith(code, "async for ") || absl::StartsWith(code, "while ");
  }

  // The line that defines its function; 0: it is the main code's.
  size_t FunctionOf(size_t line) const {
    return Around(line, [](absl::string_view code) {
      return absl::StartsWith(code, "def ") || absl::StartsWith(code, "async def ");
    });
  }

  // The innermost loop of its function around both lines.
  size_t LoopAround(size_t first, size_t last) const {
    const size_t function = FunctionOf(first);
    if (FunctionOf(last) != function) return 0;
    for (size_t loop = Loops(Code(last)) ? last : Around(last, Loops); loop > function; loop = Around(loop, Loops)) {
      if (loop < first && EndOfBlock(loop) >= first) return loop;
    }
    return 0;
  }

  // The last line of what begins there and goes on while brackets are open; the same if that is not found soon.
  size_t EndOfStatement(size_t begin) const {
    int64_t open = 0;
    for (size_t line = begin; line <= count() && line < begin + kLongestStatement; ++line) {
      char quote = 0;
      for (const char letter : Code(line)) {
        if (quote == 0 && letter == '#') break;
        if (letter == '"' || letter == '\'') quote = quote == 0 ? letter : quote == letter ? 0 : quote;
        if (quote == 0) open += absl::StrContains("([{", letter) ? 1 : absl::StrContains(")]}", letter) ? -1 : 0;
      }
      if (open <= 0) return line;
    }
    return begin;
  }

  // The last line with code that is further to the right than this one, behind it.
  size_t EndOfBlock(size_t line) const {
    size_t end = line;
    for (size_t next = EndOfStatement(line) + 1; next <= count() && Indent(next) > Indent(line); ++next)
      end = HasCode(next) ? next : end;
    return end;
  }

  // Lines with code that may run from the first line to the last one: behind the first, and before the last. `in_loop`: also of one
  // line.
  struct Run {
    std::vector<size_t> after, before;
  };
  Run RunOf(size_t first, size_t last, bool in_loop) const {
    const size_t function = FunctionOf(last), loop = LoopAround(first, last);
    const bool is_one_function = FunctionOf(first) == function;
    const bool goes_around = last < first || (last == first && in_loop && (loop > 0 || function > 0));
    Run run;
    if (is_one_function && last > first) {
      run.after = WithCode(EndOfStatement(first) + 1, last - 1);
    } else if (!is_one_function || goes_around) {
      run.after = WithCode(EndOfStatement(first) + 1, loop > 0 ? EndOfBlock(loop) : EndOfSuite(first));
      run.before = WithCode(loop > 0 ? loop : function + 1, last - 1);
    }
    if (!is_one_function && function == 0) run.before.clear();      // the main code, after a function
    if (!is_one_function && Loops(Code(first))) run.after.clear();  // it asks for what the loop goes over
    return run;
  }

  // The lines of this file's functions of which the code has the name and a bracket.
  std::set<size_t> CalledIn(absl::string_view code) const {
    std::set<size_t> called;
    for (size_t line = 1; line <= count(); ++line) {
      absl::string_view name = Code(line);
      if (!absl::ConsumePrefix(&name, "def ")) continue;
      name = name.substr(0, name.find('(') + 1);
      const size_t at = code.find(name);
      const bool is_word =
          at != absl::string_view::npos && (at == 0 || !(absl::ascii_isalnum(code[at - 1]) || code[at - 1] == '_'));
      if (!is_word || name.size() < 2) continue;
      for (const size_t inside : WithCode(line + 1, EndOfBlock(line))) called.insert(inside);
    }
    return called;
  }

  static bool Branches(absl::string_view code) {
    return absl::StartsWith(code, "if ") || absl::StartsWith(code, "elif ") || absl::StartsWith(code, "else:");
  }
  // "a if b else c"
  static bool Chooses(absl::string_view code) {
    return absl::StrContains(code, " if ") && absl::StrContains(code, " else ");
  }
  // Nothing: the line is in no branch, or in one with such a line. Else whether another one of its `if` has one.
  std::optional<bool> IsPassedBy(size_t line, const std::set<size_t>& ran) const {
    std::optional<bool> passed;
    const bool is_branch = Branches(Code(line)) && EndOfBlock(line) == EndOfStatement(line);  // "if a: f()"
    for (size_t head = is_branch ? line : Around(line, Branches); head > 0; head = Around(head, Branches)) {
      if (Runs(head, ran)) continue;
      size_t first = head;
      for (size_t above = head - 1; above > 0 && Code(first)[0] == 'e' && Indent(above) >= Indent(head); --above)
        first = Indent(above) == Indent(head) && Branches(Code(above)) ? above : first;
      bool has_other = false;
      for (size_t other = first; other <= count() && !has_other; other = NextWithCode(EndOfBlock(other))) {
        if (other != first && (Indent(other) != Indent(head) || !Branches(Code(other)) || Code(other)[0] == 'i')) break;
        has_other = Runs(other, ran);
      }
      passed = passed.value_or(false) || has_other;
    }
    return passed;
  }

  // The last line before one that is less to the right.
  size_t EndOfSuite(size_t line) const {
    const size_t indent = Indent(line);
    while (line < count() && Indent(line + 1) >= indent) ++line;
    return line;
  }

  std::vector<size_t> WithCode(size_t from, size_t to) const {
    std::vector<size_t> found;
    for (size_t line = from; line <= to && line <= count(); ++line) {
      if (HasCode(line)) found.push_back(line);
    }
    return found;
  }

 private:
  // Whether a line of this branch is one of these; of its condition none counts.
  bool Runs(size_t head, const std::set<size_t>& ran) const {
    const size_t end = EndOfBlock(head), begin = end > EndOfStatement(head) ? EndOfStatement(head) + 1 : head;
    const auto at = ran.lower_bound(begin);
    return at != ran.end() && *at <= end;
  }
  size_t NextWithCode(size_t line) const {
    do ++line;
    while (line <= count() && !HasCode(line));
    return line;
  }

  // The nearest line above, less to the right than all between, that is one of these.
  size_t Around(size_t of, const std::function<bool(absl::string_view)>& is_one) const {
    size_t indent = Indent(of);
    for (size_t line = of - 1; line > 0 && indent > 0; --line) {
      if (Indent(line) >= indent) continue;
      indent = Indent(line);
      if (is_one(Code(line))) return line;
    }
    return 0;
  }

  std::vector<absl::string_view> lines_;
};

}  // namespace

SourceLines::SourceLines(const TraceModel& model) {
  for (const PythonStack& stack : model.python_stacks) {
    for (const PythonFrame& frame : stack.frames) {
      const std::string& path = model.names[frame.file];
      if (absl::StartsWith(path, "/") && absl::EndsWith(path, ".py"))
        ran_[*paths_[path.substr(path.rfind('/') + 1)].insert(path).first].insert(frame.line);
    }
  }
  if (model.processes.empty()) return;
  const ProcessInfo& first = model.processes.front();
  began_s_ = first.realtime_offset_ns ? (first.start_ns + *first.realtime_offset_ns) / 1'000'000'000 : 0;
}

bool SourceLines::Find(absl::string_view label, std::string& text, size_t& first, size_t& last) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(label, ':');
  const auto paths = paths_.find(std::string(parts.front()));
  struct stat status = {};
  if (parts.size() != 2 || paths == paths_.end() || paths->second.size() != 1) return false;
  const std::string& path = *paths->second.begin();
  if (stat(path.c_str(), &status) != 0 || std::max(status.st_mtime, status.st_ctime) > began_s_) return false;
  auto read = ReadWholeFile(path, kLongestFile, FileIs::kFound);
  if (!read.ok()) return false;
  text = *std::move(read);
  const std::vector<absl::string_view> ends = absl::StrSplit(parts[1], " to ");
  if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) return false;
  const auto count = static_cast<size_t>(absl::c_count(text, '\n')) + 1;
  return std::min(first, last) > 0 && std::max(first, last) <= count;
}

bool SourceLines::AreInOneLoop(absl::string_view label) const {
  std::string text;
  size_t first = 0, last = 0;
  return Find(label, text, first, last) && PythonText(absl::StrSplit(text, '\n')).LoopAround(first, last) > 0;
}

std::vector<std::string> SourceLines::Of(absl::string_view label, bool in_loop) const {
  std::string text;
  size_t first = 0, last = 0;
  if (!Find(label, text, first, last)) return {};
  const PythonText lines(absl::StrSplit(text, '\n'));
  auto [after, before] = lines.RunOf(first, last, in_loop);
  if (last > first && before.empty() && lines.FunctionOf(first) == lines.FunctionOf(last))
    before.assign(after.begin() + static_cast<ptrdiff_t>(std::min(after.size(), kMostLinesAfter)), after.end());
  after.resize(std::min(after.size(), kMostLinesAfter));
  before.erase(before.begin(), before.end() - static_cast<ptrdiff_t>(std::min(before.size(), kMostLinesBefore)));
  std::vector<size_t> shown = {first};
  shown.insert(shown.end(), after.begin(), after.end());
  shown.insert(last == first ? shown.begin() : shown.end(), before.begin(), before.end());
  if (last != first) shown.push_back(last);
  std::vector<std::string> sources;
  for (const size_t line : shown) sources.push_back(absl::StrCat(line, ": ", lines.Code(line)));
  return sources;
}

std::string SourceLines::CodeOf(absl::string_view label, bool in_loop, bool in_function) const {
  constexpr int kDeepest = 2;
  std::string text, code;
  size_t first = 0, last = 0;
  if (!Find(label, text, first, last)) return "";
  const PythonText lines(absl::StrSplit(text, '\n'));
  const std::set<size_t>& ran = ran_.at(*paths_.at(std::string(label.substr(0, label.find(':')))).begin());
  const auto run = lines.RunOf(first, last, in_loop);
  std::set<size_t> all(run.after.begin(), run.after.end());
  all.insert(run.before.begin(), run.before.end());
  if (const size_t function = lines.FunctionOf(first); in_function && function > 0)
    for (const size_t line : lines.WithCode(function + 1, lines.EndOfBlock(function))) all.insert(line);
  for (const size_t end : {first, last}) {
    for (const size_t line : lines.WithCode(end, lines.EndOfStatement(end))) all.insert(line);
  }
  std::set<size_t> open;  // of functions that only open branches call
  for (int depth = 0; depth <= kDeepest; ++depth) {
    std::string sure;
    code.clear();
    for (const size_t line : all) {
      const std::optional<bool> passed = lines.IsPassedBy(line, ran);
      if (passed.value_or(false)) continue;
      const bool is_open = passed || open.contains(line) || PythonText::Chooses(lines.Code(line));
      absl::StrAppend(&code, lines.Code(line), is_open ? kOpenBranch : "", "\n");
      if (!is_open) absl::StrAppend(&sure, lines.Code(line), "\n");
    }
    std::set<size_t> called = lines.CalledIn(code);
    absl::c_set_difference(called, lines.CalledIn(sure), std::inserter(open, open.end()));
    all.merge(called);
  }
  return code;
}

}  // namespace dlhook::analyzer::work
