// Text for losses, capabilities and oddities.

#include "analyzer/render/renderer.h"
#include "analyzer/table/table_ops.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline render {
namespace {

constexpr uint64_t kSamplesPerLost = 200;  // where fewer are lost, no figure looks different

void AppendLosses(const TraceModel& run, std::vector<std::string>* remarks) {
  struct Sum {
    uint64_t calls = 0;
    uint64_t bytes = 0;
    std::set<const ProcessInfo*> processes;
  };
  std::map<std::pair<LossReason, std::string>, Sum> sums;
  for (const ProcessInfo& process : run.processes) {
    for (const Loss& loss : process.losses) {
      Sum& sum = sums[{loss.reason, loss.detail}];
      sum.calls += loss.calls;
      sum.bytes += loss.bytes;
      sum.processes.insert(&process);
    }
  }
  for (const auto& [key, sum] : sums) {
    const LossReason reason = key.first;
    std::string remark = reason == LossReason::kTraceLimit || CountsShapes(reason) ? "left out: " : "lost: ";
    // A sample that met dlhook at work is missing now and then; table summary has their number.
    if (reason == LossReason::kSamplesDropped && sum.calls * kSamplesPerLost < run.samples.size()) continue;
    if (sum.calls > 0) absl::StrAppend(&remark, sum.calls, " ", LossNoun(reason, sum.calls == 1));
    if (sum.bytes > 0) absl::StrAppend(&remark, sum.calls > 0 ? ", " : "", sum.bytes, " bytes");
    if (sum.calls + sum.bytes > 0) absl::StrAppend(&remark, ": ");
    absl::StrAppend(&remark, LossSentence(reason));
    if (!key.second.empty()) absl::StrAppend(&remark, " (", key.second, ")");
    if (sum.processes.size() > 1) absl::StrAppend(&remark, ", in ", sum.processes.size(), " processes");
    remarks->push_back(std::move(remark));
  }
}

// Aggregated calls are not a loss: tables of ops include them, tables of single calls do not.
void AppendTotals(const TraceModel& run, std::vector<std::string>* remarks) {
  std::map<AggregateCause, int64_t> calls;
  for (const AggregateRow& row : run.aggregates) calls[row.cause] += row.count;
  for (const auto& [cause, count] : calls) {
    const bool is_full = cause == AggregateCause::kRingFull;
    remarks->push_back(absl::StrCat(
        "totals: ", count, count == 1 ? " call is" : " calls are", " known only as totals per op and thread, because ",
        is_full ? "they came faster than they were written (DLHOOK_GROWTH_KIB gives them more room)"
                : "the trace keeps only a part of the run in detail (DLHOOK_MAX_BYTES)"));
  }
}

// Counters that are missing for the same reason share a sentence: "refused: counter:cycles, instructions: no PMU".
std::vector<std::string> CapabilitySentences(const ProcessInfo& process) {
  // by the text before and after them
  std::map<std::pair<std::string, std::string>, std::vector<absl::string_view>> names;
  for (const Capability& capability : process.capabilities) {
    const bool is_lost = capability.state == CapabilityState::kLost;
    if (!is_lost && capability.state != CapabilityState::kRefused) continue;
    absl::string_view name = capability.name;
    std::string before = is_lost ? "gone during the run: " : "refused: ";
    if (absl::ConsumePrefix(&name, "counter:")) {
      before += "counter:";
    } else {
      absl::StrAppend(&before, std::exchange(name, ""));
    }
    std::string behind;
    if (!capability.object.empty()) absl::StrAppend(&behind, " of ", capability.object);
    if (!capability.reason.empty()) absl::StrAppend(&behind, ": ", capability.reason);
    names[{before, behind}].push_back(name);
  }
  std::vector<std::string> sentences;
  for (const auto& [text, of] : names) {
    sentences.push_back(absl::StrCat(text.first, absl::StrJoin(of, ", "), text.second));
  }
  return sentences;
}

void AppendCapabilities(const TraceModel& run, std::vector<std::string>* remarks) {
  std::map<std::string, int> sentences;
  for (const ProcessInfo& process : run.processes) {
    for (const std::string& sentence : CapabilitySentences(process)) ++sentences[sentence];
  }
  for (const auto& [sentence, processes] : sentences) {
    remarks->push_back(processes == 1 ? sentence : absl::StrCat(sentence, ", in ", processes, " processes"));
  }
}

// Time without GPU measurements in processes that have some, so that it is not mistaken for idle time.
void AppendGpuGaps(const TraceModel& run, std::vector<std::string>* remarks) {
  std::vector<bool> is_measured(run.processes.size());
  for (const GpuWindow& window : run.gpu_windows) {
    if (window.source != GpuTimeSource::kNone) is_measured[window.process] = true;
  }
  std::map<std::pair<ProcessIndex, std::string>, int64_t> gaps_ns;
  for (const GpuWindow& window : run.gpu_windows) {
    const bool is_gap = window.source == GpuTimeSource::kNone && is_measured[window.process] &&
                        window.start_ns < window.end_ns && window.reason != kBetweenWindows;
    if (is_gap) gaps_ns[{window.process, window.reason}] += window.end_ns - window.start_ns;
  }
  for (const auto& [gap, ns] : gaps_ns) {
    remarks->push_back(absl::StrCat("gap: no times of GPUs for ", HumanCell(ns, "ns"), " of ",
                                    run.processes[gap.first].file, gap.second.empty() ? "" : ": ", gap.second));
  }
}

// Of processes that no other one of the run started.
void AppendPrograms(const TraceModel& run, std::vector<std::string>* remarks) {
  std::set<std::pair<std::string, uint32_t>> known;
  for (const ProcessInfo& process : run.processes) known.emplace(process.boot_id, process.pid);
  std::set<std::string> programs;
  bool has_ranks = false;  // of one job: one program
  for (const ProcessInfo& process : run.processes) {
    if (known.contains({process.boot_id, process.parent_pid})) continue;
    if (!RankOf(process).empty() && std::exchange(has_ranks, true)) continue;
    programs.insert(ProgramOf(process));
  }
  if (programs.size() < 2) return;
  remarks->push_back(absl::StrCat("programs: ", absl::StrJoin(programs, ", "),
                                  ", of which none started another: times and counts are of all of them together; name "
                                  "one trace (*.dlh) instead of the folder"));
}

void AppendOutputs(const TraceModel& run, std::vector<std::string>* remarks) {
  for (const ProcessInfo& process : run.processes) {
    if (!process.requested_output.empty()) {
      remarks->push_back(absl::StrCat("moved: the trace ", process.file, " could not be written to ",
                                      process.requested_output, ": ", process.output_refusal));
    }
    if (!process.has_footer) {
      remarks->push_back(absl::StrCat("open: the trace ", process.file,
                                      " has no end: its process still runs, or the end was cut off"));
    }
  }
}

}  // namespace

std::string LossSentence(LossReason reason) {
  static constexpr std::pair<LossReason, const char*> kSentences[] = {
      {LossReason::kRingFull, "the drain did not keep up with the calls"},
      {LossReason::kNoRing, "no ring for a thread (too many threads, no memory, or a child in its parent's memory)"},
      {LossReason::kOutputFull, "no space where the trace is written"},
      {LossReason::kOutputGone, "the trace or its folder was removed during the run"},
      {LossReason::kBadRecord, "a ring contained bytes that are not a record"},
      {LossReason::kRecordTooLong, "a log line was longer than a record and was cut"},
      {LossReason::kDlsymPlainPointer, "a function was looked up bypassing dlhook: its calls are not observed"},
      {LossReason::kCollectorGone, "the collector ended before the process did"},
      {LossReason::kDefinitionsFull,
       "no room for more names, plans and Python stacks: references to them are incomplete"},
      {LossReason::kScopesTooDeep, "more were open at once than a thread can track"},
      {LossReason::kTraceLimit, "the trace keeps only a part of the run in detail (DLHOOK_MAX_BYTES)"},
      {LossReason::kShapesDropped, "the trace keeps only a part of the run in detail (DLHOOK_MAX_BYTES)"},
      {LossReason::kProfilesDropped, "the trace keeps only a part of the run in detail (DLHOOK_MAX_BYTES)"},
      {LossReason::kReadingsDropped, "the thread's next reading holds the sum"},
      {LossReason::kSamplesDropped, "the thread was writing another record, or had no room for one"},
      {LossReason::kGpuBuffersFull, "CUPTI found no buffer for them (DLHOOK_GPU_BUFFERS_MIB)"},
      {LossReason::kGpuRecordsDropped, "no room for GPU work, or for the call that launched it"},
  };
  for (const auto& [known, sentence] : kSentences) {
    if (known == reason) return sentence;
  }
  return absl::StrCat("reason ", static_cast<int>(reason));
}

std::vector<std::string> RunRemarks(const TraceModel& run) {
  std::vector<std::string> remarks;
  AppendPrograms(run, &remarks);
  AppendLosses(run, &remarks);
  AppendTotals(run, &remarks);
  AppendCapabilities(run, &remarks);
  AppendGpuGaps(run, &remarks);
  AppendOutputs(run, &remarks);
  for (const auto& [sentence, count] : run.oddities) {
    remarks.push_back(count == 1 ? absl::StrCat("odd: ", sentence)
                                 : absl::StrCat("odd: ", sentence, ", ", count, " times"));
  }
  return remarks;
}

std::vector<std::string> ReportRemarks(const Report& report) {
  if (report.run == nullptr) return {};
  if (report.base == nullptr) return RunRemarks(*report.run);
  std::vector<std::string> remarks;
  const auto add = [&](const char* side, const TraceModel* first, std::vector<const TraceModel*> runs) {
    runs.insert(runs.begin(), first);
    for (const TraceModel* run : runs) {
      for (const std::string& remark : RunRemarks(*run))
        remarks.push_back(absl::StrCat(side, runs.size() == 1 ? "" : absl::StrCat(" ", run->name), ": ", remark));
    }
  };
  add("BASE", report.base, report.more_bases);
  add("NEW", report.run, report.more_runs);
  return remarks;
}

}  // namespace dlhook::analyzer::render
