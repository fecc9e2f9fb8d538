#include <gtest/gtest.h>

#include <vector>

#include "preload/gpu/cupti_hooks.h"

namespace dlhook {
namespace {

int g_frees;
void CountFree() { ++g_frees; }

constexpr uint64_t kKernels = 10;
constexpr uint64_t kDriver = 4;
constexpr uint64_t kContext = 0x5555000012340000;

class CuptiApplicationTest : public testing::Test {
 protected:
  CuptiApplicationTest() { g_frees = 0; }
  void Call(CuptiRole role, std::vector<uint64_t> arguments = {}, int status = 0, uint8_t group = 0) {
    CuptiCall call = {role, group, {}};
    for (size_t i = 0; i < arguments.size(); ++i) call.arguments[i] = arguments[i];
    application_.Enter();
    EXPECT_TRUE(application_.Now().holds) << "while a call is under way";
    int frees = g_frees;
    application_.Leave(call, status);
    EXPECT_EQ(g_frees > frees, !application_.Now().holds) << "it is told at once, and only then";
  }
  CuptiApplication application_{&CountFree};
};

// CuptiActivityApi.cpp of pytorch/kineto.
TEST_F(CuptiApplicationTest, KinetoProfilesAndIsDoneWithItsLastBuffer) {
  Call(CuptiRole::kTimestamps, {1});
  Call(CuptiRole::kCallbacks, {1, 2});
  EXPECT_FALSE(application_.Now().holds);
  Call(CuptiRole::kEnable, {kKernels});
  Call(CuptiRole::kEnable, {kDriver});
  Call(CuptiRole::kEnableApi, {33, 0}, 0, kDriverFunctions);
  application_.LendBuffer();
  application_.LendBuffer();
  Call(CuptiRole::kFlush, {0});
  application_.TakeBuffer();
  Call(CuptiRole::kDisable, {kKernels});
  Call(CuptiRole::kDisable, {kDriver});
  EXPECT_TRUE(application_.Now().holds) << "a buffer is still CUPTI's";
  application_.Enter();  // the flush that returns it
  application_.TakeBuffer();
  EXPECT_TRUE(application_.Now().holds);
  application_.Leave({CuptiRole::kFlush, 0, {1}}, 0);
  EXPECT_FALSE(application_.Now().holds);
  Call(CuptiRole::kSetting, {9, 8, 7});
  EXPECT_FALSE(application_.Now().holds);
}

TEST_F(CuptiApplicationTest, ASubscriptionAloneHoldsNothing) {
  Call(CuptiRole::kSubscribe);
  EXPECT_FALSE(application_.Now().holds);
  EXPECT_TRUE(application_.Now().is_subscribed);
  Call(CuptiRole::kUnsubscribe);
  EXPECT_FALSE(application_.Now().is_subscribed);
  Call(CuptiRole::kSubscribe, {}, 39);
  EXPECT_FALSE(application_.Now().is_subscribed);
}

TEST_F(CuptiApplicationTest, KindsAreHeldOnceGloballyAndByContext) {
  Call(CuptiRole::kEnable, {kKernels});
  Call(CuptiRole::kEnable, {kKernels});
  Call(CuptiRole::kEnableContext, {kContext, kKernels});
  Call(CuptiRole::kDisable, {kKernels}, 1);  // failed
  Call(CuptiRole::kDisable, {kKernels});
  EXPECT_TRUE(application_.Now().holds);
  Call(CuptiRole::kDisableContext, {kContext + 1, kKernels});
  EXPECT_TRUE(application_.Now().holds);
  Call(CuptiRole::kDisableContext, {kContext, kKernels});
  EXPECT_FALSE(application_.Now().holds);
  Call(CuptiRole::kEnable, {kKernels}, 35);  // refused
  EXPECT_FALSE(application_.Now().holds);
}

TEST_F(CuptiApplicationTest, SwitchingAKindOffReleasesItsFunctions) {
  for (uint64_t function : {11, 12, 13}) Call(CuptiRole::kEnableApi, {function, 1}, 0, kDriverFunctions);
  Call(CuptiRole::kEnableApi, {12, 0}, 0, kDriverFunctions);
  Call(CuptiRole::kDisable, {kKernels});
  EXPECT_TRUE(application_.Now().holds);
  Call(CuptiRole::kDisable, {kDriver});
  EXPECT_FALSE(application_.Now().holds);
}

TEST_F(CuptiApplicationTest, UsesOfAnotherKindHoldUntilTheirEnd) {
  Call(CuptiRole::kBegin, {kContext}, 0, 6);
  Call(CuptiRole::kEnd, {}, 0, 5);
  EXPECT_TRUE(application_.Now().holds);
  Call(CuptiRole::kEnd, {kContext}, 0, 6);
  EXPECT_FALSE(application_.Now().holds);
}

TEST_F(CuptiApplicationTest, ActivitiesOfASubscriberLastUntilItUnsubscribes) {
  constexpr uint64_t kSubscriber = 0x5555000012345678, kOther = kSubscriber + 16;
  for (uint64_t subscriber : {kSubscriber, kOther}) {
    Call(CuptiRole::kSubscribe);
    Call(CuptiRole::kOfSubscriber, {subscriber, kKernels});
    Call(CuptiRole::kOfSubscriber, {subscriber, kDriver});
    Call(CuptiRole::kSetting, {subscriber, kKernels});
  }
  Call(CuptiRole::kUnsubscribe, {kOther});
  EXPECT_TRUE(application_.Now().holds);
  Call(CuptiRole::kUnsubscribe, {kSubscriber}, 1);  // failed
  EXPECT_TRUE(application_.Now().holds);
  Call(CuptiRole::kUnsubscribe, {kSubscriber});
  EXPECT_FALSE(application_.Now().holds);
}

TEST_F(CuptiApplicationTest, FinalizingReleasesAll) {
  Call(CuptiRole::kSubscribe);
  for (uint64_t kind = 0; kind < 300; ++kind) Call(CuptiRole::kEnable, {kind});  // more than it tracks separately
  application_.LendBuffer();
  for (uint64_t kind = 0; kind < 300; ++kind) Call(CuptiRole::kDisable, {kind});
  EXPECT_TRUE(application_.Now().holds);
  EXPECT_FALSE(application_.Now().has_finalized);
  Call(CuptiRole::kFinalize);
  EXPECT_FALSE(application_.Now().holds);
  EXPECT_FALSE(application_.Now().is_subscribed);
  EXPECT_TRUE(application_.Now().has_finalized);
  application_.TakeBuffer();  // late
  EXPECT_FALSE(application_.Now().holds);
}

TEST_F(CuptiApplicationTest, OneCallUnderWayIsEnough) {
  application_.Enter();
  Call(CuptiRole::kSetting);
  EXPECT_TRUE(application_.Now().holds);
  EXPECT_EQ(g_frees, 0);
  application_.Leave({CuptiRole::kSetting, 0, {}}, 0);
  EXPECT_EQ(g_frees, 1);
}

TEST(CuptiRoleTest, FlushingTakesNothingFromAnyone) {
  EXPECT_FALSE(CuptiApplication::NeedsAll(CuptiRole::kFlush));
  for (CuptiRole role : {CuptiRole::kSetting, CuptiRole::kSubscribe, CuptiRole::kEnable, CuptiRole::kDisable}) {
    EXPECT_TRUE(CuptiApplication::NeedsAll(role));
  }
}

}  // namespace
}  // namespace dlhook
