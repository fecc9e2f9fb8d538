#include "analyzer/reader/recent_run.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/reader/one_job.h"
#include "analyzer/reader/trace_builder.h"

namespace dlhook::analyzer::inline reader {

absl::Status RecentRun::Read() {
  order_.clear();
  damage_.clear();
  const absl::StatusOr<RunFiles> files = FindRun(path_);
  if (!files.ok()) {
    tails_.clear();
    return files.status();
  }
  if (absl::Status status = CheckOneJob(*files); !status.ok()) return status;
  files_ = *files;
  std::erase_if(tails_, [&](const auto& tail) {
    return !std::binary_search(files->paths.begin(), files->paths.end(), tail.first);
  });
  for (const std::string& path : files->paths) {
    std::unique_ptr<TraceTail>& tail = tails_[path];
    if (tail == nullptr) tail = std::make_unique<TraceTail>(path, most_bytes_ / files->paths.size());
    if (absl::Status status = tail->Read(); !status.ok()) damage_.emplace_back(status.message());
    if (tail->has_header()) order_.push_back(tail.get());
  }
  if (!order_.empty()) return absl::OkStatus();
  if (!damage_.empty()) return absl::DataLossError(damage_.front());
  return absl::NotFoundError(absl::StrCat(path_, ": nothing is recorded yet"));
}

int64_t RecentRun::calls() const {
  uint64_t sum = 0;
  for (const TraceTail* tail : order_) sum += tail->calls() + tail->scopes();
  return static_cast<int64_t>(sum);
}

TraceModel RecentRun::Last(int64_t seconds, uint64_t bytes, const std::vector<Leftover>& open) const {
  int64_t last_ns = 0, start_ns = 0;
  for (const TraceTail* tail : order_) last_ns = std::max(last_ns, tail->LastWrittenRealtimeNs());
  for (const TraceTail* tail : order_) start_ns = std::max(start_ns, tail->StartOfLast(bytes / order_.size()));
  start_ns = std::min(std::max(start_ns, last_ns - seconds * 1'000'000'000), last_ns);
  TraceBuilder builder(files_);
  for (size_t i = 0; i < order_.size(); ++i) {
    const TraceTail* const tail = order_[i];
    TraceTail::Part part = tail->Since(start_ns);
    if (i < open.size() && !open[i].packets.empty()) part.chunks.emplace_back(open[i].packets);
    const absl::Status status = builder.AddTrace(tail->path(), std::move(part.chunks), nullptr, std::move(part.parts));
    if (!status.ok()) builder.Note(status.message());
  }
  TraceModel model = std::move(builder).Build();
  for (ProcessIndex i = 0; i < model.processes.size() && i < order_.size(); ++i) {
    model.processes[i].calls = order_[i]->calls();
    const auto is_its = [&](const auto& window) { return window.process == i; };
    if (order_[i]->has_light_scopes() && std::none_of(model.scope_windows.begin(), model.scope_windows.end(), is_its)) {
      // Without any window the process would count as one with all scopes.
      model.scope_windows.push_back({i, model.start_ns, model.start_ns});
    }
  }
  std::stable_sort(model.scope_windows.begin(), model.scope_windows.end(),
                   [](const ScopeWindow& a, const ScopeWindow& b) { return a.process < b.process; });
  return model;
}

}  // namespace dlhook::analyzer::reader
