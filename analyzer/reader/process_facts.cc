#include "analyzer/reader/process_facts.h"

#include "absl/strings/match.h"

namespace dlhook::analyzer::inline reader {
namespace {

// Of torchrun's key (MakeRunKey in preload/format/identity.h) without the agent, which is another one on each host; its
// default, too, is not unique.
std::string JobOf(const std::string& key) {
  if (absl::StartsWith(key, "slurm-") || absl::StartsWith(key, "mpi-")) return key;
  if (!absl::StartsWith(key, "torchrun-")) return "";
  const size_t agent_start = key.rfind('-');
  const size_t agent = agent_start == 0 ? std::string::npos : key.rfind('-', agent_start - 1);
  return agent == std::string::npos ? key : key.substr(0, agent);
}

}  // namespace

// If a second writer took over (see Reset), it repeats the header; the first one has more information.
void ProcessFacts::Add(const trace::Header& told) {
  if (has_header_) return;
  has_header_ = true;
  header = told;
  const trace::Process& recorded = header.process();
  process.pid = recorded.pid();
  process.parent_pid = recorded.parent_pid();
  process.host = recorded.host();
  process.boot_id = recorded.boot_id();
  process.program = recorded.program();
  process.script = recorded.script();
  for (const trace::RankVariable& rank : header.rank_variable()) {
    process.rank_variables.emplace_back(rank.name(), rank.value());
  }
  process.job = JobOf(header.run_key());
  for (const trace::Setting& setting : header.setting()) process.settings.emplace_back(setting.name(), setting.value());
  process.processors = header.processors();
  Read(header.processor(), &process.processor);
  process.tool_version = header.tool_version();
  process.capture_families = header.capture_families();
  process.requested_output = header.requested_output();
  process.output_refusal = header.output_refusal();
  process.clock = FromProto<ClockKind>(header.clock().kind());
  process.ticks_per_second = header.clock().ticks_per_second();
  process.clock_fallback_reason = header.clock().fallback_reason();
}

void ProcessFacts::Add(const trace::Mapping& mapping) { Read(mapping, &process.mappings.emplace_back()); }

void ProcessFacts::Add(const trace::Capability& capability) {
  const auto [place, is_new] =
      capability_index_.emplace(std::pair(capability.name(), capability.object()), process.capabilities.size());
  if (is_new) process.capabilities.emplace_back();
  Read(capability, &process.capabilities[place->second]);
}

void ProcessFacts::Add(const trace::Loss& loss) {
  const auto key = std::make_tuple(static_cast<int>(loss.reason()), loss.thread_id(), loss.detail());
  const auto [place, is_new] = loss_index_.emplace(key, process.losses.size());
  if (is_new) {
    process.losses.push_back(
        {.reason = FromProto<LossReason>(loss.reason()), .thread_id = loss.thread_id(), .detail = loss.detail()});
  }
  Loss& sum = process.losses[place->second];
  const auto bounded_sum = [](uint64_t a, uint64_t b) { return std::min(a + std::min(b, kMaxCounted), kMaxCounted); };
  sum.calls = bounded_sum(sum.calls, loss.calls());
  sum.bytes = bounded_sum(sum.bytes, loss.bytes());
}

}  // namespace dlhook::analyzer::reader
