// XLA's op_names, as JAX 0.10.2 writes them.
#include <gtest/gtest.h>

#include <string>

#include "analyzer/xla/xla_profiles.h"

namespace dlhook::analyzer {
namespace {

std::string Text(const char* op_name) {
  static constexpr const char* kPasses[] = {"other", "forward", "backward", "recompute", "update"};
  const XlaOpName read = ReadOpName(op_name);
  return read.path + " | " + read.primitive + " | " + kPasses[static_cast<int>(read.pass)];
}

TEST(OpNamesTest, Scopes) {
  EXPECT_EQ(Text("jit(train_step)/jvp(CNN)/Conv_0/conv_general_dilated"),
            "CNN/Conv_0 | conv_general_dilated | forward");
  EXPECT_EQ(Text("jit(train_step)/transpose(jvp(CNN))/Conv_0/dot_general"), "CNN/Conv_0 | dot_general | backward");
  EXPECT_EQ(Text("jit(train_step)/mul"), " | mul | other");
  EXPECT_EQ(Text("jit(step)/transpose(jvp(vmap(net/l1)))/dot_general"), "net/l1 | dot_general | backward");
}

TEST(OpNamesTest, FunctionsAndControlFlowAreNoScopes) {
  EXPECT_EQ(Text("jit(train_step)/jvp()/jit(relu)/max"), " | max | forward");
  EXPECT_EQ(Text("jit(train_step)/jvp(jit(log_softmax))/exp"), " | exp | forward");
  EXPECT_EQ(Text("jit(step)/jvp(stack)/while/body/closed_call/l1/tanh"), "stack/l1 | tanh | forward");
  EXPECT_EQ(Text("jit(step)/jvp(body)/tanh"), "body | tanh | forward");
  EXPECT_EQ(Text("jit(step)/jvp(l2)/cond/branch_1_fun/dot_general"), "l2 | dot_general | forward");
  EXPECT_EQ(Text("jit(step)/jvp(cond)/dot_general"), "cond | dot_general | forward");
}

TEST(OpNamesTest, Recomputation) {
  EXPECT_EQ(Text("jit(step)/transpose(jvp(net))/rematted_computation/l1/tanh"), "net/l1 | tanh | recompute");
  EXPECT_EQ(Text("jit(step)/transpose(jvp(b0))/jvp(b0)/checkpoint/rematted_computation/ffn/tanh"),
            "b0/ffn | tanh | recompute");
  EXPECT_EQ(Text("jit(step)/transpose(jvp(b0))/jvp(b0)/checkpoint/ffn/dot_general"), "b0/ffn | dot_general | backward");
  EXPECT_EQ(Text("jit(step)/transpose(jvp(net))/b0/jvp(net)/b0/checkpoint/mul"), "net/b0 | mul | backward");
  EXPECT_EQ(Text("jit(step)/transpose(jvp(net))/vmap(b0)/mul"), "net/b0 | mul | backward");
}

TEST(OpNamesTest, OfMergedOperationsTheFirst) {
  EXPECT_EQ(Text("jit(f)/jvp(a)/add;jit(f)/jvp(b)/mul"), "a | add | forward");
  EXPECT_EQ(Text("jit(f)/(transpose(jvp(l1))/dot_general:transpose(jvp(l2))/dot_general)"),
            "l1 | dot_general | backward");
}

TEST(OpNamesTest, AnyText) {
  EXPECT_EQ(Text(""), " |  | other");
  EXPECT_EQ(Text(")("), " | )( | other");
  EXPECT_EQ(Text("a(b/c"), " | a(b/c | other");
  std::string deep = "x";
  for (int i = 0; i < 10000; ++i) deep = "jvp(" + deep + ")";
  ReadOpName(deep + "/add");
}

}  // namespace
}  // namespace dlhook::analyzer
