// See live.h.
#include "analyzer/answer/live.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/answer/answer.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/style.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr size_t kLongestSparkline = 60;
constexpr double kSlowerPercent = 10;  // from here on a change of the step time is marked

const StepTrack* FirstTrack(const StepFacts& facts) {
  const StepTrack* first = nullptr;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (first == nullptr || track.process < first->process) first = &track;
  }
  return first;
}

std::string SpanOf(int64_t ns) { return HumanTime(static_cast<double>(ns)); }

// "4.55 ms now, in the last 60.0 s; 4.20 ms in the 5 minutes before: 8 % slower."
std::string TrendSentence(const StepFacts& facts, const StepTrend& trend) {
  const std::string noun = facts.StepNoun();
  std::string text = absl::StrFormat("A %s takes %s now (median of %d in the last %s).", noun, HumanTime(trend.now_ns),
                                     trend.now_steps, SpanOf(trend.now_span_ns));
  if (const int64_t batch = facts.steps().batch; batch > 0) {
    absl::StrAppendFormat(&text, " Batch %d: %.0f samples/s.", batch, static_cast<double>(batch) * 1e9 / trend.now_ns);
  }
  return text;
}

}  // namespace

int64_t AboutSteps(const StepFacts& facts, int64_t recorded) {
  const TraceModel& model = facts.model();
  int64_t steps = 0, read = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    steps += std::count_if(track.steps.begin(), track.steps.end(),
                           [&](const Step& step) { return step.kind == facts.steps().kind; });
  }
  read = static_cast<int64_t>(model.calls.size() + model.scopes.size());
  if (read == 0 || model.read_spans.empty()) return steps;
  return static_cast<int64_t>(static_cast<double>(steps) * static_cast<double>(recorded) / static_cast<double>(read));
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
    add("No repeating step is seen yet: what follows is about what was recorded last.");
  } else {
    add(TrendSentence(facts, *trend));
    const size_t columns = std::min(kLongestSparkline, width / 2);
    std::string line = absl::StrCat("  ", history.Sparkline(columns, options.unicode));
    if (trend->before_steps > 0) {
      const double percent = 100 * (trend->now_ns - trend->before_ns) / trend->before_ns;
      const std::string change =
          std::abs(percent) < 0.5 ? std::string("as before")
                                  : absl::StrFormat("%.0f %% %s", std::abs(percent), percent > 0 ? "slower" : "faster");
      absl::StrAppend(&line, "  ",
                      Styled(change, percent >= kSlowerPercent ? Style::kHot : Style::kPlain, options.color), " (",
                      HumanTime(trend->before_ns), " in the ", SpanOf(trend->before_span_ns), " before)");
    }
    lines.push_back(line);
  }
  absl::StatusOr<std::string> answer = MakeAnswer(facts, {.run = "",
                                                          .width = width,
                                                          .color = options.color,
                                                          .is_live = true,
                                                          .ignored_findings = options.ignored_findings});
  if (!answer.ok()) return answer;
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n", *answer);
}

}  // namespace dlhook::analyzer::answer
