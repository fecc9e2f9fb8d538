// Uses process_vm_readv, which neither stops nor changes the other process.
#include "analyzer/io/memory_reader.h"

#include <sys/uio.h>

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dlhook::analyzer::inline io {

size_t ProcessMemory::Copy(uint64_t address, void* to, size_t bytes) const {
  size_t copied = 0;
  while (copied < bytes) {
    iovec local = {static_cast<char*>(to) + copied, bytes - copied};
    iovec remote = {reinterpret_cast<void*>(address + copied), bytes - copied};
    const ssize_t count = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (count <= 0) break;
    copied += static_cast<size_t>(count);
  }
  return copied;
}

bool ParseMapsLine(absl::string_view line, MapsLine* parsed) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 5));
  if (parts.size() < 6) return false;
  const absl::string_view path = absl::StripLeadingAsciiWhitespace(parts[5]);
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(parts[0], absl::MaxSplits('-', 1));
  parsed->is_code = absl::StrContains(parts[1], 'x');
  parsed->path = std::string(path);
  parsed->file = absl::StrCat(parts[3], " ", parts[4], " ", path);
  return absl::StartsWith(path, "/") && absl::SimpleHexAtoi(ends.first, &parsed->start) &&
         absl::SimpleHexAtoi(ends.second, &parsed->end) && absl::SimpleHexAtoi(parts[2], &parsed->offset) &&
         absl::SimpleAtoi(parts[4], &parsed->inode);
}

}  // namespace dlhook::analyzer::io
