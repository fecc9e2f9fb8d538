// The description of taps shared by shim and analyzer.
#include "preload/format/taps.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "preload/runtime/config.h"

namespace dlhook {
namespace {

TEST(TapsTest, FamiliesAreThoseOfTheTables) {
  for (const Tap* tap : kTaps) EXPECT_NE(FamilyBitOf(tap->family), 0u) << tap->capability;
}

TEST(TapsTest, CapabilitiesAndSourcesAreTheirOwn) {
  std::set<std::string> capabilities;
  for (const Tap* tap : kTaps) {
    EXPECT_TRUE(capabilities.insert(tap->capability).second) << tap->capability;
    if (tap->source != fields::TimeSource::kUnknown) {
      EXPECT_EQ(TapOfSource(tap->source), tap);
    }
    EXPECT_NE(std::string(tap->advice.off), "") << tap->capability;
  }
  EXPECT_EQ(TapOfSource(fields::TimeSource::kUnknown), nullptr);
}

TEST(TapsTest, EveryTapRecordsCallsOrScopes) {
  for (const Tap* tap : kTaps) {
    bool records_scopes = false;
    for (const ScopeKindFacts& facts : kScopeKinds) records_scopes = records_scopes || facts.tap == tap;
    EXPECT_NE(records_scopes, tap->source != fields::TimeSource::kUnknown) << tap->capability;
  }
}

TEST(TapsTest, AnUnknownKindOfScopeIsAsNone) {
  EXPECT_EQ(&FactsOf(static_cast<fields::ScopeBatch::Kind>(200)), &kScopeKinds[0]);
  EXPECT_EQ(FactsOf(fields::ScopeBatch::Kind::kNvtxRange).tap, &kNvtxTap);
}

}  // namespace
}  // namespace dlhook
