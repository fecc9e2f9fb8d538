// Small files that are read and written as a whole.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline io {

// Files that dlhook looks for by itself must be the user's own, or root's: anyone may have left one in a shared folder.
enum class FileIs : uint8_t { kNamed, kFound };

// Whether it belongs to the user who runs this, or to root, and so does a link that leads to it.
bool IsOwn(const std::string& path);

// A regular file of at most `most` bytes. NotFound: there is none. Else the status says why it can't be used.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most, FileIs how);

// A reader sees the old file or the new one, never a part.
absl::Status ReplaceFile(const std::string& path, absl::string_view bytes);

}  // namespace dlhook::analyzer::io
