// See training_trace.h.
#include "tests/analyzer/training_trace.h"

#include <map>
#include <random>

#include "proto/trace.pb.h"

namespace dlhook::analyzer {
namespace {

constexpr int kBatchScopes = 64;

enum Name : uint32_t { kZeroGrad = 1, kLinear, kAddmm, kEngine, kNode, kUpdate, kEpoch, kFile, kFunction };

// Writes what PyTorch does in a training loop: batches of scopes and calls fill up independently of each other, as the drain's do.
class Writer {
 public:
  explicit Writer(const std::function<void(const std::string&)>& write) : write_(write) {}

  void Run(int64_t steps) {
    Define();
    for (int64_t step = 0; step < steps; ++step) {
      if (step % 500 == 0) epoch_start_ = now_;
      Step(step);
      if (step % 500 == 499) AddScope(kEpoch, trace::ScopeBatch::USER_RANGE, epoch_start_, -1, 0, 0);
      if (step % 100 == 99) Forward(-1);  // an evaluation
      if (step % 50 == 0) AddClockSample();
    }
    FlushScopes();
    FlushCalls();
    AddClockSample();
    trace::Packet packet;
    packet.mutable_footer()->set_end(trace::Footer::EXITED);
    packet.mutable_footer()->set_end_ticks(now_);
    packet.mutable_footer()->set_calls(sequence_);
    Write(packet);
  }

 private:
  void Define() {
    trace::Packet header;
    header.mutable_header()->set_schema_major(1);
    header.mutable_header()->mutable_process()->set_shim_loaded_ticks(1000);
    header.mutable_header()->mutable_clock()->set_kind(trace::Clock::MONOTONIC);
    header.mutable_header()->mutable_clock()->set_ticks_per_second(1'000'000'000);
    Write(header);
    AddClockSample();
    trace::Packet packet;
    trace::Interned* interned = packet.mutable_interned();
    const std::map<uint32_t, std::string> names = {{kZeroGrad, "Optimizer.zero_grad#SGD.zero_grad"},
                                                   {kLinear, "aten::linear"},
                                                   {kAddmm, "aten::addmm"},
                                                   {kEngine, "autograd::engine::evaluate_function: AddmmBackward0"},
                                                   {kNode, "AddmmBackward0"},
                                                   {kUpdate, "Optimizer.step#SGD.step"},
                                                   {kEpoch, "epoch"},
                                                   {kFile, "train.py"},
                                                   {kFunction, "train"}};
    for (const auto& [iid, name] : names) {
      trace::InternedString* string = interned->add_string();
      string->set_iid(iid);
      string->set_value(name);
    }
    for (uint32_t line = 1; line <= 2; ++line) {
      trace::InternedPythonStack* stack = interned->add_python_stack();
      stack->set_iid(line);
      trace::PythonFrame* frame = stack->add_frame();
      frame->set_file_iid(kFile);
      frame->set_function_iid(kFunction);
      frame->set_line(line * 10);
    }
    for (uint32_t op = 1; op <= 2; ++op) {
      trace::OpDefinition* definition = interned->add_op();
      definition->set_iid(op);
      definition->set_function("sgemm_");
      definition->set_family("blas");
      definition->set_time_source(trace::CLOCK_TICKS);
      definition->mutable_gemm()->set_m(32 * op);
      definition->mutable_gemm()->set_n(64);
      definition->mutable_gemm()->set_k(128);
    }
    Write(packet);
  }

  void Step(int64_t step) {
    const uint64_t zero = Spend(10);
    AddScope(kZeroGrad, trace::ScopeBatch::USER_RANGE, zero, -1, 0, 1);
    for (int64_t layer = 1; layer <= 2; ++layer) Forward(layer + 2 * step);
    for (int64_t layer = 2; layer >= 1; --layer) Backward(layer + 2 * step);
    const uint64_t update = Spend(30 + random_() % 20);
    AddScope(kUpdate, trace::ScopeBatch::USER_RANGE, update, -1, 0, 1);
    Spend(20);
  }

  void Forward(int64_t link) {
    const uint64_t linear = Spend(5), addmm = Spend(5);
    AddCall(link % 2 == 0 ? 2 : 1, 100 + random_() % 100);
    AddScope(kAddmm, trace::ScopeBatch::FRAMEWORK_OP, addmm, link, 1, 0);
    AddScope(kLinear, trace::ScopeBatch::FRAMEWORK_OP, linear, link, 1, link < 0 ? 2 : 1);
  }

  void Backward(int64_t link) {
    const uint64_t engine = Spend(5), node = Spend(5);
    AddCall(link % 2 == 0 ? 2 : 1, 200 + random_() % 100);
    AddScope(kNode, trace::ScopeBatch::BACKWARD_NODE, node, link, 1, 0);
    AddScope(kEngine, trace::ScopeBatch::FRAMEWORK_OP, engine, link, 1, 0);
  }

  // Returns when it began.
  uint64_t Spend(uint64_t us) {
    const uint64_t before = now_;
    now_ += 1000 * us;
    return before;
  }

  void AddCall(uint32_t op, uint64_t us) {
    Spend(us);
    if (calls_.op_iid_size() == 0) {
      calls_.set_thread_id(1);
      calls_.set_base_sequence(sequence_);
      calls_.set_base_end_ticks(call_end_);
    }
    calls_.add_op_iid(op);
    calls_.add_sequence_delta(0);
    calls_.add_end_delta_ticks(static_cast<int64_t>(now_ - call_end_));
    calls_.add_duration(us * 1000);
    calls_.add_parent_distance(0);
    call_end_ = now_;
    ++sequence_;
    if (calls_.op_iid_size() == 3 * kBatchScopes) FlushCalls();
  }

  void AddScope(Name name, trace::ScopeBatch::Kind kind, uint64_t start, int64_t link, uint32_t calls, uint32_t stack) {
    if (scopes_.name_iid_size() == 0) {
      scopes_.set_thread_id(1);
      scopes_.set_base_end_ticks(scope_end_);
      first_sequence_ = last_link_ = 0;
    }
    scopes_.add_name_iid(name);
    scopes_.add_end_delta_ticks(static_cast<int64_t>(now_ - scope_end_));
    scopes_.add_duration_ticks(now_ - start);
    scopes_.add_kind(kind);
    scopes_.add_link_delta(link - last_link_);
    const uint64_t first = calls == 0 ? sequence_ + 1 : sequence_;
    scopes_.add_first_sequence_delta(static_cast<int64_t>(first - first_sequence_));
    scopes_.add_call_count(calls);
    scopes_.add_python_stack_iid(stack);
    scope_end_ = now_;
    last_link_ = link;
    first_sequence_ = first;
    if (scopes_.name_iid_size() == kBatchScopes) FlushScopes();
  }

  void FlushCalls() {
    trace::Packet packet;
    packet.mutable_call_batch()->Swap(&calls_);
    Write(packet);
  }
  void FlushScopes() {
    trace::Packet packet;
    packet.mutable_scope_batch()->Swap(&scopes_);
    Write(packet);
  }

  void AddClockSample() {
    trace::Packet packet;
    trace::ClockSample* sample = packet.mutable_clock_sample();
    sample->set_ticks(now_);
    sample->set_monotonic_ns(now_);
    sample->set_realtime_ns(now_);
    Write(packet);
  }

  void Write(const trace::Packet& packet) {
    trace::Trace trace;
    *trace.add_packet() = packet;
    write_(trace.SerializeAsString());
  }

  const std::function<void(const std::string&)>& write_;
  std::mt19937 random_;
  trace::CallBatch calls_;
  trace::ScopeBatch scopes_;
  uint64_t now_ = 1'000'000, epoch_start_ = 0, call_end_ = 0, scope_end_ = 0, sequence_ = 0, first_sequence_ = 0;
  int64_t last_link_ = 0;
};

}  // namespace

void WriteTrainingTrace(int64_t steps, const std::function<void(const std::string& packet)>& write) {
  Writer(write).Run(steps);
}

}  // namespace dlhook::analyzer
