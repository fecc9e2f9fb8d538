// Work on a second processor, and without one: the same results and errors.
#include "analyzer/model/beside.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/analyzer/builders/one_processor.h"

namespace dlhook::analyzer {
namespace beside_test {

class BesideTest : public testing::TestWithParam<bool> {
 protected:
  BesideTest() {
    if (HasOne()) one_.emplace();
  }
  static bool HasOne() { return GetParam(); }

 private:
  std::optional<OneProcessor> one_;
};

TEST_P(BesideTest, UsesASecondProcessorIfThereIsOne) {
  auto thread = Beside([] { return std::this_thread::get_id(); });
  EXPECT_EQ(thread.get() != std::this_thread::get_id(), MayUseTwoProcessors());
  if (HasOne()) {
    EXPECT_FALSE(MayUseTwoProcessors());
  }
}

TEST_P(BesideTest, ThrowsWhatTheTaskThrew) {
  auto task = Beside([]() -> int { throw std::length_error("limit"); });
  EXPECT_THROW(task.get(), std::length_error);
}

INSTANTIATE_TEST_SUITE_P(Processors, BesideTest, testing::Bool());

}  // namespace beside_test
}  // namespace dlhook::analyzer
