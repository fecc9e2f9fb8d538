// Divides the width of a line of text among the columns of a table.
#pragma once

#include <cstddef>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline render {

// Colours for terminals: few styles, named by purpose.
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

// Short forms of cells for text output; csv and json have the full ones.
// Problem descriptors of oneDNN and cuDNN in the form of oneDNN's log, reduced to the essentials:
//   mb60_ic6oc16_ih14oh10kh5sh1dh0ph0_iw14ow10kw5sw1dw0pw0 -> 60x6x14x14 oc16 k5
//   g8mb2_ic8oc8_ih9oh5kh3sh2dh0ph1_iw9ow9kw1sw1dw0pw0     -> 2x8x9x9 oc8 k3x1 s2x1 p1x0 g8
// The input's dimensions, then whatever differs from stride 1, dilation 1 (as frameworks count it: oneDNN's is one
// less), padding 0 and one group; o16x16 if the output's size does not follow from these. Words after the descriptor
// are kept. All other problems are returned unchanged.
std::string HumanProblem(absl::string_view problem);

// For lines that are too long: "conv" for "convolution", "bwd-weights" for "backward-weights". Other words are returned
// unchanged.
std::string ShortWord(absl::string_view word);

// A column as printed.
struct TextColumn {
  std::string name;
  bool right = false;  // numbers
  bool detail = false;
  std::vector<std::string> header;  // lines
  std::vector<std::string> cells;
  std::vector<bool> hot;  // cells with a large share
  size_t width = 0;
};

struct TextColumns {
  std::vector<TextColumn> shown;
  std::vector<std::string> hidden;  // names of columns that did not fit
};

inline constexpr size_t kAnyWidth = 1 << 30;

// Leaves out columns without any values. If the line is too long: uses shorter words, leaves out details from the
// right, shortens text, and leaves out other columns from the right.
TextColumns LayOutColumns(const Table& table, size_t width, size_t gap);

// In characters, assuming UTF-8 without wide or combining ones.
size_t TextWidth(absl::string_view text);

// If it is longer: without the namespaces of a C++ name, then with the middle cut out, because the beginning and the
// end of a name say more.
std::string Shortened(const std::string& text, size_t width);

// The same for many; different texts that would look alike keep their ends, where names of layers differ.
std::vector<std::string> ShortenedApart(const std::vector<std::string>& texts, size_t width);

std::string Padded(const std::string& text, const TextColumn& column);

// Broken at spaces into lines of at most `width`, unless a word is longer; never empty.
std::vector<std::string> Wrapped(absl::string_view text, size_t width);

}  // namespace dlhook::analyzer::render
