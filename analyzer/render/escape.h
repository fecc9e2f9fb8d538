// Escapes text from outside (traces, rings, file names, the environment, symbols, other programs) before it is written
// where people or other tools read it. One function per kind of output; each returns valid UTF-8 without control
// characters, without characters that change the direction of text, and without invisible ones. A new format adds its
// function here. All output also passes through VisibleLines (analyzer/cli/output.cc), so that a string that was
// forgotten can't control a terminal.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline render {

// Part of a line of text: "\n", "\t", "\x1b", "\u202e", "\xff" for an invalid byte. Idempotent; a text that contains
// "\x1b" as four letters looks the same.
std::string VisibleText(absl::string_view text);

// Complete output: the same except for line ends and the sequences of Styled().
std::string VisibleLines(absl::string_view text);

// A field as in RFC 4180, quoted if necessary. Spreadsheets evaluate text that begins with "=", "+", "-" or "@" as a
// formula, which may start programs and send data: such text gets a leading apostrophe, which marks it as text.
std::string CsvField(absl::string_view text);

// For JSON written by a library, which may contain DEL, C1 and direction characters: parses to the same strings.
std::string EscapedJson(absl::string_view json);

// The same for protobuf's text format.
std::string EscapedTextproto(absl::string_view textproto);

// A name in a callgrind file, which ends with the line.
std::string CallgrindName(absl::string_view name);

// A frame of a folded stack. The format has no escapes: ";" becomes ":"; a number after the last blank would be taken
// as a weight (flamegraph.pl and inferno then expect a second one, for a difference), so that blank becomes "_".
std::string FoldedFrame(absl::string_view name);

// Text in Markdown, also at the beginning of a line and in a cell of a table.
std::string MarkdownText(absl::string_view text);

}  // namespace dlhook::analyzer::render
