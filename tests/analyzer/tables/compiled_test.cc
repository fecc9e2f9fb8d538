// Table `compiled`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace compiled_test {

TraceModel Kept() {
  ModelBuilder builder;
  builder.Scope("Torch-Compiled Region: 0/0", ScopeKind::kUserRange, 0, 10);
  builder.Scope("Torch-Compiled Region: 0/1", ScopeKind::kUserRange, 20, 10);
  builder.Scope("Torch-Compiled Region: 0/1", ScopeKind::kUserRange, 40, 10);
  const CompiledCode compilation = {.kind = CompiledKind::kCompilation,
                                    .region = "0/0",
                                    .file = "/home/u/net.py",
                                    .line = 6,
                                    .compile_ns = 500,
                                    .count = 7,
                                    .function = "forward"};
  CompiledCode backward = compilation, again = compilation, kernel = compilation, broken = compilation;
  backward.is_backward = true;
  backward.compile_ns = 300;
  again.region = "0/1";
  again.text = "0/0: size mismatch";
  kernel.kind = CompiledKind::kKernel;
  kernel.module = ".fc";
  broken = {.kind = CompiledKind::kGraphBreak, .file = "/home/u/net.py", .line = 8, .count = 2, .text = "item()"};
  CompiledCode unnamed = kernel;
  unnamed.module.clear();
  builder.model().compiled = {compilation, backward, again, kernel, unnamed, broken};
  return builder.Build();
}

TEST(CompiledTableTest, RegionsAndGraphBreaks) {
  const Table table = RunPass("compiled", Kept());
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(Text(table, 0, "what"), "compiled");
  EXPECT_EQ(Text(table, 0, "function"), "forward");
  EXPECT_EQ(Text(table, 0, "line"), "net.py:6");
  EXPECT_EQ(Integer(table, 0, "compile_time"), 500);
  EXPECT_EQ(Integer(table, 0, "backward_compile_time"), 300);
  EXPECT_EQ(Integer(table, 0, "operations"), 7);
  EXPECT_EQ(Integer(table, 0, "times"), 1);
  EXPECT_EQ(Integer(table, 0, "kernels"), 2);
  EXPECT_EQ(Integer(table, 0, "named_kernels"), 1);
  EXPECT_EQ(Text(table, 1, "what"), "compiled again");
  EXPECT_EQ(Text(table, 1, "reason"), "0/0: size mismatch");
  EXPECT_EQ(Integer(table, 1, "times"), 2);
  EXPECT_EQ(Text(table, 2, "what"), "graph break");
  EXPECT_EQ(Text(table, 2, "line"), "net.py:8");
  EXPECT_EQ(Integer(table, 2, "times"), 2);
}

TEST(CompiledTableTest, SaysWhatWasNotRead) {
  ModelBuilder builder;
  EXPECT_TRUE(RunPass("compiled", ModelBuilder().Build()).notes.empty());
  builder.Scope("Torch-Compiled Region: 0/0", ScopeKind::kUserRange, 0, 10);
  EXPECT_THAT(RunPass("compiled", builder.Build()).notes, testing::ElementsAre(testing::HasSubstr("was not read")));
}

TEST(CompiledTableTest, SaysWhatPyTorchDoesNotKeep) {
  ModelBuilder builder;
  builder.model().compiled.assign(64, CompiledCode());
  for (CompiledCode& code : builder.model().compiled) code.kind = CompiledKind::kCompilation;
  EXPECT_THAT(RunPass("compiled", builder.Build()).notes,
              testing::ElementsAre(testing::HasSubstr("keeps the last 64 compilations")));
}

}  // namespace compiled_test
}  // namespace dlhook::analyzer
