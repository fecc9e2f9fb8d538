#include "analyzer/steps/compared_steps.h"

#include "analyzer/steps/measured_steps.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr double kOuterFence = 3;  // interquartile ranges
constexpr double kHalfAsLongAgain = 1.5;
constexpr double kCommonPart = 0.9;
constexpr int64_t kLeastRegular = 2;   // distances that are equal
constexpr size_t kMostJudged = 256;    // numbers
constexpr double kRegularPart = 0.75;  // of the time of much longer steps

int64_t DurationOf(const Step& step) { return step.end_ns - step.start_ns; }

using SortOfSteps = std::pair<StepKind, std::string>;

// Of a step that was not recorded: whether its end is known, from the optimizer's range.
bool IsTimed(const Step& step) {
  return step.kind == StepKind::kTraining &&
         absl::c_any_of(step.phases, [](const PhaseInterval& phase) { return phase.kind == PhaseKind::kUpdate; });
}

// Not in a window.
bool IsOutside(const Step& step) { return step.left_out == LeftOut::kNotRecorded || step.left_out == LeftOut::kSlow; }

bool IsLikeOthers(const Step& step) {
  return step.is_regular || step.kind == StepKind::kInference || step.kind == StepKind::kValidation;
}

// The first track of each process; tracks are ordered by time, most first.
std::vector<const StepTrack*> FirstTracks(const std::vector<StepTrack>& tracks) {
  std::vector<const StepTrack*> first;
  for (const StepTrack& track : tracks) first.push_back(&track);
  const auto process_of = [](const StepTrack* track) { return track->process; };
  std::ranges::stable_sort(first, {}, process_of);
  const auto others = std::ranges::unique(first, {}, process_of);
  first.erase(others.begin(), others.end());
  return first;
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

template <typename IsIt>
int64_t NsOfPhases(const Step& step, IsIt is_it) {
  int64_t ns = 0;
  for (const PhaseInterval& phase : step.phases) ns += is_it(phase.kind) ? phase.end_ns - phase.start_ns : 0;
  return ns;
}

int64_t InputNs(const Step& step) {
  return NsOfPhases(step, [](PhaseKind kind) { return kind == PhaseKind::kInput; });
}

// Without what the program does before it: saving a checkpoint, say.
int64_t PassesNs(const Step& step) {
  if (step.phases.empty()) return DurationOf(step);
  return NsOfPhases(step, [](PhaseKind kind) { return kind != PhaseKind::kUnknown; });
}

// The same track without its steps.
StepTrack Emptied(const StepTrack& track) {
  return {.process = track.process, .thread = track.thread, .by_kind_only = track.by_kind_only};
}

void AddValidation(const std::vector<const StepTrack*>& all, ComparedSteps& steps) {
  for (const StepTrack* const track : all) {
    bool is_after_step = false;
    int64_t count = 0, ns = 0;
    for (const Step& step : track->steps) {
      if (step.kind == StepKind::kValidation && is_after_step) {
        ++count;
        ns += PassesNs(step);
      }
      if (step.kind != steps.kind) continue;
      is_after_step = true;
      if (count == 0) continue;
      ++steps.validations;
      steps.validation_steps += count;
      steps.validation_ns += ns;
      count = ns = 0;
    }
  }
}

// `all`: the steps of the run.
void AddInterrupted(const std::vector<const StepTrack*>& all, ComparedSteps& steps) {
  for (const StepTrack* const track : all) {
    StepTrack& interrupted = steps.interrupted_tracks.emplace_back(Emptied(*track));
    std::vector<int64_t> numbers;
    int64_t number = 0;
    StepKind before = steps.kind;
    for (const Step& step : track->steps) {
      if (step.kind == steps.kind && step.left_out == LeftOut::kMuchLonger) {
        numbers.push_back(number);
        interrupted.steps.push_back(step);
        interrupted.steps.back().left_out = LeftOut::kNot;
        steps.interrupted_ns += DurationOf(step);
        steps.interrupted_input_ns += InputNs(step);
        steps.interrupted_after_validation += before == StepKind::kValidation ? 1 : 0;
      }
      const bool is_last = &step == &track->steps.back();
      if (step.kind == steps.kind && IsOutside(step) && IsTimed(step) && !is_last) {
        ++steps.unrecorded;
        steps.unrecorded_ns += DurationOf(step);
      }
      number += step.kind == steps.kind ? 1 : 0;
      before = step.kind;
    }
    steps.interrupted += std::ssize(numbers);
    if (track == all.front()) {
      std::tie(steps.interrupted_every, steps.interrupted_regularly) = DistanceOf(interrupted.steps, numbers);
    }
  }
}

bool HasCounted(const StepTrack& track, StepKind kind) {
  return absl::c_any_of(track.steps, [&](const Step& step) { return step.kind == kind && step.counts(); });
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

void CountWaitsForWorkers(const TraceModel& model, StepTrack& track) {
  const int64_t middle_ns = track.steps.empty() ? 0 : track.steps[track.steps.size() / 2].start_ns;
  std::vector<int64_t> starts_ns;
  int64_t workers = 0;
  for (const ProcessInfo& process : model.processes) {
    if (process.parent_pid != model.processes[track.process].pid || process.calls > 0) continue;
    starts_ns.push_back(process.start_ns);
    workers += process.start_ns <= middle_ns && middle_ns < process.end_ns ? 1 : 0;
  }
  const auto only_waits = [&](const Step& step) {
    return step.left_out == LeftOut::kMuchLonger && 2 * InputNs(step) > DurationOf(step) &&
           absl::c_none_of(starts_ns, [&](int64_t ns) { return step.start_ns <= ns && ns < step.end_ns; });
  };
  std::vector<Step> longer;
  std::vector<int64_t> numbers;
  int64_t number = 0;
  for (const Step& step : track.steps) {
    if (step.kind != StepKind::kTraining) continue;
    if (only_waits(step)) {
      longer.push_back(step);
      numbers.push_back(number);
    }
    ++number;
  }
  if (workers < 2 || DistanceOf(longer, numbers).first != workers) return;
  for (Step& step : track.steps) {
    if (only_waits(step)) step.left_out = LeftOut::kNot;
  }
}

// One or two passes of a network before many of others, that never come again: the program tries it (measures a stride).
size_t TrialsOf(const std::vector<Step>& steps) {
  constexpr size_t kMany = 10;
  constexpr std::ptrdiff_t kMostTrials = 2;
  if (steps.size() < kMany || steps.front().kind != StepKind::kInference || steps.front().model.empty()) return 0;
  const auto is_other = [&](const Step& step) { return step.model != steps.front().model; };
  const auto first = absl::c_find_if(steps, is_other);
  const bool is_trial = first - steps.begin() <= kMostTrials && std::all_of(first, steps.end(), is_other);
  return is_trial ? static_cast<size_t>(first - steps.begin()) : 0;
}

std::vector<StepTrack> Judged(std::vector<StepTrack> tracks) {
  std::map<std::pair<ProcessIndex, SortOfSteps>, bool> has_scopes;
  const auto sort_of = [](const Step& step) { return SortOfSteps(step.kind, step.sort); };
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) {
      if (!step.is_warm_up && IsLikeOthers(step))
        has_scopes[{track.process, sort_of(step)}] |= step.has_scopes && !step.is_kept_as_slow;
    }
  }
  // Recording makes steps longer: those of windows and others, of which slow ones are kept, are judged apart.
  std::map<std::pair<SortOfSteps, LeftOut>, std::vector<int64_t>> durations;
  const auto is_judged = [](const Step& step) { return step.counts() || (IsOutside(step) && IsTimed(step)); };
  const auto group_of = [&](const Step& step) {
    return std::pair(sort_of(step), step.counts() ? LeftOut::kNot : LeftOut::kNotRecorded);
  };
  for (StepTrack& track : tracks) {
    std::map<SortOfSteps, int64_t> counts;
    const size_t trials = TrialsOf(track.steps);
    for (Step& step : track.steps) {
      const bool is_trial = static_cast<size_t>(&step - track.steps.data()) < trials;
      step.left_out = step.is_warm_up                                                 ? LeftOut::kWarmUp
                      : is_trial || !IsLikeOthers(step)                               ? LeftOut::kOther
                      : step.is_kept_as_slow                                          ? LeftOut::kSlow
                      : step.has_scopes != has_scopes[{track.process, sort_of(step)}] ? LeftOut::kNotRecorded
                                                                                      : LeftOut::kNot;
      counts[sort_of(step)] += step.counts() ? 1 : 0;
    }
    if (track.steps.empty()) continue;
    Step& last = track.steps.back();
    if (last.counts() && last.kind != StepKind::kInference && counts[sort_of(last)] > 1) {
      last.left_out = LeftOut::kCutShort;
    }
    for (const Step& step : track.steps) {
      if (is_judged(step)) durations[group_of(step)].push_back(DurationOf(step));
    }
  }
  std::map<std::pair<SortOfSteps, LeftOut>, double> limits_ns;
  for (const auto& [sort, of_sort] : durations) limits_ns[sort] = InterruptedNs(of_sort);
  for (StepTrack& track : tracks) {
    for (Step& step : track.steps) {
      if (is_judged(step) && static_cast<double>(DurationOf(step)) > limits_ns[group_of(step)])
        step.left_out = LeftOut::kMuchLonger;
    }
  }
  return tracks;
}

void LeftOutSteps::Add(const Step& step) {
  ++all;
  ++counts[static_cast<size_t>(step.left_out)];
  if (step.left_out == LeftOut::kMuchLonger) longer_ns += DurationOf(step);
}

std::string LeftOutSteps::Text() const {
  static constexpr std::pair<LeftOut, const char*> kWords[] = {{LeftOut::kWarmUp, " of warm-up"},
                                                               {LeftOut::kOther, " unlike the others"},
                                                               {LeftOut::kNotRecorded, " not recorded in full"},
                                                               {LeftOut::kSlow, " recorded for being slow"}};
  const auto count = [this](LeftOut why) { return counts[static_cast<size_t>(why)]; };
  std::vector<std::string> parts;
  for (const auto& [why, words] : kWords) {
    if (count(why) > 0) parts.push_back(absl::StrCat(count(why), words));
  }
  if (const int64_t longer = count(LeftOut::kMuchLonger); longer > 0) {
    parts.push_back(
        absl::StrCat(longer, " much longer of ", HumanTime(longer_ns / longer), longer > 1 ? " on average" : ""));
  }
  if (const int64_t last = count(LeftOut::kCutShort); last > 0)
    parts.push_back(last == 1 ? "the last one" : absl::StrCat(last, " last ones"));
  if (parts.size() < 2) return absl::StrJoin(parts, "");
  return absl::StrCat(absl::StrJoin(parts.begin(), parts.end() - 1, ", "), " and ", parts.back());
}

std::string LeftOutSteps::Sentence() const {
  const std::string text = Text();
  return text.empty() ? "" : absl::StrCat(" Left out: ", text, ".");
}

int64_t ComparedSteps::count() const {
  int64_t count = 0;
  for (const StepTrack& track : tracks) count += std::ssize(track.steps);
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

double ComparedSteps::ValidationNs() const {
  return static_cast<double>(validation_ns) / static_cast<double>(std::max<int64_t>(AllCount(), 1));
}

double ComparedSteps::MeanWithInterruptedNs() const {
  return static_cast<double>(AllNs()) / static_cast<double>(AllCount());
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
    const auto has_kind = [kind](const StepTrack* track) { return HasCounted(*track, kind); };
    if (absl::c_any_of(FirstTracks(tracks), has_kind)) kinds.push_back(kind);
  }
  return kinds;
}

ComparedSteps ChooseSteps(const std::vector<StepTrack>& tracks, StepKind kind) {
  ComparedSteps chosen;
  chosen.kind = kind;
  const std::vector<const StepTrack*> first = FirstTracks(tracks);
  for (const StepTrack* track : first) {
    StepTrack& own = chosen.tracks.emplace_back(Emptied(*track));
    own.steps.reserve(track->steps.size());
    for (const Step& step : track->steps) {
      if (step.kind != kind) continue;
      chosen.left_out.Add(step);
      if (!step.counts()) continue;
      own.steps.push_back(step);
      chosen.batch_is_rows |= step.batch_is_rows;
    }
    // What a table over these steps alone would mark.
    for (Step& step : own.steps) {
      step.is_regular = true;
      step.sort.clear();
    }
  }
  AddInterrupted(first, chosen);
  AddValidation(first, chosen);
  chosen.batch = CommonBatch(chosen);
  chosen.other_threads = absl::c_count_if(tracks, [&](const StepTrack& track) { return HasCounted(track, kind); });
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
      StepTrack& part = cut[block].tracks.emplace_back(Emptied(track));
      part.steps.assign(track.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                        track.steps.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return cut;
}

std::string StepWord(StepKind kind) {
  return kind == StepKind::kTraining ? "training step" : kind == StepKind::kInference ? "request" : "step";
}

}  // namespace dlhook::analyzer::steps
