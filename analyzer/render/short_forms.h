// Cells as text shows them: what csv and json spell out in a library's or the table's own words, put for people.
#ifndef DLHOOK_ANALYZER_RENDER_SHORT_FORMS_H_
#define DLHOOK_ANALYZER_RENDER_SHORT_FORMS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline render {

// Problem descriptors of oneDNN, as its log has them and as cuDNN's problems are told too, with their essentials only:
//   mb60_ic6oc16_ih14oh10kh5sh1dh0ph0_iw14ow10kw5sw1dw0pw0 -> 60x6x14x14 oc16 k5
//   g8mb2_ic8oc8_ih9oh5kh3sh2dh0ph1_iw9ow9kw1sw1dw0pw0     -> 2x8x9x9 oc8 k3x1 s2x1 p1x0 g8
// The input's dimensions, then what differs from stride 1, dilation 1 (in frameworks' counting: oneDNN's is one less),
// padding 0 and one group; o16x16 where the output's size does not follow from these. Words behind the descriptor stay.
// All other problems come back as they are.
std::string HumanProblem(absl::string_view problem);

// For lines that are too long: "conv" for "convolution", "bwd-weights" for "backward-weights". Other words come back as
// they are.
std::string ShortWord(absl::string_view word);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_SHORT_FORMS_H_
