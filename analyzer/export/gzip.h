// gzip (RFC 1952) with reproducible output.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline exports {

std::string Gzip(absl::string_view bytes);

}  // namespace dlhook::analyzer::exports
