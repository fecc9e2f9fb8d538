// Scopes, Python stacks and modules through the drain: a reader decodes the rings' contents by proto/call.proto's
// rules, in libprotobuf's bytes, even after the dictionaries were reset and from hostile rings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "preload/drain/drain.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_scopes_test {

using ::testing::ElementsAre;

constexpr uint64_t kRingBytes = 65536;
constexpr uint64_t kDefinitionsRoom = 65536;

struct TestScope {
  std::string name;
  uint64_t start_ticks = 100;
  uint64_t end_ticks = 200;
  uint64_t first_sequence = 1;
  int64_t link = -1;
  uint32_t call_count = 0;
  uint32_t python_stack = 0;
  ScopeKind kind = ScopeKind::kFrameworkOp;
  uint8_t cut = 0;
};

RecordHeader* ReserveWords(RingProducer* ring, size_t bytes) {
  RecordHeader* space = ring->Reserve(static_cast<uint32_t>((bytes + 7) / 8));
  return space != nullptr ? space : ring->ReserveAfterLook(static_cast<uint32_t>((bytes + 7) / 8));
}

bool PutScope(RingProducer* ring, const TestScope& scope) {
  RecordHeader* space = ReserveWords(ring, sizeof(ScopeRecord) + scope.name.size());
  if (space == nullptr) return false;
  auto record = reinterpret_cast<ScopeRecord*>(space);
  const auto words = static_cast<uint16_t>((sizeof(ScopeRecord) + scope.name.size() + 7) / 8);
  *record = {{words, RecordType::kScope, 0, 0, 0, 0},
             scope.start_ticks,
             scope.end_ticks,
             scope.first_sequence,
             scope.link,
             scope.call_count,
             scope.python_stack,
             static_cast<uint16_t>(scope.name.size()),
             scope.kind,
             scope.cut,
             0};
  memcpy(record + 1, scope.name.data(), scope.name.size());
  ring->Commit(space);
  return true;
}

void PutPythonStack(RingProducer* ring, uint32_t definition) {
  RecordHeader* space = ReserveWords(ring, sizeof(PythonStackRecord));
  *reinterpret_cast<PythonStackRecord*>(space) = {
      {sizeof(PythonStackRecord) / 8, RecordType::kPythonStack, 0, 0, 0, 0}, definition, 0};
  ring->Commit(space);
}

uint32_t PutStackDefinition(TestSession* session, const std::vector<PythonFrameDefinition>& frames,
                            uint32_t is_cut = 0) {
  const PythonStackDefinition stack = {static_cast<uint32_t>(frames.size()), is_cut};
  std::string bytes(reinterpret_cast<const char*>(&stack), sizeof stack);
  bytes.append(reinterpret_cast<const char*>(frames.data()), frames.size() * sizeof frames[0]);
  return session->PutDefinition(DefinitionKind::kPythonStack, bytes);
}

// Ids resolved, one line per scope: "thread name kind start..end calls@sequence link stack".
struct Reader {
  std::map<uint32_t, std::string> strings;
  std::map<uint32_t, std::string> stacks;
  std::vector<std::string> scopes;
  std::vector<std::string> call_stacks;
  int resets = 0;

  explicit Reader(const trace::Trace& trace) {
    for (const trace::Packet& packet : trace.packet()) {
      if (packet.has_reset()) {
        ++resets;
        strings.clear();
        stacks.clear();
      }
      AddInterned(packet.interned());
      if (packet.has_scope_batch()) AddScopes(packet.scope_batch());
      for (uint32_t iid : packet.call_batch().python_stack_iid())
        call_stacks.push_back(iid == 0 ? "-" : stacks.at(iid));
    }
  }

  void AddInterned(const trace::Interned& interned) {
    for (const trace::InternedString& string : interned.string()) strings[string.iid()] = string.value();
    for (const trace::InternedPythonStack& stack : interned.python_stack()) {
      std::string text;
      for (const trace::PythonFrame& frame : stack.frame()) {
        text += strings.at(frame.function_iid()) + "@" + strings.at(frame.file_iid()) + ":" +
                std::to_string(frame.line()) + (frame.object() == 0 ? "" : "#" + std::to_string(frame.object())) +
                (frame.is_entry() ? "|" : ";");
      }
      stacks[stack.iid()] = text + (stack.is_cut() ? "…" : "");
    }
  }

  void AddScopes(const trace::ScopeBatch& batch) {
    uint64_t end = batch.base_end_ticks(), sequence = batch.base_first_sequence();
    int64_t link = 0;
    for (int i = 0; i < batch.name_iid_size(); ++i) {
      end += static_cast<uint64_t>(batch.end_delta_ticks(i));
      sequence += static_cast<uint64_t>(batch.first_sequence_delta(i));
      link += batch.link_delta(i);
      const uint32_t stack = batch.python_stack_iid_size() == 0 ? 0 : batch.python_stack_iid(i);
      scopes.push_back(std::to_string(batch.thread_id()) + " " + strings.at(batch.name_iid(i)) + " " +
                       trace::ScopeBatch::Kind_Name(batch.kind(i)) + " " +
                       std::to_string(end - batch.duration_ticks(i)) + ".." + std::to_string(end) + " " +
                       std::to_string(batch.call_count(i)) + "@" + std::to_string(sequence) + " " +
                       std::to_string(link) + (stack == 0 ? "" : " " + stacks.at(stack)));
    }
  }
};

TEST(DrainScopesTest, ScopesComeOutAsTheyWentIn) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  const uint32_t file = session.PutDefinition(DefinitionKind::kText, "train.py");
  const uint32_t function = session.PutDefinition(DefinitionKind::kText, "LeNet.forward");
  const uint32_t stack = PutStackDefinition(&session, {{file, function, 42, 0, 7}, {file, function, 9, 1, 0}}, 1);
  RingProducer first = session.Producer(0), second = session.Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "autograd");
  PutScope(&first, {.name = "aten::convolution",
                    .start_ticks = 110,
                    .end_ticks = 190,
                    .first_sequence = 5,
                    .link = 6,
                    .call_count = 2});
  PutGemm(&first, {.sequence = 5});
  PutScope(&first, {.name = "aten::conv2d",
                    .start_ticks = 100,
                    .end_ticks = 200,
                    .first_sequence = 5,
                    .link = 6,
                    .call_count = 2,
                    .python_stack = stack});
  PutScope(&second, {.name = "ConvolutionBackward0",
                     .start_ticks = 1000,
                     .end_ticks = 1500,
                     .first_sequence = 1,
                     .link = 6,
                     .kind = ScopeKind::kBackwardNode});
  PutScope(&first,
           {.name = "x", .start_ticks = 90, .end_ticks = 95, .first_sequence = 0, .kind = ScopeKind::kGraphNode});
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  EXPECT_THAT(Reader(trace).scopes,
              ElementsAre("1 aten::convolution FRAMEWORK_OP 110..190 2@5 6",
                          "1 aten::conv2d FRAMEWORK_OP 100..200 2@5 6 "
                          "LeNet.forward@train.py:42#7;LeNet.forward@train.py:9|…",
                          "1 x GRAPH_NODE 90..95 0@0 -1", "2 ConvolutionBackward0 BACKWARD_NODE 1000..1500 0@1 6"));
}

TEST(DrainScopesTest, CallsCarryTheStackInForceOnTheirThread) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  const uint32_t name = session.PutDefinition(DefinitionKind::kText, "f");
  const uint32_t stack = PutStackDefinition(&session, {{name, name, 1, 1, 0}});
  RingProducer ring = session.Producer(0), other = session.Producer(1);
  PutThread(&ring, 1, "main");
  PutThread(&other, 2, "other");
  PutGemm(&ring, {.sequence = 1});
  PutPythonStack(&ring, stack);
  PutGemm(&ring, {.sequence = 2});
  PutGemm(&ring, {.sequence = 3});
  PutPythonStack(&ring, 0);
  PutGemm(&ring, {.sequence = 4});
  PutGemm(&other, {.sequence = 1});
  PutThread(&ring, 3, "a later thread of the slot");
  PutGemm(&ring, {.sequence = 1});
  EXPECT_THAT(Reader(ParseTrace(DrainAll(&session))).call_stacks, ElementsAre("-", "f@f:1|", "f@f:1|", "-"));
}

// A drain that takes over continues with its predecessor's current stack.
TEST(DrainScopesTest, TheStackInForceOutlivesADrain) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  const uint32_t name = session.PutDefinition(DefinitionKind::kText, "f");
  const uint32_t stack = PutStackDefinition(&session, {{name, name, 1, 1, 0}});
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  PutPythonStack(&ring, stack);
  MemorySink sink;
  {
    Drain drain;
    ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
    drain.Step(true, false);
  }
  PutGemm(&ring, {.sequence = 1});
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  drain.Finish(ProcessEnd::kVanished, false);
  const trace::Trace trace = ParseTrace({sink.buffer().data(), sink.buffer().size()});
  EXPECT_THAT(Reader(trace).call_stacks, ElementsAre("f@f:1|"));
}

TEST(DrainScopesTest, ModulesKeepAllTheirNames) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const char texts[] = "torch.nn.Conv2d\0\0features.0\0shared";
  RecordHeader* space = ReserveWords(&ring, sizeof(PythonModuleRecord) + sizeof texts);
  const auto words = static_cast<uint16_t>((sizeof(PythonModuleRecord) + sizeof texts + 7) / 8);
  auto record = reinterpret_cast<PythonModuleRecord*>(space);
  *record = {{words, RecordType::kPythonModule, 0, 0, 0, 0}, 4, 2, 3, sizeof texts};
  memcpy(record + 1, texts, sizeof texts);
  ring.Commit(space);
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  for (const trace::Packet& packet : trace.packet()) {
    if (!packet.has_python_module()) continue;
    EXPECT_EQ(packet.python_module().type(), "torch.nn.Conv2d");
    EXPECT_THAT(packet.python_module().name(), ElementsAre("", "features.0", "shared"));
    EXPECT_EQ(packet.python_module().root(), 2u);
    EXPECT_EQ(packet.python_module().parent(), 3u);
    return;
  }
  FAIL() << "no module";
}

TEST(DrainScopesTest, CompiledCodeIsFieldsInTheirOrder) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const char texts[] = "3\0000/1\0001\000/srv/net.py\0006\000\00012x\000aten::mm\000\000.fc\0002\0001";
  RecordHeader* space = ReserveWords(&ring, sizeof(CompiledCodeRecord) + sizeof texts);
  const auto words = static_cast<uint16_t>((sizeof(CompiledCodeRecord) + sizeof texts + 7) / 8);
  auto record = reinterpret_cast<CompiledCodeRecord*>(space);
  *record = {{words, RecordType::kCompiledCode, 0, 0, 0, 0}, sizeof texts, 0};
  memcpy(record + 1, texts, sizeof texts);
  ring.Commit(space);
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  for (const trace::Packet& packet : trace.packet()) {
    if (!packet.has_compiled_code()) continue;
    EXPECT_EQ(packet.compiled_code().ShortDebugString(),
              "kind: KERNEL region: \"0/1\" is_backward: true file: \"/srv/net.py\" line: 6 count: 12 function: "
              "\"aten::mm\" module: \".fc\" part: WEIGHTS by_order: true");
    return;
  }
  FAIL() << "no compiled code";
}

TEST(DrainScopesTest, AHundredThousandNamesStartTheDictionaryOver) {
  TestSession session(kRingBytes);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const int names = 100000;
  for (int i = 0; i < names; ++i) {
    while (!PutScope(&ring, {.name = "scope " + std::to_string(i)})) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Reader reader(ParseTrace({sink.buffer().data(), sink.buffer().size()}));
  EXPECT_GE(reader.resets, 3);
  ASSERT_EQ(reader.scopes.size(), static_cast<size_t>(names));
  EXPECT_EQ(reader.scopes.back(), "1 scope 99999 FRAMEWORK_OP 100..200 0@1 -1");
}

TEST(DrainScopesTest, BeyondTheLimitScopesAreCounted) {
  TestSession session(kRingBytes);
  session.header()->trace_bytes_limit = 1;
  session.header()->deep_scopes = 3;
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  for (int i = 0; i < 5; ++i) PutScope(&ring, {.name = "late"});
  std::map<trace::Loss::Reason, uint64_t> losses;
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_loss()) losses[packet.loss().reason()] += packet.loss().calls();
  }
  EXPECT_EQ(losses[trace::Loss::TRACE_LIMIT], 5u);
  EXPECT_EQ(losses[trace::Loss::SCOPES_TOO_DEEP], 3u);
  EXPECT_TRUE(Reader(trace).scopes.empty());
}

// A piece of "piece"'s size of a profile of 4005 bytes.
void PutProfile(RingProducer* ring, uint32_t number, uint64_t offset) {
  const std::string data = "piece";
  RecordHeader* space = ReserveWords(ring, sizeof(ProfileRecord) + data.size());
  auto record = reinterpret_cast<ProfileRecord*>(space);
  *record = {};
  record->header = {(sizeof(ProfileRecord) + 8) / 8, RecordType::kProfile, 0, 0, 0, 0};
  record->kind = ProfileKind::kXspace;
  record->number = number;
  record->total_bytes = 4005;
  record->offset = offset;
  record->start_ticks = 100;
  record->end_ticks = 200;
  record->text_bytes = static_cast<uint32_t>(data.size());
  memcpy(record + 1, data.data(), data.size());
  ring->Commit(space);
}

TEST(DrainScopesTest, BeyondTheLimitProfilesAreCountedOnce) {
  TestSession session(kRingBytes);
  session.header()->trace_bytes_limit = 1;
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "dlhook-jax");
  for (uint32_t number : {7, 8}) {
    for (uint64_t offset : {0, 2000, 4000}) PutProfile(&ring, number, offset);
  }
  uint64_t lost = 0;
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  for (const trace::Packet& packet : trace.packet()) {
    EXPECT_FALSE(packet.has_compiler_profile());
    if (packet.loss().reason() == trace::Loss::PROFILES_DROPPED) lost += packet.loss().calls();
  }
  EXPECT_EQ(lost, 2u);
}

TEST(DrainScopesTest, ProfilesComeOutAsTheyWentIn) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "dlhook-jax");
  PutProfile(&ring, 7, 4000);
  std::string profiles;
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_compiler_profile()) profiles += packet.compiler_profile().ShortDebugString();
  }
  EXPECT_EQ(profiles,
            "kind: XSPACE number: 7 total_bytes: 4005 offset: 4000 data: \"piece\" start_ticks: 100 end_ticks: 200");
}

// Whatever rings and definitions contain, the result is a trace that can be parsed (run it under ASan).
TEST(DrainScopesTest, SurvivesRandomRingsAndDefinitions) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 300; ++round) {
    TestSession session(16384, 1, kDefinitionsRoom);
    const uint32_t name = session.PutDefinition(DefinitionKind::kText, "f");
    const uint32_t stack = PutStackDefinition(&session, {{name, name, 1, 0, 0}, {name, name, 2, 1, 1}});
    RingProducer ring = session.Producer(0);
    PutThread(&ring, 1, "main");
    for (int i = 0; i < 5; ++i) PutScope(&ring, {.name = "scope", .python_stack = stack});
    PutPythonStack(&ring, stack);
    PutGemm(&ring, {});
    char* bytes = reinterpret_cast<char*>(session.header());
    const uint64_t start = session.header()->slots[0].data_offset;
    for (int i = 0; i < 20; ++i) bytes[start + random() % 700] = static_cast<char>(random());
    for (int i = 0; i < 10; ++i) bytes[kSessionDataStart + random() % 80] = static_cast<char>(random());
    trace::Trace trace;
    ASSERT_TRUE(trace.ParseFromString(DrainAll(&session))) << "round " << round;
  }
}

}  // namespace drain_scopes_test
}  // namespace dlhook
