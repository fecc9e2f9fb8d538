// The oneDNN tap: makes copies of oneDNN that are hidden inside a framework report their executions, through their own
// log.
//
// oneDNN reads ONEDNN_VERBOSE (DNNL_VERBOSE, MKLDNN_VERBOSE) once, with getenv, and prints a line after each execution
// with printf("%s", line) or __printf_chk. The tap answers that one getenv, for libraries known to tolerate it, reads
// the lines, and swallows those that the user did not request, with the fflush that follows each. The user's
// environment, output and own use of the log (variables, torch.backends.mkldnn.verbose) stay as they were.
// Thread: any application thread. A line costs two clock reads and a copy of its text.
#pragma once

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

// The lines that the value of the environment variable requests (null: not set). Pure: unit-tested.
uint32_t LinesOfSetting(const char* value);
// The same for a number, as passed to dnnl_set_verbose.
uint32_t LinesOfLevel(int level);

// The kind of a line, by its beginning. Pure: unit-tested.
VerboseLines KindOfLine(const char* text);

// True for libraries whose copy of oneDNN was tested with the log on, by base name.
bool IsKnownOneDnnCarrier(const char* object_name);

// The value to return from getenv of a verbose variable, given the user's value (null: not set) and the tap's level.
// Never loses a line that the user wants. `buffer` is for composed values.
const char* SettingToAnswer(const char* user_value, int level, char* buffer, uint32_t buffer_size);

}  // namespace dlhook::inline tap
