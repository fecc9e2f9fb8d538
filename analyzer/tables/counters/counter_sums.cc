// Sums of counters by row: see counter_sums.h.
#include "analyzer/tables/counters/counter_sums.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/tables/columns.h"
#include "preload/counters/counter_names.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr absl::string_view kClock = "task-clock";
constexpr double kMostSkew = 1.05;
constexpr size_t kCountersInText = 4;  // columns, including time
constexpr absl::string_view kSoftware[] = {"task-clock",         "minor-faults",         "major-faults",
                                           "voluntary-switches", "involuntary-switches", "cpu-migrations"};

constexpr char kShareExplanation[] =
    "Each instant of a process is divided equally among the threads that work in it; this is the row's part of the "
    "whole run.";
constexpr char kRunningExplanation[] =
    "Of the time that threads spent at it (workers without recorded calls aside) the part in which they ran on a "
    "processor; else they waited, for something or for a processor.";
constexpr char kEstimatedExplanation[] =
    "Part of the running time (else of the first counter) that other threads of the process counted: workers without "
    "recorded calls, given to what the process did meanwhile.";

// Ignores ":u" and ":k".
bool IsClock(absl::string_view counter) {
  return counter == kClock || absl::StartsWith(counter, absl::StrCat(kClock, ":"));
}

Column CounterColumn(const std::string& counter) {
  KnownCounter known = {};
  const bool is_known = FindKnownCounter(counter.c_str(), &known);
  const bool is_time = is_known && known.unit == CounterUnit::kNanoseconds;
  const std::string meaning = is_known ? absl::StrCat(": ", known.meaning) : "";
  std::string explanation = absl::StrCat("Counter ", counter, meaning, ". Summed over the run.");
  return As(Role::kAmount,
            IntegerColumn(CounterColumnName(counter), is_time ? "ns" : "", Better::kLower, std::move(explanation)));
}

// The first of those with one name; the others are formulas for other processors.
std::vector<const DerivedMetric*> DistinctMetrics() {
  std::vector<const DerivedMetric*> metrics;
  for (const DerivedMetric& metric : DerivedMetrics()) {
    const bool is_new =
        std::none_of(metrics.begin(), metrics.end(), [&](const auto* known) { return known->name == metric.name; });
    if (is_new) metrics.push_back(&metric);
  }
  return metrics;
}

Cell PartOf(double part, double whole) { return whole > 0 ? Cell(100.0 * part / whole) : Cell(); }

}  // namespace

std::string CounterColumnName(absl::string_view counter) {
  std::string name;
  for (char c : counter) name += absl::ascii_isalnum(c) ? absl::ascii_tolower(c) : '_';
  return name;
}

CounterSums::CounterSums(const TraceModel& model, const CountedRun& run)
    : model_(model), run_(run), totals_(run.counters.size()) {
  for (NameIndex name : run.counters) names_.push_back(model.names[name]);
  for (CounterIndex i = 0; i < names_.size(); ++i) {
    if (clock_ == kNone && IsClock(names_[i])) clock_ = i;
  }
  if (clock_ != kNone) lead_ = clock_;
  for (const CounterTimeline& timeline : run.timelines) {
    for (size_t i = 0; i < timeline.amounts.size(); ++i) {
      totals_[timeline.counters[i % timeline.counters.size()]] += timeline.amounts[i];
    }
  }
}

CounterSums::RowSums& CounterSums::At(size_t row) {
  if (row >= sums_.size()) sums_.resize(row + 1);
  sums_[row].amounts.resize(names_.size());
  return sums_[row];
}

// In scopes in which threads mostly wait (time_division.h), a thread that does not run says nothing about the row.
bool CounterSums::TellsOfRunning(const CountedPiece& piece) const {
  if (piece.is_estimated || piece.kind == ActivityKind::kUnattributed) return false;
  return piece.kind != ActivityKind::kScope || !FactsOf(model_.scopes.look[piece.index].kind).is_wait;
}

void CounterSums::Take(size_t row, const CountedPiece& piece) {
  RowSums& sums = At(row);
  sums.share_ns += piece.share_ns;
  for (size_t j = 0; j < piece.counters.size(); ++j) {
    const CounterIndex counter = piece.counters[j];
    sums.amounts[counter] += piece.amounts[j];
    if (piece.is_estimated && counter == lead_) sums.estimated += piece.amounts[j];
    if (counter == clock_ && TellsOfRunning(piece)) {
      sums.own_time_ns += static_cast<double>(piece.end_ns - piece.start_ns);
      sums.own_running_ns += piece.amounts[j];
    }
  }
}

void CounterSums::Divide(CounterRows* rows) {
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    DivideCounters(model_, run_, process, rows->Boundaries(process),
                   [&](const CountedPiece& piece) { Take(rows->RowOf(process, piece), piece); });
  }
  Round();
}

void CounterSums::ByThread() {
  has_shares_ = false;
  std::map<std::tuple<ProcessIndex, ThreadIndex, uint32_t>, size_t> numbers;
  for (size_t i = 0; i < run_.timelines.size(); ++i) {
    const CounterTimeline& timeline = run_.timelines[i];
    const auto [at, is_new] =
        numbers.emplace(std::tuple(timeline.process, timeline.thread, timeline.tid), threads_.size());
    if (is_new) threads_.push_back(i);
    RowSums& sums = At(at->second);
    for (size_t j = 0; j < timeline.amounts.size(); ++j) {
      const CounterIndex counter = timeline.counters[j % timeline.counters.size()];
      sums.amounts[counter] += static_cast<double>(timeline.amounts[j]);
      if (counter != clock_) continue;
      const size_t interval = j / timeline.counters.size();
      sums.own_time_ns += static_cast<double>(timeline.end_ns[interval] - timeline.start_ns[interval]);
      sums.own_running_ns += static_cast<double>(timeline.amounts[j]);
    }
  }
  Round();
}

void CounterSums::Round() {
  for (RowSums& sums : sums_) {
    sums.amounts.resize(names_.size());
    sums.counts.resize(names_.size());
  }
  for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
    std::vector<double> parts;
    for (const RowSums& sums : sums_) parts.push_back(sums.amounts[counter]);
    const std::vector<int64_t> counts = RoundToSum(parts, totals_[counter]);
    for (size_t row = 0; row < sums_.size(); ++row) sums_[row].counts[counter] = counts[row];
  }
}

// The time counter first.
std::vector<CounterIndex> CounterSums::InReportOrder() const {
  std::vector<CounterIndex> order;
  if (clock_ != kNone) order.push_back(clock_);
  for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
    if (counter != clock_) order.push_back(counter);
  }
  return order;
}

TypedColumns<size_t> CounterSums::Columns(bool has_shares) const {
  TypedColumns<size_t> columns;
  const auto add = [&](Column column, auto get) {
    const std::string name = column.name;
    for (int i = 2; columns.Find(column.name) != nullptr; ++i) column.name = absl::StrCat(name, "_", i);
    columns.Add({std::move(column), std::move(get)});
  };
  // kRest has only counters.
  const auto of_row = [this](auto get) {
    return [this, get](size_t row) { return row == CounterRows::kRest ? Cell() : Cell(get(sums_[row])); };
  };
  const auto add_running = [&] {
    add(Within(Range::kMeasured, PercentColumn("running_percent", Better::kNeither, kRunningExplanation)),
        of_row([this](const RowSums& sums) { return RunningPercent(sums); }));
  };
  const auto add_counter = [&](const std::string& name, CounterIndex counter) {
    Column column = CounterColumn(name);
    column.detail = columns.all().size() >= kCountersInText;  // derived metrics say more
    add(std::move(column), [this, counter](size_t row) {
      return row == CounterRows::kRest ? OrUnknown(RestOf(counter)) : Cell(sums_[row].counts[counter]);
    });
  };
  if (has_shares) {
    add(As(Role::kWeight, TimeColumn("wall_share", kShareExplanation)),
        of_row([](const RowSums& sums) { return sums.share_ns; }));
  }
  if (clock_ == kNone) add_running();
  for (CounterIndex counter : InReportOrder()) {
    add_counter(names_[counter], counter);
    if (counter == clock_) add_running();
  }
  if (names_.empty()) {
    for (absl::string_view counter : kSoftware) add_counter(std::string(counter), kNone);
  }
  for (const DerivedMetric* metric : DistinctMetrics()) {
    Column column = RealColumn(std::string(metric->name), std::string(metric->unit), metric->better,
                               absl::StrCat(metric->explanation, "."));
    column.detail = absl::EndsWith(metric->name, "_per_s");
    add(Within(Range::kMeasured, std::move(column)),
        of_row([this, metric](const RowSums& sums) { return Derived(*metric, sums); }));
  }
  add(PercentColumn("estimated_percent", Better::kNeither, kEstimatedExplanation), of_row([this](const RowSums& sums) {
        return PartOf(sums.estimated, names_.empty() || !has_shares_ ? 0 : sums.amounts[lead_]);
      }));
  return columns;
}

// A reading's time and its counters are not read at the same instant, so short spans may seem to run longer than they
// last.
Cell CounterSums::RunningPercent(const RowSums& sums) const {
  const bool is_all = sums.own_running_ns > sums.own_time_ns && sums.own_running_ns <= sums.own_time_ns * kMostSkew;
  return PartOf(is_all ? sums.own_time_ns : sums.own_running_ns, sums.own_time_ns);
}

// Uses the first of its formulas whose counters are known.
Cell CounterSums::Derived(const DerivedMetric& metric, const RowSums& sums) const {
  const auto amount_of = [&](absl::string_view counter) { return AmountOf(sums, counter); };
  for (const DerivedMetric& formula : DerivedMetrics()) {
    if (formula.name != metric.name) continue;
    if (const std::optional<double> value = formula.Of(amount_of)) return *value;
  }
  return std::monostate();
}

std::optional<double> CounterSums::AmountOf(const RowSums& sums, absl::string_view counter) const {
  if (counter == kWallShare) return has_shares_ ? static_cast<double>(sums.share_ns) : sums.own_time_ns;
  for (CounterIndex i = 0; i < names_.size(); ++i) {
    if (names_[i] == counter) return static_cast<double>(sums.counts[i]);
  }
  return std::nullopt;
}

std::optional<int64_t> CounterSums::RestOf(CounterIndex counter) const {
  int64_t rest = -totals_[counter];
  bool is_known = !run_.processes.empty();
  for (const ProcessCounts& process : run_.processes) {
    is_known = is_known && process.is_known[counter];
    rest += process.amount[counter];
  }
  return is_known ? std::optional(rest) : std::nullopt;
}

bool CounterSums::HasRest() const {
  for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
    if (RestOf(counter).value_or(0) != 0) return true;
  }
  return false;
}

// "Sum of the rows: task_clock 1.23 s (the process: 1.24 s), minor_faults 4711 …"
std::string CounterSums::SumsNote() const {
  std::vector<std::string> parts;
  for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
    const bool is_time = CounterColumn(names_[counter]).unit == "ns";
    const auto text = [&](int64_t amount) { return is_time ? HumanTime(amount) : absl::StrCat(amount); };
    std::string part = absl::StrCat(CounterColumnName(names_[counter]), " ", text(totals_[counter]));
    const std::optional<int64_t> rest = RestOf(counter);
    if (rest) absl::StrAppend(&part, " (process as a whole: ", text(totals_[counter] + *rest), ")");
    parts.push_back(std::move(part));
  }
  return absl::StrCat("Counted by the threads of the run: ", absl::StrJoin(parts, ", "), ".");
}

std::vector<std::string> CounterSums::Notes() const {
  std::vector<std::string> notes;
  if (names_.empty()) {
    notes.push_back(
        "No counters were read. Run again with DLHOOK_COUNTERS=software (`dlhook counters` says what this machine can "
        "count).");
    return notes;
  }
  notes.push_back(SumsNote());
  if (run_.enabled_ns > 0 && run_.running_ns < run_.enabled_ns) {
    notes.push_back(absl::StrFormat(
        "Counters shared the processor's registers: they were counted in %.0f %% of the time, and scaled.",
        100.0 * static_cast<double>(run_.running_ns) / static_cast<double>(run_.enabled_ns)));
  }
  return notes;
}

}  // namespace dlhook::analyzer::tables
