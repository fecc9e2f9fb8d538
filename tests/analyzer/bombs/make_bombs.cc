// Writes small traces that are expensive for a careless reader: make_bombs FOLDER [SIZE]. SIZE multiplies the items of
// each bomb; the reader's cost may grow in proportion. The last word of a file's name is the number of recorded items.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/trace.pb.h"

namespace dlhook {
namespace {

constexpr int kBatch = 10000;  // items per packet

// Writes a trace packet by packet and counts the recorded items.
class Bomb {
 public:
  explicit Bomb(int size) : size_(size) {
    trace::Header* header = Add()->mutable_header();
    header->set_schema_major(1);
    header->mutable_process()->set_pid(1);
    header->mutable_process()->set_program("bomb");
    header->mutable_clock()->set_kind(trace::Clock::MONOTONIC);
    header->mutable_clock()->set_ticks_per_second(1000000000);
    for (const uint64_t second : {0, 1}) {
      trace::ClockSample* sample = Add()->mutable_clock_sample();
      sample->set_ticks(second * 1000000000);
      sample->set_monotonic_ns(second * 1000000000);
      sample->set_realtime_ns((second + 1000000000) * 1000000000);
    }
    trace::Interned* interned = Add()->mutable_interned();
    SetOp(1, 4, interned->add_op());
    AddName(1, "aten::mm");
    AddName(2, "task-clock");
  }

  int size() const { return size_; }
  trace::Packet* Add() { return trace_.add_packet(); }
  void Count(int64_t things) { things_ += things; }

  // C[m,n] = op(A) op(B) over k, with all three addresses.
  static void SetProduct(uint32_t iid, int64_t m, int64_t n, int64_t k, const char* trans, trace::OpDefinition* op) {
    SetOp(iid, m, op);
    op->set_address_count(3);
    op->mutable_gemm()->set_row_major(true);
    op->mutable_gemm()->set_n(n);
    op->mutable_gemm()->set_k(k);
    op->mutable_gemm()->set_trans_a(std::string(1, trans[0]));
    op->mutable_gemm()->set_trans_b(std::string(1, trans[1]));
  }

  static void SetOp(uint32_t iid, int64_t m, trace::OpDefinition* op) {
    op->set_iid(iid);
    op->set_function("sgemm_");
    op->set_family("blas");
    op->set_time_source(trace::CLOCK_TICKS);
    op->set_address_count(0);
    op->mutable_gemm()->set_m(m);
    op->mutable_gemm()->set_n(4);
    op->mutable_gemm()->set_k(4);
    op->mutable_gemm()->set_batch(1);
  }

  void AddName(uint32_t iid, const std::string& text) {
    trace::InternedString* string = Add()->mutable_interned()->add_string();
    string->set_iid(iid);
    string->set_value(text);
  }

  // Call i has the defaults changed by `fill`: op 1, 50 ns long, ending 100 ns after the previous one.
  struct Call {
    uint32_t op = 1;
    uint64_t duration = 50;
    int64_t end_delta = 100;
    int32_t sequence_delta = 0;
    uint32_t parent_distance = 0;
    uint32_t stack = 0;
    uint32_t python_stack = 0;
    std::vector<uint32_t> operands = {};  // ids of their addresses
  };
  void Calls(int count, const std::function<void(int, Call*)>& fill = nullptr, uint32_t thread = 1,
             uint64_t first = 0) {
    uint64_t sequence = first, end = 1000000;
    for (int i = 0; i < count; ++i) {
      if (i % kBatch == 0) {
        batch_ = Add()->mutable_call_batch();
        batch_->set_thread_id(thread);
        batch_->set_base_sequence(sequence);
        batch_->set_base_end_ticks(end);
      }
      Call call;
      if (fill) fill(i, &call);
      sequence += 1 + static_cast<uint64_t>(int64_t{call.sequence_delta});
      end += static_cast<uint64_t>(call.end_delta);
      batch_->add_op_iid(call.op);
      batch_->add_sequence_delta(call.sequence_delta);
      batch_->add_end_delta_ticks(call.end_delta);
      batch_->add_duration(call.duration);
      batch_->add_parent_distance(call.parent_distance);
      batch_->add_stack_iid(call.stack);
      batch_->add_python_stack_iid(call.python_stack);
      for (uint32_t operand : call.operands) batch_->add_address_iid(operand);
    }
    Count(count);
  }

  // Nested, or one after another.
  void Scopes(int count, bool nested, uint32_t thread = 1,
              trace::ScopeBatch::Kind kind = trace::ScopeBatch::FRAMEWORK_OP) {
    trace::ScopeBatch* batch = nullptr;
    for (int i = 0; i < count; ++i) {
      if (i % kBatch == 0) {
        batch = Add()->mutable_scope_batch();
        batch->set_thread_id(thread);
        batch->set_base_end_ticks(1000000 + static_cast<uint64_t>(i) * 2);
      }
      batch->add_name_iid(1);
      batch->add_end_delta_ticks(2);
      batch->add_duration_ticks(nested ? 4 * static_cast<uint64_t>(i) + 1 : 1);
      batch->add_kind(kind);
      batch->add_link_delta(0);
      batch->add_first_sequence_delta(0);
      batch->add_call_count(0);
    }
    Count(count);
  }

  void Addresses(int count) {
    for (int i = 0; i < count; i += kBatch) {
      trace::Interned* interned = Add()->mutable_interned();
      interned->set_first_address_iid(static_cast<uint32_t>(i + 1));
      for (int k = i; k < std::min(count, i + kBatch); ++k)
        interned->add_address(4096 + static_cast<uint64_t>(k) * 4096);
    }
    Count(count);
  }

  // Frame k is inside frame k - 1, or next to it.
  void Stacks(int count, int addresses, bool nested) {
    trace::Interned* interned = nullptr;
    for (int k = 1; k <= count; ++k) {
      if (k % kBatch == 1) interned = Add()->mutable_interned();
      trace::InternedStack* stack = interned->add_stack();
      stack->set_iid(static_cast<uint32_t>(k));
      stack->set_address_iid(static_cast<uint32_t>(k % addresses + 1));
      if (nested) stack->set_parent_iid(static_cast<uint32_t>(k - 1));
    }
    Count(count);
  }

  void Write(const std::string& path) const {
    std::ofstream file(path + "." + std::to_string(things_ + trace_.packet_size()) + ".dlh", std::ios::binary);
    trace_.SerializeToOstream(&file);
  }

 private:
  const int size_;
  trace::Trace trace_;
  trace::CallBatch* batch_ = nullptr;
  int64_t things_ = 0;
};

using Fill = void (*)(Bomb*);

void Activities(int count, const std::function<void(int, trace::GpuActivityBatch*)>& fill, Bomb* bomb) {
  trace::GpuActivityBatch* batch = nullptr;
  for (int i = 0; i < count; ++i) {
    if (i % kBatch == 0) {
      batch = bomb->Add()->mutable_gpu_activity();
      batch->set_source(trace::GPU_TIME_CUPTI);
      batch->set_base_start_ns(1000000000000000000 + static_cast<uint64_t>(i) * 10);
    }
    batch->add_kind(trace::GpuActivityBatch::KERNEL);
    batch->add_start_delta_ns(10);
    batch->add_duration_ns(500);
    batch->add_correlation_delta(0);
    batch->add_kernel_iid(0);
    fill(i, batch);
  }
  bomb->Count(count);
}

const std::map<std::string, Fill>& Bombs() {
  static const auto& bombs = *new std::map<std::string, Fill>{
      {"address_count",
       [](Bomb* b) {
         trace::OpDefinition* op = b->Add()->mutable_interned()->add_op();
         Bomb::SetOp(2, 4, op);
         op->set_address_count(UINT32_MAX);
         b->Calls(10, [](int, Bomb::Call* call) { call->op = 2; });
       }},
      {"aggregate_forever",
       [](Bomb* b) {
         trace::CallAggregate* aggregate = b->Add()->mutable_call_aggregate();
         aggregate->set_thread_id(1);
         aggregate->set_op_iid(1);
         aggregate->set_count(5);
         aggregate->set_sum(UINT64_MAX);
         aggregate->set_window_end_ticks(UINT64_MAX);
         b->Calls(10);
         trace::CounterBatch* counters = b->Add()->mutable_counter_batch();
         counters->set_thread_id(1);
         counters->set_tid(1);
         counters->set_kind(trace::CounterBatch::SAMPLE);
         counters->set_source(trace::CounterBatch::RUSAGE);
         counters->add_name_iid(2);
         for (const int64_t ticks : {int64_t{1000}, int64_t{1000000000000000}, INT64_MAX - 2000000000000000}) {
           counters->add_tick_delta(ticks);
           counters->add_value_delta(1000);
         }
       }},
      {"aggregates_overlapping",
       [](Bomb* b) {
         for (int k = 0; k < 25000 * b->size(); ++k) {
           trace::CallAggregate* aggregate = b->Add()->mutable_call_aggregate();
           aggregate->set_thread_id(static_cast<uint32_t>(k % 3000 + 1));
           aggregate->set_op_iid(1);
           aggregate->set_count(5);
           aggregate->set_sum(5);
           aggregate->set_window_start_ticks(static_cast<uint64_t>(k) * 10);
           aggregate->set_window_end_ticks(static_cast<uint64_t>(k) * 10 + 1000000000);
         }
       }},
      {"capabilities",
       [](Bomb* b) {
         for (int k = 0; k < 25000 * b->size(); ++k) {
           trace::Capability* capability = b->Add()->mutable_capability();
           capability->set_name("n" + std::to_string(k));
           capability->set_object("o" + std::to_string(k));
           capability->set_state(trace::Capability::REFUSED);
           capability->set_reason("r");
         }
       }},
      {"devices",
       [](Bomb* b) {
         for (int k = 0; k < 7500 * b->size(); ++k) {
           trace::GpuDevice* device = b->Add()->mutable_gpu_device();
           device->set_ordinal(static_cast<uint32_t>(k));
           device->set_name("g");
         }
         Activities(
             7500 * b->size(),
             [](int i, trace::GpuActivityBatch* batch) {
               batch->add_device(static_cast<uint32_t>(i));
               batch->add_stream(static_cast<uint32_t>(i));
             },
             b);
       }},
      {"largest_ids",
       [](Bomb* b) {
         trace::Interned* interned = b->Add()->mutable_interned();
         trace::InternedString* string = interned->add_string();
         string->set_iid(UINT32_MAX);
         string->set_value("z");
         Bomb::SetOp(UINT32_MAX, 4, interned->add_op());
         interned->add_stack()->set_iid(UINT32_MAX);
         interned->add_python_stack()->set_iid(UINT32_MAX);
         interned->add_gpu_kernel()->set_iid(UINT32_MAX);
         interned->set_first_address_iid(UINT32_MAX - 1);
         interned->add_address(7);
         interned->add_address(8);
         interned->add_address(9);
         b->Calls(5, nullptr, UINT32_MAX, UINT64_MAX - 10);
         b->Add()->mutable_gpu_device()->set_ordinal(UINT32_MAX);
         Activities(
             5,
             [](int, trace::GpuActivityBatch* batch) {
               batch->add_device(UINT32_MAX);
               batch->add_stream(UINT32_MAX);
             },
             b);
       }},
      {"nest_of_calls",
       [](Bomb* b) {
         const int count = 50000 * b->size();
         b->Calls(count, [count](int i, Bomb::Call* call) {
           call->sequence_delta = i == 0 ? count : -2;
           call->end_delta = 1;
           call->duration = 2 * static_cast<uint64_t>(i) + 1;
           call->parent_distance = i + 1 == count ? 0 : 1;
         });
       }},
      {"nest_of_scopes",
       [](Bomb* b) {
         b->Calls(25000 * b->size(), [](int, Bomb::Call* call) { call->end_delta = call->duration = 1; });
         b->Scopes(25000 * b->size(), /*nested=*/true);
       }},
      {"nest_of_user_ranges",
       [](Bomb* b) {
         b->Calls(25000 * b->size(), [](int, Bomb::Call* call) { call->end_delta = call->duration = 1; });
         b->Scopes(25000 * b->size(), /*nested=*/true, 1, trace::ScopeBatch::USER_RANGE);
       }},
      {"distinct_products",  // in one buffer
       [](Bomb* b) {
         const int count = 25000 * b->size();
         b->Addresses(1);
         trace::Interned* interned = nullptr;
         for (int k = 0; k < count; ++k) {
           if (k % kBatch == 0) interned = b->Add()->mutable_interned();
           const char* const trans[] = {"NN", "NT", "TN", "TT"};
           Bomb::SetProduct(static_cast<uint32_t>(k + 2), k % 41 + 1, k / 41 % 43 + 1, k / 1763 + 1, trans[k % 4],
                            interned->add_op());
         }
         b->Count(count * 5);
         b->Calls(count, [](int i, Bomb::Call* call) {
           call->op = static_cast<uint32_t>(i + 2);
           call->operands = {1, 1, 1};
         });
       }},
      {"looks",  // no two scopes, calls or steps are alike
       [](Bomb* b) {
         const int count = 10000 * b->size();
         b->AddName(3, "Optimizer.step#SGD.step");
         trace::Interned* interned = nullptr;
         trace::ScopeBatch* batch = nullptr;
         for (int k = 0; k < count; ++k) {
           const auto iid = static_cast<uint32_t>(k + 4);
           if (k % kBatch == 0) interned = b->Add()->mutable_interned();
           trace::InternedString* name = interned->add_string();
           name->set_iid(iid);
           name->set_value("aten::op" + std::to_string(k));
           Bomb::SetOp(iid, k + 2, interned->add_op());
           trace::InternedPythonStack* stack = interned->add_python_stack();
           stack->set_iid(iid);
           trace::PythonFrame* frame = stack->add_frame();
           frame->set_file_iid(iid);
           frame->set_function_iid(iid);
           frame->set_line(static_cast<uint32_t>(k));
         }
         b->Calls(count, [](int i, Bomb::Call* call) { call->op = static_cast<uint32_t>(i + 4); });
         for (int k = 0; k < count; ++k) {
           if (k % kBatch == 0) {
             batch = b->Add()->mutable_scope_batch();
             batch->set_thread_id(1);
             batch->set_base_end_ticks(1000010 + static_cast<uint64_t>(k) * 100);
           }
           const bool is_update = k % 10 == 9;  // around the call, as the others
           batch->add_name_iid(is_update ? 3 : static_cast<uint32_t>(k + 4));
           batch->add_end_delta_ticks(100);
           batch->add_duration_ticks(80);
           batch->add_kind(is_update ? trace::ScopeBatch::USER_RANGE : trace::ScopeBatch::FRAMEWORK_OP);
           batch->add_link_delta(0);
           batch->add_first_sequence_delta(0);
           batch->add_call_count(0);
           batch->add_python_stack_iid(static_cast<uint32_t>(k + 4));
         }
         b->Count(count * 80);  // each is a row of its own in many tables
       }},
      {"mappings",
       [](Bomb* b) {
         const int count = 12500 * b->size();
         for (int k = 0; k < count; ++k) {
           trace::Mapping* mapping = b->Add()->mutable_mapping();
           mapping->set_start(4096 + static_cast<uint64_t>(k) * 4096);
           mapping->set_end(k % 2 == 0 ? mapping->start() + 4096 : UINT64_MAX);
           mapping->set_path("/usr/lib/x" + std::to_string(k) + ".so");
           mapping->set_role(trace::Mapping::CALLER);
         }
         b->Addresses(count);
         b->Stacks(count, count, /*nested=*/false);
         b->Calls(count, [](int i, Bomb::Call* call) { call->stack = static_cast<uint32_t>(i + 1); });
       }},
      {"modules",
       [](Bomb* b) {
         b->Scopes(10, /*nested=*/false);
         for (int k = 1; k < 12500 * b->size(); ++k) {
           trace::PythonModule* module = b->Add()->mutable_python_module();
           module->set_object(static_cast<uint32_t>(k));
           module->set_type("torch.nn.modules.conv.Conv2d");
           module->set_root(1);
           module->set_parent(static_cast<uint32_t>(k - 1));
           module->add_name(std::string(20, 'a') + "." + std::to_string(k));
         }
       }},
      {"one_long_name",
       [](Bomb* b) {
         const std::string name(1900000, 'a');  // close to the limit of a packet
         trace::PythonModule* module = b->Add()->mutable_python_module();
         module->set_object(1);
         module->set_root(1);
         module->set_type("M");
         module->add_name(name);
         b->AddName(3, name);
         trace::InternedPythonStack* stack = b->Add()->mutable_interned()->add_python_stack();
         stack->set_iid(1);
         for (int i = 0; i < 100; ++i) {
           trace::PythonFrame* frame = stack->add_frame();
           frame->set_object(1);
           frame->set_file_iid(3);
           frame->set_function_iid(3);
           frame->set_line(static_cast<uint32_t>(i));
         }
         b->Calls(20, [](int, Bomb::Call* call) { call->python_stack = 1; });
         b->Count(static_cast<int64_t>(name.size()) / 10);
       }},
      {"ops",
       [](Bomb* b) {
         const int count = 25000 * b->size();
         trace::Interned* interned = nullptr;
         for (int k = 0; k < count; ++k) {
           if (k % kBatch == 0) interned = b->Add()->mutable_interned();
           Bomb::SetOp(static_cast<uint32_t>(k + 2), k + 2, interned->add_op());
         }
         b->Count(count * 5);  // a definition contains many numbers
         b->Calls(count, [](int i, Bomb::Call* call) { call->op = static_cast<uint32_t>(i + 2); });
       }},
      {"products_of_one_size", [](Bomb* b) { b->Calls(50000 * b->size()); }},
      {"python_stacks",
       [](Bomb* b) {
         const int count = 500 * b->size();
         for (int q = 1; q <= count; ++q) {
           trace::InternedPythonStack* stack = b->Add()->mutable_interned()->add_python_stack();
           stack->set_iid(static_cast<uint32_t>(q));
           for (int k = 0; k < 200; ++k) {
             trace::PythonFrame* frame = stack->add_frame();
             frame->set_file_iid(1);
             frame->set_function_iid(1);
             frame->set_line(static_cast<uint32_t>(k + q));
           }
           b->Count(200);
         }
         b->Calls(count, [](int i, Bomb::Call* call) { call->python_stack = static_cast<uint32_t>(i + 1); });
       }},
      {"reused_buffers",  // two layers' products, forward and backward, in the same memory in every step
       [](Bomb* b) {
         struct Product {
           int64_t m, n, k;
           const char* trans;
           std::vector<uint32_t> operands;
         };
         static const auto& products = *new std::vector<Product>{
             {32, 64, 48, "NT", {1, 2, 3}},  // 1: the input, 2 and 4: weights, 3 and 5: results, 6 to 8: gradients
             {32, 16, 64, "NT", {3, 4, 5}}, {16, 64, 32, "TN", {6, 3, 8}},
             {32, 64, 16, "NN", {6, 4, 7}}, {64, 48, 32, "TN", {7, 1, 8}},
         };
         b->Addresses(8);
         for (uint32_t i = 0; i < products.size(); ++i) {
           const auto& [m, n, k, trans, operands] = products[i];
           Bomb::SetProduct(i + 2, m, n, k, trans, b->Add()->mutable_interned()->add_op());
         }
         b->Calls(200000 * b->size(), [](int i, Bomb::Call* call) {
           const auto product = static_cast<uint32_t>(i) % products.size();
           call->op = static_cast<uint32_t>(product) + 2;
           call->operands = products[product].operands;
         });
       }},
      {"replayed_graph",
       [](Bomb* b) {
         const int count = 25000 * b->size();
         trace::GpuGraphNodeBatch* nodes = nullptr;
         for (int k = 0; k < count; ++k) {
           if (k % kBatch == 0) {
             nodes = b->Add()->mutable_gpu_graph_node();
             nodes->set_thread_id(1);
           }
           nodes->add_tick_delta(1);
           nodes->add_node_delta(k % kBatch == 0 ? k + 1 : 1);
           nodes->add_original(static_cast<uint64_t>(k));
           nodes->add_sequence_delta(0);
         }
         b->Count(count);
         Activities(
             count,
             [count](int i, trace::GpuActivityBatch* batch) {
               batch->add_device(1);
               batch->add_stream(7);
               batch->add_graph(1);
               batch->add_graph_node(static_cast<uint64_t>(count - i));
             },
             b);
       }},
      {"samples_of_deep_stacks",
       [](Bomb* b) {
         constexpr uint32_t kDeepest = 19500, kStacks = 1000;
         const int count = 20000 * b->size();
         b->Addresses(1000);
         b->Stacks(kDeepest, 1000, /*nested=*/true);
         b->Calls(100, [count](int i, Bomb::Call* call) { call->end_delta = count; });
         trace::SampleBatch* batch = nullptr;
         for (int i = 0; i < count; ++i) {
           if (i % kBatch == 0) {
             batch = b->Add()->mutable_sample_batch();
             batch->set_thread_id(1);
             batch->set_interval_ns(100);
             batch->add_tick_delta(1000000 + static_cast<int64_t>(i) * 100);
           } else {
             batch->add_tick_delta(100);
           }
           batch->add_intervals(1);
           batch->add_address_iid(static_cast<uint32_t>(i) % 1000 + 1);
           batch->add_stack_iid(kDeepest - static_cast<uint32_t>(i) % kStacks);
           batch->add_cut(0);
           batch->add_python_stack_iid(0);
           batch->add_depth(0);
           batch->add_state(trace::SampleBatch::WHOLE);
         }
         b->Count(count);
       }},
      {"stack_of_many_frames",
       [](Bomb* b) {
         b->Addresses(1000);
         b->Stacks(125000 * b->size(), 1000, /*nested=*/true);
         const int deepest = 125000 * b->size();
         b->Calls(50, [deepest](int i, Bomb::Call* call) { call->stack = static_cast<uint32_t>(deepest - i); });
       }},
      {"stacks_of_many_frames",
       [](Bomb* b) {
         b->Addresses(1000);
         const int count = 5000 * b->size();
         b->Stacks(count, 1000, /*nested=*/true);
         b->Calls(count, [count](int i, Bomb::Call* call) { call->stack = static_cast<uint32_t>(count - i); });
       }},
      {"strange_files",
       [](Bomb* b) {
         const char* const paths[] = {"/dev/zero", "/dev/stdin",     "/proc/self/mem", "/proc/kmsg",
                                      "fifo",      "/dev/tty",       "/dev/random",    "/",
                                      ".",         "/proc/self/fd/0"};
         b->Addresses(10);
         for (int k = 0; k < 10; ++k) {
           trace::Mapping* mapping = b->Add()->mutable_mapping();
           mapping->set_start(4096 + static_cast<uint64_t>(k) * 4096);
           mapping->set_end(mapping->start() + 4096);
           mapping->set_path(paths[k]);
           mapping->set_role(trace::Mapping::CALLER);
         }
         b->Stacks(10, 10, /*nested=*/false);
         b->Calls(10, [](int i, Bomb::Call* call) { call->stack = static_cast<uint32_t>(i + 1); });
       }},
      {"threads",
       [](Bomb* b) {
         for (int thread = 1; thread <= 2500 * b->size(); ++thread) {
           b->Calls(2, nullptr, static_cast<uint32_t>(thread));
           b->Scopes(2, /*nested=*/false, static_cast<uint32_t>(thread));
           b->Count(60);  // each has its own tables of what it recorded
         }
       }},
  };
  return bombs;
}

}  // namespace
}  // namespace dlhook

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int size = argc > 2 ? std::atoi(argv[2]) : 1;
  for (const auto& [name, fill] : dlhook::Bombs()) {
    dlhook::Bomb bomb(size);
    fill(&bomb);
    bomb.Write(std::string(argv[1]) + "/" + name);
  }
  return 0;
}
