#include "analyzer/reader/gpu_links.h"

namespace dlhook::analyzer::inline reader {
namespace {

// Less is within what tables of GPU work say of a launch.
constexpr int64_t kWorthSayingNs = 10'000;
constexpr int64_t kLateNs = 20'000'000;  // no launch takes that long each time
// A wait of a stream that takes this long had something to wait for.
constexpr int64_t kWaitedNs = 20'000;

// Which stream a call waits for is not recorded: if only one has any work, a wait that took time was for it.
bool WaitsForAll(const TraceModel& model, CallIndex call, bool is_one_stream) {
  const Op& op = model.ops[model.calls.op[call]];
  if (op.family != "cuda_sync" || op.captured || model.StatusOf(call) != 0) return false;
  if (absl::EndsWith(op.function, "StreamSynchronize"))
    return is_one_stream && model.calls.duration_ns[call] >= kWaitedNs;
  return op.function == "cudaDeviceSynchronize" || absl::StartsWith(op.function, "cuCtxSynchronize");
}

bool WaitsForItself(const Op& op) {
  const CopyCall* copy = op.copy();
  return copy != nullptr && !op.captured && copy->direction == CopyDirection::kDeviceToHost &&
         (!copy->asynchronous || copy->host_memory == HostMemory::kPageable);
}

// Waits for a whole device: when they began, ascending, and the earliest return of this one and the later ones.
class DeviceWaits {
 public:
  DeviceWaits(const ThreadIndices& threads, const TraceModel& model, bool is_one_stream) {
    for (const auto& [id, thread] : threads) {
      const auto [first, last] = model.calls.RangeOf(thread);
      for (CallIndex call = first; call < last; ++call) {
        if (!WaitsForAll(model, call, is_one_stream)) continue;
        waits_.emplace_back(model.calls.start_ns[call], model.calls.EndOf(call));
      }
    }
    absl::c_sort(waits_);
    for (size_t i = waits_.size(); i-- > 1;) waits_[i - 1].second = std::min(waits_[i - 1].second, waits_[i].second);
  }

  // When the first wait for work requested then had returned; INT64_MAX: none.
  int64_t ReturnedNs(int64_t requested_ns) const {
    const auto wait = absl::c_lower_bound(waits_, std::pair(requested_ns, INT64_MIN));
    return wait == waits_.end() ? INT64_MAX : wait->second;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> waits_;
};

// How far the GPU's clock is ahead of the host's.
struct Ahead {
  bool has_earlier = false;  // work that was requested before the recording
  int64_t least_ns = std::numeric_limits<int64_t>::min();
  int64_t most_ns = std::numeric_limits<int64_t>::max();
};

}  // namespace

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
  absl::c_iota(order, 0);
  absl::c_stable_sort(order, [&](uint32_t a, uint32_t b) {
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
  work->start_ns = std::clamp(start_ns, -kMaxClockNs, kMaxClockNs);
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
  const auto after = absl::c_upper_bound(
      facts_.windows, ns, [](int64_t at_ns, const GpuWindow& window) { return at_ns < window.start_ns; });
  return after != facts_.windows.begin() && std::prev(after)->source == GpuTimeSource::kCupti;
}

void BoundGpuClocks(size_t first, const ThreadIndices& threads, TraceModel* model, Oddities* oddities) {
  GpuActivityColumns& gpu = model->gpu;
  model->gpu_clock_error_ns.resize(model->gpu_devices.size(), 0);
  if (first == gpu.size()) return;
  const bool is_one_device = gpu.device[first] == gpu.device[gpu.size() - 1];
  const bool is_one_stream = std::all_of(gpu.stream.begin() + static_cast<std::ptrdiff_t>(first), gpu.stream.end(),
                                         [&](uint32_t stream) { return stream == gpu.stream[first]; });
  const DeviceWaits waits(threads, *model, is_one_stream);
  std::vector<Ahead> bounds(model->gpu_devices.size());
  std::vector<int64_t> delays_ns = {0};
  for (size_t i = first; i < gpu.size(); ++i) {
    if (gpu.requested_ns[i] != GpuActivityColumns::kNotKnown)
      delays_ns.push_back(gpu.start_ns[i] - gpu.requested_ns[i]);
  }
  absl::c_nth_element(delays_ns, delays_ns.begin() + std::ssize(delays_ns) / 2);
  // What seems earlier than its call by more than this, and than twice what is usual, was joined with another call.
  const int64_t earliest_ns = std::min(-kGpuClockErrorNs, 2 * delays_ns[delays_ns.size() / 2]);
  const auto is_usable = [&](size_t i) {
    return gpu.source[i] == GpuTimeSource::kCupti && gpu.requested_ns[i] != GpuActivityColumns::kNotKnown &&
           gpu.start_ns[i] - gpu.requested_ns[i] >= earliest_ns;
  };
  for (size_t i = first; i < gpu.size(); ++i) {
    Ahead& bound = bounds[gpu.device[i]];
    bound.has_earlier |= gpu.requested_ns[i] == GpuActivityColumns::kNotKnown && bound.most_ns == Ahead().most_ns;
    if (!is_usable(i)) continue;
    bound.most_ns = std::min(bound.most_ns, gpu.start_ns[i] - gpu.requested_ns[i]);
    int64_t returned_ns = is_one_device ? waits.ReturnedNs(gpu.requested_ns[i]) : INT64_MAX;
    const CallIndex call = gpu.launch_call[i];
    if (call != kNone && WaitsForItself(model->ops[model->calls.op[call]])) {
      returned_ns = std::min(returned_ns, model->calls.EndOf(call));
    }
    if (returned_ns != INT64_MAX) bound.least_ns = std::max(bound.least_ns, gpu.end_ns[i] - returned_ns);
  }
  // Where the bounds exclude each other (the clocks drift), no work may precede its request.
  for (GpuDeviceIndex device = gpu.device[first]; device < bounds.size(); ++device) {
    const Ahead& bound = bounds[device];
    if (bound.most_ns == std::numeric_limits<int64_t>::max()) continue;
    // What it did before is no work of these calls, if anything was.
    const bool is_late = bound.least_ns == Ahead().least_ns && bound.most_ns >= kLateNs && !bound.has_earlier;
    const int64_t ahead_ns = is_late ? bound.most_ns : std::min(std::max(bound.least_ns, int64_t{0}), bound.most_ns);
    model->gpu_clock_error_ns[device] = is_late ? bound.most_ns : std::max(bound.most_ns, bound.least_ns) - ahead_ns;
    const int64_t apart_ns = std::max(ahead_ns, -ahead_ns);
    if (is_late) {
      oddities->Count(
          absl::StrCat("a GPU that began all its work more than ", apart_ns / 1'000'000,
                       " ms after it was requested, while nothing waited for it: its clock is ahead, or it did "
                       "other work first (its times were moved)"));
    } else if (apart_ns >= kWorthSayingNs) {
      oddities->Count(absl::StrCat("a GPU whose clock is ", ahead_ns > 0 ? "ahead of" : "behind", " the host's by ",
                                   apart_ns / 1000,
                                   " us: it seemed to end work after the program had waited for it, or to begin it "
                                   "before the request (its times were moved)"));
    }
    if (bound.least_ns > bound.most_ns && bound.least_ns - bound.most_ns >= kWorthSayingNs) {
      oddities->Count(absl::StrCat("a GPU whose clock drifts against the host's by ",
                                   (bound.least_ns - bound.most_ns) / 1000, " us (its times are only as exact)"));
    }
    bounds[device].least_ns = ahead_ns;
  }
  for (size_t i = first; i < gpu.size(); ++i) {
    const Ahead& bound = bounds[gpu.device[i]];
    if (gpu.source[i] != GpuTimeSource::kCupti || bound.most_ns == std::numeric_limits<int64_t>::max()) continue;
    gpu.start_ns[i] -= bound.least_ns;
    gpu.end_ns[i] -= bound.least_ns;
  }
}

}  // namespace dlhook::analyzer::reader
