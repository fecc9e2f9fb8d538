// Pairs of events around calls, on a driver controlled by the tests (fake_event_driver.h).
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "preload/format/gpu_records.h"
#include "preload/gpu/event_calls.h"
#include "preload/gpu/event_pool.h"
#include "preload/gpu/gpu_devices.h"
#include "preload/gpu/gpu_time.h"
#include "tests/preload/fake_event_driver.h"
#include "tests/preload/test_process.h"

namespace dlhook {

// Replace those of gpu_time.cc and gpu_devices.cc.
void gpu::WriteGpuRecord(ThreadState*, RecordHeader* record, bool, const void*, uint32_t) {
  EXPECT_EQ(record->words, sizeof(GpuActivityRecord) / 8);
  g_fake->written.push_back(*reinterpret_cast<GpuActivityRecord*>(record));
}
void gpu::NoteGpuDevice(ThreadState*, uint32_t) {}

namespace {

class EventTimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_fake = &fake_;
    thread_ = Attach();
    ASSERT_NE(thread_, nullptr);
    ASSERT_TRUE(StartEvents());
    state_ = LiveEventState();
    state_->driver = TheFakeDriver();
    state_->driver_state.store(2);
    for (auto& count : state_->untimed) count.store(0);
    thread_->depth = 0;
  }
  void TearDown() override {
    fake_.failing.clear();
    fake_.unfinished.clear();
    EndEventContexts(state_, thread_, nullptr);
    EXPECT_EQ(fake_.events, 0) << "events that were not given back";
    EXPECT_EQ(fake_.streams, 0);
    EXPECT_EQ(fake_.current.size(), 1u) << "the program's current context is another one";
    EXPECT_EQ(fake_.mode, 0);
  }

  // Like BeginCall and the wrapper; frames_[0] is below frames_[1].
  CallFrame* Begin(uint64_t sequence, const EventCall& call, int level = 3) {
    CallFrame* frame = &frames_[level];
    *frame = {thread_, 1, sequence, 0, 1, 0, {}};
    ++thread_->depth;
    BeginCallEvents(frame, call);
    return frame;
  }
  void End() {
    --thread_->depth;
    EndCallEvents(thread_);
  }
  void Call(uint64_t sequence, uintptr_t stream, int64_t ns, GpuActivityKind kind = GpuActivityKind::kOp) {
    Begin(sequence, OnStream(stream, kind));
    fake_.clock[stream != 0 ? stream : kLegacyStream] += ns;
    End();
  }
  static EventCall OnStream(uintptr_t stream, GpuActivityKind kind = GpuActivityKind::kOp,
                            EventWork work = EventWork::kStream) {
    EventCall call = {work};
    call.kind = kind;
    call.argument = reinterpret_cast<const void*>(stream);
    return call;
  }
  std::vector<GpuActivityRecord> Collect() {
    fake_.written.clear();
    CollectEvents(thread_);
    return fake_.written;
  }
  uint64_t Count(Untimed reason) const { return state_->untimed[static_cast<uint32_t>(reason)].load(); }
  std::vector<uint64_t> Durations() {
    std::vector<uint64_t> found;
    for (const auto& record : Collect()) found.push_back(record.end_ns - record.start_ns);
    return found;
  }

  FakeDriver fake_;
  ThreadState* thread_ = nullptr;
  EventState* state_ = nullptr;
  CallFrame frames_[4];
};

using Numbers = std::vector<uint64_t>;

TEST_F(EventTimeTest, OpsOfAStreamFollowOneAnother) {
  Call(7, 0x100, 5000);
  Call(8, 0x100, 1500, GpuActivityKind::kCopy);
  auto found = Collect();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].header.type, RecordType::kGpuActivity);
  EXPECT_EQ(found[0].sequence, 7u);
  EXPECT_EQ(found[0].thread_id, thread_->thread_id);
  EXPECT_EQ(found[0].source, GpuTimeSource::kEvents);
  EXPECT_EQ(found[0].kind, GpuActivityKind::kOp);
  EXPECT_EQ(found[1].kind, GpuActivityKind::kCopy);
  EXPECT_EQ(found[0].end_ns - found[0].start_ns, 5000u);
  EXPECT_EQ(found[1].start_ns, found[0].end_ns);
  EXPECT_EQ(found[1].end_ns - found[1].start_ns, 1500u);
  EXPECT_EQ(found[0].device, 0u);
  EXPECT_EQ(found[0].stream, found[1].stream);
  EXPECT_TRUE(Collect().empty());
}

TEST_F(EventTimeTest, TimesAreOnTheHostsClock) {
  timespec before, after;
  clock_gettime(CLOCK_REALTIME, &before);
  Call(1, 0x100, 0);
  clock_gettime(CLOCK_REALTIME, &after);
  auto found = Collect();
  ASSERT_EQ(found.size(), 1u);
  auto ns = [](const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
  };
  EXPECT_GE(found[0].start_ns, ns(before));
  EXPECT_LE(found[0].start_ns, ns(after));
}

TEST_F(EventTimeTest, CallsInsideAreItsWork) {
  Begin(1, OnStream(0x100), 3);
  Begin(2, OnStream(0x100), 1);
  fake_.clock[0x100] += 300;
  End();
  fake_.clock[0x100] += 40;
  End();
  auto found = Collect();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sequence, 1u);
  EXPECT_EQ(found[0].end_ns - found[0].start_ns, 340u);
}

TEST_F(EventTimeTest, ACallThatNeverReturnedIsGivenUp) {
  Begin(1, OnStream(0x100), 2)->sequence = 0;  // left by longjmp, its stack used for something else
  thread_->depth = 0;
  Call(2, 0x100, 70);
  auto found = Collect();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sequence, 2u);
  EXPECT_EQ(Count(Untimed::kContextEnded), 1u);
}

TEST_F(EventTimeTest, DefaultStreams) {
  Call(1, 0, 10);
  EventCall own = OnStream(0);
  own.per_thread = true;
  Begin(2, own);
  End();
  EventCall synchronous = {EventWork::kDefaultStream};
  Begin(3, synchronous);
  End();
  EXPECT_EQ(fake_.recorded, (std::vector<uintptr_t>{1, 1, 2, 2, 1, 1}));
  auto found = Collect();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].stream, found[2].stream);
  EXPECT_NE(found[0].stream, found[1].stream);
}

TEST_F(EventTimeTest, EachThreadHasADefaultStreamOfItsOwn) {
  EventCall own = OnStream(kPerThreadStream);
  Begin(1, own);
  End();
  uint32_t other = 0;
  std::thread([&] {
    ThreadState* thread = Attach();
    CallFrame frame = {thread, 0, 1, 0, 1, 0, {}};
    thread->depth = 1;
    BeginCallEvents(&frame, own);
    thread->depth = 0;
    EndCallEvents(thread);
    other = thread->thread_id;
  }).join();
  auto found = Collect();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].thread_id, other);
  EXPECT_NE(found[0].stream, found[1].stream);
}

TEST_F(EventTimeTest, LaunchConfigurations) {
  struct {
    char sizes[32];
    uintptr_t stream;
  } config = {{}, 0x300};
  EventCall call = {EventWork::kLaunchConfig};
  call.argument = &config;
  Begin(1, call);
  End();
  EXPECT_EQ(fake_.recorded, (std::vector<uintptr_t>{0x300, 0x300}));
  call.argument = nullptr;
  Begin(2, call);
  End();
  EXPECT_EQ(fake_.recorded.size(), 2u);
}

TEST_F(EventTimeTest, NothingOnACapturedStream) {
  fake_.captured[0x100] = 1;
  Call(1, 0x100, 10);
  EXPECT_EQ(fake_.calls["record"], 0);
  Call(2, 0x200, 20);  // another one in between
  EXPECT_EQ(Durations(), (Numbers{20}));
  fake_.failing["is_capturing"] = 906;  // the legacy stream while another one is captured
  Call(3, 0, 30);
  EXPECT_EQ(fake_.calls["record"], 2);
}

TEST_F(EventTimeTest, ACaptureThatBeginsInsideACall) {
  Begin(1, OnStream(0x100));
  fake_.captured[0x100] = 1;
  End();
  EXPECT_EQ(fake_.recorded, (std::vector<uintptr_t>{0x100})) << "an event went into the capture";
  EXPECT_TRUE(Collect().empty());
}

TEST_F(EventTimeTest, FunctionsThatFail) {
  // One pair was created before.
  const std::map<std::string, Numbers> still_timed = {{"create", {20}}, {"record", {}}, {"elapsed", {}}};
  for (const auto& [function, durations] : still_timed) {
    Call(1, 0x100, 10);  // opens the context
    Collect();
    fake_.failing[function] = 2;
    for (int i = 0; i < 3; ++i) Call(2, 0x100, 20);
    EXPECT_EQ(Durations(), durations) << function;
    fake_.failing.clear();
    Call(3, 0x100, 11);
    EXPECT_EQ(Durations().back(), 11u) << function;
    EndEventContexts(state_, thread_, nullptr);
    EXPECT_EQ(fake_.events, 0) << function;
  }
  EXPECT_EQ(Count(Untimed::kDriverFailed), 2u + 3 + 3);
}

TEST_F(EventTimeTest, ContextsThatCannotBeOpened) {
  fake_.failing["stream_create"] = 2;
  Call(1, 0x100, 10);
  Call(2, 0x100, 10);
  EXPECT_EQ(fake_.calls["stream_create"], 1) << "asked again and again";
  EXPECT_EQ(Count(Untimed::kNoContext), 2u);
  fake_.streams = 0;
  fake_.current = {nullptr};
  Call(3, 0, 10);
  EXPECT_EQ(Count(Untimed::kNoContext), 3u);
  EXPECT_EQ(fake_.calls["record"], 0);
}

TEST_F(EventTimeTest, TheGpuLagsBehind) {
  fake_.unfinished[0x100] = 0;
  for (uint32_t i = 0; i < kEventPairs; ++i) Call(i, 0x100, 1);
  Call(9999, 0x100, 1);
  EXPECT_EQ(Count(Untimed::kNoPair), 1u);
  EXPECT_TRUE(Collect().empty());
  EXPECT_LT(fake_.calls["query"], 20) << "what comes after an unfinished pair of the stream is asked about too";
  fake_.unfinished.clear();
  EXPECT_EQ(Collect().size(), kEventPairs);
  Call(10000, 0x100, 3);
  EXPECT_EQ(Durations(), (Numbers{3}));
}

TEST_F(EventTimeTest, StreamsEndInAnyOrder) {
  fake_.unfinished[0x100] = 3;  // the second call's stop
  Call(1, 0x100, 10);
  Call(2, 0x100, 20);
  Call(3, 0x200, 30);
  Call(4, 0x100, 40);
  EXPECT_EQ(Durations(), (Numbers{10, 30}));
  fake_.unfinished.clear();
  EXPECT_EQ(Durations(), (Numbers{20, 40}));
}

TEST_F(EventTimeTest, TwoContexts) {
  void* other = reinterpret_cast<void*>(0xc8);
  fake_.stream_contexts[0x200] = other;
  Call(1, 0x100, 10);
  Call(2, 0x200, 20);
  auto found = Collect();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].device, 0u);
  EXPECT_EQ(found[1].device, 1u);
  EXPECT_NE(found[0].stream, found[1].stream);
}

TEST_F(EventTimeTest, AnotherDeviceBecomesCurrentInsideACall) {
  Begin(1, OnStream(0));
  fake_.current[0] = reinterpret_cast<void*>(0xc8);
  End();
  fake_.current[0] = reinterpret_cast<void*>(0xc0);
  EXPECT_TRUE(Collect().empty()) << "two events of two contexts are no pair";
}

TEST_F(EventTimeTest, AContextEnds) {
  Call(1, 0x100, 10);
  fake_.unfinished[0x200] = 0;
  Call(2, 0x200, 20);
  Begin(3, OnStream(0x100), 3);
  EventCall reset = {EventWork::kEndsDevice};
  Begin(4, reset, 1);
  ASSERT_EQ(fake_.written.size(), 1u);
  EXPECT_EQ(fake_.written[0].sequence, 1u);
  EXPECT_EQ(fake_.events, 0);
  End();
  End();
  EXPECT_EQ(fake_.events, 0);
  EXPECT_EQ(Count(Untimed::kContextEnded), 2u);
  Call(5, 0x100, 50);
  EXPECT_EQ(Durations(), (Numbers{50}));
}

TEST_F(EventTimeTest, AContextEndsAndIsOpenedAgainInsideACall) {
  Begin(1, OnStream(0x100), 3);
  EndEventContexts(state_, thread_, nullptr);
  std::thread([&] {
    ThreadState* thread = Attach();
    CallFrame frame = {thread, 1, 1, 0, 1, 0};
    thread->depth = 1;
    BeginCallEvents(&frame, OnStream(0x200));
    thread->depth = 0;
    EndCallEvents(thread);
  }).join();
  fake_.recorded.clear();
  End();
  EXPECT_TRUE(fake_.recorded.empty()) << "an event that is gone";
  EXPECT_EQ(Collect().size(), 1u);
}

TEST_F(EventTimeTest, OnlyTheContextThatEnds) {
  void* other = reinterpret_cast<void*>(0xc8);
  fake_.stream_contexts[0x200] = other;
  Call(1, 0x100, 10);
  Call(2, 0x200, 20);
  EndEventContexts(state_, thread_, other);
  EXPECT_EQ(fake_.written.size(), 1u);
  EXPECT_EQ(Durations(), (Numbers{10}));
}

TEST_F(EventTimeTest, AContextIsLost) {
  Call(1, 0x100, 10);
  Call(2, 0x200, 10);
  fake_.failing["query"] = 700;  // a kernel's fault
  EXPECT_TRUE(Collect().empty());
  EXPECT_EQ(Count(Untimed::kContextEnded), 2u);
  fake_.calls.clear();
  Call(3, 0x100, 10);
  Collect();
  EXPECT_EQ(fake_.calls["record"] + fake_.calls["query"], 0);
  fake_.events = fake_.streams = 0;  // destroyed with it
}

TEST_F(EventTimeTest, GroupsOfCollectives) {
  EventCall begin = {EventWork::kGroupBegin}, end = {EventWork::kGroupEnd};
  auto collective = [](uintptr_t stream) { return OnStream(stream, GpuActivityKind::kOp, EventWork::kCollective); };
  Begin(1, collective(0x100));
  End();
  EXPECT_EQ(Collect().size(), 1u);
  auto group = [&](uintptr_t first, uintptr_t second) {
    Begin(2, begin), End();
    Begin(3, begin), End();
    Begin(4, collective(first)), End();
    Begin(5, end), End();
    Begin(6, collective(second)), End();
    Begin(7, end);
    fake_.clock[0x100] += 123;
    End();
    return Collect();
  };
  auto found = group(0x100, 0x100);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sequence, 7u);
  EXPECT_EQ(found[0].end_ns - found[0].start_ns, 123u);
  EXPECT_TRUE(group(0x100, 0x200).empty());
  EXPECT_EQ(Count(Untimed::kGroup), 1u);
}

TEST_F(EventTimeTest, AnchorsAreRenewed) {
  fake_.unfinished[0x100] = 0;
  Call(1, 0x100, 10);
  EventContext* context = ContextOf(state_, reinterpret_cast<void*>(0xc0));
  uint64_t first_ns = context->anchors[0].host_ns;
  context->anchors[0].host_ns = 1000;
  context->anchored_ns = 0;  // long ago
  Collect();
  EXPECT_EQ(context->anchor, 3u);
  EXPECT_GE(context->anchors[3].host_ns, first_ns);
  Call(2, 0x200, 20);
  fake_.unfinished.clear();
  auto found = Collect();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].start_ns, 1000u) << "it began before the new anchor";
  EXPECT_GE(found[1].start_ns, first_ns);
}

TEST_F(EventTimeTest, TheEndWaitsForAShortTimeOnly) {
  Call(1, 0x100, 10);
  fake_.unfinished[0x200] = 0;
  Call(2, 0x200, 20);
  FinishEvents(thread_);
  EXPECT_EQ(fake_.written.size(), 1u);
  EXPECT_EQ(Count(Untimed::kPending), 1u);
  EXPECT_EQ(g_capability, "gpu-events: calls without times: 1 (under way at the end)");
  EXPECT_FALSE(GpuEventsOn());
}

TEST_F(EventTimeTest, AForkedChildDoesNothing) {
  Begin(1, OnStream(0x100));
  InChild([&] {
    fake_.calls.clear();
    End();
    Call(2, 0x100, 10);
    CollectEvents(thread_);
    EXPECT_TRUE(fake_.calls.empty());
    EXPECT_FALSE(StartEvents());
  });
  End();
  EXPECT_EQ(Collect().size(), 1u);
}

TEST_F(EventTimeTest, TheCallBeginsAfterwards) {
  EXPECT_GT(Begin(1, OnStream(0x100))->start_ticks, 1u);
  End();
}

TEST_F(EventTimeTest, ErrnoStays) {
  errno = 77;
  Call(1, 0x100, 10);
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace dlhook
