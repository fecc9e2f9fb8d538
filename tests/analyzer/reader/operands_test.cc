// Packets -> model: operand addresses of calls.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/reader/call_attributes.h"
#include "analyzer/reader/trace_builder.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

// Ops 1: a CPU product, 2: a GPU product, 3: no operands kept; addresses 1 to 4.
std::string Definitions() {
  return R"pb(packet {
                interned {
                  op {
                    iid: 1
                    function: "sgemm_"
                    family: "blas"
                    address_count: 2
                    gemm { m: 1 }
                  }
                  op {
                    iid: 2
                    function: "cublasSgemm"
                    family: "cublas"
                    address_count: 2
                    gemm {
                      m: 1
                      cuda {}
                    }
                  }
                  op { iid: 3 function: "saxpy_" family: "blas" address_count: 1 }
                  first_address_iid: 1
                  address: [ 4096, 8192, 12288, 16384 ]
                }
              })pb";
}

std::vector<uint64_t> Operands(const TraceModel& model, CallIndex call) {
  const absl::Span<const uint64_t> operands = model.OperandsOf(call);
  return {operands.begin(), operands.end()};
}

TEST(Operands, OfProductsAreKept) {
  const TraceModel model = LoadText(HeaderText() + Definitions() + R"pb(
    packet {
      call_batch {
        thread_id: 1
        op_iid: [ 1, 3, 2, 1 ]
        sequence_delta: [ 0, 0, 0, 0 ]
        end_delta_ticks: [ 100, 100, 100, 100 ]
        duration: [ 10, 10, 10, 10 ]
        parent_distance: [ 0, 0, 0, 0 ]
        address_iid: [ 1, 2, 3, 4, 1, 0, 9 ]
      }
    })pb");
  EXPECT_EQ(Operands(model, 0), (std::vector<uint64_t>{4096, 8192}));
  EXPECT_EQ(Operands(model, 1), std::vector<uint64_t>{});
  EXPECT_EQ(Operands(model, 2), (std::vector<uint64_t>{16384, 4096}));
  EXPECT_EQ(Operands(model, 3), (std::vector<uint64_t>{0, 0}));  // none, and an undefined one
}

TEST(Operands, EndAtAReset) {
  const std::string call =
      "packet { call_batch { thread_id: 1 op_iid: 1 sequence_delta: 0 end_delta_ticks: 100 duration: 10 "
      "parent_distance: 0 "
      "address_iid: [ 1, 2 ] } }";
  const TraceModel model = LoadText(HeaderText() + Definitions() + "packet { reset {} }" + call);
  ASSERT_EQ(model.calls.size(), 1u);
  EXPECT_EQ(Operands(model, 0), std::vector<uint64_t>{});
}

// A thread with more CPU products than are kept: operands of GPU products are all kept.
TEST(Operands, OfTheCpusProductsOnlyTheFirstAreKept) {
  trace::Trace trace = ParseTrace(HeaderText() + Definitions());
  trace::CallBatch* batch = trace.add_packet()->mutable_call_batch();
  batch->set_thread_id(1);
  constexpr uint32_t kCalls = ThreadOperands::kMaxHostCalls + 2;
  for (uint32_t i = 0; i < kCalls; ++i) {
    batch->add_op_iid(i + 1 == kCalls ? 2 : 1);
    batch->add_sequence_delta(0);
    batch->add_end_delta_ticks(100);
    batch->add_duration(10);
    batch->add_parent_distance(0);
    batch->add_address_iid(1);
    batch->add_address_iid(2);
  }
  const std::string bytes = TraceBytesOf(trace);
  TraceBuilder builder("run");
  ASSERT_TRUE(builder.AddTrace("x", {bytes}).ok());
  const TraceModel model = std::move(builder).Build();
  ASSERT_EQ(model.calls.size(), kCalls);
  EXPECT_EQ(Operands(model, kCalls - 3).size(), 2u);
  EXPECT_EQ(Operands(model, kCalls - 2).size(), 0u);
  EXPECT_EQ(Operands(model, kCalls - 1).size(), 2u);
}

}  // namespace
}  // namespace dlhook::analyzer
