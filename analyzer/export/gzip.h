// gzip (RFC 1952) with reproducible output.
#ifndef DLHOOK_ANALYZER_EXPORT_GZIP_H_
#define DLHOOK_ANALYZER_EXPORT_GZIP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline exports {

std::string Gzip(absl::string_view bytes);

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_GZIP_H_
