#include "analyzer/diff/causes.h"

#include "analyzer/diff/contributions.h"
#include "analyzer/diff/diff_table.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr size_t kMostPlaces = 2;
constexpr int64_t kLeastApart = 20;  // steps of a side
constexpr double kApart = 1.5;
constexpr double kLineOfChange = 0.3;  // of a change that a line must have to be named

// Its name, and what a clause begins with where it takes more or less time.
struct CauseWords {
  const char *name, *more, *less;
};

const CauseWords& WordsOf(CauseKind kind) {
  static constexpr CauseWords kWords[] = {
      {"compilation", "more compilation", "less compilation"},
      {"layers", "", ""},
      {"passes", "", ""},
      {"calls", "more calls", "fewer calls"},
      {"work per call", "more work per call", "less work per call"},
      {"data types", "data types", "data types"},
      {"implementation", "another implementation", "another implementation"},
      {"operations", "other operations", "other operations"},
      {"memory formats", "memory formats", "memory formats"},
      {"input", "more time for input", "less time for input"},
      {"waiting", "longer waiting", "shorter waiting"},
      {"communication", "communication", "communication"},
      {"between calls", "more time between calls (Python or native code)",
       "less time between calls (Python or native code)"},
      {"busy machine", "a busier machine", "a less busy machine"},
      {"speed of the machine", "a slower machine", "a faster machine"},
      {"threads", "the same work takes longer", "the same work takes less time"},
      {"rate", "the same work takes longer", "the same work takes less time"},
      {"framework operations", "framework operations take longer", "framework operations take less time"},
      {"unattributed", "time with no known activity", "time with no known activity"}};
  static_assert(std::size(kWords) == static_cast<size_t>(CauseKind::kOther) + 1);
  return kWords[static_cast<size_t>(kind)];
}

std::string PlaceText(const WorkPlace& place) {
  const std::string layer = LayerLabel(place.first);
  return place.second.empty() ? layer : absl::StrCat(layer, " ", place.second);
}

// The keys with the largest sums in the direction of `change_ns`.
template <typename Key>
std::vector<Key> Largest(const std::map<Key, double>& sums, double change_ns) {
  std::vector<std::pair<double, Key>> order;
  for (const auto& [key, ns] : sums) {
    if (ns * change_ns > 0) order.emplace_back(-std::abs(ns), key);
  }
  absl::c_sort(order);
  std::vector<Key> keys;
  for (auto& [ns, key] : order) keys.push_back(std::move(key));
  return keys;
}

std::string WhereText(const std::map<WorkPlace, double>& places, double change_ns) {
  const std::vector<WorkPlace> largest = Largest(places, change_ns);
  std::vector<std::string> names;
  for (const WorkPlace& place : largest) {
    if (!place.first.empty() && names.size() < kMostPlaces) names.push_back(PlaceText(place));
  }
  const size_t more = largest.size() - std::min(largest.size(), kMostPlaces);
  if (names.empty()) return "";
  return absl::StrCat(absl::StrJoin(names, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

// What threads did in the side that takes longer.
std::string WhatThreadsDid(const CauseInput& input, CauseKind kind, double change_ns) {
  const MeasuredRun& run = change_ns > 0 ? *input.new_side : *input.base;
  std::string did;
  if (kind == CauseKind::kInput) did = run.preparing.Text();
  if (kind == CauseKind::kPython) did = LooksText(run.between_calls, "was");
  return did.empty() ? ""
                     : absl::StrCat(change_ns > 0 ? "in NEW " : "in BASE ",
                                    kind == CauseKind::kPython ? "the thread " : "", did);
}

// Of the time between calls: the line that has most of the change, if that is much of it.
std::string LineOfChange(const MeasuredRun& base, const MeasuredRun& new_side, double change_ns) {
  const MeasuredRun &longer = change_ns > 0 ? new_side : base, &other = change_ns > 0 ? base : new_side;
  std::string most;
  double most_ns = kLineOfChange * std::abs(change_ns);
  for (const auto& [line, ns] : longer.between_lines) {
    const auto same = other.between_lines.find(line);
    const double more_ns = ns - (same == other.between_lines.end() ? 0 : same->second);
    if (more_ns < most_ns) continue;
    most = line;
    most_ns = more_ns;
  }
  return most;
}

constexpr double kMostSteps = 0.75;

Samples Minus(Samples samples, const Samples& others) {
  for (size_t run = 0; run < std::min(samples.size(), others.size()); ++run) {
    for (size_t i = 0; i < std::min(samples[run].size(), others[run].size()); ++i) samples[run][i] -= others[run][i];
  }
  return samples;
}

// Without the time in which its first thread waited for a processor that other programs used.
Samples OwnTime(const MeasuredRun& run) {
  return Minus(run.samples, Scaled(run.load.waiting_samples, run.load.OthersPart()));
}

// By which factor the same work may take more processor time where threads have to wait: those that wait actively for
// one without a processor keep their own as long as it waits; and others that share a core or its caches slow it down.
double CrowdFactor(const MachineLoad& load) {
  const double threads = std::max(std::min(load.own.wanted ? load.own.threads : load.threads, load.allowed), 2U);
  const double first_ns = load.first_thread_cpu_ns > 0 ? load.first_thread_cpu_ns : load.cpu_ns;
  return first_ns > 0 ? 1 + (threads - 1) * load.waiting_ns / first_ns : 1;
}

TimeChange ChangeOf(const Samples& base, const Samples& new_side, double base_factor, double new_factor) {
  TimeChange change;
  change.base_samples = Scaled(base, base_factor);
  change.new_samples = Scaled(new_side, new_factor);
  change.base_ns = MeanOf(change.base_samples);
  change.new_ns = MeanOf(change.new_samples);
  return change;
}

// Whether most steps of the slower side take longer than most of the other one's.
bool AreMostSteps(const MeasuredRun& slower, double slower_factor, const MeasuredRun& faster, double faster_factor) {
  const std::vector<int64_t> durations = slower.steps.Durations();
  const double most_ns = faster_factor * static_cast<double>(QuartilesOf(faster.steps.Durations()).upper);
  const auto longer =
      absl::c_count_if(durations, [&](int64_t ns) { return slower_factor * static_cast<double>(ns) > most_ns; });
  return static_cast<double>(longer) >= kMostSteps * static_cast<double>(durations.size());
}

}  // namespace

const char* CauseName(CauseKind kind) { return WordsOf(kind).name; }

std::string Cause::Clause() const {
  const bool is_more = change_ns > 0;
  const std::string in = !line.empty()   ? absl::StrCat(", above all at ", line)
                         : where.empty() ? ""
                                         : absl::StrCat(" in ", where);
  const std::string words = is_more ? WordsOf(kind).more : WordsOf(kind).less;
  switch (kind) {
    case CauseKind::kLayers:
      return what;
    case CauseKind::kPasses:
      return absl::StrCat(where, ": ", what);
    case CauseKind::kBusyMachine:
    case CauseKind::kSlowerMachine:
      return absl::StrCat(words, ": ", what);
    case CauseKind::kThreads:
      return where.empty() ? what : absl::StrCat(what, ": ", words, in);
    case CauseKind::kRate:
      return absl::StrCat(words, in);
    case CauseKind::kUnknownSizes:
      return absl::StrCat(words, in, " (of the same sizes or not is not recorded)");
    case CauseKind::kOther:
      return words;
    default:
      return absl::StrCat(words, what.empty() ? "" : ": ", what, in);
  }
}

std::vector<Cause> FindCauses(const CauseInput& input) {
  struct Sums {
    double ns = 0;
    std::map<std::string, double> what;
    std::map<WorkPlace, double> where;
  };
  std::map<CauseKind, Sums> kinds;
  for (const ChangePart& part : DivideChange(input)) {
    Sums& sums = kinds[part.kind];
    sums.ns += part.ns;
    sums.what[part.what] += part.ns;
    sums.where[part.place] += part.ns;
  }
  std::vector<Cause> causes;
  for (const auto& [kind, sums] : kinds) {
    if (sums.ns == 0) continue;
    const std::vector<std::string> what = Largest(sums.what, sums.ns);
    const std::string did = WhatThreadsDid(input, kind, sums.ns);
    causes.push_back({kind, sums.ns, what.empty() || !did.empty() ? did : what.front(), WhereText(sums.where, sums.ns),
                      kind == CauseKind::kPython ? LineOfChange(*input.base, *input.new_side, sums.ns) : ""});
  }
  absl::c_stable_sort(causes,
                      [](const Cause& a, const Cause& b) { return std::abs(a.change_ns) > std::abs(b.change_ns); });
  return causes;
}

Table CausesTable(const std::vector<Cause>& causes, const Decision& decision) {
  // Whole nanoseconds that add up: what rounding leaves over is the largest one's.
  const auto whole_ns = std::llround(decision.whole.change_ns());
  std::vector<std::pair<const Cause*, int64_t>> rows;
  int64_t sum_ns = 0;
  for (const Cause& cause : causes) {
    rows.emplace_back(&cause, std::llround(cause.change_ns));
    sum_ns += rows.back().second;
  }
  if (!rows.empty()) rows.front().second += whole_ns - sum_ns;
  std::erase_if(rows, [](const auto& row) { return row.second == 0; });
  using Entry = std::pair<const Cause*, int64_t>;
  const TypedColumns<Entry> columns = {
      {As(Role::kKey, TextColumn("cause")), "Kind of cause, as explained in docs/compare.md.",
       [](const Entry& row) { return Cell(std::string(CauseName(row.first->kind))); }},
      {Within(Range::kSigned, IntegerColumn("change", "ns", Better::kLower)),
       "Of a step, new minus base; the rows add up to it.", [](const Entry& row) { return Cell(row.second); }},
      {Within(Range::kSigned, RealColumn("percent", "%", Better::kLower)), "The same as a part of the base's step.",
       [&](const Entry& row) { return Percent(row.second, std::llround(decision.whole.base_ns)); }},
      {TextColumn("what"), "What differs: of that which changed most.",
       [](const Entry& row) { return KnownText(row.first->what); }},
      {TextColumn("where"), "Layers and directions that changed most.",
       [](const Entry& row) { return KnownText(row.first->where); }}};
  return NewTable(
      "causes",
      absl::StrCat("What changed a step by ", SignedTime(decision.whole.change_ns()), "; the rows add up to it"),
      columns, rows);
}

Gate Decision::SlowerThan(double percent) const {
  if (with_longer.finding == Speed::kSlower && with_longer.change_ns() > percent / 100 * with_longer.base_ns) {
    return Gate::kFails;
  }
  const TimeChange& judged = is_by_cpu ? cpu : time;
  const double excess_ns = judged.change_ns() - percent / 100 * judged.base_ns;
  if (excess_ns <= 0) return Gate::kPasses;
  if (judged.finding == Speed::kUnknown) return Gate::kCannotTell;
  return judged.finding == Speed::kSlower && excess_ns > *judged.noise_ns ? Gate::kFails : Gate::kPasses;
}

namespace {

// Rows of products that are no samples (time steps, say) change without what a step computes.
bool GrowsWithBatch(double work_ratio, double batch_ratio) {
  return work_ratio == 0 || std::abs(std::log(work_ratio / batch_ratio)) < std::abs(std::log(work_ratio));
}

// By how much the shorter steps of one side, less its mean wait for processors, exceed the longer ones of the other; 0: they
// are not far apart.
double ApartNs(const MeasuredRun& slower, double factor, const MeasuredRun& faster, double faster_factor) {
  if (!slower.load.is_known || std::min(slower.steps.count(), faster.steps.count()) < kLeastApart) return 0;
  const auto part = [](const MeasuredRun& run) {  // of a step, if that is compared by its parts
    return run.time_ns * static_cast<double>(run.steps.count()) / static_cast<double>(run.steps.total_ns());
  };
  const auto lower = static_cast<double>(QuartilesOf(slower.steps.Durations()).lower);
  const auto upper = static_cast<double>(QuartilesOf(faster.steps.Durations()).upper);
  const double least_ns = factor * (part(slower) * lower - slower.load.waiting_ns);
  const double most_ns = faster_factor * part(faster) * upper;
  return least_ns > kApart * most_ns ? least_ns - most_ns : 0;
}

}  // namespace

Decision Decide(const MeasuredRun& before, const MeasuredRun& after, const Pace& pace, bool is_same_work,
                std::pair<double, double> flops) {
  const double base_samples = before.steps.samples(), samples = after.steps.samples();
  const double work_ratio = flops.first > 0 ? flops.second / flops.first : 0;
  Decision decision;
  decision.is_same_work = is_same_work;
  if (is_same_work) decision.pace = pace;
  double base_factor = 1, factor = 1;
  if (before.steps.count() == 0) decision.per = Per::kRun;
  if (decision.per == Per::kStep && before.steps.batch != after.steps.batch && before.steps.batch > 0 &&
      after.steps.batch > 0 && base_samples > 0 && samples > 0 && base_samples != samples &&
      GrowsWithBatch(work_ratio, samples / base_samples)) {
    decision.per = Per::kSample;
    base_factor = 1 / base_samples;
    factor = 1 / samples;
  }
  decision.low = ChangeOf(before.low_samples, after.low_samples, base_factor, factor);
  Judge(decision.pace, kPaceOfStep, 1, decision.low);
  decision.time = ChangeOf(before.samples, after.samples, base_factor, factor);
  decision.time.base_ns = before.time_ns * base_factor;  // blocks may differ by a step
  decision.time.new_ns = after.time_ns * factor;
  Judge(decision.pace, kPaceOfStep, 1, decision.time);
  const bool knows_both = before.load.is_known && after.load.is_known;
  if (knows_both && decision.per != Per::kRun) {
    decision.cpu = ChangeOf(before.load.cpu_samples, after.load.cpu_samples, base_factor, factor);
    const double crowd = CrowdFactor(after.load) / CrowdFactor(before.load);
    Judge({crowd * std::pow(decision.pace.ratio, kPaceOfStep)}, 1, 1, decision.cpu);
  }
  double own_change_ns = decision.time.change_ns();
  if ((before.load.is_known || after.load.is_known) && decision.per != Per::kRun) {
    // A side whose waiting is not known counts as if it had not waited.
    TimeChange running = ChangeOf(OwnTime(before), OwnTime(after), base_factor, factor);
    Judge(decision.pace, kPaceOfStep, 1, running);
    own_change_ns = running.change_ns();
    if (running.finding != decision.time.finding) decision.doubt = Doubt::kWaiting;
    // The machine was busy when the faster side ran, and how busy it was for the slower one is not known.
    const MeasuredRun& faster = decision.time.change_ns() > 0 ? before : after;
    if (!knows_both && faster.WaitedMuch()) decision.doubt = Doubt::kWaiting;
  }
  const bool is_slower = decision.time.change_ns() > 0;
  // On an idle machine it is the program whose steps differ: workers that deliver together.
  const bool may_be_others = !knows_both || before.WaitedMuch() || after.WaitedMuch();
  if (is_same_work && may_be_others && decision.low.finding != decision.time.finding &&
      !(is_slower ? AreMostSteps(after, factor, before, base_factor)
                  : AreMostSteps(before, base_factor, after, factor)))
    decision.doubt = Doubt::kOnlySomeSteps;
  if (!decision.time.IsBeyondNoise()) decision.doubt = Doubt::kNone;
  if (decision.doubt != Doubt::kNone) decision.time.finding = Speed::kNoise;
  // Where others disturb the times, the processor time that the program needs decides, if it is what changed, or all that did.
  const double cpu_change_ns = decision.cpu.change_ns();
  if ((before.WaitedMuch() || after.WaitedMuch()) && decision.cpu.IsBeyondNoise() &&
      (decision.time.finding == Speed::kNoise ||
       (cpu_change_ns * decision.time.change_ns() > 0 && std::abs(cpu_change_ns) >= std::abs(own_change_ns) / 2))) {
    decision.is_by_cpu = true;
    decision.doubt = Doubt::kNone;
    decision.time.finding = decision.cpu.finding;
  }
  if (decision.time.finding == Speed::kNoise) {
    const double apart_ns =
        is_slower ? ApartNs(after, factor, before, base_factor) : ApartNs(before, base_factor, after, factor);
    // Else a few steps of the faster side make up for it.
    if (apart_ns > 0 && apart_ns < std::abs(decision.time.change_ns())) {
      decision.doubt = Doubt::kNone;
      decision.time.finding = is_slower ? Speed::kSlower : Speed::kFaster;
      decision.time.noise_ns = std::abs(decision.time.change_ns()) - apart_ns;
    }
  }
  decision.whole = decision.time;
  if (decision.per == Per::kSample) {
    decision.whole = ChangeOf(before.samples, after.samples, 1, 1);
    Judge(decision.pace, kPaceOfStep, 1, decision.whole);
  }
  return decision;
}

}  // namespace dlhook::analyzer::diff
