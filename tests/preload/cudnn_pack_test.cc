// Variant packs and known plans: cached, so that executions are cheap.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "preload/track/cuda_state.h"
#include "tests/preload/frontend.h"

namespace dlhook {
namespace {

class CudnnPackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Attach(), nullptr);
    *FakeRuntimeAnswers() = {};
    *FakeBackendAnswers() = {};
  }
};

// A plan whose main operation reads uids 1 and 2 and writes 3.
Handle SomePlan(uint64_t address = 0) {
  Handle x = Tensor(1, 0, {1, 1, 1, 1}, {1, 1, 1, 1}), w = Tensor(2, 0, {1, 1, 1, 1}, {1, 1, 1, 1});
  Handle y = Tensor(3, 0, {1, 1, 1, 1}, {1, 1, 1, 1}), convolution = Convolution({0, 0}, {0, 0}, {1, 1}, {1, 1});
  Handle operation = Operation(10, {{704, x}, {703, w}, {705, y}, {702, convolution}});
  Handle plan = Create(5, address);
  Set(plan, 401, std::vector<Handle>{Heuristics(Graph({operation}), 3, 1, 1)[0]});
  Finalize(plan);
  return plan;
}

std::vector<const void*> Pointers(const Numbers& uids) {
  std::vector<const void*> pointers;
  for (int64_t uid : uids) pointers.push_back(Pointer(0x1000 + static_cast<uint64_t>(uid)));
  return pointers;
}

const std::vector<uint64_t> kOperands = {0x1001, 0x1002, 0x1003};

TEST_F(CudnnPackTest, UidsAndPointersInAnyOrderOfCalls) {
  Handle plan = SomePlan();
  EXPECT_EQ(Execute(plan, Pack({3, 1, 2}, Pointers({3, 1, 2}))).addresses, kOperands);
  Handle pack = Create(16);
  Set(pack, 1000, Numbers{2, 3, 1});
  const std::vector<const void*> pointers = Pointers({2, 3, 1});
  SetRaw(pack, 1001, 6, 3, pointers.data());
  EXPECT_EQ(Execute(plan, pack).addresses, kOperands);
  const std::vector<const void*> two = Pointers({2, 3});
  SetRaw(pack, 1001, 6, 2, two.data());  // fewer pointers than uids
  EXPECT_EQ(Execute(plan, pack).addresses, (std::vector<uint64_t>{0, 0x1002, 0x1003}));
  EXPECT_EQ(Execute(plan, Pack({}, {})).addresses, (std::vector<uint64_t>{0, 0, 0}));
}

TEST_F(CudnnPackTest, MoreTensorsThanAreKept) {
  Handle plan = SomePlan();
  Numbers uids = {1, 2, 3};
  for (int64_t uid = 100; uid < 140; ++uid) uids.push_back(uid);
  EXPECT_EQ(Execute(plan, Pack(uids, Pointers(uids))).addresses, kOperands);
  const Numbers reversed(uids.rbegin(), uids.rend());
  EXPECT_EQ(Execute(plan, Pack(reversed, Pointers(reversed))).addresses, (std::vector<uint64_t>{0, 0, 0}));
}

TEST_F(CudnnPackTest, RefusedAndOtherAttributes) {
  Handle plan = SomePlan();
  Handle pack = Pack({1, 2, 3}, Pointers({1, 2, 3}));
  const int64_t other[] = {7, 8, 9};
  SetRaw(pack, 1000, kInt64Value, 3, other, 3);  // refused by the library
  const void* workspace = Pointer(0x9999);
  SetRaw(pack, 1003, 6, 1, &workspace);
  SetRaw(pack, 1010, kInt64Value, 3, other);
  SetRaw(pack, 1000, kInt64Value, -1, other);
  EXPECT_EQ(Execute(plan, pack).addresses, kOperands);
}

TEST_F(CudnnPackTest, APackThatWasExecutedBeforeSaysSo) {
  Handle first = SomePlan(), second = SomePlan();
  Handle pack = Pack({1, 2, 3}, Pointers({1, 2, 3}));
  EXPECT_EQ(Execute(first, pack).shape.pack_seen_before, 0);
  EXPECT_EQ(Execute(second, pack).shape.pack_seen_before, 1);
  EXPECT_EQ(Execute(second, Pack({1, 2, 3}, Pointers({1, 2, 3}))).shape.pack_seen_before, 0);
  // The library reuses the address.
  Destroy(pack);
  EXPECT_EQ(Execute(first, pack).addresses, (std::vector<uint64_t>{0, 0, 0}));
  Create(16, reinterpret_cast<uint64_t>(pack));
  EXPECT_EQ(Execute(first, pack).shape.pack_seen_before, 0);
  EXPECT_EQ(Execute(first, pack).shape.pack_seen_before, 1);
  Create(16, reinterpret_cast<uint64_t>(pack));  // destroyed unseen by the hooks
  EXPECT_EQ(Execute(first, pack).shape.pack_seen_before, 0);
}

// Of two with the same place the later one is kept, and the earlier one is not mistaken for it.
TEST_F(CudnnPackTest, MorePacksAtOnceThanPlaces) {
  Handle plan = SomePlan();
  std::vector<Handle> packs;
  for (int64_t i = 0; i <= kVariantPacks; ++i)
    packs.push_back(Pack({1, 2, 3}, Pointers({10 * i, 10 * i + 1, 10 * i + 2})));
  size_t replaced = 0;
  for (size_t i = 0; i < packs.size(); ++i) {
    const bool gone = std::any_of(packs.begin() + static_cast<ptrdiff_t>(i) + 1, packs.end(),
                                  [&](Handle later) { return VariantPackIndex(later) == VariantPackIndex(packs[i]); });
    replaced += gone;
    EXPECT_EQ(Execute(plan, packs[i]).addresses[0], gone ? 0 : 0x1000 + 10 * i) << i;
  }
  EXPECT_GT(replaced, 0u);
}

// Another thread's pack is not known, and its descriptor may come back as something else.
TEST_F(CudnnPackTest, DestroyedByAnotherThread) {
  Handle pack = Pack({1, 2, 3}, Pointers({1, 2, 3}));
  std::thread([&] {
    ASSERT_NE(Attach(), nullptr);
    EXPECT_EQ(Execute(SomePlan(), pack).addresses, (std::vector<uint64_t>{0, 0, 0}));
    Destroy(pack);
  }).join();
  Handle plan = SomePlan(reinterpret_cast<uint64_t>(pack));
  EXPECT_NE(Execute(plan, nullptr).shape.plan, 0u);
  Destroy(plan);
  Execute(plan, nullptr);
  EXPECT_EQ(Execute(plan, nullptr).shape.plan, 0u);
}

TEST_F(CudnnPackTest, APlanIsDefinedOnceForAllThreads) {
  Handle plan = SomePlan();
  const uint64_t before = GetProcess()->session->definitions_bytes;
  std::vector<std::thread> threads;
  std::vector<uint32_t> numbers(8);
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      ASSERT_NE(Attach(), nullptr);
      for (int i = 0; i < 1000; ++i) numbers[t] = Execute(plan, nullptr).shape.plan;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t number : numbers) EXPECT_EQ(number, numbers[0]);
  EXPECT_NE(numbers[0], 0u);
  const uint64_t once = GetProcess()->session->definitions_bytes - before;
  EXPECT_GT(once, 0u);
  EXPECT_LT(once, 1000u);
}

// More plans than a thread caches (64): each keeps its number.
TEST_F(CudnnPackTest, ManyPlans) {
  std::vector<Handle> plans;
  std::vector<uint32_t> numbers;
  for (int i = 0; i < 300; ++i) plans.push_back(SomePlan());
  for (Handle plan : plans) numbers.push_back(Execute(plan, nullptr).shape.plan);
  for (size_t i = 0; i < plans.size(); ++i) EXPECT_EQ(Execute(plans[i], nullptr).shape.plan, numbers[i]);
  for (size_t i = 1; i < plans.size(); ++i) EXPECT_NE(numbers[i], numbers[i - 1]);
}

TEST_F(CudnnPackTest, UnknownPlansAndThreadsThatDoNotRecord) {
  EXPECT_EQ(Execute(Pointer(0x777), nullptr).shape.plan, 0u);
  Handle plan = SomePlan();
  std::thread([&] {
    EXPECT_EQ(Execute(plan, nullptr).shape.plan, 0u);
    EXPECT_EQ(Execute(plan, nullptr).addresses, (std::vector<uint64_t>{0, 0, 0}));
    // A pack is created before the execution, which would attach the thread.
    EXPECT_EQ(Execute(plan, Pack({1, 2, 3}, Pointers({1, 2, 3}))).addresses, kOperands);
  }).join();
}

TEST_F(CudnnPackTest, Captured) {
  Handle plan = SomePlan();
  EXPECT_EQ(Execute(plan, nullptr).shape.captured, 0);
  EXPECT_EQ(Execute(plan, nullptr, true).shape.captured, 1);  // cudnnBackendPopulateCudaGraph
  FakeRuntimeAnswers()->handle_stream = Pointer(0x77);
  FakeRuntimeAnswers()->capture_status = 1;
  TrackBeginCapture({Pointer(0x77), 0, BackendReal()});
  EXPECT_EQ(Execute(plan, nullptr).shape.captured, 1);
  TrackEndCapture({});
}

// The parent's table may be half changed and its lock held: a child begins with an empty one.
TEST_F(CudnnPackTest, AForkedChildStartsEmpty) {
  Handle plan = SomePlan();
  Handle pack = Pack({1, 2, 3}, Pointers({1, 2, 3}));
  ASSERT_NE(Execute(plan, pack).shape.plan, 0u);
  InChild([&] {
    ASSERT_NE(Attach(), nullptr);
    EXPECT_EQ(Execute(plan, pack).shape.plan, 0u);
    EXPECT_EQ(Execute(plan, pack).addresses, (std::vector<uint64_t>{0, 0, 0}));
    Handle own = SomePlan();
    EXPECT_EQ(Execute(own, Pack({1, 2, 3}, Pointers({1, 2, 3}))).addresses, kOperands);
    EXPECT_EQ(Execute(own, nullptr).shape.plan, 1u);
  });
}

// Building and destroying plans indefinitely (an autotuner, dynamic shapes) must not take ever more memory.
TEST_F(CudnnPackTest, MemoryIsUsedAgain) {
  const auto mapped_kib = [] {
    FILE* file = fopen("/proc/self/statm", "r");
    long pages = 0;
    EXPECT_EQ(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages * 4;
  };
  const auto set = [](Handle parent, int32_t name, int64_t count, Handle child) {
    Handle children[40];
    for (Handle& each : children) each = child;
    SetRaw(parent, name, kDescriptorValue, count, children);
  };
  const auto cycle = [&](uint64_t base) {
    Handle tensor = Create(17, base), operation = Create(13, base + 64), graph = Create(15, base + 128);
    Handle heuristic = Create(4, base + 192), configuration = Create(3, base + 256), plan = Create(5, base + 320);
    set(operation, 753, 1, tensor);
    set(graph, 801, 40, operation);
    set(heuristic, 201, 1, graph);
    TrackBackendGet({heuristic, 202, kDescriptorValue, 1, nullptr, &configuration, 0, BackendReal()});
    set(plan, 401, 1, configuration);
    for (Handle gone : {tensor, operation, graph, heuristic, configuration}) Destroy(gone);
    Finalize(plan);
    Destroy(plan);
  };
  for (uint64_t i = 0; i < 2000; ++i) cycle(0x10000000 + i * 384);
  const long before = mapped_kib();
  for (uint64_t i = 0; i < 100000; ++i) cycle(0x10000000 + i * 384);
  EXPECT_LE(mapped_kib() - before, 256);
}

}  // namespace
}  // namespace dlhook
