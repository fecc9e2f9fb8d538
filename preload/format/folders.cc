// Folders, component by component.
#include "preload/format/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace dlhook::inline format {
namespace {

constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

bool MayBeFollowed(int folder, const char* name) {
  struct stat link, place;
  if (fstatat(folder, name, &link, AT_SYMLINK_NOFOLLOW) != 0 || fstat(folder, &place) != 0) return false;
  if (!S_ISLNK(link.st_mode)) {
    errno = ENOTDIR;
    return false;
  }
  bool others_may_write = (place.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  errno = EACCES;
  return link.st_uid == geteuid() || link.st_uid == 0 || (link.st_uid == place.st_uid && !others_may_write);
}

int OpenIn(int folder, const char* name, bool make) {
  int found = openat(folder, name, kFlags | O_NOFOLLOW);
  if (found < 0 && errno == ENOENT && make) {
    if (mkdirat(folder, name, 0700) != 0 && errno != EEXIST) return -1;
    found = openat(folder, name, kFlags | O_NOFOLLOW);
  }
  bool is_no_folder = found < 0 && (errno == ENOTDIR || errno == ELOOP);
  return is_no_folder && MayBeFollowed(folder, name) ? openat(folder, name, kFlags) : found;
}

// Opens `path` beneath `folder`, which it closes.
int Walk(int folder, char* path, bool make) {
  char* rest = nullptr;
  for (char* name = strtok_r(path, "/", &rest); name != nullptr && folder >= 0; name = strtok_r(nullptr, "/", &rest)) {
    int next = OpenIn(folder, name, make);
    int saved_errno = errno;
    close(folder);
    errno = saved_errno;
    folder = next;
  }
  return folder;
}

// `name` beneath `folder`, which it closes.
int OpenPrivateIn(int folder, const char* name) {
  if (folder < 0) return -1;
  bool is_there = mkdirat(folder, name, 0700) == 0 || errno == EEXIST;
  int found = is_there ? openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  int saved_errno = errno;
  close(folder);
  errno = saved_errno;
  struct stat info;
  if (found < 0) return -1;
  bool is_ours = fstat(found, &info) == 0 && info.st_uid == geteuid();
  if (is_ours && ((info.st_mode & 077) == 0 || fchmod(found, 0700) == 0)) return found;
  close(found);
  errno = EACCES;
  return -1;
}

}  // namespace

int OpenFolder(const char* path, bool make) {
  char names[4096];
  if (strlen(path) >= sizeof names) {
    errno = ENAMETOOLONG;
    return -1;
  }
  snprintf(names, sizeof names, "%s", path);
  return Walk(open("/", kFlags), names, make);
}

int OpenPrivateFolder(const char* path) {
  char place[256];
  snprintf(place, sizeof place, "%s", path);
  char* inner = strrchr(place, '/');
  *inner++ = '\0';
  char* outer = strrchr(place, '/');
  *outer++ = '\0';
  return OpenPrivateIn(OpenPrivateIn(OpenFolder(place, false), outer), inner);
}

}  // namespace dlhook::inline format
