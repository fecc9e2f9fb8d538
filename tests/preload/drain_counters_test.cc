// Readings of counters through the drain: a reader decodes the rings' contents by proto/call.proto's rules, even after
// the dictionaries were reset and from hostile rings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "preload/drain/drain.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_counters_test {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr uint64_t kRingBytes = 65536;
constexpr uint64_t kDefinitionsRoom = 65536;

bool PutReading(RingProducer* ring, uint32_t set, uint64_t ticks, const std::vector<uint64_t>& values,
                uint64_t enabled_ns = 0, uint64_t running_ns = 0, bool is_process = false) {
  const auto words = static_cast<uint16_t>(sizeof(CounterRecord) / 8 + values.size());
  RecordHeader* space = ring->Reserve(words);
  if (space == nullptr) space = ring->ReserveAfterLook(words);
  if (space == nullptr) return false;
  auto record = reinterpret_cast<CounterRecord*>(space);
  *record = {{words, RecordType::kCounters, 0, 0, static_cast<uint8_t>(values.size()), 0},
             ticks,
             set,
             CounterSource::kRusage,
             is_process,
             {},
             enabled_ns,
             running_ns};
  memcpy(record + 1, values.data(), values.size() * 8);
  ring->Commit(space);
  return true;
}

// One line per reading: "thread/tid KIND SOURCE ticks name=value… enabled/running".
std::vector<std::string> Readings(const trace::Trace& trace) {
  std::map<uint32_t, std::string> strings;
  std::vector<std::string> readings;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_reset()) strings.clear();
    for (const trace::InternedString& string : packet.interned().string()) strings[string.iid()] = string.value();
    const trace::CounterBatch& batch = packet.counter_batch();
    const int count = batch.name_iid_size();
    std::vector<int64_t> values(static_cast<size_t>(count));
    int64_t ticks = 0, enabled = 0, running = 0;
    for (int i = 0; i < batch.tick_delta_size(); ++i) {
      ticks += batch.tick_delta(i);
      std::string line = std::to_string(batch.thread_id()) + "/" + std::to_string(batch.tid()) + " " +
                         trace::CounterBatch::Kind_Name(batch.kind()) + " " +
                         trace::CounterBatch::Source_Name(batch.source()) + " " + std::to_string(ticks);
      for (int j = 0; j < count; ++j) {
        values[j] += batch.value_delta(i * count + j);
        line += " " + strings.at(batch.name_iid(j)) + "=" + std::to_string(values[j]);
      }
      if (batch.enabled_delta_ns_size() > 0) {
        enabled += batch.enabled_delta_ns(i);
        running += batch.running_delta_ns(i);
        line += " " + std::to_string(enabled) + "/" + std::to_string(running);
      }
      readings.push_back(line);
    }
  }
  return readings;
}

TEST(DrainCountersTest, ReadingsComeOutAsTheyWentIn) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  const uint32_t software = session.PutDefinition(DefinitionKind::kText, "task-clock,minor-faults");
  const uint32_t cycles = session.PutDefinition(DefinitionKind::kText, "cycles");
  RingProducer first = session.Producer(0), second = session.Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "worker");
  // Two alternating sets: each stays in its own packet.
  PutReading(&first, software, 1000, {500, 7});
  PutReading(&first, cycles, 1001, {uint64_t{1} << 62}, 100, 50);
  PutReading(&first, software, 2000, {900, 7});
  PutReading(&first, cycles, 2001, {(uint64_t{1} << 62) + 5}, 200, 100);
  PutReading(&first, software, 3000, {800, 9}, 0, 0, true);
  PutReading(&second, software, 1500, {1, 2});
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  EXPECT_THAT(Readings(trace), ElementsAre("1/101 BOUNDARY RUSAGE 1000 task-clock=500 minor-faults=7",
                                           "1/101 BOUNDARY RUSAGE 2000 task-clock=900 minor-faults=7",
                                           "1/101 BOUNDARY RUSAGE 1001 cycles=4611686018427387904 100/50",
                                           "1/101 BOUNDARY RUSAGE 2001 cycles=4611686018427387909 200/100",
                                           "0/0 BOUNDARY RUSAGE 3000 task-clock=800 minor-faults=9",
                                           "2/102 BOUNDARY RUSAGE 1500 task-clock=1 minor-faults=2"));
}

TEST(DrainCountersTest, MoreSetsThanOpenPackets) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  std::vector<uint32_t> sets;
  for (int i = 0; i < 12; ++i) sets.push_back(session.PutDefinition(DefinitionKind::kText, "c" + std::to_string(i)));
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < sets.size(); ++i) PutReading(&ring, sets[i], 100 * round + i, {round});
  }
  EXPECT_THAT(Readings(ParseTrace(DrainAll(&session))), SizeIs(36));
}

TEST(DrainCountersTest, WhatSamplesTellStandsBesideIt) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  const CounterReading readings[] = {{100, 0, 0, {1, 2}}, {200, 0, 0, {3, 4}}};
  drain.AddSamples(0, 4712, ReadingKind::kSample, CounterSource::kProc, "task-clock,minor-faults", readings, 2);
  drain.AddCapability("counter:cycles", fields::Capability::State::kRefused, "no such counter");
  drain.Finish(ProcessEnd::kExited, false);
  const trace::Trace trace = ParseTrace({sink.buffer().data(), sink.buffer().size()});
  EXPECT_THAT(Readings(trace), ElementsAre("0/4712 SAMPLE PROC 100 task-clock=1 minor-faults=2",
                                           "0/4712 SAMPLE PROC 200 task-clock=3 minor-faults=4"));
  bool is_told = false;
  for (const trace::Packet& packet : trace.packet()) {
    const trace::Capability& capability = packet.capability();
    is_told = is_told || (capability.name() == "counter:cycles" && capability.state() == trace::Capability::REFUSED &&
                          capability.reason() == "no such counter");
  }
  EXPECT_TRUE(is_told);
}

// Records that no real thread writes: they are left out.
TEST(DrainCountersTest, BadRecordsAreLeftOut) {
  TestSession session(kRingBytes, 2, kDefinitionsRoom);
  const uint32_t names = session.PutDefinition(DefinitionKind::kText, "a,b");
  RingProducer ring = session.Producer(0), nobody = session.Producer(1);
  PutThread(&ring, 1, "main");
  PutReading(&ring, names, 1, {1});                           // fewer than names
  PutReading(&ring, names, 2, {1, 2, 3});                     // more
  PutReading(&ring, names + 1, 3, {1, 2});                    // no such definition
  PutReading(&ring, names, 4, std::vector<uint64_t>(17, 0));  // more than a set holds
  PutReading(&nobody, names, 5, {1, 2});                      // of no thread
  PutReading(&ring, names, 6, {1, 2});
  EXPECT_THAT(Readings(ParseTrace(DrainAll(&session))), ElementsAre("1/101 BOUNDARY RUSAGE 6 a=1 b=2"));
}

TEST(DrainCountersTest, BeyondTheLimitThreadsReadingsAreCountedAndTheProcesssStay) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  const uint32_t names = session.PutDefinition(DefinitionKind::kText, "a");
  session.header()->trace_bytes_limit = 1;
  session.header()->dropped_readings = 4;
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  for (int i = 0; i < 3; ++i) PutReading(&ring, names, 1, {1});
  PutReading(&ring, names, 9, {7}, 0, 0, true);
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  EXPECT_THAT(Readings(trace), ElementsAre("0/0 BOUNDARY RUSAGE 9 a=7"));
  std::map<std::string, uint64_t> losses;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.loss().reason() == trace::Loss::READINGS_DROPPED)
      losses[packet.loss().detail()] += packet.loss().calls();
  }
  EXPECT_THAT(losses, ElementsAre(std::pair<const std::string, uint64_t>("ring full", 4),
                                  std::pair<const std::string, uint64_t>("trace at its limit", 3)));
}

// Names after a Reset are defined again.
TEST(DrainCountersTest, NamesOutliveFullDictionaries) {
  TestSession session(kRingBytes, 1, kDefinitionsRoom);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  const uint32_t names = session.PutDefinition(DefinitionKind::kText, "a");
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  uint64_t put = 0;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 60; ++i) PutGemm(&ring, {.sequence = ++put, .m = static_cast<int64_t>(put)});
    PutReading(&ring, names, static_cast<uint64_t>(round), {1});
    drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kVanished, false);
  const trace::Trace trace = ParseTrace({sink.buffer().data(), sink.buffer().size()});
  int resets = 0;
  for (const trace::Packet& packet : trace.packet()) resets += packet.has_reset() ? 1 : 0;
  EXPECT_GE(resets, 1);
  EXPECT_THAT(Readings(trace), SizeIs(400));
}

// Whatever rings and definitions contain, the result is a trace that can be parsed (run it under ASan).
TEST(DrainCountersTest, SurvivesRandomRingsAndDefinitions) {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < 300; ++round) {
    TestSession session(16384, 1, kDefinitionsRoom);
    const uint32_t names = session.PutDefinition(DefinitionKind::kText, "a,b,c");
    RingProducer ring = session.Producer(0);
    PutThread(&ring, 1, "main");
    for (uint64_t i = 0; i < 10; ++i) PutReading(&ring, names, i, {i, i, i}, i, i);
    char* bytes = reinterpret_cast<char*>(session.header());
    const uint64_t start = session.header()->slots[0].data_offset;
    for (int i = 0; i < 20; ++i) bytes[start + random() % 700] = static_cast<char>(random());
    for (int i = 0; i < 4; ++i) bytes[kSessionDataStart + random() % 16] = static_cast<char>(random());
    trace::Trace trace;
    ASSERT_TRUE(trace.ParseFromString(DrainAll(&session))) << "round " << round;
  }
}

}  // namespace drain_counters_test
}  // namespace dlhook
