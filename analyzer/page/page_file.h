// A self-contained page: what web/ was built to, with data in it.
#ifndef DLHOOK_ANALYZER_PAGE_PAGE_FILE_H_
#define DLHOOK_ANALYZER_PAGE_PAGE_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline page {

// `packed`: JSON as gzip. It becomes base64, so nothing of it can be taken for HTML.
std::string PageFile(absl::string_view packed);

}  // namespace dlhook::analyzer::page

#endif  // DLHOOK_ANALYZER_PAGE_PAGE_FILE_H_
