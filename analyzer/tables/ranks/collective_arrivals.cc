#include "analyzer/tables/ranks/collective_arrivals.h"

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
constexpr char kTotalsOnly[] = "collective calls of which only totals were kept can't be matched between ranks";

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

std::map<std::string, std::vector<Member>> FindCollectiveRanges(const TraceModel& model) {
  const std::vector<bool> is_collective = CollectiveNames(model);
  std::map<std::pair<std::string, ProcessIndex>, Member> members;
  const auto is_range = [&](const ScopeLook& look) { return is_collective[look.name]; };
  ForEachScopeThat(model.scopes, is_range, [&](ScopeIndex scope) {
    const std::string& name = model.names[model.scopes.look[scope].name];
    const ProcessIndex process = model.threads[model.scopes.thread[scope]].process;
    if (IsBetweenTwo(*CollectiveOf(name))) return;
    Member& member = members[{name, process}];
    member.process = process;
    member.ranges.push_back(scope);
  });
  std::map<std::string, std::vector<Member>> by_name;
  for (auto& [key, member] : members) {
    if (!absl::SimpleAtoi(RankOf(model.processes[member.process]), &member.rank)) continue;
    // Several threads of the backend alternate.
    absl::c_stable_sort(
        member.ranges, [&](ScopeIndex a, ScopeIndex b) { return model.scopes.start_ns[a] < model.scopes.start_ns[b]; });
    by_name[key.first].push_back(std::move(member));
  }
  return by_name;
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
  explicit Matcher(const TraceModel& model) : model_(model), spans_(CollectivesOnGpu(model)) {}

  Meetings Match() {
    if (!model_.read_spans.empty()) {
      if (FindCollectiveRanges(model_).size() + FindCommunicators(model_).size() > 0) result_.oddities[kPartsOnly] = 1;
      return std::move(result_);
    }
    CountMessages();
    for (const auto& [name, all] : FindCollectiveRanges(model_)) {
      const CollectiveKind kind = *CollectiveOf(name);
      ForEachStart(all, [&](const std::vector<Member>& members) {
        if (!MatchRanges(kind, members)) ++result_.oddities[kCrossed];
      });
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
      if (!IsCollective(model_.ops[row.op])) continue;
      result_.oddities[kTotalsOnly] = 1;
      return;
    }
    for (const auto& [communicator, all] : FindCommunicators(model_)) {
      ForEachStart(all, [&](const std::vector<Member>& members) { MatchMembers(members); });
    }
  }

  // Calls `match` for the ranks of each start of the job, where it is known that they belong together.
  void ForEachStart(const std::vector<Member>& all, absl::FunctionRef<void(const std::vector<Member>&)> match) {
    std::map<int32_t, std::vector<Member>> by_restart;
    for (const Member& member : all) by_restart[RestartOf(model_.processes[member.process])].push_back(member);
    for (const auto& [restart, members] : by_restart) {
      if (members.size() < 2) continue;
      std::set<int32_t> ranks;
      for (const Member& member : members) ranks.insert(member.rank);
      if (ranks.size() < members.size()) {
        ++result_.oddities[kSeveralGroups];
      } else {
        match(members);
      }
    }
  }

  bool MatchRanges(CollectiveKind kind, const std::vector<Member>& members) {
    const bool is_synchronizing = IsSynchronizing(kind);
    size_t count = members.front().ranges.size();
    for (const Member& member : members) {
      if (member.ranges.size() != count && !is_synchronizing) return false;
      count = std::min(count, member.ranges.size());
    }
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
        return false;
      }
    }
    const size_t swapped = count - meetings.size();
    if (swapped > kMostSwapped * static_cast<double>(count)) return false;
    if (swapped > 0) result_.oddities[kSwapped] += static_cast<int64_t>(swapped);
    std::move(meetings.begin(), meetings.end(), std::back_inserter(result_.meetings));
    return true;
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
      const auto kind = [&](const Member& member) {
        return model_.ops[model_.calls.op[member.calls[k]]].collective()->kind;
      };
      if (!absl::c_all_of(members, [&](const Member& m) { return kind(m) == kind(members.front()); })) {
        ++result_.oddities[kOtherOrder];
        break;
      }
      meetings.push_back(MeetingOf(members, k));
      if (meetings.back().on_gpu && IsSynchronizing(kind(members.front()))) met += IsMet(meetings.back()) ? 1 : -1;
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
  Meetings result_;
};

}  // namespace

Meetings MatchCollectives(const TraceModel& model) { return Matcher(model).Match(); }

}  // namespace dlhook::analyzer::tables
