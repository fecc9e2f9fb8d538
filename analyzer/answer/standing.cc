// See standing.h.
#include "analyzer/answer/standing.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "analyzer/calls/collective_ranges.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/gpu/gpu_busy.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr int64_t kOftenEnough = 3;  // to say what comes next

// The outermost calls and ranges of a thread, by their ends.
struct Record {
  int64_t end_ns = 0;
  bool is_call = false;
  uint32_t what = 0;   // op, or name
  uint32_t index = 0;  // of the call or scope
};

std::vector<std::vector<Record>> RecordsOfThreads(const TraceModel& model) {
  std::vector<std::vector<Record>> records(model.threads.size());
  const CallColumns& calls = model.calls;
  for (CallIndex i = 0; i < calls.size(); ++i) {
    if (calls.parent[i] != kNone) continue;
    records[calls.thread[i]].push_back({calls.start_ns[i] + calls.duration_ns[i], true, calls.op[i], i});
  }
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex i = 0; i < scopes.size(); ++i) {
    if (scopes.parent[i] == kNone) records[scopes.thread[i]].push_back({scopes.EndOf(i), false, scopes.name[i], i});
  }
  for (std::vector<Record>& of_thread : records) {
    std::stable_sort(of_thread.begin(), of_thread.end(),
                     [](const Record& a, const Record& b) { return a.end_ns < b.end_ns; });
  }
  return records;
}

class Standing {
 public:
  explicit Standing(const TraceModel& model)
      : model_(model),
        records_(RecordsOfThreads(model)),
        places_(ReadPythonPlaces(model)),
        collective_names_(CollectiveNames(model)) {}

  std::vector<ThreadIndex> ThreadsOf(ProcessIndex process) const {
    std::vector<ThreadIndex> threads;
    for (ThreadIndex i = 0; i < model_.threads.size(); ++i) {
      if (model_.threads[i].process == process && !records_[i].empty()) threads.push_back(i);
    }
    std::stable_sort(threads.begin(), threads.end(), [&](ThreadIndex a, ThreadIndex b) {
      return records_[a].back().end_ns > records_[b].back().end_ns;
    });
    return threads;
  }

  // "aten::linear, at train.py:8, 12.1 s ago; before, optimizer.py always came next".
  std::string LastOf(ThreadIndex thread, int64_t now_ns) const {
    const Record& last = records_[thread].back();
    const std::string line = LineOf(last);
    return absl::StrCat("last ", NameOf(last), line.empty() ? "" : absl::StrCat(" at ", line), ", ",
                        HumanTime(static_cast<double>(std::max<int64_t>(now_ns - last.end_ns, 0))), " ago",
                        NextOf(records_[thread]));
  }

  // The last collective operation of a process that returned; null: none.
  const Record* LastCollective(ProcessIndex process) const {
    const Record* last = nullptr;
    for (ThreadIndex i = 0; i < model_.threads.size(); ++i) {
      if (model_.threads[i].process != process) continue;
      const auto found = std::find_if(records_[i].rbegin(), records_[i].rend(),
                                      [&](const Record& record) { return IsCollective(record); });
      if (found != records_[i].rend() && (last == nullptr || found->end_ns > last->end_ns)) last = &*found;
    }
    return last;
  }

  int64_t Collectives(ProcessIndex process) const {
    int64_t count = 0;
    for (ThreadIndex i = 0; i < model_.threads.size(); ++i) {
      if (model_.threads[i].process != process) continue;
      count += std::count_if(records_[i].begin(), records_[i].end(),
                             [&](const Record& record) { return IsCollective(record); });
    }
    return count;
  }

  std::string NameOf(const Record& record) const {
    if (!record.is_call) return model_.names[record.what];
    const Op& op = model_.ops[record.what];
    const std::string kind = KindLabel(op);
    return kind == op.function ? kind : absl::StrCat(op.function, " (", kind, ")");
  }

 private:
  bool IsCollective(const Record& record) const {
    return record.is_call ? model_.ops[record.what].kind == "collective" : collective_names_[record.what];
  }

  std::string LineOf(const Record& record) const {
    const StackIndex stack =
        record.is_call ? model_.PythonStackOf(record.index) : StackIndex{model_.scopes.python_stack[record.index]};
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
  const std::vector<std::vector<Record>> records_;
  const std::vector<PythonPlace> places_;
  const std::vector<bool> collective_names_;
};

}  // namespace

std::string ProcessName(const TraceModel& model, ProcessIndex process) {
  const std::string rank = RankOf(model, process);
  return absl::StrCat(rank.empty() ? "" : absl::StrCat("rank ", rank, ", "), "process ", model.processes[process].pid);
}

std::vector<std::string> StandingLines(const TraceModel& model, const std::vector<ProcessIndex>& silent, int64_t now_ns,
                                       size_t most, const ThreadNow& thread_now) {
  const Standing standing(model);
  std::vector<std::string> lines;
  for (const ProcessIndex process : ByRank(model)) {
    if (std::find(silent.begin(), silent.end(), process) == silent.end()) continue;
    const uint32_t pid = model.processes[process].pid;
    const std::vector<ThreadIndex> threads = standing.ThreadsOf(process);
    for (size_t i = 0; i < std::min(most, threads.size()); ++i) {
      const uint32_t tid = model.threads[threads[i]].tid;
      const std::string now = thread_now(pid, tid);
      lines.push_back(absl::StrCat(ProcessName(model, process), ", thread ", tid, now.empty() ? "" : " ", now, ": ",
                                   standing.LastOf(threads[i], now_ns), "."));
    }
    if (threads.size() > most) {
      lines.push_back(absl::StrCat(ProcessName(model, process), ": ", threads.size() - most, " more threads."));
    }
  }
  if (model.processes.size() < 2) return lines;
  for (const ProcessIndex process : ByRank(model)) {
    const Record* const last = standing.LastCollective(process);
    if (last == nullptr) continue;
    // In a part of a run counts of ranks do not begin at the same operation.
    const std::string count = model.read_spans.empty()
                                  ? absl::StrCat("collective operation ", standing.Collectives(process))
                                  : std::string("its last collective operation");
    lines.push_back(absl::StrCat(ProcessName(model, process), " has returned from ", count, ", ",
                                 standing.NameOf(*last), ", ",
                                 HumanTime(static_cast<double>(std::max<int64_t>(now_ns - last->end_ns, 0))), " ago."));
  }
  return lines;
}

}  // namespace dlhook::analyzer::answer
