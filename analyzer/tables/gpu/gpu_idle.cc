// Table `gpu_idle`: why GPUs do not compute, to the nanosecond. The rules are in gpu/gpu_idle.h.
#include "analyzer/gpu/gpu_idle.h"

#include "analyzer/model/op_kind.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "analyzer/tables/gpu/idle_shares.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Host activities below this part of the idle time share one row per cause.
constexpr double kSmallPart = 0.005;
constexpr size_t kLongestGaps = 3;
constexpr char kOutside[] = "[outside of steady steps]";

constexpr char kCauses[] =
    "Each nanosecond in which no kernel of the network runs has one. communication, copies: only that runs on the "
    "device. While nothing runs: profiler: what recorded an imported trace held up a call; else by what the thread "
    "that requested the next work did until it requested it: input pipeline: it was in the data loader; "
    "synchronization: it waited for the GPU, or would have requested that much earlier had it not waited before; "
    "launch-bound: it was busy with calls, framework or Python; no processor: the part of that in which, by the "
    "looks of the table threads, it had none; and from then on: launch-bound (or no processor) until the call "
    "returned, launch-bound for 20 us and the error of the GPU's clock (up to 1 ms) more, copies if it is a copy "
    "from or to the host or another device (others, and memsets, count as launches). not known: nothing is known of "
    "the thread, or the work waited longer, for another stream, device or the host.";

struct Gap {
  int64_t start_ns = INT64_MIN;
  int64_t length_ns = 0;
  std::array<int64_t, kIdleCauses> by_cause_ns = {};
  GpuIndex next = kNone;
};

class IdleTime {
 public:
  IdleTime(const TraceModel& model, const HostRules& rules, const GpuRun& run, GpuDeviceIndex device)
      : model_(model), device_(device), steady_(run.SteadyTime(device)), run_(run.RunTime(device)) {
    const ProcessInfo& process = model.processes[run.ProcessOf(device)];
    DivideIdleTime(model, rules, run.timelines(), device, {process.start_ns, process.end_ns},
                   [this](const IdlePiece& piece) { Take(piece); });
    KeepGap();
  }

  const std::vector<Gap>& longest_gaps() const { return longest_gaps_; }

  // By cause, most time first, unknown last; within a cause by time.
  std::vector<IdleShare> Shares(NextWork& next_work) const {
    std::map<std::pair<IdleCause, std::string>, IdleShare> by_label;
    int64_t all_ns = 0;
    std::array<int64_t, kIdleCauses> of_cause_ns = {};
    for (const auto& [kind, sums] : sums_) {
      IdleShare& share = by_label[{kind.cause, LabelOf(kind)}];
      share.Merge(sums);
      share.what = kind.what;
      of_cause_ns[static_cast<size_t>(kind.cause)] += sums.steady_ns;
      all_ns += sums.steady_ns;
    }
    std::vector<IdleShare> shares;
    std::map<IdleCause, std::pair<int64_t, IdleShare>> small;
    for (auto& [key, share] : by_label) {
      std::tie(share.cause, share.during) = key;
      if (static_cast<double>(share.steady_ns) >= kSmallPart * static_cast<double>(all_ns) && share.steady_ns > 0) {
        shares.push_back(std::move(share));
        continue;
      }
      ++small[share.cause].first;
      small[share.cause].second.Merge(share);
    }
    for (auto& [cause, others] : small) {
      others.second.cause = cause;
      others.second.during = others.second.steady_ns > 0 ? absl::StrCat("others (", others.first, ")") : kOutside;
      shares.push_back(std::move(others.second));
    }
    for (IdleShare& share : shares) {
      share.device = device_;
      share.part = static_cast<double>(share.steady_ns) / static_cast<double>(std::max<int64_t>(steady_.total_ns(), 1));
      share.then = next_work.NameOf(share.longest_next);
      share.layer = next_work.LayerOf(share.longest_next);
      share.line = next_work.LineOf(share.longest_next);
    }
    std::ranges::stable_sort(shares, {}, [&](const IdleShare& share) {
      return std::tuple(share.cause == IdleCause::kUnknown, -of_cause_ns[static_cast<size_t>(share.cause)], share.cause,
                        -share.steady_ns);
    });
    return shares;
  }

 private:
  using What = IdlePiece::What;
  struct OpenSums : IdleSums {
    int64_t gap_start_ns = INT64_MIN;  // of the current gap, and how much of it was added
    int64_t in_gap_ns = 0;
  };
  // A row's key without strings: one per op and name.
  struct Kind {
    IdleCause cause = IdleCause::kUnknown;
    What what = What::kNothing;
    uint32_t index = kNone;  // OpIndex for calls; for scopes any ScopeIndex with that name
    uint32_t id = kNone;     // OpIndex, NameIndex
    bool operator==(const Kind& other) const { return cause == other.cause && what == other.what && id == other.id; }
    template <typename H>
    friend H AbslHashValue(H h, const Kind& kind) {
      return H::combine(std::move(h), kind.cause, kind.what, kind.id);
    }
  };

  Kind KindOf(const IdlePiece& piece) const {
    Kind kind = {piece.cause, piece.what};
    if (piece.index == kNone) return kind;
    if (piece.what == What::kCall) kind.index = kind.id = model_.calls.op[piece.index];
    if (piece.what == What::kScope) {
      kind.index = piece.index;
      kind.id = model_.scopes.look[piece.index].name;
    }
    return kind;
  }

  static const std::string& NameOf(const Op& op) { return IsKind(op, OpKind::kCall) ? op.problem : op.function; }

  std::string LabelOf(const Kind& kind) const {
    switch (kind.what) {
      case What::kToDevice:
        return "HtoD";
      case What::kFromDevice:
        return "DtoH";
      case What::kOtherCopy:
        return kDeviceWorkLabel;
      case What::kCall:
        return kind.index == kNone ? "" : NameOf(model_.ops[kind.index]);
      case What::kScope:
        return ScopeLabel(model_, kind.index);
      case What::kPython:
        return kNotSeenLabel;
      case What::kAsked:
        return kNotStartedLabel;
      case What::kNothing:
        break;
    }
    return "";
  }

  void Take(const IdlePiece& piece) {
    const int64_t run_ns = run_.CoveredNs(piece.start_ns, piece.end_ns);
    const int64_t steady_ns = steady_.CoveredNs(piece.start_ns, piece.end_ns);
    if (run_ns == 0 && steady_ns == 0) return;
    OpenSums& sums = sums_[KindOf(piece)];
    sums.run_ns += run_ns;
    if (steady_ns == 0) return;
    sums.steady_ns += steady_ns;
    ++sums.times;
    if (sums.gap_start_ns != piece.gap_start_ns) {
      sums.gap_start_ns = piece.gap_start_ns;
      sums.in_gap_ns = 0;
      ++sums.gaps;
    }
    sums.in_gap_ns += steady_ns;
    if (sums.in_gap_ns > sums.longest_ns) {
      sums.longest_ns = sums.in_gap_ns;
      sums.longest_start_ns = piece.gap_start_ns;
      sums.longest_next = piece.next;
    }
    if (gap_.start_ns != piece.gap_start_ns) {
      KeepGap();
      gap_ = {.start_ns = piece.gap_start_ns};
    }
    gap_.length_ns += steady_ns;
    gap_.by_cause_ns[static_cast<size_t>(piece.cause)] += steady_ns;
    gap_.next = piece.next;
  }

  void KeepGap() {
    if (gap_.length_ns == 0) return;
    const auto place = absl::c_find_if(longest_gaps_, [&](const Gap& gap) { return gap.length_ns < gap_.length_ns; });
    longest_gaps_.insert(place, gap_);
    if (longest_gaps_.size() > kLongestGaps) longest_gaps_.pop_back();
  }

  const TraceModel& model_;
  const GpuDeviceIndex device_;
  const IntervalSet& steady_;
  const IntervalSet& run_;
  absl::flat_hash_map<Kind, OpenSums> sums_;
  Gap gap_;
  std::vector<Gap> longest_gaps_;
};

struct IdleRow {
  DeviceLabel device;
  IdleShare share;
  int64_t idle_ns = 0;  // of all rows of the device
  int64_t time_ns = 0;
  int64_t steps = 1;
};

TypedColumns<IdleRow> GpuIdleColumns(bool has_processes, int64_t start_ns) {
  const auto of_share = [](auto get) {
    return [get](const IdleRow& row) { return ToCell(std::invoke(get, row.share)); };
  };
  TypedColumns<IdleRow> columns = GpuLabelColumns(has_processes).Of(&IdleRow::device);
  columns.Add({
      {As(Role::kKey, TextColumn("cause", kCauses)), [](const IdleRow& row) { return IdleCauseName(row.share.cause); }},
      {As(Role::kKey, TextColumn("during")),
       "The call, framework op or data loader in which the host was, for synchronization the call that waited; the "
       "direction of copies that the device made.",
       of_share(Known(&IdleShare::during))},
      {TimeColumn("time"), "In a mean steady step (where no steps are found: in all).",
       [](const IdleRow& row) { return Mean(row.share.steady_ns, row.steps); }},
      {PercentColumn("percent", Better::kLower), "As a part of the steps' time.",
       [](const IdleRow& row) { return Percent(row.share.steady_ns, row.time_ns); }},
      {PercentColumn("idle_percent", Better::kNeither), "As a part of the time in which no kernel of the network runs.",
       [](const IdleRow& row) { return Percent(row.share.steady_ns, row.idle_ns); }},
      {IntegerColumn("gaps", "", Better::kLower), "Gaps between kernels to which it contributes, in all steady steps.",
       of_share(&IdleShare::gaps)},
      {Detail(IntegerColumn("times", "", Better::kLower)), "How often this happened in them.",
       of_share(&IdleShare::times)},
      {TimeColumn("longest"), "Its largest part of a single gap.",
       [](const IdleRow& row) { return row.share.longest_ns > 0 ? Cell(row.share.longest_ns) : Cell(); }},
      {IntegerColumn("longest_start", "ns", Better::kNeither), "When that gap began, since the run began.",
       [start_ns](const IdleRow& row) {
         return row.share.longest_ns > 0 ? Cell(row.share.longest_start_ns - start_ns) : Cell();
       }},
      {TextColumn("then"), "The device's next work: the call that launched it, else the kernel.",
       of_share(Known(&IdleShare::then))},
      {TextColumn("layer"), "Layer and direction that it was launched for.", of_share(Known(&IdleShare::layer))},
      {Detail(TextColumn("line")), "The line of the program that launched it.", of_share(Known(&IdleShare::line))},
      {As(Role::kWeight, Detail(TimeColumn("steady_time"))),
       "In all steady steps: the rows of a device add up to the time in which it does not compute, exactly, without "
       "time in which it works for other processes of the run.",
       of_share(&IdleShare::steady_ns)},
      {Detail(TimeColumn("run_time")), "In the whole run, as far as GPUs were measured; these add up in the same way.",
       of_share(&IdleShare::run_ns)},
  });
  return columns;
}

// "On device 0 no kernel runs in 4.50 ms of a mean step of 12.30 ms (36.6 %), nothing at all in 3.20 ms:
// synchronization 2.10 ms, …"
std::string DeviceNote(const TraceModel& model, const GpuRun& run, GpuDeviceIndex device,
                       const std::vector<IdleShare>& shares) {
  const int64_t steps = run.StepsOrOne(device);
  const int64_t time_ns = run.SteadyTime(device).total_ns();
  int64_t idle_ns = 0;
  std::vector<std::pair<std::string, int64_t>> causes;  // in the order of the rows
  for (const IdleShare& share : shares) {
    const std::string cause = IdleCauseName(share.cause);
    if (causes.empty() || causes.back().first != cause) causes.emplace_back(cause, 0);
    causes.back().second += share.steady_ns;
    idle_ns += share.steady_ns;
  }
  const IntervalSet& own = run.TimelineOf(device).busy;
  const IntervalSet others = BusyForOthers(model, run.timelines(), device).Difference(own);
  const int64_t others_ns = CoveredIn(others, run.SteadyTime(device));
  const int64_t nothing_ns = time_ns - CoveredIn(own, run.SteadyTime(device)) - others_ns;
  std::string note = absl::StrFormat(
      "On %s no kernel of the network runs in %s of %s of %s (%.1f %%), nothing at all in %s", run.NameOf(device),
      HumanTime(idle_ns / steps), run.Steps(device) == 0 ? "the run" : "a mean step", HumanTime(time_ns / steps),
      100.0 * static_cast<double>(idle_ns) / static_cast<double>(std::max<int64_t>(time_ns, 1)),
      HumanTime(nothing_ns / steps));
  const char* separator = ": ";
  for (const auto& [name, ns] : causes) {
    if (ns == 0) continue;
    absl::StrAppend(&note, separator, name, " ", HumanTime(ns / steps));
    separator = ", ";
  }
  if (others_ns > 0) {
    absl::StrAppend(&note, "; for ", HumanTime(others_ns / steps), " more it works for other processes alone");
  }
  return note + ".";
}

std::string GapNote(const TraceModel& model, const Gap& gap, const std::string& device, NextWork& next_work) {
  const auto most = absl::c_max_element(gap.by_cause_ns);
  const auto cause = static_cast<IdleCause>(most - gap.by_cause_ns.begin());
  std::string note =
      absl::StrCat("Gap of ", HumanTime(gap.length_ns), " on ", device, ", ", HumanTime(gap.start_ns - model.start_ns),
                   " after the run began, mostly ", IdleCauseName(cause));
  const std::string name = next_work.NameOf(gap.next), layer = next_work.LayerOf(gap.next),
                    line = next_work.LineOf(gap.next);
  if (!name.empty()) absl::StrAppend(&note, "; then ", name);
  if (!layer.empty()) absl::StrAppend(&note, " for layer ", layer);
  if (!line.empty()) absl::StrAppend(&note, ", ", line);
  return note + ".";
}

}  // namespace

void IdleSums::Merge(const IdleSums& other) {
  steady_ns += other.steady_ns;
  run_ns += other.run_ns;
  gaps += other.gaps;
  times += other.times;
  if (other.longest_ns <= longest_ns) return;
  longest_ns = other.longest_ns;
  longest_start_ns = other.longest_start_ns;
  longest_next = other.longest_next;
}

absl::StatusOr<Table> GpuIdleTable(const TraceModel& model, const TableOptions& options) {
  const GpuRun run(model, options);
  const TypedColumns<IdleRow> columns = GpuIdleColumns(run.HasSeveralProcesses(), model.start_ns);
  Table table = NewTable("gpu_idle", "Why GPUs do not compute", columns);
  if (run.devices().empty()) return table;
  const HostRules rules(model);
  NextWork next_work(model, options.analysis->attribution());
  for (GpuDeviceIndex device : run.devices()) {
    const IdleTime idle(model, rules, run, device);
    const std::vector<IdleShare> shares = idle.Shares(next_work);
    int64_t idle_ns = 0;
    for (const IdleShare& share : shares) idle_ns += share.steady_ns;
    const int64_t time_ns = run.SteadyTime(device).total_ns();
    for (const IdleShare& share : shares) {
      AddRow(columns, {run.LabelOf(device), share, idle_ns, time_ns, run.StepsOrOne(device)}, &table);
    }
    table.notes.push_back(DeviceNote(model, run, device, shares));
    for (const Gap& gap : idle.longest_gaps()) {
      table.notes.push_back(GapNote(model, gap, run.NameOf(device), next_work));
    }
  }
  run.AddNotes(&table);
  return table;
}

std::vector<IdleShare> IdleShares(const TraceModel& model, const TableOptions& options) {
  std::vector<IdleShare> all;
  const GpuRun run(model, options);
  if (run.devices().empty()) return all;
  const HostRules rules(model);
  NextWork next_work(model, options.analysis->attribution());
  for (GpuDeviceIndex device : run.devices()) {
    absl::c_move(IdleTime(model, rules, run, device).Shares(next_work), std::back_inserter(all));
  }
  return all;
}

}  // namespace dlhook::analyzer::tables
