// Colour for terminals: few styles, named by what they say.
#ifndef DLHOOK_ANALYZER_RENDER_STYLE_H_
#define DLHOOK_ANALYZER_RENDER_STYLE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline render {

enum class Style : uint8_t {
  kPlain,
  kTitle,    // a table's name
  kHeader,   // a column's name
  kQuiet,    // what the eye may pass over: units, rules, what is not known
  kHot,      // a large share of the time
  kWarning,  // what the reader must know of the run
};

// `text` between escape sequences; spaces around it stay outside, so that lines can be cut at their end. Without
// `color` the text alone.
std::string Styled(absl::string_view text, Style style, bool color);

// Bytes of the escape sequence of Styled's with which the text begins; 0: with none.
size_t StyleLength(absl::string_view text);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_STYLE_H_
