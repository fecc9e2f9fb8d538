// Short forms of cells for text output; csv and json have the full ones.
#ifndef DLHOOK_ANALYZER_RENDER_SHORT_FORMS_H_
#define DLHOOK_ANALYZER_RENDER_SHORT_FORMS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline render {

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

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_SHORT_FORMS_H_
