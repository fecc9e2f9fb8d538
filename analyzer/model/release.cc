#include "analyzer/model/release.h"

#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline model {

// What records it states it: "Python 3.11.7", "PyTorch 2.13.0; light: …".
std::string ReleaseOf(const ProcessInfo& process, absl::string_view software) {
  for (const Capability& capability : process.capabilities) {
    absl::string_view text = capability.reason;
    const bool is_its = capability.state == CapabilityState::kOn && absl::ConsumePrefix(&text, software) &&
                        absl::ConsumePrefix(&text, " ");
    if (is_its) return std::string(text.substr(0, text.find(';')));
  }
  return "";
}

}  // namespace dlhook::analyzer::model
