#include "analyzer/answer/live.h"

#include "analyzer/answer/answer.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/answer/standing.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr size_t kLongestSparkline = 60;
constexpr size_t kLeastSparkline = 16;  // else the text after it has a line of its own
constexpr size_t kMostRanks = 16;
constexpr size_t kRankColumns = 40;    // besides the name
constexpr double kLateShare = 0.1;     // of the time, by which the others are longer in collectives
constexpr double kSlowerPercent = 10;  // from here on a change of the step time is marked

const StepTrack* FirstTrack(const StepFacts& facts) {
  const StepTrack* first = nullptr;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (first == nullptr || track.process < first->process) first = &track;
  }
  return first;
}

std::string SpanOf(int64_t ns) { return HumanTime(static_cast<double>(ns)); }

// "Current training step time: 4.55 ms (median of 13000 in the last 60.0 s). Batch 64: 14066 samples/s."
std::string TrendSentence(const StepFacts& facts, const StepTrend& trend) {
  const std::string noun = facts.StepNoun();
  return absl::StrFormat("Current %s time: %s (median of %d in the last %s).", noun, HumanTime(trend.now_ns),
                         trend.now_steps, SpanOf(trend.now_span_ns)) +
         BatchSentence(facts.steps(), trend.now_ns, AreRanks(facts.model(), facts.steps()));
}

double ChangePercent(const StepTrend& trend) { return 100 * (trend.now_ns - trend.before_ns) / trend.before_ns; }
bool IsSlower(const StepTrend& trend) { return trend.before_steps > 0 && ChangePercent(trend) >= kSlowerPercent; }

// "8 % slower (4.20 ms in the 300 s before)".
std::string ChangeOf(const StepTrend& trend) {
  if (trend.before_steps == 0) return "";
  const double percent = std::round(ChangePercent(trend));
  return absl::StrCat(percent == 0
                          ? std::string("as before")
                          : absl::StrFormat("%.0f %% %s", std::abs(percent), percent > 0 ? "slower" : "faster"),
                      " (", HumanTime(trend.before_ns), " in the ", SpanOf(trend.before_span_ns), " before)");
}

struct RankTimes {
  ProcessIndex process = 0;
  double step_ns = 0;      // median
  double collectives = 0;  // of its time: in calls and ranges of collective operations, waiting included
  double gpu_waits = 0;    // in calls that wait for GPU work
};

// Of the processes that have steps, by rank.
std::vector<RankTimes> TimesOfRanks(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const std::vector<bool> collective_names = CollectiveNames(model);
  std::vector<RankTimes> ranks;
  for (const StepTrack& track : facts.steps().tracks) {
    if (track.steps.empty()) continue;
    std::vector<int64_t> durations;
    for (const Step& step : track.steps) durations.push_back(step.end_ns - step.start_ns);
    const auto is_its = [&](ThreadIndex thread) { return model.threads[thread].process == track.process; };
    std::vector<Interval> collectives, gpu_waits;  // of several threads, or asynchronous ones: they overlap
    for (CallIndex i = 0; i < model.calls.size(); ++i) {
      if (model.calls.parent[i] != kNone || !is_its(model.calls.thread[i])) continue;
      const Op& op = model.ops[model.calls.op[i]];
      const Interval span = {model.calls.start_ns[i], model.calls.EndOf(i)};
      if (IsKind(op, OpKind::kCollective)) collectives.push_back(span);
      if (WaitsForGpu(op)) gpu_waits.push_back(span);
    }
    const auto is_collective = [&](const ScopeLook& look) { return collective_names[look.name]; };
    ForEachScopeThat(model.scopes, is_collective, [&](ScopeIndex i) {
      if (is_its(model.scopes.thread[i])) collectives.push_back({model.scopes.start_ns[i], model.scopes.EndOf(i)});
    });
    const int64_t start_ns = track.steps.front().start_ns, end_ns = track.steps.back().end_ns;
    const auto part_of_time = [&](std::vector<Interval> times) {
      return static_cast<double>(IntervalSet(std::move(times)).CoveredNs(start_ns, end_ns)) /
             static_cast<double>(std::max<int64_t>(end_ns - start_ns, 1));
    };
    ranks.push_back({track.process, static_cast<double>(QuartilesOf(std::move(durations)).median),
                     part_of_time(std::move(collectives)), part_of_time(std::move(gpu_waits))});
  }
  const std::vector<ProcessIndex> order = ByRank(model);
  const auto place = [&](const RankTimes& rank) { return absl::c_find(order, rank.process); };
  absl::c_stable_sort(ranks, [&](const RankTimes& a, const RankTimes& b) { return place(a) < place(b); });
  return ranks;
}

// Side by side: the one that spends least in collectives comes last to them, if the others spend much more.
void AppendRanks(const StepFacts& facts, size_t width, bool color, std::vector<std::string>* lines) {
  const std::vector<RankTimes> ranks = TimesOfRanks(facts);
  if (ranks.size() < 2) return;
  std::vector<double> shares;
  for (const RankTimes& rank : ranks) shares.push_back(rank.collectives);
  absl::c_sort(shares);
  const bool has_late = shares[1] - shares[0] >= kLateShare;
  const size_t name_width = std::clamp<size_t>(width - kRankColumns, 8, 30);
  lines->push_back("");
  lines->push_back(
      absl::StrCat(Styled(absl::StrFormat("%-*s", static_cast<int>(name_width + 2), "Ranks"), Style::kTitle, color),
                   absl::StrFormat(" %10s %11s %7s", "step", "collectives", "GPU")));
  for (size_t i = 0; i < ranks.size() && i < kMostRanks; ++i) {
    const RankTimes& rank = ranks[i];
    lines->push_back(absl::StrFormat("  %-*s %10s %9.0f %% %5.0f %%%s", static_cast<int>(name_width),
                                     Shortened(ProcessName(facts.model(), rank.process), name_width),
                                     HumanTime(rank.step_ns), 100 * rank.collectives, 100 * rank.gpu_waits,
                                     has_late && rank.collectives == shares[0] ? "  late" : ""));
  }
  if (has_late) lines->push_back("  late: spends least time in collectives, where the others wait for it");
  if (ranks.size() > kMostRanks) lines->push_back(absl::StrCat("  ", ranks.size() - kMostRanks, " more: table ranks."));
}

constexpr size_t kMostSteps = 100'000;
constexpr int64_t kMinuteNs = 60'000'000'000;
constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr char kLetters[] = ".:-=+*#@";
constexpr size_t kLevels = 8;

int64_t MedianOf(std::vector<int64_t> values) { return QuartilesOf(std::move(values)).median; }

}  // namespace

int64_t AboutSteps(const StepFacts& facts, const std::vector<int64_t>& recorded) {
  const TraceModel& model = facts.model();
  const StepTrack* const track = FirstTrack(facts);
  if (track == nullptr) return 0;
  const auto steps = absl::c_count_if(track->steps, [&](const Step& step) { return step.kind == facts.steps().kind; });
  if (model.read_spans.empty() || track->process >= recorded.size()) return steps;
  const auto is_its = [&](ThreadIndex thread) { return model.threads[thread].process == track->process; };
  int64_t read = 0;
  for (CallIndex i = 0; i < model.calls.size(); ++i) read += is_its(model.calls.thread[i]) ? 1 : 0;
  for (ScopeIndex i = 0; i < model.scopes.size(); ++i) read += is_its(model.scopes.thread[i]) ? 1 : 0;
  return static_cast<int64_t>(static_cast<double>(steps) * static_cast<double>(recorded[track->process]) /
                              static_cast<double>(std::max<int64_t>(read, 1)));
}

void AddSteps(const StepFacts& facts, StepHistory* history) {
  const StepTrack* const track = FirstTrack(facts);
  if (track != nullptr && facts.HasSteps()) history->Add(*track, facts.steps().kind);
}

absl::StatusOr<std::string> MakeLiveScreen(const StepFacts& facts, const StepHistory& history,
                                           const LiveOptions& options) {
  const size_t width = std::max<size_t>(options.width, 40);
  std::vector<std::string> lines;
  const auto add = [&](const std::string& text) {
    for (std::string& line : Wrapped(VisibleText(text), width)) lines.push_back(std::move(line));
  };
  const std::optional<StepTrend> trend = history.Trend();
  if (!facts.HasSteps() || !trend) {
    add("No repeating step yet: the rest describes what was recorded last.");
  } else {
    add(TrendSentence(facts, *trend));
    const std::string change = ChangeOf(*trend);
    const size_t room = width > change.size() + kLeastSparkline + 4 ? width - change.size() - 4 : width - 2;
    std::string line = absl::StrCat("  ", history.Sparkline(std::min(kLongestSparkline, room), options.unicode));
    if (room == width - 2) {
      lines.push_back(line);
      line.clear();
    }
    absl::StrAppend(&line, "  ", Styled(change, IsSlower(*trend) ? Style::kHot : Style::kPlain, options.color));
    lines.push_back(line);
  }
  AppendRanks(facts, width, options.color, &lines);
  const std::vector<StepTrack>& tracks = facts.steps().tracks;
  if (!facts.model().scope_windows.empty() && facts.HasSteps() && absl::c_none_of(tracks, [](const StepTrack& track) {
        return absl::c_any_of(track.steps, [](const Step& step) { return step.has_scopes; });
      })) {
    add("What these steps consist of is not known: they are outside of the windows in which operations are kept.");
    return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
  }
  absl::StatusOr<std::string> answer = MakeAnswer(facts, {.run = "",
                                                          .width = width,
                                                          .color = options.color,
                                                          .is_live = true,
                                                          .ignored_findings = options.ignored_findings});
  if (!answer.ok()) return answer;
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n", *answer);
}

void StepHistory::Add(const StepTrack& track, StepKind kind) {
  const bool goes_back = !steps_.empty() && !track.steps.empty() && track.steps.back().end_ns < steps_.back().end_ns;
  if (kind != kind_ || goes_back) steps_.clear();
  kind_ = kind;
  for (size_t i = 0; i + 1 < track.steps.size(); ++i) {
    const Step& step = track.steps[i];
    const int64_t duration_ns = step.end_ns - step.start_ns;
    const bool is_known = !steps_.empty() && step.start_ns + duration_ns / 2 < steps_.back().end_ns;
    if (step.kind == kind && !is_known) steps_.push_back({step.end_ns, duration_ns});
  }
  while (steps_.size() > kMostSteps) steps_.pop_front();
}

std::optional<StepTrend> StepHistory::Trend() const {
  if (steps_.empty()) return std::nullopt;
  const int64_t first_ns = steps_.front().end_ns - steps_.front().duration_ns, last_ns = steps_.back().end_ns;
  const int64_t from_ns = last_ns - std::min(kMinuteNs, (last_ns - first_ns) / 3);
  std::vector<int64_t> now, before;
  for (const Known& step : steps_) (step.end_ns > from_ns ? now : before).push_back(step.duration_ns);
  StepTrend trend = {.now_ns = static_cast<double>(MedianOf(now)),
                     .now_steps = now.size(),
                     .now_span_ns = last_ns - from_ns,
                     .before_steps = before.size(),
                     .before_span_ns = from_ns - first_ns};
  if (!before.empty()) trend.before_ns = static_cast<double>(MedianOf(before));
  return trend;
}

std::string StepHistory::Sparkline(size_t columns, bool unicode) const {
  if (steps_.empty() || columns == 0) return "";
  const int64_t first_ns = steps_.front().end_ns - steps_.front().duration_ns;
  const int64_t span_ns = std::max<int64_t>(steps_.back().end_ns - first_ns, 1);
  std::vector<std::vector<int64_t>> parts(columns);
  for (const Known& step : steps_) {
    const int64_t middle_ns = step.end_ns - step.duration_ns / 2;
    const auto part = static_cast<double>(middle_ns - first_ns) / static_cast<double>(span_ns);
    parts[std::min(columns - 1, static_cast<size_t>(part * static_cast<double>(columns)))].push_back(step.duration_ns);
  }
  std::vector<int64_t> medians;
  int64_t least_ns = INT64_MAX, most_ns = 0;
  for (std::vector<int64_t>& part : parts) {
    medians.push_back(part.empty() ? -1 : MedianOf(std::move(part)));
    if (medians.back() < 0) continue;
    least_ns = std::min(least_ns, medians.back());
    most_ns = std::max(most_ns, medians.back());
  }
  const auto range = static_cast<double>(std::max<int64_t>(std::max(most_ns - least_ns, least_ns), 1));
  std::string line;
  for (const int64_t median_ns : medians) {
    if (median_ns < 0) {
      line += ' ';
      continue;
    }
    const auto level = static_cast<size_t>(static_cast<double>(median_ns - least_ns) / range * (kLevels - 1) + 0.5);
    line += unicode ? std::string(kBlocks[level]) : std::string(1, kLetters[level]);
  }
  return line;
}

}  // namespace dlhook::analyzer::answer
