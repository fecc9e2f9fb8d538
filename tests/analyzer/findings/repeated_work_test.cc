// Rule repeated-work: passes of a model that generates, and computes all earlier tokens again (what else is repeated:
// tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace repeated_work_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Ten requests, each a layer's product of so many rows.
CpuProgram::Found Passes(int64_t first, int64_t grows_by) {
  CpuProgram program(StepKind::kInference);
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    const int64_t start_ns = step * CpuProgram::kStepNs;
    const OpIndex op = program.builder().AddOp(GemmDefinition(64, first + step * grows_by, 32, "TN"));
    program.builder().Call(op, start_ns + 2000, 400'000);
    program.LayerOf(op, {.name = "fc"});
  }
  return program.Find("repeated-work");
}

TEST(RepeatedWork, RowsGrowByTheNewToken) {
  const auto found = Passes(16, 1);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Each pass has 1 row more than the one before"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("use_cache=True"));
}

TEST(RepeatedWork, RowsStayOrOthersCome) {
  EXPECT_THAT(Passes(16, 0).rows, IsEmpty());
  EXPECT_THAT(Passes(16, 20).rows, IsEmpty());  // batches, not tokens
}

// Requests whose last product has so many rows of 8192, one of which is taken; then an operation reads for so long.
CpuProgram::Found LastOfRows(int64_t rows, const char* taken, int64_t read_ns, bool has_stacks = true,
                             StepKind kind = StepKind::kInference, int64_t made_bytes = 0) {
  CpuProgram program(kind);
  program.UseTorch();
  program.process().processors = 2;
  const OpIndex op = program.builder().AddOp(GemmDefinition(8192, rows, 64, "TN"));
  const StackIndex line = has_stacks ? program.builder().AddStack({{"serve.py", "<module>", 9}}) : kNone;
  for (int64_t at_ns = 1000; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
    program.builder().Scope("aten::linear", ScopeKind::kFrameworkOp, at_ns, 500'000, 0, -1, line);
    program.builder().Call(op, at_ns + 1000, 490'000);
    program.builder().Scope("aten::view", ScopeKind::kFrameworkOp, at_ns + 510'000, 1000);
    program.builder().Scope(taken, ScopeKind::kFrameworkOp, at_ns + 520'000, 1000);
    program.builder().Scope("aten::argmax", ScopeKind::kFrameworkOp, at_ns + 530'000, read_ns);
    const auto scopes = static_cast<ScopeIndex>(4 * (at_ns / CpuProgram::kStepNs));  // of the steps before
    for (const auto& [scope, bytes] : {std::pair(scopes + 2, int64_t{1} << 20), {scopes + 3, made_bytes}}) {
      if (made_bytes > 0)
        program.builder().model().memory.push_back(
            {.time_ns = at_ns + 530'500, .address = 64 + scope, .bytes = bytes, .scope = scope});
    }
  }
  program.LayerOf(op, {.name = "lm_head"});
  return program.Find("repeated-work");
}

TEST(RepeatedWork, RowsThatNothingReadsWithoutStacks) {
  const auto found = LastOfRows(256, "aten::select", 20'000, /*has_stacks=*/false);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Of(0, "line"), "-");
}

TEST(RepeatedWork, RowsThatNothingReads) {
  const auto found = LastOfRows(256, "aten::select", 20'000);  // 8 MiB, of which 20 us read at most 1 MiB
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 500'000);
  EXPECT_EQ(found.Of(0, "line"), "serve.py:9");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("computes all 256 rows of its product"));
}

TEST(RepeatedWork, RowsThatNoLossReads) {
  const auto found = LastOfRows(256, "aten::index", 20'000, /*has_stacks=*/true, StepKind::kTraining);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("what follows up to the backward pass does not take long enough"));
  EXPECT_THAT(LastOfRows(256, "aten::index", 300'000, /*has_stacks=*/true, StepKind::kTraining).rows, IsEmpty());
}

// What makes as much as was copied reads that.
TEST(RepeatedWork, RowsBesideThoseThatAreCopied) {
  const auto found = [](int64_t made_bytes) {
    return LastOfRows(256, "aten::index", 300'000, /*has_stacks=*/true, StepKind::kTraining, made_bytes).rows.size();
  };
  EXPECT_EQ(found(1 << 20), 1u);
  EXPECT_EQ(found(1 << 10), 0u);
}

TEST(RepeatedWork, IsAProductOfWhichTheDiagonalIsTaken) {
  const auto found = LastOfRows(256, "aten::diagonal", 20'000);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("computes a matrix of 256 rows, then its diagonal is taken"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("(a * b).sum(-1)"));
  EXPECT_THAT(LastOfRows(256, "aten::diagonal", 300'000).rows, IsEmpty()) << "a logsumexp of all, say";
}

TEST(RepeatedWork, RowsThatMayBeRead) {
  EXPECT_THAT(LastOfRows(256, "aten::select", 300'000).rows, IsEmpty());
  EXPECT_THAT(LastOfRows(256, "aten::relu", 20'000).rows, IsEmpty());
  EXPECT_THAT(LastOfRows(2, "aten::select", 20'000).rows, IsEmpty());
}

CpuProgram::Found Adapting(StepKind kind, const std::string& adapter) {
  CpuProgram program(kind);
  program.UseTorch();
  int64_t at_ns = 1000;
  for (const std::string& name : {std::string("layers.0.base_layer"), "layers.0." + adapter}) {
    const OpIndex op = program.builder().AddOp(GemmDefinition(256, 16, at_ns > 1000 ? 8 : 256, "TN"));
    for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs)
      program.builder().Call(op, step_ns + at_ns, 200'000);
    program.LayerOf(op, {.name = name, .module = name});
    at_ns += 300'000;
  }
  return program.Find("repeated-work");
}

TEST(RepeatedWork, IsAnAdapterBesideItsWeightInInference) {
  const auto found = Adapting(StepKind::kInference, "lora_A.default");
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 200'000);
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("merge_and_unload()"));
  EXPECT_THAT(Adapting(StepKind::kTraining, "lora_A.default").rows, IsEmpty());
  EXPECT_THAT(Adapting(StepKind::kInference, "head").rows, IsEmpty());
}

// In each step an encoder's product of 64 rows, so many of a decoder's, and an attention of two heads with so many queries (0: none).
CpuProgram::Found Decoding(StepKind kind, int64_t tokens, int passes, const std::string& decoder, int64_t batch = 2,
                           int64_t queries = 0) {
  CpuProgram program(kind);
  program.UseTorch();
  program.Batch(batch);
  const OpIndex encode = program.builder().AddOp(GemmDefinition(64, 64, 128, "TN")),
                decode = program.builder().AddOp(GemmDefinition(tokens, tokens, 128, "TN"));
  trace::OpDefinition of_heads = GemmDefinition(64, queries, 8, "TN");
  of_heads.mutable_gemm()->set_batch(2 * tokens / std::max<int64_t>(queries, 1));
  const OpIndex attend = program.builder().AddOp(of_heads);
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    program.builder().Call(encode, step_ns + 1000, 300'000);
    for (int pass = 0; pass < passes; ++pass) program.builder().Call(decode, step_ns + 400'000 + pass * 10'000, 9'000);
    if (queries > 0) program.builder().Call(attend, step_ns + 800'000, 9'000);
  }
  program.LayerOf(encode, {.name = "model.encoder.layers.0.fc1", .module = "model.encoder.layers.0.fc1"});
  program.LayerOf(decode, {.name = decoder, .module = decoder});
  program.LayerOf(attend, {.name = "model.decoder.layers.0.self_attn", .module = "model.decoder.layers.0.self_attn"});
  return program.Find("repeated-work");
}

TEST(RepeatedWork, IsAnEncoderThatRunsForEachToken) {
  const std::string decoder = "model.decoder.layers.0.encoder_attn.q_proj";
  const auto found = Decoding(StepKind::kInference, 2, 1, decoder);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 300'000);
  EXPECT_EQ(found.Of(0, "where"), "model.encoder.layers.0.fc1");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("on 64 rows beside 2"));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("If the passes make the tokens of one text"));
  EXPECT_THAT(Decoding(StepKind::kInference, 2, 24, decoder).rows, IsEmpty()) << "it runs once for 24 tokens";
  EXPECT_THAT(Decoding(StepKind::kInference, 32, 1, decoder).rows, IsEmpty()) << "all tokens at once";
  EXPECT_THAT(Decoding(StepKind::kTraining, 2, 1, decoder).rows, IsEmpty());
  EXPECT_THAT(Decoding(StepKind::kInference, 2, 1, "head").rows, IsEmpty());
}

// Queries of a detector, words of a whole sentence: a quarter of the encoder's rows, and all in one pass.
TEST(RepeatedWork, IsNotAnEncoderBesideFewerRowsInOnePass) {
  const std::string decoder = "model.decoder.layers.0.fc1";
  EXPECT_THAT(Decoding(StepKind::kInference, 16, 1, decoder, 1, 16).rows, IsEmpty());
  EXPECT_THAT(Decoding(StepKind::kInference, 16, 1, decoder, 0, 16).rows, IsEmpty());
  EXPECT_THAT(Decoding(StepKind::kInference, 16, 1, decoder, 0).rows, IsEmpty());
  EXPECT_THAT(Decoding(StepKind::kInference, 16, 1, decoder, 0, 1).rows, SizeIs(1)) << "16 texts, a query of each";
  EXPECT_THAT(Decoding(StepKind::kInference, 1, 1, decoder, 0).rows, SizeIs(1));
}

// A layer that a step computes forward for so long, and another that is trained.
CpuProgram::Found Frozen(int64_t ns, bool is_trained) {
  CpuProgram program;
  program.UseTorch();
  const OpIndex forward = program.builder().AddOp(GemmDefinition(256, 16, 256, "TN")),
                trained = program.builder().AddOp(GemmDefinition(256, 16, 8, "TN"));
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    program.builder().Call(forward, step_ns + 1000, ns);
    program.builder().Call(trained, step_ns + 600'000, 100'000);
  }
  program.LayerOf(forward, {.name = "encoder", .module = "encoder"});
  program.LayerOf(trained, {.name = is_trained ? "encoder" : "head", .module = is_trained ? "encoder" : "head"},
                  LayerDirection::kBackwardWeights);
  return program.Find("repeated-work");
}

TEST(RepeatedWork, MayBeThatOfAFrozenEncoder) {
  const auto found = Frozen(400'000, /*is_trained=*/false);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Gain(0), 400'000);
  EXPECT_EQ(found.Of(0, "where"), "encoder");
  EXPECT_EQ(found.Of(0, "kind"), "information");
  EXPECT_THAT(Frozen(200'000, /*is_trained=*/false).rows, IsEmpty());
  EXPECT_THAT(Frozen(400'000, /*is_trained=*/true).rows, IsEmpty());
}

}  // namespace repeated_work_test
}  // namespace dlhook::analyzer
