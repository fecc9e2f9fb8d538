#include "analyzer/io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline io {
namespace {

bool IsOwner(uid_t user) { return user == 0 || user == geteuid(); }

}  // namespace

bool IsOwn(const std::string& path) {
  struct stat itself, target;
  return lstat(path.c_str(), &itself) == 0 && stat(path.c_str(), &target) == 0 && IsOwner(itself.st_uid) &&
         IsOwner(target.st_uid);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t most, FileIs how) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return file.status();
  if (how == FileIs::kFound && (!IsOwn(path) || !IsOwner(file->owner()))) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": belongs to another user"));
  }
  if (file->size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than ", most >> 10, " KiB"));
  }
  std::string bytes(file->size(), '\0');
  if (absl::Status status = file->Read(0, absl::MakeSpan(bytes)); !status.ok()) return status;
  return bytes;
}

absl::Status ReplaceFile(const std::string& path, absl::string_view bytes) {
  const std::string draft = absl::StrCat(path, ".", getpid());
  unlink(draft.c_str());  // of a killed process of this number
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int error = file < 0 ? errno : 0;
  while (error == 0 && !bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) error = errno;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  if (file >= 0) unlink(draft.c_str());
  return absl::PermissionDeniedError(absl::StrCat(path, " can't be written: ", strerror(error)));
}

}  // namespace dlhook::analyzer::io
