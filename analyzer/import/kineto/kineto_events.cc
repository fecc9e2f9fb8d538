#include "analyzer/import/kineto/kineto_events.h"

#include "absl/container/flat_hash_set.h"
#include "analyzer/import/kineto/operator_definitions.h"
#include "analyzer/import/kineto/python_frames.h"
#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline kineto {
namespace {

constexpr size_t kMostThreads = 1 << 16;
constexpr int64_t kMostRunNs = int64_t{1} << 53;  // 104 days

}  // namespace

const GpuEvent* KeptEvents::WorkOf(int64_t correlation) const {
  if (correlation < 0) return nullptr;
  const auto found = absl::c_lower_bound(
      gpu, correlation, [](const GpuEvent& event, int64_t wanted) { return event.correlation < wanted; });
  return found == gpu.end() || found->correlation != correlation ? nullptr : &*found;
}

void EventKeeper::Take(const Event& event) {
  if (event.category == Category::kInstant) return TakeMemory(event);
  if (event.category == Category::kOther || !event.is_complete) return TakeName(event);
  if (!event.has_time || event.duration_ns < 0 || event.duration_ns > kMostRunNs) {
    ++kept_.without_time;
  } else if (event.category == Category::kSync) {
    TakeSync(event);
  } else if (event.category == Category::kOverhead) {
    overheads_.push_back(
        {event.start_ns, event.start_ns + event.duration_ns, -1, NameOf(event.name), 0, event.category});
  } else if (IsOnHost(event.category)) {
    TakeHost(event);
  } else {
    TakeGpu(event);
  }
}

KeptEvents EventKeeper::Finish() {
  JoinPythonOfNoThread();
  PlaceOverheads();
  LinkReplays();
  absl::c_stable_sort(kept_.gpu, [](auto& a, auto& b) { return a.correlation < b.correlation; });
  return std::move(kept_);
}

void EventKeeper::TakeName(const Event& event) {
  if (event.text.empty()) return;
  if (event.name == "process_name") kept_.process_names.try_emplace(event.process, event.text);
  if (event.name != "thread_name" || kept_.thread_names.size() > kMostThreads) return;
  kept_.thread_names[{event.process, event.thread}] = event.text;  // "thread 4711 (python3)"
}

uint32_t EventKeeper::NameOf(const std::string& name) {
  const auto [place, is_new] = name_ids_.try_emplace(name, static_cast<uint32_t>(kept_.names.size()));
  if (is_new) kept_.names.push_back(name);
  return place->second;
}

void EventKeeper::NoteTime(const Event& event) {
  kept_.first_ns = std::min(kept_.first_ns, event.start_ns);
  kept_.last_ns = std::max(kept_.last_ns, event.start_ns + event.duration_ns);
}

void EventKeeper::TakeHost(const Event& event) {
  const bool is_loop = event.category == Category::kPython && event.name == kLoopFunction;
  if (event.category == Category::kPython && !is_loop && !IsPythonFrame(event.name)) return;
  std::vector<HostEvent>& events = kept_.threads[{event.process, event.thread}];
  if (kept_.threads.size() > kMostThreads) throw LimitError(absl::StrCat("more than ", kMostThreads, " threads"));
  if (event.category != Category::kPython) {
    NoteTime(event);
    ++events_of_process_[event.process];
  }
  events.push_back({.start_ns = event.start_ns,
                    .end_ns = event.start_ns + event.duration_ns,
                    .number = event.category == Category::kRuntime ? event.correlation : event.sequence,
                    .name = NameOf(is_loop ? kInductorLoop : event.name),
                    .definition = event.category == Category::kOperator ? DefinitionOf(event) : 0,
                    .category = event.category});
}

void EventKeeper::TakeMemory(const Event& event) {
  constexpr int64_t kHost = 0;  // c10::DeviceType::CPU
  if (event.name != "[memory]" || !event.has_time || event.address == 0 || event.memory_bytes == 0) return;
  kept_.threads.try_emplace({event.process, event.thread});
  kept_.memory[{event.process, event.thread}].push_back(
      {event.start_ns, event.address, Clamped<uint64_t>(event.memory_bytes), Clamped<uint64_t>(event.allocated),
       Clamped<uint64_t>(event.reserved),
       event.memory_type == kHost ? 0 : Clamped<uint16_t>(event.memory_device) + 1u});
}

uint32_t EventKeeper::DefinitionOf(const Event& event) {
  std::optional<trace::OpDefinition> definition = DefineOperator(event);
  if (!definition) return 0;
  definition->set_function(event.name);
  definition->set_time_source(trace::CLOCK_TICKS);
  if (definition->has_collective()) AddGroup(event, definition->mutable_collective());
  const auto [place, is_new] =
      definition_ids_.try_emplace(definition->SerializeAsString(), static_cast<uint32_t>(kept_.definitions.size()));
  if (is_new) kept_.definitions.push_back(*std::move(definition));
  return place->second;
}

// Groups have names; the ranks of one are a list, as long as they are few.
void EventKeeper::AddGroup(const Event& event, trace::Collective* collective) {
  const auto [place, is_new] = groups_.try_emplace(event.group, groups_.size() + 1);
  collective->set_communicator(place->second);
  kept_.group_ranks.try_emplace(place->second, event.group_ranks);
}

void EventKeeper::TakeGpu(const Event& event) {
  NoteTime(event);
  const uint32_t name = NameOf(event.name);
  kept_.gpu.push_back({.start_ns = event.start_ns,
                       .duration_ns = event.duration_ns,
                       .correlation = event.correlation,
                       .bytes = Clamped<uint64_t>(event.bytes),
                       .name = name,
                       .kernel = event.category == Category::kKernel ? KernelOf(event, name) : 0,
                       .stream = static_cast<uint32_t>(event.stream),
                       .device = Clamped<uint32_t>(event.device),
                       .category = event.category});
}

// What the call with this correlation id waits for; or what it makes a stream wait for.
void EventKeeper::TakeSync(const Event& event) {
  if (event.correlation < 0 || event.stream < 0) return;
  if (event.stream == UINT32_MAX) return;  // for all streams, as its name says
  std::string& text = kept_.waits[event.correlation];
  text = absl::StrCat("stream ", event.stream);
  if (event.event_stream >= 0 && event.event_stream != event.stream)
    absl::StrAppend(&text, ", for an event of stream ", event.event_stream);
}

// CUPTI does not tell the thread: it is the one that was in a call of CUDA's then, if only one was. While a thread waits for the GPU,
// a buffer may be emptied on another thread.
void EventKeeper::PlaceOverheads() {
  if (overheads_.empty()) return;
  const auto is_before = [](const HostEvent& overhead, int64_t ns) { return overhead.start_ns < ns; };
  absl::c_sort(overheads_, [](auto& a, auto& b) { return a.start_ns < b.start_ns; });
  const auto first_from = [&](int64_t ns) {
    return absl::c_lower_bound(overheads_, ns, is_before) - overheads_.begin();
  };
  std::vector<std::vector<HostEvent>*> threads;
  // By the first row from which on, or no longer, it holds: how many threads are in a call, and the sum of their numbers.
  std::map<ptrdiff_t, std::pair<int64_t, int64_t>> changes;
  for (auto& [key, events] : kept_.threads) {
    std::map<ptrdiff_t, int64_t> depths;
    for (const HostEvent& call : events) {
      const std::string& name = kept_.names[call.name];
      const bool is_copy = absl::StrContains(name, "Memcpy") && !absl::StrContains(name, "Async");
      if (call.category != Category::kRuntime || is_copy || absl::StrContains(name, "Synchronize")) continue;
      ++depths[first_from(call.start_ns)];
      --depths[first_from(call.end_ns)];
    }
    int64_t depth = 0;
    for (const auto& [at, change] : depths) {
      const int64_t in_call = (depth + change > 0 ? 1 : 0) - (depth > 0 ? 1 : 0);
      changes[at].first += in_call;
      changes[at].second += in_call * std::ssize(threads);
      depth += change;
    }
    threads.push_back(&events);
  }
  int64_t in_call = 0, number = 0;
  auto change = changes.begin();
  for (ptrdiff_t i = 0; i < std::ssize(overheads_); ++i) {
    for (; change != changes.end() && change->first <= i; ++change) {
      in_call += change->second.first;
      number += change->second.second;
    }
    if (in_call == 1) threads[static_cast<size_t>(number)]->push_back(overheads_[static_cast<size_t>(i)]);
  }
}

uint32_t EventKeeper::KernelOf(const Event& event, uint32_t name) {
  const auto at = [](const std::vector<int64_t>& list, size_t i) {
    return i < list.size() ? Clamped<uint32_t>(list[i]) : 0;
  };
  trace::InternedGpuKernel kernel;
  kernel.set_name_iid(name + 1);  // until it is written
  kernel.set_grid_x(at(event.grid, 0));
  kernel.set_grid_y(at(event.grid, 1));
  kernel.set_grid_z(at(event.grid, 2));
  kernel.set_block_x(at(event.block, 0));
  kernel.set_block_y(at(event.block, 1));
  kernel.set_block_z(at(event.block, 2));
  kernel.set_registers_per_thread(Clamped<uint32_t>(event.registers));
  kernel.set_dynamic_shared_bytes(Clamped<uint32_t>(event.shared_bytes));
  const auto [place, is_new] =
      kernel_ids_.try_emplace(kernel.SerializeAsString(), static_cast<uint32_t>(kept_.kernels.size()));
  if (is_new) kept_.kernels.push_back(std::move(kernel));
  return place->second;
}

// Some versions of Kineto write Python's functions of the main thread as of process 0 and thread 0.
void EventKeeper::JoinPythonOfNoThread() {
  const auto most = absl::c_max_element(events_of_process_, [](auto& a, auto& b) { return a.second < b.second; });
  if (most != events_of_process_.end()) kept_.pid = Clamped<uint32_t>(most->first);
  const auto none = kept_.threads.find({0, 0});
  const auto main = kept_.threads.find({kept_.pid, kept_.pid});
  if (none == kept_.threads.end() || main == kept_.threads.end() || kept_.pid == 0) return;
  const auto is_python = [](const HostEvent& event) { return event.category == Category::kPython; };
  if (!absl::c_all_of(none->second, is_python)) return;
  if (absl::c_any_of(main->second, is_python)) return;
  main->second.insert(main->second.end(), none->second.begin(), none->second.end());
  kept_.threads.erase(none);
}

// Some recorders do not give the work of a graph the id of its launch. What begins after a launch without work is that
// launch's, up to the next one, unless other such work ran at the launch or that of an earlier launch may still come.
void EventKeeper::LinkReplays() {
  absl::flat_hash_set<int64_t> calls, linked;
  std::vector<const HostEvent*> replays;
  for (const auto& [key, events] : kept_.threads) {
    for (const HostEvent& event : events) {
      if (event.category != Category::kRuntime) continue;
      calls.insert(event.number);
      if (absl::StrContains(kept_.names[event.name], "GraphLaunch")) replays.push_back(&event);
    }
  }
  std::vector<GpuEvent*> unlinked;
  for (GpuEvent& event : kept_.gpu) {
    if (!calls.contains(event.correlation)) unlinked.push_back(&event);
    linked.insert(event.correlation);
  }
  std::erase_if(replays, [&](const HostEvent* replay) { return linked.contains(replay->number); });
  absl::c_sort(replays, [](auto* a, auto* b) { return a->start_ns < b->start_ns; });
  absl::c_sort(unlinked, [](auto* a, auto* b) { return a->start_ns < b->start_ns; });
  auto next = replays.begin();
  bool fits = false;
  int64_t busy_until_ns = INT64_MIN;
  for (GpuEvent* event : unlinked) {
    const auto last = next;
    while (next != replays.end() && (*next)->start_ns <= event->start_ns) ++next;
    if (next != last) fits = next - last == 1 && busy_until_ns <= (*last)->start_ns;
    busy_until_ns = std::max(busy_until_ns, event->start_ns + event->duration_ns);
    if (fits) event->correlation = (*(next - 1))->number;
  }
}

}  // namespace dlhook::analyzer::kineto
