// How the columns of a table share the width of a line of text.
#ifndef DLHOOK_ANALYZER_RENDER_TEXT_COLUMNS_H_
#define DLHOOK_ANALYZER_RENDER_TEXT_COLUMNS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline render {

// One column as it is printed.
struct TextColumn {
  std::string name;
  bool right = false;  // numbers
  bool detail = false;
  std::vector<std::string> header;  // lines
  std::vector<std::string> cells;
  std::vector<bool> hot;  // cells that hold a large share
  size_t width = 0;
};

struct TextColumns {
  std::vector<TextColumn> shown;
  std::vector<std::string> hidden;  // names of columns that there was no room for
};

// Leaves out columns in which no row has anything; then, where the line is too long, it takes shorter words, leaves out
// details from the right, shortens text, and leaves out other columns from the right.
TextColumns LayOutColumns(const Table& table, size_t width, size_t gap);

// Characters, taking text to be UTF-8 without wide or combining ones.
size_t TextWidth(absl::string_view text);

// Where it is longer: without the namespaces of a C++ name, then with the middle cut out, for the beginning and the end
// of a name tell more than its middle.
std::string Shortened(const std::string& text, size_t width);

// The same of many; those that would look alike though they differ keep their ends, for layers differ there.
std::vector<std::string> ShortenedApart(const std::vector<std::string>& texts, size_t width);

std::string Padded(const std::string& text, const TextColumn& column);

// Broken at spaces into lines of at most `width`, where words are not longer; never empty.
std::vector<std::string> Wrapped(absl::string_view text, size_t width);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_TEXT_COLUMNS_H_
