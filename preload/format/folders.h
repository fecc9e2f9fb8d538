// Folders for files of ours, where others may write, too: found and made without going through anything that others put in the way.
// Thread: any; system calls.
#ifndef DLHOOK_PRELOAD_FORMAT_FOLDERS_H_
#define DLHOOK_PRELOAD_FORMAT_FOLDERS_H_

namespace dlhook::inline format {

// The folder of this absolute path as a descriptor (O_PATH), made with its parents (0700) where it is not there; -1 with errno set.
// A symbolic link on the way counts if it is ours, root's, or lies where nobody but the owner of its folder may write: the rule of
// Linux's fs.protected_symlinks, for all folders.
int OpenFolder(const char* path, bool make);

// The same for one in a place like /tmp: each of the two last folders of the path must be ours, and is closed to others.
int OpenPrivateFolder(const char* path);

}  // namespace dlhook::inline format

#endif  // DLHOOK_PRELOAD_FORMAT_FOLDERS_H_
