// The only place where the analyzer uses the drain in preload/drain.
#include "analyzer/cli/load_options.h"

#include "analyzer/io/ring_file.h"

namespace dlhook::analyzer::inline cli {

DrainLeftover LeftoverDrain() { return DrainLeftoverRings; }

}  // namespace dlhook::analyzer::cli
