// Opens folders for our files in places where others may write, too, without following anything that others put in the
// way.
// Thread: any; system calls.
#pragma once

#include <string.h>

namespace dlhook::inline format {

// The folder at this absolute path as a descriptor (O_PATH), created with its parents (0700) if it does not exist; -1
// with errno set. A symbolic link on the way is followed if it belongs to us or root, or is in a folder where only that
// folder's owner may write: the rule of Linux's fs.protected_symlinks, for all folders.
int OpenFolder(const char* path, bool make);

// The same in a place like /tmp: each of the path's last two folders must belong to us and be closed to others.
int OpenPrivateFolder(const char* path);

// The part behind the last slash. Pure.
inline const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace dlhook::inline format
