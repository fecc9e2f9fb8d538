// The drain: bytes against libprotobuf, hostile rings, taking over from a drain that died, full and failing outputs,
// aggregates beyond the size limit, bounded dictionaries.
#include "preload/drain/drain.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>

#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_test {

using ::testing::ElementsAre;

constexpr uint64_t kRingBytes = 65536;
constexpr char kConvolution[] =
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32:a:blocked:abcd::f0 "
    "wei:f32:a:blocked:Acdb16a::f0,attr-scratchpad:user,alg:convolution_direct,mb8_ic3oc16,0.5\n";

std::string Bytes(const MemorySink& sink) { return {sink.buffer().data(), sink.buffer().size()}; }

// A file that becomes full, or disappears.
class FailingSink final : public ByteSink {
 public:
  WriteResult Write(const char* data, size_t size, bool last) override {
    if (vanish) {
      vanish = false;
      bytes.clear();
      return WriteResult::kGone;
    }
    if (bytes.size() + size > limit + (last ? 4096 : 0)) {
      error_ = ENOSPC;
      return WriteResult::kFailed;
    }
    bytes.append(data, size);
    return WriteResult::kOk;
  }
  bool Truncate(uint64_t size) override {
    if (size > bytes.size()) return false;
    bytes.resize(size);
    return true;
  }

  std::string bytes;
  size_t limit = SIZE_MAX;
  bool vanish = false;
};

void FillExample(TestSession* session) {
  RingProducer first = session->Producer(0);
  RingProducer second = session->Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "worker");
  PutGemm(&first, {.sequence = 2, .parent_distance = 1, .start_ticks = 110, .end_ticks = 150});
  PutGemm(&first, {.sequence = 1, .start_ticks = 100, .end_ticks = 200});
  PutTapLine(&first, 3, 900, kConvolution);
  PutGemm(&second, {.sequence = 1, .start_ticks = 50, .end_ticks = 60, .m = 100, .address = 0x9000});
}

TEST(DrainTest, OpsThatFoundNoMemoryAreKnownLater) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  const auto put = [&](uint64_t sequence, int64_t m) {
    PutGemm(&ring, {.sequence = sequence, .start_ticks = sequence * 10, .end_ticks = sequence * 10 + 5, .m = m});
  };
  constexpr int64_t kShapes = 60;  // their keys have more bytes than the table has at first
  put(1, 1);
  drain.Step(true, false);
  for (int64_t m = 1; m <= kShapes; ++m) put(static_cast<uint64_t>(m) + 1, m);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  drain.Step(true, false);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  put(kShapes + 2, kShapes);
  drain.Finish(ProcessEnd::kVanished, false);
  const trace::Trace trace = ParseTrace(Bytes(sink));
  std::vector<uint32_t> ops;
  bool is_loss_said = false;
  for (const trace::Packet& packet : trace.packet()) {
    ops.insert(ops.end(), packet.call_batch().op_iid().begin(), packet.call_batch().op_iid().end());
    is_loss_said |= packet.has_loss();
  }
  ASSERT_EQ(ops.size(), kShapes + 2u);
  EXPECT_EQ(ops[kShapes], 0u);  // without memory
  EXPECT_NE(ops[kShapes + 1], 0u);
  EXPECT_TRUE(is_loss_said);
}

TEST(DrainTest, WritesAsFewBytesAsLibprotobuf) {
  TestSession session(kRingBytes);
  strcpy(session.header()->script, "train.py");
  session.header()->rank_variable_count = 1;
  strcpy(session.header()->rank_variables[0].name, "RANK");
  strcpy(session.header()->rank_variables[0].value, "3");
  session.header()->setting_count = 1;
  strcpy(session.header()->settings[0].name, "OMP_NUM_THREADS");
  strcpy(session.header()->settings[0].value, "8");
  session.header()->processors = 2;
  session.header()->processor = {"AuthenticAMD", "AMD EPYC", 26, 2, 1, 2, kFma | kAvx512};
  session.header()->configured_families = 3;
  FillExample(&session);
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  EXPECT_EQ(trace.packet(0).header().setting(0).value(), "8");
  EXPECT_EQ(trace.packet(0).header().processors(), 2u);
  EXPECT_EQ(
      trace.packet(0).header().processor().ShortDebugString(),
      R"(vendor: "AuthenticAMD" name: "AMD EPYC" family: 26 model: 2 stepping: 1 threads_per_core: 2 instruction_sets: 3)");
  EXPECT_EQ(trace.packet(0).header().process().script(), "train.py");
  EXPECT_EQ(trace.packet(0).header().rank_variable(0).value(), "3");
}

TEST(DrainTest, AllFamiliesOfDlhookCaptureAreNamed) {
  TestSession session(kRingBytes);
  session.header()->configured_families = ~0u;
  std::string expected;
  for (int i = 0; i < kFamilyCount; ++i) expected += (i == 0 ? "" : ",") + std::string(kFamilyNames[i]);
  Buffer buffer;
  WriteHeaderPacket(*session.header(), &buffer);
  trace::Trace trace;
  ASSERT_TRUE(trace.ParseFromArray(buffer.data(), static_cast<int>(buffer.size())));
  EXPECT_EQ(trace.packet(0).header().capture_families(), expected);
}

TEST(DrainTest, CallsCarryIdentityParentTimesAndOperands) {
  TestSession session(kRingBytes);
  FillExample(&session);
  const std::vector<DecodedCall> calls = DecodeCalls(ParseTrace(DrainAll(&session)));
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].sequence, 2u);
  EXPECT_EQ(calls[0].parent, 1u);
  EXPECT_EQ(calls[0].duration, 40u);
  EXPECT_THAT(calls[0].addresses, ElementsAre(0x1000, 0x1040, 0x1080));
  EXPECT_EQ(calls[1].sequence, 1u);
  EXPECT_EQ(calls[1].parent, 0u);
  EXPECT_EQ(calls[2].function, "onednn:exec");
  EXPECT_EQ(calls[2].duration, 500000u);  // 0.5 ms
  EXPECT_EQ(calls[2].end_ticks, 900u);
  EXPECT_EQ(calls[3].thread_id, 2u);
  EXPECT_EQ(calls[0].op_iid, calls[1].op_iid);
  EXPECT_NE(calls[0].op_iid, calls[3].op_iid);
}

TEST(DrainTest, FooterCountsCallsAndKnowsTheEnd) {
  TestSession session(kRingBytes);
  FillExample(&session);
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  const trace::Footer& footer = trace.packet(trace.packet_size() - 1).footer();
  EXPECT_EQ(footer.end(), trace::Footer::VANISHED);
  EXPECT_EQ(footer.calls(), 4u);
  EXPECT_EQ(footer.end_ticks(), 900u);
}

TEST(DrainTest, AStopAndAStartBetweenTwoTurnsAreBothWritten) {
  TestSession session(kRingBytes);
  FillExample(&session);
  SetRecording(false, session.header());
  SetRecording(false, session.header());  // no switch
  SetRecording(true, session.header());
  FailingSink file;
  {
    Drain drain;
    ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
    drain.Step(true, false);
  }
  Drain drain;  // takes over: the trace tells of both already
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
  drain.Finish(ProcessEnd::kVanished, false);
  const trace::Trace trace = ParseTrace(file.bytes);
  std::vector<std::pair<bool, uint64_t>> states;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_capture_state()) {
      states.emplace_back(packet.capture_state().recording(), packet.capture_state().ticks());
    }
  }
  EXPECT_THAT(states, ElementsAre(std::pair(false, session.header()->stopped_ticks.load()),
                                  std::pair(true, session.header()->started_ticks.load())));
}

TEST(DrainTest, TheSameRingsGiveTheSameBytes) {
  TestSession session(kRingBytes);
  FillExample(&session);
  TestSession copy = session;
  EXPECT_EQ(DrainAll(&session), DrainAll(&copy));
}

// The three hosts differ only in sink and rhythm: the writer thread and the launcher append to a file step by step, the
// reader may drain into memory at once.
TEST(DrainTest, TheThreeHostsGiveTheSameBytes) {
  TestSession writer(kRingBytes);
  FillExample(&writer);
  TestSession reader = writer;
  const std::string path = ::testing::TempDir() + "dlhook_three_hosts.dlh";
  unlink(path.c_str());
  {
    FileSink file;
    ASSERT_TRUE(file.Open(path.c_str(), true));
    Drain drain;
    ASSERT_TRUE(drain.Open(writer.header(), writer.bytes(), &file));
    drain.Step(false, false);  // too little to be taken yet
    drain.Step(true, false);
    drain.Finish(ProcessEnd::kVanished, false);
    file.Close();
  }
  std::ifstream stream(path, std::ios::binary);
  const std::string written((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  EXPECT_EQ(written, DrainAll(&reader));
  unlink(path.c_str());
}

TEST(DrainTest, AnotherDrainTakesOverWithoutLossOrRepetition) {
  // A drain dies after each possible write: between its write to the file and its checkpoint, or after.
  for (bool torn : {false, true}) {
    TestSession session(kRingBytes);
    FailingSink file;
    {
      Drain drain;
      ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
      RingProducer ring = session.Producer(0);
      PutThread(&ring, 1, "main");
      for (uint64_t i = 1; i <= 50; ++i) PutGemm(&ring, {.sequence = i, .start_ticks = i, .end_ticks = i + 1});
      drain.Step(true, false);
      for (uint64_t i = 51; i <= 100; ++i) PutGemm(&ring, {.sequence = i, .start_ticks = i, .end_ticks = i + 1});
    }
    if (torn) file.bytes += std::string("\x0a\x05junk", 6);
    Drain drain;
    ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
    drain.Finish(ProcessEnd::kVanished, false);
    const std::vector<DecodedCall> calls = DecodeCalls(ParseTrace(file.bytes));
    ASSERT_EQ(calls.size(), 100u);
    for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(calls[i].sequence, i + 1);
  }
}

TEST(DrainTest, AFullOutputLosesCountedCallsAndStillEndsProperly) {
  TestSession session(kRingBytes);
  FailingSink file;
  file.limit = 1500;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const uint64_t rounds = 20, per_round = 100;
  for (uint64_t round = 0; round < rounds; ++round) {
    for (uint64_t i = 1; i <= per_round; ++i) {
      ASSERT_TRUE(PutGemm(&ring, {.sequence = round * per_round + i, .start_ticks = i, .end_ticks = i + 1}));
    }
    drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const trace::Trace trace = ParseTrace(file.bytes);
  uint64_t lost = 0;
  std::string detail;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.loss().reason() == trace::Loss::OUTPUT_FULL) {
      lost += packet.loss().calls();
      detail = packet.loss().detail();
    }
  }
  EXPECT_EQ(DecodeCalls(trace).size() + lost, rounds * per_round);
  EXPECT_EQ(detail, "No space left on device");
  EXPECT_TRUE(trace.packet(trace.packet_size() - 1).has_footer());
}

TEST(DrainTest, ARemovedFileIsBegunAnewAndTheLossIsCounted) {
  TestSession session(kRingBytes);
  FailingSink file;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  PutGemm(&ring, {.sequence = 1});
  drain.Step(true, false);
  file.vanish = true;
  PutGemm(&ring, {.sequence = 2});
  drain.Step(true, false);
  PutGemm(&ring, {.sequence = 3});
  drain.Finish(ProcessEnd::kExited, false);
  const trace::Trace trace = ParseTrace(file.bytes);
  ASSERT_TRUE(trace.packet(0).has_header());
  EXPECT_EQ(DecodeCalls(trace).size(), 1u);
  bool told = false;
  for (const trace::Packet& packet : trace.packet()) told |= packet.loss().reason() == trace::Loss::OUTPUT_GONE;
  EXPECT_TRUE(told);
}

// Threads start together: a later slot may already be used while an earlier one has no memory.
TEST(DrainTest, ASlotBehindOneWithoutMemoryIsDrained) {
  TestSession session(kRingBytes);
  session.header()->slots[0].bytes = 0;
  RingProducer ring = session.Producer(1);
  PutThread(&ring, 2, "worker");
  PutGemm(&ring, {.sequence = 1});
  EXPECT_EQ(DecodeCalls(ParseTrace(DrainAll(&session))).size(), 1u);
}

TEST(DrainTest, DroppedRecordsAreReportedOnce) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 5, "main");
  for (int i = 0; i < 3; ++i) ring.CountDropped();
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  int losses = 0;
  for (const trace::Packet& packet : trace.packet()) {
    if (!packet.has_loss()) continue;
    ++losses;
    EXPECT_EQ(packet.loss().reason(), trace::Loss::RING_FULL);
    EXPECT_EQ(packet.loss().calls(), 3u);
    EXPECT_EQ(packet.loss().thread_id(), 5u);
  }
  EXPECT_EQ(losses, 1);
}

TEST(DrainTest, RefusedDefinitionsAreALoss) {
  TestSession session(kRingBytes);
  session.header()->refused_definitions = 12;
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  int losses = 0;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.loss().reason() != trace::Loss::DEFINITIONS_FULL) continue;
    ++losses;
    EXPECT_EQ(packet.loss().calls(), 12u);
  }
  EXPECT_EQ(losses, 1);
}

TEST(DrainTest, BeyondTheLimitAggregatesStandForTheCalls) {
  TestSession session(kRingBytes);
  session.header()->trace_bytes_limit = 600;
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const uint64_t calls = 5000;
  for (uint64_t i = 1; i <= calls; ++i) {
    while (!PutGemm(&ring, {.sequence = i, .start_ticks = i * 10, .end_ticks = i * 10 + (i % 2 == 0 ? 4 : 6)})) {
      drain.Step(true, false);
    }
  }
  drain.Finish(ProcessEnd::kExited, false);
  const trace::Trace trace = ParseTrace(Bytes(sink));
  uint64_t count = 0, sum = 0;
  for (const trace::Packet& packet : trace.packet()) {
    if (!packet.has_call_aggregate()) continue;
    const trace::CallAggregate& aggregate = packet.call_aggregate();
    count += aggregate.count();
    sum += aggregate.sum();
    EXPECT_EQ(aggregate.min(), 4u);
    EXPECT_EQ(aggregate.max(), 6u);
  }
  uint64_t single = 0, single_sum = 0;
  for (const DecodedCall& call : DecodeCalls(trace)) {
    ++single;
    single_sum += call.duration;
  }
  EXPECT_GT(count, 0u);
  EXPECT_EQ(count + single, calls);
  EXPECT_EQ(sum + single_sum, calls * 5);
  EXPECT_LT(sink.buffer().size(), 20000u);
}

// An output that fails for a while makes the drain forget its ids: aggregates must not continue with them.
TEST(DrainTest, AggregatesAreGivenUpWithTheirDefinitions) {
  TestSession session(kRingBytes);
  session.header()->trace_bytes_limit = 600;
  FailingSink file;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &file));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  uint64_t sequence = 0;
  const auto put = [&](int64_t m) {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(PutGemm(&ring, {.sequence = ++sequence, .m = m}));
    drain.Step(true, false);
  };
  put(8);  // single calls
  put(8);  // aggregates, sent at once
  put(8);  // aggregates, waiting for their window to end
  file.limit = 0;
  put(9);  // a new definition, which can't be written
  file.limit = SIZE_MAX;
  put(10);
  drain.Finish(ProcessEnd::kExited, false);
  const trace::Trace trace = ParseTrace(file.bytes);
  uint64_t calls = DecodeCalls(trace).size();
  std::map<uint32_t, int64_t> ops;
  std::map<int64_t, uint64_t> by_m;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_reset()) ops.clear();
    for (const trace::OpDefinition& op : packet.interned().op()) ops[op.iid()] = op.gemm().m();
    if (packet.loss().reason() == trace::Loss::OUTPUT_FULL) calls += packet.loss().calls();
    if (!packet.has_call_aggregate()) continue;
    calls += packet.call_aggregate().count();
    by_m[ops.at(packet.call_aggregate().op_iid())] += packet.call_aggregate().count();
  }
  EXPECT_EQ(calls, sequence);
  EXPECT_EQ(by_m[10], 100u);
  EXPECT_EQ(by_m.count(9), 0u);  // dropped with their definition, and counted
}

TEST(DrainTest, FullDictionariesStartOver) {
  TestSession session(kRingBytes);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const uint64_t calls = 40000;  // as many shapes and three times as many addresses
  for (uint64_t i = 1; i <= calls; ++i) {
    while (!PutGemm(&ring, {.sequence = i, .m = static_cast<int64_t>(i), .address = 0x1000 + i * 256})) {
      drain.Step(true, false);
    }
  }
  drain.Finish(ProcessEnd::kExited, false);
  const trace::Trace trace = ParseTrace(Bytes(sink));
  int resets = 0;
  for (const trace::Packet& packet : trace.packet()) resets += packet.has_reset();
  EXPECT_GE(resets, 2);
  const std::vector<DecodedCall> decoded = DecodeCalls(trace);
  ASSERT_EQ(decoded.size(), calls);
  for (uint64_t i = 0; i < calls; ++i) ASSERT_EQ(decoded[i].addresses[0], 0x1000 + (i + 1) * 256);
}

TEST(DrainTest, RefusesWhatIsNoSessionOfThisBuild) {
  TestSession session(kRingBytes);
  MemorySink sink;
  Drain drain;
  session.header()->hook_table_hash ^= 1;
  EXPECT_FALSE(drain.Open(session.header(), session.bytes(), &sink));
  EXPECT_THAT(drain.error(), ::testing::HasSubstr("another build"));
  session.header()->magic = 0;
  EXPECT_FALSE(drain.Open(session.header(), session.bytes(), &sink));
  EXPECT_THAT(drain.error(), ::testing::HasSubstr("not a ring file"));
  EXPECT_FALSE(drain.Open(session.header(), 100, &sink));
}

// Rings are untrusted: whatever they contain, the result is a trace that can be parsed (run it under ASan).
TEST(DrainTest, SurvivesRandomRings) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 300; ++round) {
    TestSession session(16384);
    FillExample(&session);
    SessionHeader* header = session.header();
    char* bytes = reinterpret_cast<char*>(header);
    const uint64_t start = header->slots[0].data_offset;
    for (int i = 0; i < 40; ++i) bytes[start + random() % 600] = static_cast<char>(random());
    if (round % 3 == 0) header->slots[random() % 2].head = random() % 40000;
    if (round % 5 == 0) header->slots[0].data_offset = random();
    if (round % 7 == 0) header->slots[0].bytes = random();
    if (round % 11 == 0) memset(header->program, 'x', sizeof header->program);
    const std::string drained = DrainAll(&session);
    trace::Trace trace;
    ASSERT_TRUE(trace.ParseFromString(drained)) << "round " << round;
    EXPECT_TRUE(trace.packet(trace.packet_size() - 1).has_footer());
  }
}

}  // namespace drain_test
}  // namespace dlhook
