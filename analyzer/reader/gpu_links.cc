#include "analyzer/reader/gpu_links.h"

#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline reader {
namespace {

ThreadIndex IndexOf(const ThreadIndices& threads, uint32_t id) {
  const auto thread = threads.find(id);
  return thread == threads.end() ? kNone : thread->second;
}

}  // namespace

GpuKernelTable::Names GpuKernelTable::NamesOf(NameIndex mangled) {
  if (mangled == kNone) return {};
  const auto [place, is_new] = by_mangled_.try_emplace(mangled);
  if (is_new) {
    const std::string name = Demangle(model_->names[mangled]);
    place->second = {names_->Name(name), names_->Name(ShortKernelName(name))};
  }
  return place->second;
}

GpuKernelIndex GpuKernelTable::Kernel(const trace::InternedGpuKernel& kernel, NameIndex mangled) {
  const Names names = NamesOf(mangled);
  trace::InternedGpuKernel key = kernel;
  key.set_iid(0);
  key.set_name_iid(names.name);
  const auto next = static_cast<GpuKernelIndex>(model_->gpu_kernels.size());
  const auto [place, is_new] = kernels_.emplace(key.SerializeAsString(), next);
  if (!is_new) return place->second;
  GpuKernel added;
  added.name = names.name;
  added.short_name = names.short_name;
  added.is_collective = names.name != kNone && IsCollectiveKernel(model_->names[names.name]);
  added.grid[0] = kernel.grid_x();
  added.grid[1] = kernel.grid_y();
  added.grid[2] = kernel.grid_z();
  added.block[0] = kernel.block_x();
  added.block[1] = kernel.block_y();
  added.block[2] = kernel.block_z();
  added.registers_per_thread = kernel.registers_per_thread();
  added.static_shared_bytes = kernel.static_shared_bytes();
  added.dynamic_shared_bytes = kernel.dynamic_shared_bytes();
  model_->gpu_kernels.push_back(added);
  return place->second;
}

void GpuLinks::Add(const trace::GpuLinkBatch& batch, Oddities* oddities) {
  values::GpuLinkBatchRows row(batch);
  if (!FitsTogether(row, "links to GPU work", oddities)) return;
  while (row.i < row.count) {
    row.Next();
    links_.push_back(
        {static_cast<int64_t>(row.ticks), row.sequence, static_cast<uint32_t>(row.correlation), batch.thread_id()});
  }
}

void GpuLinks::Finish(const ClockMap& clock, const ThreadIndices& threads, const TraceModel& model) {
  CallFinder calls(model);
  uint32_t id = 0;
  ThreadIndex index = kNone;
  for (Link& link : links_) {
    if (link.thread != id) index = IndexOf(threads, id = link.thread);
    link.thread = index;
    if (link.ns != 0) {
      link.ns = clock.ToNs(static_cast<uint64_t>(link.ns));
      continue;
    }
    const CallIndex call = index == kNone ? kNone : calls.Find(index, link.sequence);
    link.ns = call == kNone ? INT64_MIN : model.calls.start_ns[call];
  }
  const auto is_before = [](const Link& a, const Link& b) {
    return std::tie(a.correlation, a.ns) < std::tie(b.correlation, b.ns);
  };
  if (!absl::c_is_sorted(links_, is_before)) absl::c_sort(links_, is_before);
}

size_t GpuLinks::PlaceAfter(uint32_t correlation, int64_t until_ns) const {
  const auto is_after = [&](const Link& link) {
    return std::tie(correlation, until_ns) < std::tie(link.correlation, link.ns);
  };
  const auto is_place = [&](size_t place) {
    return (place == 0 || !is_after(links_[place - 1])) && (place == links_.size() || is_after(links_[place]));
  };
  for (size_t place = last_place_; place <= links_.size() && place < last_place_ + 3; ++place) {
    if (is_place(place)) return last_place_ = place;
  }
  const auto after =
      std::partition_point(links_.begin(), links_.end(), [&](const Link& link) { return !is_after(link); });
  return last_place_ = static_cast<size_t>(after - links_.begin());
}

const GpuLinks::Link* GpuLinks::Find(uint32_t correlation, int64_t start_ns, bool* is_late) const {
  const size_t after = PlaceAfter(correlation, start_ns + kGpuClockErrorNs);
  *is_late = false;
  if (after > 0 && links_[after - 1].correlation == correlation) return &links_[after - 1];
  const auto is_of_it = [&](size_t place) { return place < links_.size() && links_[place].correlation == correlation; };
  *is_late = is_of_it(after) && !is_of_it(after + 1);
  return *is_late ? &links_[after] : nullptr;
}

void GpuNodes::Add(const trace::GpuGraphNodeBatch& batch, Oddities* oddities) {
  values::GpuGraphNodeBatchRows row(batch);
  if (!FitsTogether(row, "graph nodes", oddities)) return;
  while (row.i < row.count) {
    row.Next();
    nodes_.push_back({row.node, row.original, static_cast<int64_t>(row.ticks), row.sequence, batch.thread_id(), kNone});
  }
}

void GpuNodes::Finish(const ClockMap& clock, const ThreadIndices& threads) {
  for (Node& node : nodes_) {
    node.thread = IndexOf(threads, node.thread);
    node.ns = clock.ToNs(static_cast<uint64_t>(node.ns));
  }
  absl::c_stable_sort(nodes_,
                      [](const Node& a, const Node& b) { return std::tie(a.node, a.ns) < std::tie(b.node, b.ns); });
  // Chains of copies, each followed once: a cycle (a damaged trace) has no root.
  std::vector<uint32_t> way;
  std::vector<bool> is_done(nodes_.size());
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    uint32_t at = i;
    way.clear();
    while (at != kNone && !is_done[at]) {
      is_done[at] = true;
      way.push_back(at);
      if (nodes_[at].original == 0) nodes_[at].root = at;
      at = nodes_[at].original == 0 ? at : Find(nodes_[at].original, nodes_[at].ns);
    }
    const uint32_t root = at == kNone ? kNone : nodes_[at].root;
    for (uint32_t passed : way) nodes_[passed].root = root;
  }
}

// The last node with this id created by then, else the first one; kNone if none.
uint32_t GpuNodes::Find(uint64_t node, int64_t until_ns) const {
  const auto first = absl::c_lower_bound(nodes_, node, [](const Node& a, uint64_t id) { return a.node < id; });
  if (first == nodes_.end() || first->node != node) return kNone;
  auto last = std::upper_bound(first, nodes_.end(), std::pair(node, until_ns), [](const auto& key, const Node& a) {
    return std::tie(key.first, key.second) < std::tie(a.node, a.ns);
  });
  if (last != first) --last;
  return static_cast<uint32_t>(last - nodes_.begin());
}

const GpuNodes::Node* GpuNodes::RootOf(uint64_t node, int64_t requested_ns) const {
  const uint32_t place = Find(node, requested_ns);
  if (place == kNone || nodes_[place].root == kNone) return nullptr;
  return &nodes_[nodes_[place].root];
}

}  // namespace dlhook::analyzer::reader
