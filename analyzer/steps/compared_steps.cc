// Which steps represent a run: see compared_steps.h.
#include "analyzer/steps/compared_steps.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr double kOuterFence = 3;  // interquartile ranges
constexpr double kHalfAsLongAgain = 1.5;
constexpr double kCommonPart = 0.9;
constexpr int64_t kLeastRegular = 2;   // distances that are equal
constexpr size_t kMostJudged = 256;    // numbers
constexpr double kRegularPart = 0.75;  // of the time of much longer steps

int64_t DurationOf(const Step& step) { return step.end_ns - step.start_ns; }

bool IsCounted(const Step& step, StepKind kind) {
  return step.kind == kind && !step.is_warm_up && (step.is_regular || kind == StepKind::kInference);
}

// The first track of each process; tracks are ordered by time, most first.
std::vector<const StepTrack*> FirstTracks(const std::vector<StepTrack>& tracks) {
  std::map<ProcessIndex, const StepTrack*> first;
  for (const StepTrack& track : tracks) first.try_emplace(track.process, &track);
  std::vector<const StepTrack*> ordered;
  for (const auto& [process, track] : first) ordered.push_back(track);
  return ordered;
}

int64_t CommonBatch(const ComparedSteps& steps) {
  std::map<int64_t, int64_t> counts;
  for (const StepTrack& track : steps.tracks) {
    for (const Step& step : track.steps) ++counts[step.batch];
  }
  for (const auto& [batch, count] : counts) {
    if (static_cast<double>(count) >= kCommonPart * static_cast<double>(steps.count())) return batch;
  }
  return 0;
}

// The distance at which most of these much longer steps follow one another, by their time, and how many do; {0, 0}: there
// is none. `numbers`: theirs among all steps, ascending.
std::pair<int64_t, int64_t> DistanceOf(const std::vector<Step>& steps, const std::vector<int64_t>& numbers) {
  int64_t all_ns = 0;
  for (const Step& step : steps) all_ns += DurationOf(step);
  std::pair<int64_t, int64_t> regular = {0, 0};
  for (size_t first = 0; first < numbers.size() && numbers.size() <= kMostJudged; ++first) {
    for (size_t second = first + 1; second < numbers.size() && regular.first == 0; ++second) {
      const int64_t distance = numbers[second] - numbers[first];
      int64_t count = 0, ns = 0, last = 0;
      for (size_t i = first; i < numbers.size(); ++i) {
        if ((numbers[i] - numbers[first]) % distance != 0) continue;
        ++count;
        ns += DurationOf(steps[i]);
        last = numbers[i];
      }
      const auto places = static_cast<double>((last - numbers[first]) / distance + 1);
      const bool are_most = static_cast<double>(count) >= kCommonPart * places &&
                            static_cast<double>(ns) >= kRegularPart * static_cast<double>(all_ns);
      if (are_most && count > kLeastRegular && distance > 1) regular = {distance, count};
    }
  }
  return regular;
}

int64_t InputNs(const Step& step) {
  int64_t input_ns = 0;
  for (const PhaseInterval& phase : step.phases) {
    if (phase.kind == PhaseKind::kInput) input_ns += phase.end_ns - phase.start_ns;
  }
  return input_ns;
}

// `all`: the steps of the run.
void LeaveOutInterrupted(const std::vector<const StepTrack*>& all, ComparedSteps& steps) {
  const std::vector<int64_t> durations = steps.Durations();
  if (durations.empty()) return;
  const double limit_ns = InterruptedNs(durations);
  for (size_t i = 0; i < steps.tracks.size(); ++i) {
    std::vector<Step>& own = steps.tracks[i].steps;
    const auto is_interrupted = [&](const Step& step) { return static_cast<double>(DurationOf(step)) > limit_ns; };
    StepTrack& left_out = steps.interrupted_tracks.emplace_back();
    left_out.process = steps.tracks[i].process;
    left_out.thread = steps.tracks[i].thread;
    std::vector<int64_t> numbers;
    int64_t number = 0;
    auto next = own.begin();
    StepKind before = steps.kind;
    for (const Step& step : all[i]->steps) {
      if (next != own.end() && next->start_ns == step.start_ns && is_interrupted(*next++)) {
        numbers.push_back(number);
        left_out.steps.push_back(step);
        steps.interrupted_ns += DurationOf(step);
        steps.interrupted_input_ns += InputNs(step);
        steps.interrupted_after_validation += before == StepKind::kValidation ? 1 : 0;
      }
      number += step.kind == steps.kind ? 1 : 0;
      before = step.kind;
    }
    steps.interrupted += static_cast<int64_t>(numbers.size());
    if (i == 0) {
      std::tie(steps.interrupted_every, steps.interrupted_regularly) = DistanceOf(left_out.steps, numbers);
    }
    own.erase(std::remove_if(own.begin(), own.end(), is_interrupted), own.end());
  }
}

// "6th", "22nd".
std::string Ordinal(int64_t number) {
  const bool is_teen = number / 10 % 10 == 1;
  const char* const ends[] = {"th", "st", "nd", "rd"};
  return absl::StrCat(number, is_teen || number % 10 > 3 ? "th" : ends[number % 10]);
}

}  // namespace

std::string WhenInterrupted(const ComparedSteps& steps) {
  std::vector<std::string> when;
  if (steps.interrupted_every > 0) {
    when.push_back(absl::StrCat(steps.interrupted_regularly < steps.interrupted ? "most of them each " : "each ",
                                Ordinal(steps.interrupted_every)));
  }
  if (steps.interrupted > 0 && steps.interrupted_after_validation == steps.interrupted) {
    when.emplace_back("after validation");
  }
  return absl::StrJoin(when, ", ");
}

double InterruptedNs(const std::vector<int64_t>& durations_ns) {
  const Quartiles quartiles = QuartilesOf(durations_ns);
  const double fence =
      static_cast<double>(quartiles.upper) + kOuterFence * static_cast<double>(quartiles.upper - quartiles.lower);
  return std::max(fence, kHalfAsLongAgain * static_cast<double>(quartiles.median));
}

std::string InterruptedSentence(const std::vector<int64_t>& durations_ns) {
  int64_t count = 0, sum_ns = 0;
  const double limit_ns = durations_ns.empty() ? 0 : InterruptedNs(durations_ns);
  for (const int64_t duration_ns : durations_ns) {
    if (static_cast<double>(duration_ns) <= limit_ns) continue;
    ++count;
    sum_ns += duration_ns;
  }
  if (count == 0) return "";
  return absl::StrCat(" ", count, count == 1 ? " of them is much longer, " : " of them are much longer, ",
                      HumanTime(static_cast<double>(sum_ns) / static_cast<double>(count)),
                      count == 1 ? "" : " on average", ": dlhook report without --table leaves such steps out.");
}

int64_t ComparedSteps::count() const {
  int64_t count = 0;
  for (const StepTrack& track : tracks) count += static_cast<int64_t>(track.steps.size());
  return count;
}

double ComparedSteps::samples() const {
  int64_t sum = 0;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) {
      if (step.samples == 0) return 0;
      sum += step.samples;
    }
  }
  return sum == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count());
}

int64_t ComparedSteps::total_ns() const {
  int64_t total_ns = 0;
  for (int64_t duration_ns : Durations()) total_ns += duration_ns;
  return total_ns;
}

double ComparedSteps::MeanWithInterruptedNs() const {
  return static_cast<double>(total_ns() + interrupted_ns) / static_cast<double>(count() + interrupted);
}

std::vector<int64_t> ComparedSteps::Durations() const {
  std::vector<int64_t> durations;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) durations.push_back(DurationOf(step));
  }
  return durations;
}

std::vector<StepKind> KindsOfSteps(const std::vector<StepTrack>& tracks) {
  std::vector<StepKind> kinds;
  for (StepKind kind : {StepKind::kTraining, StepKind::kInference, StepKind::kUnknown}) {
    for (const StepTrack* track : FirstTracks(tracks)) {
      const bool has_kind = std::any_of(track->steps.begin(), track->steps.end(),
                                        [&](const Step& step) { return IsCounted(step, kind); });
      if (!has_kind) continue;
      kinds.push_back(kind);
      break;
    }
  }
  return kinds;
}

ComparedSteps ChooseSteps(const std::vector<StepTrack>& tracks, StepKind kind) {
  ComparedSteps chosen;
  chosen.kind = kind;
  bool need_scopes = false;
  for (const StepTrack* track : FirstTracks(tracks)) {
    for (const Step& step : track->steps) need_scopes |= IsCounted(step, kind) && step.has_scopes;
  }
  for (const StepTrack* track : FirstTracks(tracks)) {
    StepTrack& own = chosen.tracks.emplace_back();
    own.process = track->process;
    own.thread = track->thread;
    own.by_kind_only = track->by_kind_only;
    own.steps.reserve(track->steps.size());
    for (const Step& step : track->steps) {
      if (!IsCounted(step, kind) || (need_scopes && !step.has_scopes)) continue;
      own.steps.push_back(step);
      chosen.batch_is_rows |= step.batch_is_rows;
    }
    const bool has_others = own.steps.size() > 1;
    if (has_others && kind != StepKind::kInference && own.steps.back().end_ns == track->steps.back().end_ns) {
      own.steps.pop_back();
    }
    // What a table over these steps alone would mark.
    for (Step& step : own.steps) {
      step.is_regular = true;
      step.sort.clear();
    }
  }
  LeaveOutInterrupted(FirstTracks(tracks), chosen);
  chosen.batch = CommonBatch(chosen);
  chosen.other_threads = absl::c_count_if(tracks, [&](const StepTrack& track) {
    return absl::c_any_of(track.steps, [&](const Step& step) { return IsCounted(step, kind); });
  });
  chosen.other_threads -= absl::c_count_if(chosen.tracks, [](const StepTrack& track) { return !track.steps.empty(); });
  return chosen;
}

ComparedSteps MainSteps(const std::vector<StepTrack>& tracks) {
  const std::vector<StepKind> kinds = KindsOfSteps(tracks);
  return kinds.empty() ? ComparedSteps() : ChooseSteps(tracks, kinds.front());
}

std::vector<ComparedSteps> CutIntoBlocks(const ComparedSteps& steps, size_t blocks) {
  size_t most = 0;
  for (const StepTrack& track : steps.tracks) most = std::max(most, track.steps.size());
  std::vector<ComparedSteps> cut(std::min(blocks, most));
  for (size_t block = 0; block < cut.size(); ++block) {
    cut[block].kind = steps.kind;
    cut[block].batch = steps.batch;
    cut[block].batch_is_rows = steps.batch_is_rows;
    for (const StepTrack& track : steps.tracks) {
      const size_t begin = block * track.steps.size() / cut.size();
      const size_t end = (block + 1) * track.steps.size() / cut.size();
      StepTrack& part = cut[block].tracks.emplace_back();
      part.process = track.process;
      part.thread = track.thread;
      part.by_kind_only = track.by_kind_only;
      part.steps.assign(track.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                        track.steps.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return cut;
}

std::string StepWord(StepKind kind) {
  switch (kind) {
    case StepKind::kTraining:
      return "training step";
    case StepKind::kInference:
      return "request";
    default:
      return "step";
  }
}

}  // namespace dlhook::analyzer::steps
