// See gpu_join.h.
#include "analyzer/reader/gpu_join.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace dlhook::analyzer::inline reader {
void GpuJoin::Join(absl::Span<StagedGpu> work) {
  if (facts_.realtime->has_steps()) {
    JoinAcrossSteps(work);
  } else {
    for (StagedGpu& one : work) JoinAt(facts_.realtime->ToNs(one.start_ns), &one);
  }
  oddities_->Count("GPU work without a call in the trace that launched it", unrequested_);
  oddities_->Count("GPU work that, by the clocks, began before the call that launched it", late_);
  oddities_->Count("work of a CUDA graph whose construction was not seen (it counts for the launch of the graph)",
                   unmade_);
}

// A stream runs its work one by one, in the order of the requests.
void GpuJoin::JoinAcrossSteps(absl::Span<StagedGpu> work) {
  std::vector<uint32_t> order(work.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(work[a].device, work[a].stream, work[a].correlation) <
           std::tie(work[b].device, work[b].stream, work[b].correlation);
  });
  int64_t ambiguous = 0, stream_free_ns = INT64_MIN;
  uint32_t device = 0, stream = 0;
  for (uint32_t i : order) {
    if (work[i].device != device || work[i].stream != stream) stream_free_ns = INT64_MIN;
    device = work[i].device;
    stream = work[i].stream;
    const std::vector<int64_t> moments = facts_.realtime->Moments(work[i].start_ns);
    if (moments.size() > 1) ++ambiguous;
    JoinAt(moments.size() > 1 ? ChooseMoment(work[i], moments, stream_free_ns) : moments[0], &work[i]);
    stream_free_ns = std::max(stream_free_ns, work[i].end_ns());
  }
  oddities_->Count("GPU work from about when the clock was set (placed by the call that launched it)", ambiguous);
}

// The first time that is neither before the requesting call nor before the end of the stream's previous work.
int64_t GpuJoin::ChooseMoment(const StagedGpu& work, const std::vector<int64_t>& moments, int64_t stream_free_ns) {
  for (size_t i = 0; i + 1 < moments.size(); ++i) {
    const int64_t until_ns = moments[i] + std::min(kGpuClockErrorNs, (moments[i + 1] - moments[i]) / 2);
    if (AskedBy(work, moments[i]).ns <= until_ns && stream_free_ns <= until_ns) return moments[i];
  }
  return moments.back();
}

GpuJoin::Asked GpuJoin::AskedBy(const StagedGpu& work, int64_t start_ns) {
  Asked asked;
  if (work.thread != 0) {
    const auto thread = facts_.threads->find(work.thread);
    if (thread == facts_.threads->end()) return asked;
    asked.thread = thread->second;
    asked.call = calls_.Find(asked.thread, work.sequence);
    if (asked.call != kNone) asked.ns = model_.calls.start_ns[asked.call];
    return asked;
  }
  const GpuLinks::Link* link = facts_.links->Find(work.correlation, start_ns, &asked.is_late);
  if (link == nullptr) return asked;
  asked.ns = link->ns;
  asked.thread = link->thread;
  if (link->sequence != 0 && link->thread != kNone) asked.call = calls_.Find(link->thread, link->sequence);
  return asked;
}

void GpuJoin::JoinAt(int64_t start_ns, StagedGpu* work) {
  work->start_ns = std::clamp(start_ns, -kMaxGpuNs, kMaxGpuNs);
  const Asked asked = AskedBy(*work, work->start_ns);
  if (asked.is_late) ++late_;
  if (asked.ns != GpuActivityColumns::kNotKnown) last_end_ns_ = std::max(last_end_ns_, work->end_ns());
  const bool is_linked = work->source == GpuTimeSource::kCupti && IsMeasured(work->start_ns);
  if (is_linked && asked.ns == GpuActivityColumns::kNotKnown && asked.thread == kNone) ++unrequested_;
  CallIndex call = asked.call;
  ScopeIndex scope = ScopeOf(call, asked.thread, asked.ns);
  if (work->graph_node != 0) FindMaker(*work, asked, &call, &scope);
  work->sequence = static_cast<uint64_t>(asked.ns);
  work->correlation = asked.call;
  work->thread = asked.thread;
  work->call = call;
  work->scope = scope;
}

void GpuJoin::FindMaker(const StagedGpu& work, const Asked& asked, CallIndex* call, ScopeIndex* scope) {
  const GpuNodes::Node* root =
      facts_.nodes->RootOf(work.graph_node, asked.ns == GpuActivityColumns::kNotKnown ? INT64_MAX : asked.ns);
  if (root == nullptr) {
    ++unmade_;
    return;
  }
  const bool has_call = root->sequence != 0 && root->thread != kNone;
  *call = has_call ? calls_.Find(root->thread, root->sequence) : kNone;
  *scope = ScopeOf(*call, root->thread, root->ns);
}

// The scope around the call; without a call, around the thread at that time.
ScopeIndex GpuJoin::ScopeOf(CallIndex call, ThreadIndex thread, int64_t ns) {
  if (call != kNone) return call < model_.calls.scope.size() ? model_.calls.scope[call] : kNone;
  return thread == kNone || ns == GpuActivityColumns::kNotKnown ? kNone : calls_.ScopeAt(thread, ns);
}

bool GpuJoin::IsMeasured(int64_t ns) const {
  if (facts_.windows.empty()) return true;
  const auto after = std::upper_bound(facts_.windows.begin(), facts_.windows.end(), ns,
                                      [](int64_t at_ns, const GpuWindow& window) { return at_ns < window.start_ns; });
  return after != facts_.windows.begin() && std::prev(after)->source == GpuTimeSource::kCupti;
}

}  // namespace dlhook::analyzer::reader
