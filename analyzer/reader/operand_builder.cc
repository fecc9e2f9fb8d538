// Addresses are interned separately from ops, and a batch has those of all its calls one after another: each op's rule
// gives the number of addresses per call.
#include "analyzer/reader/operand_builder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "preload/format/record.h"

namespace dlhook::analyzer::inline reader {

// Keeps operands of GPU library products, convolutions and conversions, which tables join by what they read and write;
// times between events; copies whose contents were sampled; and operands of CPU products, from which layers are
// inferred.
OperandBuilder::Keep OperandBuilder::KeepOf(const trace::OpDefinition& definition) {
  const bool is_product = definition.has_gemm();
  const bool on_gpu = definition.has_cudnn() || (is_product && definition.gemm().has_cuda()) ||
                      (definition.has_matrix() && absl::StartsWith(definition.family(), "cu"));
  const bool is_sampled = definition.has_copy() && definition.address_count() == 4 &&
                          definition.copy().direction() == trace::Copy::HOST_TO_DEVICE &&
                          definition.copy().bytes() >= kLeastSampledBytes;
  if (on_gpu || is_sampled || absl::StrContains(definition.function(), "EventElapsedTime")) return Keep::kAll;
  return is_product ? Keep::kFirst : Keep::kNo;
}

void OperandBuilder::Define(const trace::OpDefinition& definition) {
  const uint32_t iid = definition.iid();
  if (iid >= rules_.size()) rules_.resize(iid + 1);
  rules_[iid] = {definition.address_count(), KeepOf(definition)};
  keeps_any_ = keeps_any_ || rules_[iid].keep != Keep::kNo;
}

// Ids are consecutive; a gap (a lost definition) remains unknown.
void OperandBuilder::AddAddresses(const trace::Interned& interned) {
  constexpr uint32_t kMaxAddressIid = 1 << 20;
  const uint32_t first = interned.first_address_iid();
  if (interned.address_size() == 0) return;
  if (first == 0 || first > kMaxAddressIid) {
    oddities_->Count("an address definition with an impossible id");
    return;
  }
  const size_t end = size_t{first} + static_cast<size_t>(interned.address_size());
  if (end > addresses_.size()) addresses_.resize(end);
  std::copy(interned.address().begin(), interned.address().end(), addresses_.begin() + first);
}

void OperandBuilder::Reset() {
  rules_.clear();
  addresses_.clear();
  keeps_any_ = false;
}

bool OperandBuilder::TakesIn(Keep keep, ThreadOperands* operands) const {
  if (keep != Keep::kFirst) return keep == Keep::kAll;
  return operands->host_calls < ThreadOperands::kMaxHostCalls && ++operands->host_calls != 0;
}

void OperandBuilder::AddKept(const trace::CallBatch& batch, size_t count, ThreadOperands* operands) const {
  uint64_t sequence = batch.base_sequence();
  int next = 0;  // in address_iid
  for (size_t i = 0; i < count; ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(static_cast<int>(i))});
    const uint32_t iid = batch.op_iid(static_cast<int>(i));
    if (iid >= rules_.size()) return;  // the number of addresses of its call is unknown
    const Rule rule = rules_[iid];
    if (rule.count > static_cast<uint32_t>(batch.address_iid_size() - next)) return;
    if (rule.count != 0 && TakesIn(rule.keep, operands)) {
      operands->places.Add(sequence, operands->values.size());
      operands->values.push_back(rule.count);
      for (uint32_t j = 0; j < rule.count; ++j) {
        operands->values.push_back(AddressOf(batch.address_iid(next + static_cast<int>(j))));
      }
    }
    next += static_cast<int>(rule.count);
  }
}

void OperandBuilder::Append(ThreadOperands* operands, size_t first_call, TraceModel* model) {
  if (operands->places.empty()) return;
  operands->places.Sort();
  const CallColumns& calls = model->calls;
  CallOperands& kept = model->operands;
  for (size_t i = first_call; i < calls.size(); ++i) {
    const uint64_t* place = operands->places.Find(calls.sequence[i]);
    if (place == nullptr) continue;
    const auto values = operands->values.begin() + static_cast<ptrdiff_t>(*place);
    kept.call.push_back(static_cast<CallIndex>(i));
    kept.begin.push_back(kept.value.size());
    kept.value.insert(kept.value.end(), values + 1, values + 1 + static_cast<ptrdiff_t>(*values));
  }
}

}  // namespace dlhook::analyzer::reader
