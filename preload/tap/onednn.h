// The oneDNN tap: makes copies of oneDNN that are hidden inside a framework tell what they execute, through their own log.
//
// oneDNN reads ONEDNN_VERBOSE (DNNL_VERBOSE, MKLDNN_VERBOSE) once, by getenv, and prints a line after each execution by
// printf("%s", line) or __printf_chk. We answer that one getenv, for libraries known to stand it, read the lines, and swallow
// those that the user did not ask for, with the fflush that follows each. The user's environment, output and own use of the
// log (variables, torch.backends.mkldnn.verbose) stay as they were.
// Thread: any application thread. A line costs two clock reads and a copy of its text.
#ifndef DLHOOK_PRELOAD_TAP_ONEDNN_H_
#define DLHOOK_PRELOAD_TAP_ONEDNN_H_

#include <cstdint>

namespace dlhook::inline tap {

// Which lines a setting of ONEDNN_VERBOSE (or dnnl_set_verbose) prints.
enum VerboseLines : uint32_t {
  kNoLines = 0,
  kInfoLines = 1,
  kExecutionLines = 2,
  kCreationLines = 4,
  kOtherLines = 8,  // dispatch, checks, errors, warnings
};

// Lines that the user asked for by the value of the environment variable (null: not set). Pure: unit-tested.
uint32_t LinesOfSetting(const char* value);
// … and by a number, as dnnl_set_verbose takes it.
uint32_t LinesOfLevel(int level);

// What a line is, by its beginning. Pure: unit-tested.
VerboseLines KindOfLine(const char* text);

// True for libraries whose copy of oneDNN was tried under the log, by base name.
bool IsKnownOneDnnCarrier(const char* object_name);

// The value to answer a getenv of a verbose variable with, given what the user set (null: nothing) and our level. Never
// loses a line that the user wants. `buffer` holds composed values.
const char* SettingToAnswer(const char* user_value, int level, char* buffer, uint32_t buffer_size);

}  // namespace dlhook::inline tap

#endif  // DLHOOK_PRELOAD_TAP_ONEDNN_H_
