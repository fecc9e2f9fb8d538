// Divides the width of a line of text among the columns of a table.
#ifndef DLHOOK_ANALYZER_RENDER_TEXT_COLUMNS_H_
#define DLHOOK_ANALYZER_RENDER_TEXT_COLUMNS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline render {

// A column as printed.
struct TextColumn {
  std::string name;
  bool right = false;  // numbers
  bool detail = false;
  std::vector<std::string> header;  // lines
  std::vector<std::string> cells;
  std::vector<bool> hot;  // cells with a large share
  size_t width = 0;
};

struct TextColumns {
  std::vector<TextColumn> shown;
  std::vector<std::string> hidden;  // names of columns that did not fit
};

inline constexpr size_t kAnyWidth = 1 << 30;

// Leaves out columns without any values. If the line is too long: uses shorter words, leaves out details from the
// right, shortens text, and leaves out other columns from the right.
TextColumns LayOutColumns(const Table& table, size_t width, size_t gap);

// In characters, assuming UTF-8 without wide or combining ones.
size_t TextWidth(absl::string_view text);

// If it is longer: without the namespaces of a C++ name, then with the middle cut out, because the beginning and the
// end of a name say more.
std::string Shortened(const std::string& text, size_t width);

// The same for many; different texts that would look alike keep their ends, where names of layers differ.
std::vector<std::string> ShortenedApart(const std::vector<std::string>& texts, size_t width);

std::string Padded(const std::string& text, const TextColumn& column);

// Broken at spaces into lines of at most `width`, unless a word is longer; never empty.
std::vector<std::string> Wrapped(absl::string_view text, size_t width);

}  // namespace dlhook::analyzer::render

#endif  // DLHOOK_ANALYZER_RENDER_TEXT_COLUMNS_H_
