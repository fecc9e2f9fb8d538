#include "analyzer/xla/xla_profiles.h"

#include <thread>

#include "absl/container/flat_hash_set.h"
#include "proto/xla.pb.h"

namespace dlhook::analyzer::inline xla {
namespace {

constexpr int64_t kPsPerNs = 1000;
constexpr int64_t kLeastRestNs = 1000;  // of work that goes on after its call has returned

// Times of damaged profiles stay in range.
constexpr int64_t kMostNs = int64_t{1} << 61;
int64_t NsOf(int64_t timestamp_ns, int64_t offset_ps) {
  return std::clamp(timestamp_ns, -kMostNs / 4, kMostNs / 4) + offset_ps / kPsPerNs;
}

// When the profile began; 0: it does not say.
int64_t BeginningOf(const dlhook::xla::XSpace& space) {
  for (const dlhook::xla::XPlane& plane : space.planes()) {
    for (const dlhook::xla::XStat& stat : plane.stats()) {
      const auto metadata = plane.stat_metadata().find(stat.metadata_id());
      if (metadata == plane.stat_metadata().end() || metadata->second.name() != "profile_start_time") continue;
      return static_cast<int64_t>(std::min<uint64_t>(stat.uint64_value(), kMostNs)) + stat.int64_value() % kMostNs;
    }
  }
  return 0;
}

void SortByEnd(std::vector<XlaEvent>* events) {
  std::stable_sort(events->begin(), events->end(), [](const XlaEvent& a, const XlaEvent& b) {
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.start_ns > b.start_ns;
  });
}

using Span = std::pair<int64_t, int64_t>;  // start and end

// Pieces of `rest` beside others of its thread, which had ended before its end and ascend by theirs.
void AddGaps(const XlaEvent& rest, const std::vector<Span>& others, std::vector<XlaEvent>* pieces) {
  constexpr int kMost = 1000;
  int64_t until_ns = rest.end_ns;
  const auto add_from = [&](int64_t from_ns) {
    if (until_ns - from_ns <= kLeastRestNs) return;
    pieces->push_back(rest);
    pieces->back().start_ns = from_ns;
    pieces->back().end_ns = until_ns;
  };
  int seen = 0;
  for (auto other = others.rbegin(); other != others.rend() && other->second > rest.start_ns; ++other) {
    if (++seen > kMost) return;
    add_from(other->second);
    until_ns = std::min(until_ns, other->first);
  }
  add_from(rest.start_ns);
}

std::string KeyOf(absl::string_view id, absl::string_view program, absl::string_view instruction) {
  return absl::StrCat(id, "/", program, "/", instruction);
}

}  // namespace

// The events of one plane.
class SpaceReader {
 public:
  SpaceReader(const dlhook::xla::XPlane& plane, int64_t began_ns, XlaProfiles* profiles)
      : plane_(plane), began_ns_(began_ns), profiles_(*profiles) {
    for (const auto& [id, metadata] : plane.stat_metadata()) {
      const std::string& name = metadata.name();
      if (name == "hlo_op") hlo_op_ = id;
      if (name == "hlo_module") hlo_module_ = id;
      if (name == "program_id") program_id_ = id;
      if (name == "run_id") run_id_ = id;
      if (name == "device_ordinal") device_ = id;
      if (name == "_p") producer_ = id;
      if (name == "_c") consumer_ = id;
    }
  }

  void Read() {
    for (const dlhook::xla::XLine& line : plane_.lines()) ReadLine(line);
    AddContinuations();
  }

 private:
  // Work that ended after the call that started it had returned: it ended on that thread, then.
  struct Late {
    uint64_t producer = 0;
    int64_t thread = 0;
    int64_t end_ns = 0;
  };

  std::string TextOf(const dlhook::xla::XStat& stat) const {
    const auto found = plane_.stat_metadata().find(static_cast<int64_t>(stat.ref_value()));
    return found == plane_.stat_metadata().end() ? "" : found->second.name();
  }

  static uint64_t NumberOf(const dlhook::xla::XStat& stat) {
    return stat.uint64_value() != 0 ? stat.uint64_value() : static_cast<uint64_t>(stat.int64_value());
  }

  void ReadLine(const dlhook::xla::XLine& line) {
    const size_t before = profiles_.events_.size(), late_before = late_.size();
    for (const dlhook::xla::XEvent& event : line.events()) ReadEvent(line, event);
    if (profiles_.events_.size() == before && late_.size() == late_before) return;
    profiles_.threads_.push_back({line.id(), line.name().substr(0, line.name().find('/'))});
  }

  void ReadEvent(const dlhook::xla::XLine& line, const dlhook::xla::XEvent& event) {
    XlaProfiles::Reference reference;
    XlaEvent read;
    uint64_t producer = 0, consumer = 0;
    for (const dlhook::xla::XStat& stat : event.stats()) {
      const int64_t id = stat.metadata_id();
      if (id == hlo_op_) reference.instruction = TextOf(stat);
      if (id == hlo_module_) reference.program = TextOf(stat);
      if (id == program_id_) reference.program_id = static_cast<int64_t>(NumberOf(stat));
      if (id == run_id_) read.run = static_cast<uint32_t>(NumberOf(stat));
      if (id == device_) read.device = static_cast<uint32_t>(NumberOf(stat));
      if (id == producer_) producer = NumberOf(stat);
      if (id == consumer_) consumer = NumberOf(stat);
    }
    read.window = profiles_.spaces_;
    read.thread = line.id();
    read.start_ns = began_ns_ + NsOf(line.timestamp_ns(), event.offset_ps());
    read.end_ns = read.start_ns + std::max<int64_t>(event.duration_ps(), 0) / kPsPerNs;
    if (!reference.instruction.empty()) {
      read.op = profiles_.FindReference(std::move(reference));
      if (producer != 0) by_producer_[producer] = profiles_.events_.size();
      profiles_.events_.push_back(read);
    } else if (consumer != 0 && IsEnd(event)) {
      late_.push_back({consumer, line.id(), read.start_ns});
    }
  }

  bool IsEnd(const dlhook::xla::XEvent& event) const {
    const auto metadata = plane_.event_metadata().find(event.metadata_id());
    return metadata != plane_.event_metadata().end() && absl::StartsWith(metadata->second.name(), "end: ");
  }

  void AddContinuations() {
    for (const Late& late : late_) {
      const auto found = by_producer_.find(late.producer);
      if (found == by_producer_.end()) continue;
      XlaEvent rest = profiles_.events_[found->second];
      if (late.end_ns <= rest.end_ns + kLeastRestNs) continue;
      rest.helps_from_ns = late.thread == rest.thread ? rest.end_ns : rest.start_ns;
      rest.start_ns = rest.end_ns;
      rest.end_ns = late.end_ns;
      rest.thread = late.thread;
      rest.is_continuation = true;
      profiles_.events_.push_back(rest);
    }
  }

  const dlhook::xla::XPlane& plane_;
  const int64_t began_ns_;  // CLOCK_REALTIME
  XlaProfiles& profiles_;
  int64_t hlo_op_ = -1, hlo_module_ = -1, program_id_ = -1, run_id_ = -1, device_ = -1, producer_ = -1, consumer_ = -1;
  std::vector<Late> late_;
  absl::flat_hash_map<uint64_t, size_t> by_producer_;  // event
};

uint32_t XlaProfiles::FindReference(Reference reference) {
  const std::string key = KeyOf(absl::StrCat(reference.program_id), reference.program, reference.instruction);
  const auto [at, is_new] = reference_by_key_.try_emplace(key, static_cast<uint32_t>(references_.size()));
  if (is_new) references_.push_back(std::move(reference));
  return at->second;
}

bool XlaProfiles::AddProgram(const std::string& bytes) {
  std::string name;
  int64_t id = 0;
  bool is_whole = false;
  std::vector<XlaOp> ops = OpsOfProgram(bytes, &name, &id, &is_whole);
  if (is_whole) programs_.push_back({name, {}, id});
  for (XlaOp& op : ops) {
    if (!op.argument.empty()) programs_.back().arguments.push_back(op.argument);
    program_ops_.push_back(std::move(op));
    const std::string& instruction = program_ops_.back().instruction;
    program_op_by_key_.try_emplace(KeyOf(absl::StrCat(id), name, instruction), program_ops_.size() - 1);
    program_op_by_key_[KeyOf("", name, instruction)] = program_ops_.size() - 1;
  }
  return is_whole;
}

bool XlaProfiles::AddSpace(const std::string& bytes) {
  dlhook::xla::XSpace space;
  if (!space.ParseFromString(bytes)) return false;
  const int64_t began_ns = BeginningOf(space);
  if (began_ns <= 0) return false;
  ++spaces_;
  for (const dlhook::xla::XPlane& plane : space.planes()) SpaceReader(plane, began_ns, this).Read();
  return true;
}

// By id, unless that is another program: one from the persistent compilation cache reports another id than its HLO has.
const XlaOp* XlaProfiles::ProgramOpOf(const Reference& reference) const {
  for (const std::string& id : {absl::StrCat(reference.program_id), std::string()}) {
    const auto found = program_op_by_key_.find(KeyOf(id, reference.program, reference.instruction));
    if (found != program_op_by_key_.end()) return &program_ops_[found->second];
  }
  return nullptr;
}

// Operations that ran and read its result, directly or through others that take no time.
std::vector<uint32_t> XlaProfiles::UsersOf(const Reference& reference) const {
  constexpr size_t kMost = 1000;
  std::vector<uint32_t> users;
  absl::flat_hash_set<std::string> seen;
  std::vector<Reference> front = {reference};
  while (!front.empty() && seen.size() < kMost) {
    const XlaOp* op = ProgramOpOf(front.back());
    front.pop_back();
    if (op == nullptr) continue;
    for (const std::string& user : op->users) {
      if (!seen.insert(user).second) continue;
      const auto ran = reference_by_key_.find(KeyOf(absl::StrCat(reference.program_id), reference.program, user));
      if (ran != reference_by_key_.end()) users.push_back(ran->second);
      if (ran == reference_by_key_.end()) front.push_back({reference.program, reference.program_id, user});
    }
  }
  return users;
}

// XLA reports the end of work that goes on after its call only when its thread has also run what waited for that, and
// whatever that thread did next. The work had ended when an operation began that reads its result.
void XlaProfiles::EndBeforeUsers() {
  using Execution = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;
  const auto execution = [](const XlaEvent& of, uint32_t op) { return Execution(of.window, of.run, of.device, op); };
  absl::flat_hash_map<Execution, std::vector<int64_t>> starts;
  for (const XlaEvent& event : events_) {
    if (!event.is_continuation) starts[execution(event, event.op)].push_back(event.start_ns);
  }
  for (auto& [of, times] : starts) absl::c_sort(times);
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> users;  // by op
  for (XlaEvent& event : events_) {
    if (!event.is_continuation) continue;
    const auto [known, is_new] = users.try_emplace(event.op);
    if (is_new) known->second = UsersOf(references_[event.op]);
    const std::vector<int64_t>& calls = starts[execution(event, event.op)];
    const int64_t called_ns = *(absl::c_upper_bound(calls, event.start_ns) - 1);
    for (const uint32_t user : known->second) {
      const std::vector<int64_t>& times = starts[execution(event, user)];
      const auto next = absl::c_lower_bound(times, called_ns);
      if (next != times.end()) event.end_ns = std::min(event.end_ns, *next);
    }
  }
}

// What goes on after its call has returned occupies its last thread as far as nothing else does, also before that if the
// call is another thread's.
void XlaProfiles::FillGaps() {
  absl::flat_hash_map<int64_t, std::vector<Span>> before;  // on each thread, ascending by end
  std::vector<XlaEvent> events;
  for (XlaEvent& event : events_) {
    if (event.is_continuation && event.end_ns - event.start_ns <= kLeastRestNs) continue;
    if (event.is_continuation) event.start_ns = event.helps_from_ns;
    std::vector<Span>& others = before[event.thread];
    if (event.is_continuation) AddGaps(event, others, &events);
    if (!event.is_continuation) events.push_back(event);
    others.emplace_back(event.start_ns, event.end_ns);
  }
  SortByEnd(&events);
  events_ = std::move(events);
}

void XlaProfiles::Finish() {
  EndBeforeUsers();
  std::ranges::stable_sort(programs_, {}, &XlaProgram::id);
  for (const Reference& reference : references_) {
    const XlaOp* known = ProgramOpOf(reference);
    XlaOp op;
    if (known != nullptr) op = *known;
    op.program = reference.program;
    op.program_id = reference.program_id;
    op.instruction = reference.instruction;
    if (op.primitive.empty()) op.primitive = reference.instruction.substr(0, reference.instruction.find('.'));
    ops_.push_back(std::move(op));
  }
  SortByEnd(&events_);
  FillGaps();
  std::ranges::sort(threads_, {}, &XlaThread::id);
  const auto doubles = std::ranges::unique(threads_, {}, &XlaThread::id);
  threads_.erase(doubles.begin(), doubles.end());
}

int64_t XlaProfiles::ThreadId(uint64_t handle) {
  return static_cast<int64_t>(std::hash<std::thread::id>()(std::thread::id(handle)));
}

}  // namespace dlhook::analyzer::xla
