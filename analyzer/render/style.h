// Colours for terminals: few styles, named by purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline render {

enum class Style : uint8_t {
  kPlain,
  kTitle,    // a table's name
  kHeader,   // a column's name
  kQuiet,    // less important: units, rules, unknown values
  kHot,      // a large share of the time
  kWarning,  // warnings about the run
};

// `text` between escape sequences; surrounding spaces stay outside, so that lines can be trimmed. Without `color` only
// the text.
std::string Styled(absl::string_view text, Style style, bool color);

// Length of the Styled() escape sequence at the beginning of the text; 0: none.
size_t StyleLength(absl::string_view text);

}  // namespace dlhook::analyzer::render
