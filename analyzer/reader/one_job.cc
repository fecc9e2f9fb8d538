#include "analyzer/reader/one_job.h"

#include "analyzer/import/imported_traces.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/reader/process_facts.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {
namespace {

using Names = std::set<std::string>;

struct FolderFacts {
  Names processes;
  Names launches;  // that nothing else has
  Names jobs;      // as launchers name them
  Names ranks;
  Names rank_counts;
};

absl::Status NotOneRun(const std::string& one, const std::string& other, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(one, " and ", other, " are not known to be one run: ", why, "; to compare them: dlhook diff ", one,
                   " ", other, "; to read them as one all the same, put their traces into one folder"));
}

void AddTo(Names& names, std::string name) {
  if (!name.empty()) names.insert(std::move(name));
}

// A trace that can't be read tells nothing; reading it will say why.
void AddHeader(const std::string& path, FolderFacts* folder) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return;
  PacketReader reader(path, {ByteChunk(&*file, file->size())});
  trace::Packet packet;
  if (!reader.Next() || !reader.Parse(reader.payload(), &packet)) return;
  ProcessFacts facts;
  facts.Add(packet.header());
  const ProcessInfo& process = facts.process;
  const std::string& key = facts.header.run_key();
  const std::string& job = process.job;
  AddTo(folder->processes, absl::StrCat(process.pid, " of ", process.host, "\n", process.boot_id, "\n",
                                        facts.header.process().start_time_jiffies()));
  if (job == key) AddTo(folder->launches, key);
  if (job.empty()) AddTo(folder->launches, absl::StrCat(process.boot_id, "\n", key));
  AddTo(folder->jobs, job);
  AddTo(folder->ranks, RankOf(process));
  AddTo(folder->rank_counts, RankCountOf(process));
}

// One that is in both; empty: none.
std::string Common(const Names& one, const Names& other) {
  const auto found = absl::c_find_if(one, [&](const auto& name) { return other.count(name) != 0; });
  return found == one.end() ? "" : *found;
}

bool Differ(const Names& one, const Names& other) {
  return !one.empty() && !other.empty() && Common(one, other).empty();
}

// Empty: they are of one job.
std::string WhyNot(const FolderFacts& one, const FolderFacts& other) {
  if (Differ(one.jobs, other.jobs)) {
    return absl::StrCat("their jobs are ", *one.jobs.begin(), " and ", *other.jobs.begin());
  }
  const std::string rank = Common(one.ranks, other.ranks);
  if (!rank.empty()) return absl::StrCat("both have rank ", rank);
  if (Differ(one.rank_counts, other.rank_counts)) {
    return absl::StrCat("one is of ", *one.rank_counts.begin(), " ranks, the other of ", *other.rank_counts.begin());
  }
  if (!Common(one.launches, other.launches).empty()) return "";
  if (!one.ranks.empty() && !other.ranks.empty()) return "";
  return "they have neither a job's id in common nor ranks";
}

// Processes that tell no ranks ran at one time.
absl::Status CheckRanks(const TraceModel& model) {
  std::map<std::string, const ProcessInfo*> by_rank;
  for (const ProcessInfo& process : model.processes) {
    if (!IsOthersTrace(process.path) || model.processes.size() == 1) continue;
    const std::string own = RankOf(process);
    const std::string rank = own.empty() ? absl::StrCat("process ", process.pid) : absl::StrCat("rank ", own);
    const auto [other, is_new] = by_rank.try_emplace(rank, &process);
    const ProcessInfo& one = is_new ? *by_rank.begin()->second : *other->second;
    const ProcessInfo& first = &one == &process ? *by_rank.rbegin()->second : one;
    const auto count = [](const ProcessInfo& of) { return RankCountOf(of).empty() ? "no" : RankCountOf(of); };
    const bool are_apart = first.end_ns < process.start_ns || process.end_ns < first.start_ns;
    const std::string why = !is_new ? absl::StrCat("both have ", rank)
                            : count(one) != count(process)
                                ? absl::StrCat("one is of ", count(one), " ranks, the other of ", count(process))
                            : own.empty() && are_apart && first.path != process.path
                                ? "neither tells its rank, and they are of different times"
                                : "";
    if (why.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(first.file, " and ", process.file,
                                                   " are not known to be of one job: ", why,
                                                   "; expected one trace of each rank"));
  }
  return absl::OkStatus();
}

absl::Status CheckTimesOfRanks(TraceModel* model) {
  constexpr double kMostSeconds = 86'400;               // clocks are not as far apart
  const ProcessInfo *first = nullptr, *last = nullptr;  // that ended first, that began last
  for (const ProcessInfo& process : model->processes) {
    if (!IsOthersTrace(process.path)) continue;
    if (first == nullptr || process.end_ns < first->end_ns) first = &process;
    if (last == nullptr || process.start_ns > last->start_ns) last = &process;
  }
  if (first == nullptr || last->start_ns <= first->end_ns) return absl::OkStatus();
  const double seconds = static_cast<double>(last->start_ns - first->end_ns) / 1e9;
  const std::string apart =
      absl::StrFormat("%s begins %.*f s after the end of %s", last->file, seconds < 10 ? 3 : 0, seconds, first->file);
  if (seconds > kMostSeconds)
    return absl::InvalidArgumentError(absl::StrCat(apart, ": traces more than a day apart can't be compared"));
  ++model->oddities[absl::StrCat(apart,
                                 ": these are traces of different times, perhaps of different jobs, or the clocks "
                                 "of their machines are apart")];
  return absl::OkStatus();
}

absl::Status CheckSameTime(const TraceModel& model) {
  std::map<std::string, std::pair<int64_t, int64_t>> lives;  // by folder
  for (const ProcessInfo& process : model.processes) {
    const auto [place, is_new] = lives.try_emplace(FolderOf(process.path), process.start_ns, process.end_ns);
    place->second.first = std::min(place->second.first, process.start_ns);
    place->second.second = std::max(place->second.second, process.end_ns);
  }
  absl::Status why;
  size_t apart = 0;
  for (const auto& [one, life] : lives) {
    for (const auto& [other, later] : lives) {
      if (life.second >= later.first) continue;
      ++apart;
      why.Update(NotOneRun(one, other, absl::StrCat(one, " ended before ", other, " began")));
    }
  }
  const bool are_all = apart > 0 && apart == lives.size() * (lives.size() - 1) / 2;
  return are_all ? absl::OutOfRangeError(why.message()) : why;
}

}  // namespace

absl::Status CheckOneJob(const RunFiles& files) {
  // Other tools' traces tell it when they are read: CheckRanks.
  if (absl::c_all_of(files.paths, IsOthersTrace)) return absl::OkStatus();
  std::map<std::string, FolderFacts> folders;
  for (const std::string& path : files.paths) folders.try_emplace(FolderOf(path));
  if (folders.size() < 2) return absl::OkStatus();
  for (const std::string& path : files.paths) AddHeader(path, &folders[FolderOf(path)]);
  for (auto one = folders.begin(); one != folders.end(); ++one) {
    for (auto other = std::next(one); other != folders.end(); ++other) {
      const std::string process = Common(one->second.processes, other->second.processes);
      if (!process.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(one->first, " and ", other->first, " both have process ",
                                                       process.substr(0, process.find('\n')),
                                                       ": one is a copy; name one of them"));
      }
      const std::string why = WhyNot(one->second, other->second);
      if (!why.empty()) return NotOneRun(one->first, other->first, why);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckProcesses(TraceModel* model) {
  absl::Status status = CheckRanks(*model);
  if (status.ok()) status = CheckSameTime(*model);
  return status.ok() ? CheckTimesOfRanks(model) : status;
}

std::vector<std::vector<std::string>> RunsAmong(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> runs;
  std::vector<std::vector<FolderFacts>> facts;  // of each run's parts
  for (const std::string& path : paths) {
    FolderFacts own;
    const absl::StatusOr<RunFiles> files = FindRun(path);
    if (files.ok()) absl::c_for_each(files->paths, [&](auto& file) { AddHeader(file, &own); });
    const auto is_part_of = [&](const std::vector<FolderFacts>& parts) {
      return absl::c_all_of(parts, [&](const FolderFacts& part) {
        return !own.ranks.empty() && !part.ranks.empty() && Common(own.processes, part.processes).empty() &&
               WhyNot(own, part).empty();
      });
    };
    const auto run = absl::c_find_if(facts, is_part_of) - facts.begin();
    if (run == std::ssize(facts)) {
      runs.emplace_back();
      facts.emplace_back();
    }
    runs[static_cast<size_t>(run)].push_back(path);
    facts[static_cast<size_t>(run)].push_back(std::move(own));
  }
  return runs;
}

}  // namespace dlhook::analyzer::reader
