#include "analyzer/reader/gpu_builder.h"

#include "absl/strings/escaping.h"
#include "analyzer/model/limits.h"
#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline reader {
namespace {

using Kind = GpuActivityKind;

constexpr int64_t kNotKnown = GpuActivityColumns::kNotKnown;
constexpr uint32_t kMaxDevices = 1 << 10;          // far more than any real trace has
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;  // per copy; likewise
constexpr size_t kWorkAtATime = 1 << 14;           // moved from staging to the model
constexpr int64_t kUnreportedNs = 2'000'000'000;   // CUPTI is asked each second

// "GPU-6a1b…", as in nvidia-smi. Empty unless 16 bytes.
std::string UuidText(const std::string& bytes) {
  if (bytes.size() != 16) return "";
  const std::string hex = absl::BytesToHexString(bytes);
  const absl::string_view view = hex;
  return absl::StrCat("GPU-", view.substr(0, 8), "-", view.substr(8, 4), "-", view.substr(12, 4), "-",
                      view.substr(16, 4), "-", view.substr(20));
}

void AppendOne(const StagedGpu& work, GpuDeviceIndex device, GpuActivityColumns* gpu) {
  gpu->start_ns.push_back(work.start_ns);
  gpu->end_ns.push_back(work.end_ns());
  gpu->kind.push_back(work.kind);
  gpu->source.push_back(work.source);
  gpu->device.push_back(device);
  gpu->stream.push_back(work.stream);
  gpu->kernel.push_back(work.kernel);
  gpu->bytes.push_back(work.bytes);
  gpu->direction.push_back(work.direction);
  gpu->host_memory.push_back(work.host_memory);
  gpu->graph.push_back(work.graph);
  gpu->launch_call.push_back(work.correlation);
  gpu->call.push_back(work.call);
  gpu->thread.push_back(work.thread);
  gpu->requested_ns.push_back(static_cast<int64_t>(work.sequence));
}

}  // namespace

void GpuBuilder::AddDefinitions(const trace::Interned& interned, PythonBuilder* names) {
  for (const trace::InternedGpuKernel& kernel : interned.gpu_kernel()) {
    if (kernel.iid() == 0 || kernel.iid() > kMaxIid) {
      oddities_->Count("a definition of a kernel with an impossible id");
      continue;
    }
    if (kernel.iid() >= kernel_by_iid_.size()) kernel_by_iid_.resize(kernel.iid() + 1, kNone);
    const NameIndex mangled = kernel.name_iid() == 0 ? kNone : names->FindName(kernel.name_iid());
    kernel_by_iid_[kernel.iid()] = kernels_->Kernel(kernel, mangled);
  }
}

GpuKernelIndex GpuBuilder::KernelOf(uint32_t iid) {
  if (iid == 0) return kNone;
  if (iid < kernel_by_iid_.size() && kernel_by_iid_[iid] != kNone) return kernel_by_iid_[iid];
  oddities_->Count("a kernel that the trace does not define (its definition was lost)");
  return kNone;
}

void GpuBuilder::AddActivities(const trace::GpuActivityBatch& batch) {
  values::GpuActivityBatchRows row(batch);
  if (!FitsTogether(row, "GPU work", oddities_)) return;
  StagedGpu* const out = work_.Reserve(static_cast<size_t>(row.count));
  size_t added = 0;
  int64_t impossible = 0;
  while (row.i < row.count) {
    row.Next();
    if (row.kind == Kind::kOverhead) continue;
    StagedGpu work;
    work.start_ns = static_cast<int64_t>(row.start_ns);
    work.duration_ns = static_cast<int64_t>(row.duration_ns);
    work.kind = row.kind;
    work.device = row.device;
    if (work.start_ns <= 0 || work.start_ns > 2 * kMaxClockNs || work.device >= kMaxDevices ||
        !budget_->Take(work.duration_ns)) {
      ++impossible;
      continue;
    }
    work.graph_node = row.graph_node;
    work.sequence = row.sequence;
    work.correlation = static_cast<uint32_t>(row.correlation);
    work.thread = row.thread_id;
    work.bytes = std::min(row.bytes, kMaxBytes);
    work.kernel = KernelOf(row.kernel_iid);
    work.graph = row.graph;
    work.stream = row.stream;
    work.source = FromProto<GpuTimeSource>(batch.source());
    work.direction = FromProto<CopyDirection>(static_cast<int>(row.direction));
    work.host_memory = FromProto<HostMemory>(static_cast<int>(row.host_memory));
    out[added++] = work;
  }
  work_.Commit(added);
  oddities_->Count("GPU work without a time or a device, or with one that can't be true (it was left out)", impossible);
}

void GpuBuilder::AddDevice(const trace::GpuDevice& from) {
  if (from.ordinal() >= kMaxDevices) return oddities_->Count("a GPU with an impossible number");
  GpuDevice& device = devices_[from.ordinal()];
  Read(from, &device);
  device.uuid = UuidText(from.uuid());
}

int64_t GpuBuilder::Finish(const ClockMap& clock, const std::vector<trace::ClockSample>& samples,
                           const ThreadIndices& threads) {
  BeginWindows(clock);
  const RealtimeMap realtime(clock, samples);
  absl::Span<StagedGpu> work = work_.values();
  if (!realtime.has_clock() && !work.empty()) {
    oddities_->Count("GPU work of a trace without a clock sample: it is not known when it was",
                     static_cast<int64_t>(work.size()));
    work_ = {};
    work = {};
  }
  links_.Finish(clock, threads, *model_);
  nodes_.Finish(clock, threads);
  const absl::Span<const GpuWindow> windows = absl::MakeSpan(model_->gpu_windows).subspan(first_window_);
  GpuJoin join({&realtime, &links_, &nodes_, &threads, windows}, *model_, oddities_);
  join.Join(work);
  links_ = {};
  nodes_ = {};
  FindCopies();
  Append();
  BoundGpuClocks(first_work_, threads, model_, oddities_);
  FindTensorCores();
  return join.last_end_ns();
}

// What the kernels of a product are called is a fact; what its library's manual says of its type and sizes, a rule.
void GpuBuilder::FindTensorCores() {
  constexpr int kMostDepth = 64;
  const GpuActivityColumns& gpu = model_->gpu;
  std::vector<std::optional<std::optional<bool>>> by_kernel(model_->gpu_kernels.size());
  std::map<OpIndex, std::array<bool, 2>> found;  // kernels without, with
  bool has_tf32 = false;
  for (size_t i = first_work_; i < gpu.size(); ++i) {
    const GpuKernelIndex kernel = gpu.kernel[i];
    if (kernel == kNone || model_->gpu_kernels[kernel].name == kNone) continue;
    if (!by_kernel[kernel]) by_kernel[kernel] = UsesTensorCores(model_->names[model_->gpu_kernels[kernel].name]);
    if (!*by_kernel[kernel]) continue;
    CallIndex call = gpu.call[i];
    for (int depth = 0; call != kNone && depth < kMostDepth; call = model_->calls.parent[call], ++depth) {
      const Op& op = model_->ops[model_->calls.op[call]];
      if (op.flops.value_or(0) == 0) continue;
      found[model_->calls.op[call]][**by_kernel[kernel] ? 1 : 0] = true;
      has_tf32 |= **by_kernel[kernel] && op.types == "f32";
      break;
    }
  }
  for (const auto& [index, with] : found) {
    Op& op = model_->ops[index];
    const bool is_known = op.tensor_core && (op.tensor_core->is_told || op.tensor_core->eligible == with[1]);
    if (is_known || with[0] == with[1]) continue;
    const bool keeps_f32 = with[0] && op.types == "f32" && !has_tf32;
    op.tensor_core = {with[1], true, keeps_f32 ? "its kernel keeps f32" : "by its kernel"};
  }
}

void GpuBuilder::BeginWindows(const ClockMap& clock) {
  absl::c_stable_sort(windows_, [](const auto& a, const auto& b) { return a.ticks() < b.ticks(); });
  first_window_ = model_->gpu_windows.size();
  for (const trace::GpuWindow& window : windows_) {
    GpuWindow begun;
    begun.process = process_;
    begun.start_ns = clock.ToNs(window.ticks());
    begun.source = FromProto<GpuTimeSource>(window.source());
    begun.reason = window.reason();
    model_->gpu_windows.push_back(std::move(begun));
  }
}

// Pairs of events give the time of a copy, its call what was copied.
void GpuBuilder::FindCopies() {
  for (StagedGpu& work : work_.values()) {
    const bool is_copy = work.kind == Kind::kCopy || work.kind == Kind::kSet;
    if (!is_copy || work.bytes != 0 || work.call == kNone) continue;
    const CopyCall* copy = model_->ops[model_->calls.op[work.call]].copy();
    if (copy == nullptr) continue;
    work.bytes = std::min(copy->bytes, kMaxBytes);
    work.direction = copy->direction;
    work.host_memory = copy->host_memory;
  }
}

// By ordinal; including devices known only from their work.
std::map<uint32_t, GpuDeviceIndex> GpuBuilder::AppendDevices() {
  for (const StagedGpu& work : work_.values()) devices_[work.device];
  std::map<uint32_t, GpuDeviceIndex> indices;
  for (auto& [ordinal, device] : devices_) {
    indices[ordinal] = static_cast<GpuDeviceIndex>(model_->gpu_devices.size());
    device.process = process_;
    device.ordinal = ordinal;
    model_->gpu_devices.push_back(std::move(device));
  }
  return indices;
}

// A stream does one thing after another. CUPTI now and then reports work that seems to last for hours.
void GpuBuilder::DropImpossibleTimes() {
  std::map<std::pair<uint32_t, uint32_t>, std::pair<int64_t, int64_t>>
      later_ns;  // starts of the next, of the one behind it
  int64_t impossible = 0;
  const absl::Span<StagedGpu> works = work_.values();
  for (auto work = works.rbegin(); work != works.rend(); ++work) {
    if (work->source != GpuTimeSource::kCupti || work->graph != 0 || work->stream == 0) continue;
    if (work->direction == CopyDirection::kHostToHost) continue;  // made by the host
    auto& [next_ns, behind_ns] = later_ns.try_emplace({work->device, work->stream}, INT64_MAX, INT64_MAX).first->second;
    if (work->end_ns() - kGpuClockErrorNs > behind_ns) {
      work->duration_ns = 0;
      ++impossible;
    }
    behind_ns = std::exchange(next_ns, work->start_ns);
  }
  oddities_->Count("GPU work that seems to end after the next but one of its stream began (its duration counts as 0)",
                   impossible);
}

void GpuBuilder::Append() {
  const std::map<uint32_t, GpuDeviceIndex> devices = AppendDevices();
  GpuActivityColumns& gpu = model_->gpu;
  const absl::Span<StagedGpu> work = work_.values();
  const auto is_before = [](const StagedGpu& a, const StagedGpu& b) {
    return std::tie(a.device, a.start_ns, a.duration_ns, a.stream) <
           std::tie(b.device, b.start_ns, b.duration_ns, b.stream);
  };
  if (!absl::c_is_sorted(work, is_before)) absl::c_sort(work, is_before);
  DropImpossibleTimes();
  const size_t base = first_work_ = gpu.size();
  ForEachOf(kGpuColumns, [&](auto column) { GrowFor(&(gpu.*column), work.size()); });
  if (model_->scopes.size() > 0) gpu.scope.resize(base + work.size(), kNone);
  for (size_t i = 0; i < work.size(); ++i) {
    AppendOne(work[i], devices.at(work[i].device), &gpu);
    if (!gpu.scope.empty()) gpu.scope[base + i] = work[i].scope;
    if ((i + 1) % kWorkAtATime == 0) work_.ReleaseFront(i + 1);
  }
  work_ = {};
}

void GpuBuilder::FinishWindows(int64_t start_ns, int64_t end_ns, bool has_exited) {
  std::vector<GpuWindow>& windows = model_->gpu_windows;
  if (windows.size() == first_window_ && first_work_ < model_->gpu.size()) {  // the window records were lost
    windows.push_back({process_, start_ns, end_ns, model_->gpu.source[first_work_], ""});
  }
  for (size_t i = first_window_; i < windows.size(); ++i) {
    const int64_t next_ns = i + 1 < windows.size() ? windows[i + 1].start_ns : end_ns;
    windows[i].end_ns = std::max(windows[i].start_ns, next_ns);
  }
  const auto ends = absl::MakeSpan(model_->gpu.end_ns).subspan(first_work_);
  if (has_exited || ends.empty() || windows.back().source == GpuTimeSource::kNone) return;
  const int64_t lost_ns = std::max({*absl::c_max_element(ends), end_ns - kUnreportedNs, windows.back().start_ns});
  if (lost_ns >= windows.back().end_ns) return;
  windows.back().end_ns = lost_ns;
  windows.push_back({process_, lost_ns, end_ns, GpuTimeSource::kNone, "the last work was not reported yet"});
}

void FinishGpuColumns(TraceModel* model) {
  if (!model->gpu.scope.empty()) model->gpu.scope.resize(model->gpu.size(), kNone);
}

}  // namespace dlhook::analyzer::reader
