// Another libdlhook.so in this process: of another installation, named by LD_PRELOAD beside ours (a wheel's and a host's). Two would
// call each other without end, so only the first in the search order records, and the others' symbols can't be found any more.
// Thread: the first that looks anything up, usually the loader's.
#pragma once

namespace dlhook::inline link {

// Empties the filters of the hash tables in which the loader looks for the symbols of all but the first. Before our first look-up.
void HideLaterShims();

// Whether another one is first: then this one records nothing, and passes on what was bound to it before it was hidden.
bool IsLaterShim();

// The path of this one's file, as the loader was given it.
const char* OwnPath();

}  // namespace dlhook::inline link
