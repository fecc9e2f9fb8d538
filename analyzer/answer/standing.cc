#include "analyzer/answer/standing.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr int64_t kOftenEnough = 3;  // to say what comes next
constexpr size_t kMostFrames = 12;   // of a stack
constexpr absl::string_view kAnyCall = "call";

struct Record {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool is_call = false;
  uint32_t what = 0;   // op, or name
  uint32_t index = 0;  // of the call or scope
};

// Of a thread.
struct Records {
  std::vector<Record> ended;  // the outermost, by their ends
  std::vector<Record> open;   // that have not ended, by their beginnings
};

class Standing {
 public:
  Standing(const TraceModel& model, const std::vector<SilentProcess>& silent, int64_t now_ns)
      : model_(model),
        open_ns_(model.processes.size(), INT64_MAX),
        records_(model.threads.size()),
        places_(ReadPythonPlaces(model)),
        collective_names_(CollectiveNames(model)) {
    for (const SilentProcess& process : silent) {
      if (process.has_open) open_ns_[process.process] = now_ns;
    }
    for (const Op& op : model.ops) {
      if (IsKind(op, OpKind::kCollective)) collective_functions_.insert(op.function);
    }
    const CallColumns& calls = model.calls;
    for (CallIndex i = 0; i < calls.size(); ++i) {
      const auto is_open = [&](CallIndex call) { return IsOpen(calls.thread[i], calls.EndOf(call)); };
      if (calls.parent[i] != kNone && !is_open(calls.parent[i])) continue;
      Add(calls.thread[i], {calls.start_ns[i], calls.EndOf(i), true, calls.op[i], i});
    }
    const ScopeColumns& scopes = model.scopes;
    for (ScopeIndex i = 0; i < scopes.size(); ++i) {
      const ThreadIndex thread = scopes.thread[i];
      const bool is_outermost = scopes.parent[i] == kNone || IsOpen(thread, scopes.EndOf(scopes.parent[i]));
      if (is_outermost) Add(thread, {scopes.start_ns[i], scopes.EndOf(i), false, scopes.look[i].name, i});
    }
    for (Records& records : records_) {
      std::ranges::stable_sort(records.ended, {}, &Record::end_ns);
      std::ranges::stable_sort(records.open, {}, &Record::start_ns);
    }
  }

  // Those inside something first, then by what they recorded last.
  std::vector<ThreadIndex> ThreadsOf(ProcessIndex process) const {
    std::vector<ThreadIndex> threads;
    for (ThreadIndex i = 0; i < model_.threads.size(); ++i) {
      const bool has_records = !records_[i].ended.empty() || !records_[i].open.empty();
      if (model_.threads[i].process == process && has_records) threads.push_back(i);
    }
    const auto last_ns = [&](ThreadIndex i) { return records_[i].ended.empty() ? 0 : records_[i].ended.back().end_ns; };
    absl::c_stable_sort(threads, [&](ThreadIndex a, ThreadIndex b) {
      const bool is_in = !Inside(a).empty(), is_other_in = !Inside(b).empty();
      return is_in != is_other_in ? is_in : last_ns(a) > last_ns(b);
    });
    return threads;
  }

  // "in aten::linear > sgemm_ for 12.1 s, at train.py:8", or "last aten::linear, at train.py:8, 12.1 s ago; after it came
  // optimizer.py all 12 times before".
  std::string PlaceOf(ThreadIndex thread, int64_t now_ns) const {
    const std::vector<Record> inside = Inside(thread);
    if (inside.empty()) return records_[thread].ended.empty() ? "" : LastOf(thread, now_ns);
    std::vector<std::string> names;
    std::string line;
    for (const Record& record : inside) {
      names.push_back(NameOf(record));
      if (std::string its = LineOf(record); !its.empty()) line = std::move(its);
    }
    return absl::StrCat("in ", absl::StrJoin(names, " > "), " for ", Ago(inside.back().start_ns, now_ns),
                        line.empty() ? "" : absl::StrCat(", at ", line));
  }

  // Collective operations that a process has begun.
  struct Collectives {
    int64_t count = 0;
    const Record* last = nullptr;  // one that has not ended, else one that returned
  };
  Collectives CollectivesOf(ProcessIndex process) const {
    Collectives of;
    for (ThreadIndex i = 0; i < model_.threads.size(); ++i) {
      if (model_.threads[i].process != process) continue;
      for (const std::vector<Record>* records : {&records_[i].ended, &records_[i].open}) {
        for (const Record& record : *records) {
          if (!IsCollective(record)) continue;
          ++of.count;
          if (of.last == nullptr || record.end_ns >= of.last->end_ns) of.last = &record;
        }
      }
    }
    return of;
  }

  bool IsOpen(ThreadIndex thread, int64_t end_ns) const { return end_ns >= open_ns_[model_.threads[thread].process]; }

  ThreadIndex ThreadOf(const Record& record) const {
    return record.is_call ? model_.calls.thread[record.index] : model_.scopes.thread[record.index];
  }

  static std::string Ago(int64_t ns, int64_t now_ns) {
    return HumanTime(static_cast<double>(std::max<int64_t>(now_ns - ns, 0)));
  }

  std::string NameOf(const Record& record) const {
    if (!record.is_call) return model_.names[record.what];
    const Op& op = model_.ops[record.what];
    const std::string kind = KindLabel(op);
    // Of a call that has not returned the kind is not known yet.
    return kind == op.function || kind == kAnyCall ? op.function : absl::StrCat(op.function, " (", kind, ")");
  }

 private:
  void Add(ThreadIndex thread, const Record& record) {
    (IsOpen(thread, record.end_ns) ? records_[thread].open : records_[thread].ended).push_back(record);
  }

  // What the thread is in. Ranges of collective operations may have been begun by it and go on elsewhere.
  std::vector<Record> Inside(ThreadIndex thread) const {
    std::vector<Record> inside;
    for (const Record& record : records_[thread].open) {
      if (record.is_call || !collective_names_[record.what]) inside.push_back(record);
    }
    return inside;
  }

  // A call that has not returned has no arguments yet.
  bool IsCollective(const Record& record) const {
    return record.is_call ? collective_functions_.contains(model_.ops[record.what].function)
                          : collective_names_[record.what];
  }

  std::string LastOf(ThreadIndex thread, int64_t now_ns) const {
    const Record& last = records_[thread].ended.back();
    const std::string line = LineOf(last);
    return absl::StrCat("last ", NameOf(last), line.empty() ? "" : absl::StrCat(" at ", line), ", ",
                        Ago(last.end_ns, now_ns), " ago", NextOf(records_[thread].ended));
  }

  std::string LineOf(const Record& record) const {
    const StackIndex stack =
        record.is_call ? model_.PythonStackOf(record.index) : StackIndex{model_.scopes.look[record.index].stack};
    return stack == kNone ? "" : LineLabel(model_, places_[stack]);
  }

  // What followed the same thing before, if it was the same each time.
  std::string NextOf(const std::vector<Record>& records) const {
    const Record& last = records.back();
    const Record* next = nullptr;
    int64_t times = 0;
    for (size_t i = 0; i + 1 < records.size(); ++i) {
      if (records[i].is_call != last.is_call || records[i].what != last.what) continue;
      const Record& after = records[i + 1];
      if (next != nullptr && (after.is_call != next->is_call || after.what != next->what)) return "";
      next = &after;
      ++times;
    }
    if (times < kOftenEnough) return "";
    return absl::StrCat("; after it came ", NameOf(*next), " all ", times, " times before");
  }

  const TraceModel& model_;
  std::vector<int64_t> open_ns_;  // by process: from here on an end is not one
  std::vector<Records> records_;  // by thread
  const std::vector<PythonPlace> places_;
  const std::vector<bool> collective_names_;
  std::set<std::string> collective_functions_;
};

}  // namespace

std::string ProcessName(const TraceModel& model, ProcessIndex process) {
  const std::string rank = RankOf(model.processes[process]);
  return absl::StrCat(rank.empty() ? "" : absl::StrCat("rank ", rank, ", "), "process ", model.processes[process].pid);
}

std::vector<std::string> StandingLines(const TraceModel& model, const std::vector<SilentProcess>& silent,
                                       int64_t now_ns, size_t most, const ThreadNowOf& thread_now) {
  const Standing standing(model, silent, now_ns);
  std::vector<std::string> lines;
  for (const ProcessIndex process : ByRank(model)) {
    const auto is_it = [&](const SilentProcess& one) { return one.process == process; };
    if (absl::c_none_of(silent, is_it)) continue;
    const uint32_t pid = model.processes[process].pid;
    const std::vector<ThreadIndex> threads = standing.ThreadsOf(process);
    for (size_t i = 0; i < std::min(most, threads.size()); ++i) {
      const uint32_t tid = model.threads[threads[i]].tid;
      const ThreadNow now = thread_now(pid, tid);
      std::string line = absl::StrCat(ProcessName(model, process), ", thread ", tid, now.state.empty() ? "" : " ",
                                      now.state, ": ", standing.PlaceOf(threads[i], now_ns), ".");
      if (!now.stack.empty()) {
        const auto end = now.stack.begin() + static_cast<int64_t>(std::min(kMostFrames, now.stack.size()));
        absl::StrAppend(&line, " Stack: ", absl::StrJoin(now.stack.begin(), end, " < "),
                        now.stack.size() > kMostFrames ? " < …" : "");
      }
      lines.push_back(std::move(line));
    }
    if (threads.size() > most) {
      lines.push_back(absl::StrCat(ProcessName(model, process), ": ", threads.size() - most, " more threads."));
    }
  }
  if (model.processes.size() < 2) return lines;
  for (const ProcessIndex process : ByRank(model)) {
    const auto [count_of_process, last] = standing.CollectivesOf(process);
    if (last == nullptr) continue;
    const bool is_open = standing.IsOpen(standing.ThreadOf(*last), last->end_ns);
    // In a part of a run counts of ranks do not begin at the same operation.
    const std::string count = model.read_spans.empty()
                                  ? absl::StrCat("collective operation ", count_of_process)
                                  : std::string(is_open ? "a collective operation" : "its last collective operation");
    lines.push_back(absl::StrCat(ProcessName(model, process), is_open ? " is in " : " has returned from ", count, ", ",
                                 standing.NameOf(*last), is_open ? ", for " : ", ",
                                 Standing::Ago(is_open ? last->start_ns : last->end_ns, now_ns),
                                 is_open ? "." : " ago."));
  }
  return lines;
}

}  // namespace dlhook::analyzer::answer
