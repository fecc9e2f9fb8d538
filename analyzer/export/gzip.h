// gzip (RFC 1952) with reproducible output.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline exports {

std::string Gzip(absl::string_view bytes);

}  // namespace dlhook::analyzer::exports
