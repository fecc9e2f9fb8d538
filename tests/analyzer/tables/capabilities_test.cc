// Table `capabilities`.
#include <gtest/gtest.h>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

void AddMapping(ProcessInfo& process, MappingRole role, const std::string& path, const std::string& first = "") {
  Mapping& mapping = process.mappings.emplace_back();
  mapping.role = role;
  mapping.path = path;
  mapping.detail = first;
  mapping.build_id = "\x0a\xff";
}

void AddCapability(ProcessInfo& process, const std::string& name, CapabilityState state, const std::string& object,
                   const std::string& reason = "") {
  Capability& capability = process.capabilities.emplace_back();
  capability.name = name;
  capability.state = state;
  capability.object = object;
  capability.reason = reason;
}

// Two processes that call a BLAS 3 and 2 times, and a tap of the first one.
TraceModel Model() {
  ModelBuilder builder;
  const ProcessIndex second = builder.AddProcess();
  const ThreadIndex thread = builder.AddThread(second);
  const OpIndex gemm = builder.AddOp(GemmDefinition(64, 120, 256, "NT", "sgemm_"));
  for (int i = 0; i < 3; ++i) builder.Call(gemm, i * 100, 50);
  for (int i = 0; i < 2; ++i) builder.Call(gemm, i * 100, 50, thread);
  builder.Log("onednn_verbose,v1,primitive,exec,cpu,matmul,jit,undef,,,,2x2:2x2,0.5\n", 10);
  builder.Scope("aten::mm", ScopeKind::kFrameworkOp, 0, 90);
  TraceModel model = builder.Build(1000);
  for (ProcessInfo& process : model.processes) {
    AddMapping(process, MappingRole::kLibrary, "/l/libblas.so", "sgemm_");
    AddMapping(process, MappingRole::kCaller, "/l/libtorch_cpu.so");
  }
  AddCapability(model.processes[0], "onednn-tap", CapabilityState::kOn, "libtorch_cpu.so");
  AddCapability(model.processes[0], "record-function-tap", CapabilityState::kOn, "libtorch_cpu.so");
  AddCapability(model.processes[0], "onednn-tap", CapabilityState::kRefused, "libother.so", "unknown oneDNN build");
  Loss& loss = model.processes[1].losses.emplace_back();
  loss.reason = LossReason::kRingFull;
  loss.calls = 12;
  return model;
}

TEST(CapabilitiesTest, Libraries) {
  const Table table = RunPass("capabilities", Model());
  const size_t blas = RowWhere(table, {{"kind", "library"}});
  EXPECT_EQ(Text(table, blas, "object"), "libblas.so");
  EXPECT_EQ(Text(table, blas, "name"), "blas");
  EXPECT_EQ(Text(table, blas, "state"), "hooked");
  EXPECT_EQ(Text(table, blas, "build_id"), "0aff");
  EXPECT_EQ(Integer(table, blas, "records"), 5);
  EXPECT_EQ(Integer(table, blas, "processes"), 2);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"kind", "caller"}}), "processes"), 2);
}

TEST(CapabilitiesTest, Taps) {
  const Table table = RunPass("capabilities", Model());
  EXPECT_EQ(Integer(table, RowWhere(table, {{"name", "onednn-tap"}, {"state", "on"}}), "records"), 1);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"name", "record-function-tap"}}), "records"), 1);
  const size_t refused = RowWhere(table, {{"state", "refused"}});
  EXPECT_EQ(Text(table, refused, "object"), "libother.so");
  EXPECT_NE(Text(table, refused, "note").find("unknown oneDNN build. If the program works"), std::string::npos);
}

TEST(CapabilitiesTest, Counters) {
  TraceModel model = Model();
  AddCapability(model.processes[0], "counter:task-clock", CapabilityState::kOn, "", "getrusage");
  AddCapability(model.processes[0], "counter:cycles", CapabilityState::kRefused, "", "not on this machine");
  const Table table = RunPass("capabilities", model);
  const size_t granted = RowWhere(table, {{"name", "counter:task-clock"}});
  EXPECT_EQ(Text(table, granted, "kind"), "counter");
  EXPECT_EQ(Text(table, granted, "note"), "getrusage");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(table.rows[granted][4]));  // it produces no records
  const size_t refused = RowWhere(table, {{"name", "counter:cycles"}});
  EXPECT_EQ(Text(table, refused, "note"), "not on this machine. See dlhook counters.");
}

TEST(CapabilitiesTest, Losses) {
  const Table table = RunPass("capabilities", Model());
  const size_t loss = RowWhere(table, {{"kind", "loss"}});
  EXPECT_EQ(Integer(table, loss, "records"), 12);
  EXPECT_NE(Text(table, loss, "note").find("DLHOOK_RING_KIB"), std::string::npos);
}

// The records may belong to any of them: no number is better than a wrong one.
TEST(CapabilitiesTest, RecordsThatSeveralShareAreNotKnown) {
  TraceModel model = Model();
  AddMapping(model.processes[0], MappingRole::kLibrary, "/l/libother_blas.so", "dgemm_");
  const Table table = RunPass("capabilities", model);
  const size_t column = 4;
  EXPECT_EQ(table.columns[column].name, "records");
  for (const Row& row : table.rows) {
    if (std::get<CellString>(row[0]) == "library") {
      EXPECT_TRUE(std::holds_alternative<std::monostate>(row[column]));
    }
  }
}

}  // namespace
}  // namespace dlhook::analyzer
