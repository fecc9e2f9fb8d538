// Packets -> model: profiles of XLA become scopes of its threads.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "analyzer/reader/trace_builder.h"
#include "analyzer/xla/xla_profiles.h"
#include "proto/xla.pb.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

constexpr uint64_t kThreadHandle = 0x7f0000001700;  // of the thread that also calls hooks
constexpr int64_t kRealtimeNs = 1'795'516'343'000'000'000;

template <typename Message>
std::string MessageBytes(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message.SerializeAsString();
}

std::string ProgramBytes() {
  return MessageBytes<dlhook::xla::HloModule>(R"(
    name: "jit_step" id: 5 entry_computation_id: 1
    computations { id: 1
      instructions { id: 1 name: "dot.1" opcode: "dot" metadata { op_name: "jit(step)/jvp(l1)/dot_general" } }
      instructions { id: 2 name: "dot.2" opcode: "dot" operand_ids: 1
                     metadata { op_name: "jit(step)/transpose(jvp(l1))/dot_general" } } })");
}

std::string XlaEventText(int op, int run, int start_us) {
  return absl::StrCat("events { offset_ps: ", start_us,
                      "000000 duration_ps: 10000000 stats { metadata_id: 1 ref_value: ", 10 + op,
                      " } stats { metadata_id: 2 ref_value: 8 } stats { metadata_id: 3 int64_value: 5 }",
                      " stats { metadata_id: 4 int64_value: ", run, " } }\n");
}

// Began 1 ms after the trace.
std::string SpaceBytes(const std::string& own_events, const std::string& pool_events) {
  return MessageBytes<dlhook::xla::XSpace>(absl::StrCat(R"(planes {
    stat_metadata { key: 1 value { name: "hlo_op" } } stat_metadata { key: 2 value { name: "hlo_module" } }
    stat_metadata { key: 3 value { name: "program_id" } } stat_metadata { key: 4 value { name: "run_id" } }
    stat_metadata { key: 8 value { name: "jit_step" } }
    stat_metadata { key: 11 value { name: "dot.1" } } stat_metadata { key: 12 value { name: "dot.2" } }
    lines { name: "python" id: )",
                                                        XlaProfiles::ThreadId(kThreadHandle), "\n", own_events,
                                                        "} lines { name: 'pool/7' id: 7\n", pool_events, R"(} }
    planes { stat_metadata { key: 1 value { name: "profile_start_time" } } stats { metadata_id: 1 uint64_value: )",
                                                        kRealtimeNs + 1'000'000, "} }"));
}

std::string ProfilePieceText(const char* kind, int number, const std::string& bytes, size_t offset, size_t size) {
  return absl::StrCat("packet { compiler_profile { kind: ", kind, " number: ", number,
                      " start_ticks: 1000000 end_ticks: 2000000 total_bytes: ", bytes.size(), " offset: ", offset,
                      " data: \"", absl::CHexEscape(bytes.substr(offset, size)), "\" } }\n");
}

std::string XlaStart() {
  return absl::StrCat(HeaderText(), OpsText(),
                      "packet { clock_sample { ticks: 0 monotonic_ns: 0 realtime_ns: ", kRealtimeNs, " } }",
                      "packet { thread { thread_id: 3 tid: 4711 name: 'python3' handle: ", kThreadHandle, " } }",
                      ProfilePieceText("HLO_MODULE", 1, ProgramBytes(), 0, 10),
                      ProfilePieceText("HLO_MODULE", 1, ProgramBytes(), 10, 100000));
}

// A run that began before the window, two whole ones, and one that ended after it.
TraceModel LoadedProfiles(const std::string& more = "") {
  const std::string space = SpaceBytes(XlaEventText(2, 90, 0) + more + XlaEventText(1, 70, 20) +
                                           XlaEventText(1, 80, 40) + XlaEventText(2, 80, 60) + XlaEventText(1, 60, 80),
                                       XlaEventText(2, 70, 30));
  return LoadText(XlaStart() + ProfilePieceText("XSPACE", 2, space, 0, 1000000));
}

TEST(XlaTest, OperationsAreScopesOfTheirThreads) {
  const TraceModel model = LoadedProfiles();
  EXPECT_TRUE(model.oddities.empty());
  ASSERT_EQ(model.threads.size(), 2u);
  EXPECT_EQ(model.threads[0].tid, 4711u);
  EXPECT_EQ(model.threads[1].name, "pool");
  ASSERT_EQ(model.scopes.size(), 6u);
  EXPECT_EQ(model.scopes.thread.RangeOf(1), std::make_pair(5u, 6u));
  EXPECT_EQ(model.scopes.start_ns[0], 1'000'000);
  EXPECT_EQ(model.scopes.start_ns[1], 1'020'000);
  EXPECT_EQ(model.scopes.duration_ns[1], 10'000);
  EXPECT_EQ(model.scopes.look[1].kind, ScopeKind::kXlaOp);
  EXPECT_EQ(model.names[model.scopes.look[1].name], "dot_general");
  const CompiledOp& op = model.compiled_ops.at(CompiledLink::Of(model.scopes.link[1]).op);
  EXPECT_EQ(op.layer, "l1");
  EXPECT_EQ(op.pass, CompiledPass::kForward);
}

// On a GPU. The range of the operation has no name; its program knows it.
TEST(XlaTest, RangesAreOperationsOfThePrograms) {
  const TraceModel model = LoadText(absl::StrCat(XlaStart(), R"pb(
    packet {
      interned {
        string { iid: 1 value: "TSL: XlaModule:#hlo_module=jit_step,program_id=5#" }
        string { iid: 2 value: "TSL: Thunk:#hlo_op=dot.2#" }
      }
    }
    packet {
      scope_batch {
        thread_id: 3
        name_iid: [ 2, 1 ]
        base_end_ticks: 1000
        end_delta_ticks: [ 0, 100 ]
        duration_ticks: [ 300, 600 ]
        kind: [ NVTX_RANGE, NVTX_RANGE ]
        link_delta: [ -1, 0 ]
        first_sequence_delta: [ 0, 0 ]
        call_count: [ 0, 0 ]
      }
    })pb"));
  EXPECT_TRUE(model.oddities.empty());
  ASSERT_EQ(model.scopes.size(), 2u);
  EXPECT_EQ(model.names[model.scopes.look[0].name], "XLA runs jit_step");
  ASSERT_EQ(model.scopes.look[1].kind, ScopeKind::kXlaOp);
  EXPECT_EQ(CompiledLink::Of(model.scopes.link[1]).run, 1);
  const CompiledOp& op = model.compiled_ops.at(CompiledLink::Of(model.scopes.link[1]).op);
  EXPECT_EQ(op.layer, "l1");
  EXPECT_EQ(op.pass, CompiledPass::kBackward);
}

TEST(XlaTest, RunsAreNumberedUnlessAPartIsMissing) {
  const TraceModel model = LoadedProfiles();
  std::vector<int64_t> runs;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    runs.push_back(CompiledLink::Of(model.scopes.link[scope]).run);
  }
  EXPECT_EQ(runs[0], 0);
  EXPECT_GT(runs[1], 0);
  EXPECT_EQ(runs[5], runs[1]);
  EXPECT_GT(runs[2], 0);
  EXPECT_NE(runs[2], runs[1]);
  EXPECT_EQ(runs[3], runs[2]);
  EXPECT_EQ(runs[4], 0);
}

// Two threads ran the program when the window began.
TEST(XlaTest, SeveralRunsMayHaveBegunBeforeTheWindow) {
  const TraceModel model = LoadedProfiles(XlaEventText(2, 91, 10));
  EXPECT_EQ(model.scopes.start_ns[1], 1'010'000);
  EXPECT_EQ(CompiledLink::Of(model.scopes.link[1]).run, 0);
  EXPECT_GT(CompiledLink::Of(model.scopes.link[2]).run, 0);
}

constexpr char kFusedDot[] = R"(
      instructions { id: 3 name: "dot.9" opcode: "dot" shape { element_type: 16 dimensions: [4, 2] } operand_ids: [1, 2]
                     dot_dimension_numbers { lhs_contracting_dimensions: 1 rhs_contracting_dimensions: 0 } })";

// dot.1 computes [4, 8] x [8, 2]. The second of its calls returned before its work was done, which another thread ended.
std::string ProductBytes(const std::string& fused) {
  return MessageBytes<dlhook::xla::HloModule>(absl::StrCat(R"(
    name: "jit_step" id: 5 entry_computation_id: 1
    computations { id: 1
      instructions { id: 1 name: "x" opcode: "parameter" shape { element_type: 11 dimensions: [4, 8] } }
      instructions { id: 2 name: "w" opcode: "parameter" shape { element_type: 11 dimensions: [8, 2] } }
      instructions { id: 3 name: "fusion.1" opcode: "fusion" called_computation_ids: 2 operand_ids: [1, 2] 
                     backend_config: '{"fusion_config":{"kind":"__ynn_fusion"}}' }
      instructions { id: 4 name: "dot.1" opcode: "dot" shape { element_type: 11 dimensions: [4, 2] } operand_ids: [1, 2]
                     dot_dimension_numbers { lhs_contracting_dimensions: 1 rhs_contracting_dimensions: 0 }
                     metadata { op_name: "jit(step)/jvp(l1)/dot_general" } }
      instructions { id: 5 name: "bitcast.1" opcode: "bitcast" operand_ids: 4 }
      instructions { id: 6 name: "tanh.1" opcode: "tanh" operand_ids: 5 } }
    computations { id: 2
      instructions { id: 1 name: "p.0" opcode: "parameter" shape { element_type: 16 dimensions: [4, 8] } }
      instructions { id: 2 name: "p.1" opcode: "parameter" shape { element_type: 16 dimensions: [8, 2] } } )",
                                                           fused, "}"));
}

std::string ProductEvent(const std::string& op, int start_us, int64_t producer) {
  return absl::StrCat("events { offset_ps: ", start_us,
                      "000000 duration_ps: 10000000 stats { metadata_id: 1 ref_value: ", op,
                      " } stats { metadata_id: 2 ref_value: 8 } stats { metadata_id: 3 int64_value: 5 }",
                      " stats { metadata_id: 5 uint64_value: ", producer, " } }\n");
}

TraceModel LoadedProducts(const std::string& fused = kFusedDot, const std::string& pool_events = "") {
  const std::string space = MessageBytes<dlhook::xla::XSpace>(absl::StrCat(
      R"(planes {
      event_metadata { key: 1 value { name: "end: dot.1" } }
      stat_metadata { key: 1 value { name: "hlo_op" } } stat_metadata { key: 2 value { name: "hlo_module" } }
      stat_metadata { key: 3 value { name: "program_id" } } stat_metadata { key: 5 value { name: "_p" } }
      stat_metadata { key: 6 value { name: "_c" } } stat_metadata { key: 8 value { name: "jit_step" } }
      stat_metadata { key: 11 value { name: "dot.1" } } stat_metadata { key: 12 value { name: "fusion.1" } }
      stat_metadata { key: 13 value { name: "tanh.1" } }
      lines { name: "python" id: )",
      XlaProfiles::ThreadId(kThreadHandle), "\n", ProductEvent("12", 0, 1), ProductEvent("11", 20, 2),
      ProductEvent("11", 40, 3), "} lines { name: 'pool/7' id: 7\n", pool_events,
      R"( events { metadata_id: 1 offset_ps: 65000000 stats { metadata_id: 6 uint64_value: 3 } } } }
    planes { stat_metadata { key: 1 value { name: "profile_start_time" } } stats { metadata_id: 1 uint64_value: )",
      kRealtimeNs + 1'000'000, "} }"));
  return LoadText(absl::StrCat(
      HeaderText(), OpsText(), "packet { clock_sample { ticks: 0 monotonic_ns: 0 realtime_ns: ", kRealtimeNs, " } }",
      "packet { thread { thread_id: 3 tid: 4711 name: 'python3' handle: ", kThreadHandle, " } }",
      "packet { call_batch { thread_id: 3 base_sequence: 0 base_end_ticks: 1029000 op_iid: 3 sequence_delta: 0 "
      "end_delta_ticks: 0 duration: 5000 parent_distance: 0 } }",
      ProfilePieceText("HLO_MODULE", 1, ProductBytes(fused), 0, 100000),
      ProfilePieceText("XSPACE", 2, space, 0, 1000000)));
}

TEST(XlaTest, ProductsAreCalls) {
  const TraceModel model = LoadedProducts();
  EXPECT_TRUE(model.oddities.empty());
  ASSERT_EQ(model.calls.size(), 5u);
  const Op& fused = model.ops[model.calls.op[0]];
  EXPECT_EQ(fused.kind, "matmul");
  EXPECT_EQ(fused.types, "bf16");
  EXPECT_EQ(fused.implementation, "YNNPACK");
  EXPECT_EQ(fused.flops, 2 * 4 * 8 * 2);
  EXPECT_EQ(fused.bytes, 2 * (4 * 8 + 8 * 2 + 4 * 2));
  EXPECT_FALSE(fused.is_asynchronous);
  const Op& dot = model.ops[model.calls.op[1]];
  EXPECT_EQ(dot.problem, "4x8:8x2");
  EXPECT_EQ(dot.direction, Direction::kForward);
  EXPECT_EQ(dot.implementation, "oneDNN");  // whose log tells of a part of it
  EXPECT_EQ(model.calls.start_ns[1], 1'020'000);
  EXPECT_EQ(model.calls.duration_ns[1], 10'000);
  ASSERT_NE(model.calls.ScopeOf(1), kNone);
  EXPECT_EQ(model.scopes.start_ns[model.calls.ScopeOf(1)], 1'020'000);
  // What oneDNN computed for it.
  EXPECT_EQ(model.ops[model.calls.op[2]].function, "onednn:exec");
  EXPECT_EQ(model.calls.parent[2], 1u);
}

TEST(XlaTest, SeveralProductsOfAFusionAreSaidToHaveNoRows) {
  const TraceModel model = LoadedProducts(absl::StrCat(kFusedDot, kFusedDot));
  EXPECT_EQ(OddityCount(model, "a fusion of several products"), 1);
  EXPECT_EQ(model.calls.size(), 4u);
}

TEST(XlaTest, WorkBeyondItsCallIsTimeAndNoCall) {
  const TraceModel model = LoadedProducts();
  ASSERT_EQ(model.calls.size(), 5u);
  EXPECT_TRUE(model.ops[model.calls.op[3]].is_asynchronous);
  EXPECT_TRUE(model.ops[model.calls.op[4]].is_continuation);
  EXPECT_FALSE(model.ops[model.calls.op[4]].flops);
  EXPECT_EQ(model.threads[model.calls.thread[4]].name, "pool");
  const RunTotals totals = ComputeTotals(model);
  const OpTotals& own = totals.ops[model.calls.op[3]];
  EXPECT_EQ(own.calls, 2);
  EXPECT_EQ(own.nested_calls, 0);
  EXPECT_EQ(own.total_ns, 20'000);
  const OpTotals& rest = totals.ops[model.calls.op[4]];
  EXPECT_EQ(rest.calls - rest.nested_calls, 0);
  EXPECT_EQ(rest.total_ns, 25'000);  // another thread's may have begun with its call
}

// XLA reports the end of a product at 65 us only because it runs first what waited for that.
TEST(XlaTest, WorkBeyondItsCallHasEndedWhenItsResultIsRead) {
  const TraceModel model = LoadedProducts(kFusedDot, ProductEvent("13", 54, 4));
  ASSERT_EQ(model.calls.size(), 5u);
  ASSERT_TRUE(model.ops[model.calls.op[4]].is_continuation);
  EXPECT_EQ(model.calls.start_ns[4], 1'040'000);
  EXPECT_EQ(model.calls.duration_ns[4], 14'000);
}

// fusion.1 runs on its thread meanwhile.
TEST(XlaTest, WorkBeyondItsCallIsBesideWhatElseRuns) {
  const TraceModel model = LoadedProducts(kFusedDot, ProductEvent("12", 52, 4));
  ASSERT_EQ(model.calls.size(), 7u);
  const OpIndex rest = model.calls.op[4];
  ASSERT_TRUE(model.ops[rest].is_continuation);
  EXPECT_EQ(model.calls.op[6], rest);
  EXPECT_EQ(model.calls.duration_ns[4], 12'000);
  EXPECT_EQ(model.calls.duration_ns[6], 3'000);
}

TEST(XlaTest, WorkWhoseResultIsReadAtOnceDoesNotGoOn) {
  const TraceModel model = LoadedProducts(kFusedDot, ProductEvent("13", 48, 4));
  EXPECT_EQ(model.calls.size(), 4u);
  EXPECT_FALSE(model.ops[model.calls.op[3]].is_asynchronous);
}

TEST(XlaTest, WhatLiesBetweenWindowsIsNotKnown) {
  const TraceModel model = LoadedProfiles();
  ASSERT_EQ(model.scope_windows.size(), 1u);
  EXPECT_EQ(model.scope_windows[0].start_ns, 1'000'000);
  EXPECT_EQ(model.scope_windows[0].end_ns, 2'000'000);
}

TEST(XlaTest, AMissingPieceIsSaid) {
  const std::string space = SpaceBytes(XlaEventText(1, 70, 20), "");
  const TraceModel model = LoadText(XlaStart() + ProfilePieceText("XSPACE", 2, space, 0, 20) +
                                    ProfilePieceText("XSPACE", 2, space, 40, 100000));
  EXPECT_EQ(OddityCount(model, "a piece is missing"), 1);
  EXPECT_EQ(model.scopes.size(), 0u);
}

TEST(XlaTest, DamagedBytesAreSaid) {
  const TraceModel model = LoadText(XlaStart() + ProfilePieceText("XSPACE", 2, "\xff\xff\xff", 0, 3));
  EXPECT_EQ(OddityCount(model, "can't be read"), 1);
}

}  // namespace
}  // namespace dlhook::analyzer
