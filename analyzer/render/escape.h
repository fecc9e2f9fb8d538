// What must happen to text from outside (traces, rings, file names, the environment, symbols, other programs) before it
// stands in something that people or other tools read. One function for each kind of place; each gives text without
// control characters, without characters that turn the direction of text or can't be seen, and valid UTF-8. Whoever writes
// a new format adds its function here. Output as a whole passes VisibleLines (analyzer/cli/output.cc), so that a string that
// was forgotten still can't speak to a terminal.
#ifndef DLHOOK_ANALYZER_RENDER_ESCAPE_H_
#define DLHOOK_ANALYZER_RENDER_ESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline render {

// A part of a line, for people: "\n", "\t", "\x1b", "\u202e", "\xff" for a byte that is no UTF-8. What it gives it leaves as it is,
// so that it does no harm twice; a text that holds "\x1b" in four letters looks the same.
std::string VisibleText(absl::string_view text);

// Whole output: the same but for ends of lines and what Styled() writes.
std::string VisibleLines(absl::string_view text);

// A field of RFC 4180, in quotes where it needs them. Spreadsheets run what begins with "=", "+", "-" or "@" as a formula,
// which may start programs and send data away: such text gets an apostrophe before it, which they take for "text".
std::string CsvField(absl::string_view text);

// JSON as a library wrote it, where DEL, C1 and directions may stand as they are: reads back as the same strings.
std::string EscapedJson(absl::string_view json);

// The same for protobuf's text format.
std::string EscapedTextproto(absl::string_view textproto);

// A name in a callgrind file: to the end of the line.
std::string CallgrindName(absl::string_view name);

// Between the quotes of a string in dot's language, where a backslash begins escapes and "&" entities.
std::string DotString(absl::string_view text);

// A frame of a folded stack. The format has no escapes: ";" becomes ":"; a number behind the last blank would be taken for
// a weight (flamegraph.pl and inferno then expect a second one, of a difference), so that blank becomes "_".
std::string FoldedFrame(absl::string_view name);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_ESCAPE_H_
