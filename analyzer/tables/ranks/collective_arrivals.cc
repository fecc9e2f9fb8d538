#include "analyzer/tables/ranks/collective_arrivals.h"

#include <ranges>

#include "analyzer/calls/scope_names.h"
#include "analyzer/model/same_work.h"
#include "analyzer/model/scope_looks.h"

namespace dlhook::analyzer::inline tables {
namespace {

using Member = CollectiveMember;

constexpr char kSeveralGroups[] =
    "communicators of equal size with the same rank twice: which processes belong together is not known";
constexpr char kOtherOrder[] =
    "communicators whose ranks made other collective calls from some call on (calls may be lost)";
constexpr char kCrossed[] =
    "kinds of operations of which some rank was done before another began, or made another number: several groups of "
    "ranks, or lost records";
constexpr char kApart[] =
    "communicators of which, by the clocks, some rank was done with an operation before another began it, in most of "
    "them: the clocks are apart, or the recordings begin with other operations";
constexpr char kSwapped[] =
    "operations that ran at the same time on a rank and began in another order than on the others";
constexpr char kBetweenTwo[] = "sends and receives between two ranks, which are compared with none";
constexpr double kMostSwapped = 0.05;  // of the operations of a kind; more are those of several groups
constexpr char kPartsOnly[] =
    "collective operations of a run that was read in parts can't be matched between ranks";  // which is the k-th?
constexpr char kLater[] = "operations later than the beginning of which the trace keeps all";

bool IsBetweenTwo(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive || kind == CollectiveKind::kSendReceive;
}

bool IsCollective(const Op& op) {
  if (!op.collective() || op.captured) return false;
  const CollectiveCall& collective = *op.collective();
  return !IsBetweenTwo(collective.kind) && collective.rank >= 0 && collective.ranks > 1 && collective.communicator > 0;
}

// The calls of each process that are to be matched, by time.
std::vector<std::vector<CallIndex>> CallsOfProcesses(const TraceModel& model) {
  const SameWork same_work(model);
  std::vector<bool> is_collective(model.ops.size());
  for (OpIndex op = 0; op < model.ops.size(); ++op) is_collective[op] = IsCollective(model.ops[op]);
  std::vector<std::vector<CallIndex>> calls(model.processes.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (!is_collective[model.calls.op[call]] || same_work.IsNested(call) || model.StatusOf(call) != 0) continue;
    calls[model.threads[model.calls.thread[call]].process].push_back(call);
  }
  for (std::vector<CallIndex>& of_process : calls) {
    absl::c_stable_sort(of_process,
                        [&](CallIndex a, CallIndex b) { return model.calls.start_ns[a] < model.calls.start_ns[b]; });
  }
  return calls;
}

}  // namespace

std::map<Communicator, std::vector<Member>> FindCommunicators(const TraceModel& model) {
  std::map<Communicator, std::vector<Member>> members;
  const std::vector<std::vector<CallIndex>> calls = CallsOfProcesses(model);
  for (ProcessIndex process = 0; process < calls.size(); ++process) {
    std::map<std::pair<std::string, uint64_t>, Member> mine;                          // by family and communicator
    std::map<std::tuple<std::string, int32_t, int32_t>, std::set<uint64_t>> numbers;  // by family, ranks and rank
    for (const CallIndex call : calls[process]) {
      const Op& op = model.ops[model.calls.op[call]];
      const CollectiveCall& collective = *op.collective();
      Member& member = mine[{op.family, collective.communicator}];
      member.process = process;
      member.rank = collective.rank;
      member.calls.push_back(call);
      numbers[{op.family, collective.ranks, collective.rank}].insert(collective.communicator);
    }
    for (auto& [key, of_kind] : numbers) {
      size_t place = 0;
      for (const uint64_t number : of_kind) {
        members[{std::get<0>(key), std::get<1>(key), place++}].push_back(std::move(mine[{std::get<0>(key), number}]));
      }
    }
  }
  return members;
}

RangeKind RangeKindOf(const TraceModel& model, ScopeIndex range) {
  const std::string& name = model.names[model.scopes.look[range].name];
  if (CollectiveOf(name) == CollectiveKind::kBarrier) return {name, 0};
  return {name, absl::StrContains(name, "sparse") ? -1 : model.scopes.link[range]};
}

std::map<RangeKind, std::vector<Member>> FindCollectiveRanges(const TraceModel& model) {
  const std::vector<bool> is_collective = CollectiveNames(model);
  std::map<std::pair<RangeKind, ProcessIndex>, Member> members;
  const auto is_range = [&](const ScopeLook& look) { return is_collective[look.name]; };
  ForEachScopeThat(model.scopes, is_range, [&](ScopeIndex scope) {
    RangeKind range = RangeKindOf(model, scope);
    const CollectiveKind kind = *CollectiveOf(range.name);
    if (IsBetweenTwo(kind)) return;
    if (kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kScatter || kind == CollectiveKind::kUnknown)
      range.bytes = -1;  // each rank's own
    const ProcessIndex process = model.threads[model.scopes.thread[scope]].process;
    Member& member = members[{range, process}];
    member.process = process;
    member.ranges.push_back(scope);
  });
  std::map<RangeKind, std::vector<Member>> by_kind;
  for (auto& [key, member] : members) {
    if (!absl::SimpleAtoi(RankOf(model.processes[member.process]), &member.rank)) continue;
    // Several threads of the backend alternate.
    absl::c_stable_sort(
        member.ranges, [&](ScopeIndex a, ScopeIndex b) { return model.scopes.start_ns[a] < model.scopes.start_ns[b]; });
    by_kind[key.first].push_back(std::move(member));
  }
  return by_kind;
}

std::vector<int64_t> OrderKnownUntil(const TraceModel& model) {
  std::vector<int64_t> until_ns(model.processes.size(), model.read_spans.empty() ? INT64_MAX : INT64_MIN);
  const auto end_at = [&](ProcessIndex process, int64_t ns) { until_ns[process] = std::min(until_ns[process], ns); };
  for (const AggregateRow& row : model.aggregates) {
    if (model.ops[row.op].collective()) end_at(model.threads[row.thread].process, row.window_start_ns);
  }
  const auto is_limit = [](const Loss& loss) { return loss.reason == LossReason::kTraceLimit; };
  for (const ScopeWindow& window : model.scope_windows) {
    if (absl::c_any_of(model.processes[window.process].losses, is_limit)) end_at(window.process, window.end_ns);
  }
  return until_ns;
}

int32_t RestartOf(const ProcessInfo& process) {
  int32_t restart = 0;
  return absl::SimpleAtoi(RankVariable(process, {"TORCHELASTIC_RESTART_COUNT"}), &restart) ? restart : 0;
}

absl::flat_hash_map<CallIndex, std::pair<int64_t, int64_t>> CollectivesOnGpu(const TraceModel& model) {
  absl::flat_hash_map<CallIndex, std::pair<int64_t, int64_t>> spans;
  for (GpuIndex i = 0; i < model.gpu.size(); ++i) {
    CallIndex call = model.gpu.call[i];  // or the launch that the collective made
    while (call != kNone && !model.ops[model.calls.op[call]].collective()) call = model.calls.parent[call];
    if (call == kNone) continue;
    const auto [span, is_new] = spans.try_emplace(call, model.gpu.start_ns[i], model.gpu.end_ns[i]);
    span->second.first = std::min(span->second.first, model.gpu.start_ns[i]);
    span->second.second = std::max(span->second.second, model.gpu.end_ns[i]);
  }
  return spans;
}

namespace {

// No rank completes such an operation before the last one has begun it.
bool IsSynchronizing(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll ||
         kind == CollectiveKind::kBarrier;
}

class Matcher {
 public:
  explicit Matcher(const TraceModel& model)
      : model_(model), spans_(CollectivesOnGpu(model)), until_ns_(OrderKnownUntil(model)) {}

  Meetings Match() {
    if (!model_.read_spans.empty()) {
      if (FindCollectiveRanges(model_).size() + FindCommunicators(model_).size() > 0) result_.oddities[kPartsOnly] = 1;
      return std::move(result_);
    }
    CountMessages();
    const std::map<RangeKind, std::vector<Member>> ranges = FindCollectiveRanges(model_);
    for (const bool is_synchronizing : {true, false}) {
      for (const auto& [range, all] : ranges) {
        const CollectiveKind kind = *CollectiveOf(range.name);
        if (IsSynchronizing(kind) != is_synchronizing) continue;
        ForEachStart(
            all, [&](const Member& a, const Member& b) { return MeetInRanges(kind, a, b); },
            [&](const std::vector<Member>& members) {
              if (!MatchRanges(kind, members)) ++result_.oddities[kCrossed];
            });
      }
    }
    MatchCalls();
    return std::move(result_);
  }

 private:
  void CountMessages() {
    const auto is_message = [&](const ScopeLook& look) {
      const std::optional<CollectiveKind> kind = CollectiveOf(model_.names[look.name]);
      return kind && IsBetweenTwo(*kind);
    };
    ForEachScopeThat(model_.scopes, is_message, [&](ScopeIndex) { ++result_.oddities[kBetweenTwo]; });
  }

  void MatchCalls() {
    for (const AggregateRow& row : model_.aggregates) {
      if (IsCollective(model_.ops[row.op])) result_.oddities[kLater] += row.count;
    }
    for (const auto& [communicator, all] : FindCommunicators(model_)) {
      ForEachStart(
          all, [&](const Member& a, const Member& b) { return MeetInCalls(a, b); },
          [&](const std::vector<Member>& members) { MatchMembers(members); });
    }
  }

  // Without what is later than is known.
  Member InOrder(Member member) {
    const auto is_later = [&](int64_t start_ns) { return start_ns >= until_ns_[member.process]; };
    const size_t later =
        std::erase_if(member.calls, [&](CallIndex call) { return is_later(model_.calls.start_ns[call]); }) +
        std::erase_if(member.ranges, [&](ScopeIndex range) { return is_later(model_.scopes.start_ns[range]); });
    if (later > 0) result_.oddities[kLater] += static_cast<int64_t>(later);
    return member;
  }

  using Groups = std::vector<std::vector<Member>>;
  using Meet = absl::FunctionRef<bool(const Member&, const Member&)>;

  // Calls `match` for the ranks of each start of the job, where it is known that they belong together.
  void ForEachStart(const std::vector<Member>& all, Meet meet,
                    absl::FunctionRef<void(const std::vector<Member>&)> match) {
    std::map<int32_t, std::vector<Member>> by_restart;
    for (const Member& member : all) by_restart[RestartOf(model_.processes[member.process])].push_back(InOrder(member));
    for (const auto& [restart, members] : by_restart) {
      if (members.size() < 2) continue;
      std::set<int32_t> ranks;
      for (const Member& member : members) ranks.insert(member.rank);
      const Groups groups = ranks.size() < members.size() ? GroupsOf(members, meet) : Groups{members};
      if (groups.empty()) ++result_.oddities[kSeveralGroups];
      for (const std::vector<Member>& group : groups) match(group);
    }
  }

  // Groups of ranks that always met, if each met all of its own and none of another; none: not so.
  Groups GroupsOf(const std::vector<Member>& members, Meet meet) const {
    Groups groups;
    if (!AreOnOneMachine(members)) return groups;
    for (const Member& member : members) {
      std::vector<Member>* own = nullptr;
      for (std::vector<Member>& group : groups) {
        const auto met = absl::c_count_if(group, [&](const Member& other) { return meet(other, member); });
        if (met == 0) continue;
        if (own != nullptr || met < std::ssize(group)) return {};
        own = &group;
      }
      (own != nullptr ? *own : groups.emplace_back()).push_back(member);
    }
    const size_t size = groups.front().size();
    const auto is_other = [&](const std::vector<Member>& group) { return group.size() != size; };
    if (size < 2 || absl::c_any_of(groups, is_other)) groups.clear();
    return groups;
  }

  bool MeetInRanges(CollectiveKind kind, const Member& a, const Member& b) const {
    return IsSynchronizing(kind) && a.ranges.size() == b.ranges.size() && MeetingsOf(kind, {a, b}).has_value();
  }

  CollectiveKind KindOf(const Member& member, size_t k) const {
    return model_.ops[model_.calls.op[member.calls[k]]].collective()->kind;
  }

  bool MeetInCalls(const Member& a, const Member& b) const {
    if (a.rank == b.rank || a.calls.size() != b.calls.size()) return false;
    bool is_known = false;
    for (size_t k = 0; k < a.calls.size(); ++k) {
      if (KindOf(a, k) != KindOf(b, k)) return false;
      const Meeting meeting = MeetingOf({a, b}, k);
      if (!IsSynchronizing(KindOf(a, k)) || meeting.is_estimated) continue;
      if (!IsMet(meeting)) return false;
      is_known = true;
    }
    return is_known;
  }

  bool MatchRanges(CollectiveKind kind, const std::vector<Member>& members) {
    Groups groups = {members};
    if (!IsSynchronizing(kind) && has_groups_) return false;
    if (!MeetingsOf(kind, members)) {
      groups = GroupsOf(members, [&](const Member& a, const Member& b) { return MeetInRanges(kind, a, b); });
      has_groups_ |= IsSynchronizing(kind);
    }
    for (const std::vector<Member>& group : groups) {
      std::vector<Meeting> meetings = *MeetingsOf(kind, group);
      if (const size_t swapped = LeastRanges(group) - meetings.size())
        result_.oddities[kSwapped] += static_cast<int64_t>(swapped);
      std::move(meetings.begin(), meetings.end(), std::back_inserter(result_.meetings));
    }
    return !groups.empty();
  }

  static size_t LeastRanges(const std::vector<Member>& members) {
    const auto count = [](const Member& member) { return member.ranges.size(); };
    return std::ranges::min(members | std::views::transform(count));
  }

  // nullopt: some rank was done before another began, or made another number.
  std::optional<std::vector<Meeting>> MeetingsOf(CollectiveKind kind, const std::vector<Member>& members) const {
    const bool is_synchronizing = IsSynchronizing(kind);
    const size_t count = LeastRanges(members);
    const auto has_more = [&](const Member& member) { return member.ranges.size() > count; };
    if (!is_synchronizing && absl::c_any_of(members, has_more)) return std::nullopt;
    const bool must_meet = is_synchronizing && AreOnOneMachine(members);
    std::vector<Meeting> meetings;
    for (size_t k = 0; k < count; ++k) {
      Meeting meeting;
      for (const Member& member : members) {
        const int64_t start_ns = model_.scopes.start_ns[member.ranges[k]];
        meeting.arrivals.push_back({member.process, start_ns, start_ns, EndOf(member.ranges[k])});
      }
      if (!must_meet || IsMet(meeting)) {
        meetings.push_back(std::move(meeting));
      } else if (!absl::c_any_of(members, [&](const Member& m) { return IsBeside(m, k); })) {
        return std::nullopt;
      }
    }
    if (static_cast<double>(count - meetings.size()) > kMostSwapped * static_cast<double>(count)) return std::nullopt;
    return meetings;
  }

  int64_t EndOf(ScopeIndex range) const { return model_.scopes.start_ns[range] + model_.scopes.duration_ns[range]; }

  // At the same time as its neighbour: which of them begins first, the backend's threads decide on each rank.
  bool IsBeside(const Member& member, size_t k) const {
    const std::vector<ScopeIndex>& ranges = member.ranges;
    return (k > 0 && model_.scopes.start_ns[ranges[k]] < EndOf(ranges[k - 1])) ||
           (k + 1 < ranges.size() && model_.scopes.start_ns[ranges[k + 1]] < EndOf(ranges[k]));
  }

  // Clocks of different machines differ.
  bool AreOnOneMachine(const std::vector<Member>& members) const {
    const auto host_of = [&](const Member& member) { return model_.processes[member.process].boot_id; };
    return absl::c_all_of(members, [&](const Member& m) { return host_of(m) == host_of(members.front()); });
  }

  void MatchMembers(const std::vector<Member>& members) {
    size_t count = members.front().calls.size();
    for (const Member& member : members) count = std::min(count, member.calls.size());
    std::vector<Meeting> meetings;
    int64_t met = 0;  // more than not
    for (size_t k = 0; k < count; ++k) {
      const CollectiveKind kind = KindOf(members.front(), k);
      if (!absl::c_all_of(members, [&](const Member& m) { return KindOf(m, k) == kind; })) {
        ++result_.oddities[kOtherOrder];
        break;
      }
      meetings.push_back(MeetingOf(members, k));
      if (meetings.back().on_gpu && IsSynchronizing(kind)) met += IsMet(meetings.back()) ? 1 : -1;
    }
    if (met < 0 && !AreOnOneMachine(members)) {
      ++result_.oddities[kApart];
    } else {
      std::move(meetings.begin(), meetings.end(), std::back_inserter(result_.meetings));
    }
  }

  static bool IsMet(const Meeting& meeting) {
    const int64_t last_ns = meeting.LastNs();
    return absl::c_all_of(meeting.arrivals, [&](const Arrival& arrival) { return arrival.end_ns >= last_ns; });
  }

  Meeting MeetingOf(const std::vector<Member>& members, size_t k) const {
    Meeting meeting;
    meeting.call = members.front().calls[k];
    meeting.on_gpu = absl::c_all_of(members, [&](const Member& m) { return spans_.contains(m.calls[k]); });
    for (const Member& member : members) {
      const CallIndex call = member.calls[k];
      Arrival arrival = {member.process, model_.calls.start_ns[call], model_.calls.start_ns[call],
                         model_.calls.start_ns[call]};
      if (meeting.on_gpu) {
        std::tie(arrival.start_ns, arrival.end_ns) = spans_.at(call);
      } else if (!model_.ops[model_.calls.op[call]].is_asynchronous) {
        arrival.end_ns += model_.calls.duration_ns[call];
      } else {
        meeting.is_estimated = true;
      }
      meeting.arrivals.push_back(arrival);
    }
    return meeting;
  }

  const TraceModel& model_;
  const absl::flat_hash_map<CallIndex, std::pair<int64_t, int64_t>> spans_;
  const std::vector<int64_t> until_ns_;  // by process
  bool has_groups_ = false;              // of ranks, as ranges that synchronize show: others may be of several, too
  Meetings result_;
};

}  // namespace

Meetings MatchCollectives(const TraceModel& model) { return Matcher(model).Match(); }

}  // namespace dlhook::analyzer::tables
