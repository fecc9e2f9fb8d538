// Named things on the command line: their lists in help texts, and errors for unknown ones.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline cli {

// The name that was probably meant: the one with the fewest typing errors, or one that begins with what was typed.
// Empty: none is close.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// InvalidArgument: "unknown table 'op'; did you mean ops? Expected one of: summary, ops"; of very many names those like it.
// `hint` says where to find more: " (see dlhook help)"; `use` the purpose of the name: " to sort by".
absl::Status UnknownName(absl::string_view what, absl::string_view name, const std::vector<std::string>& known,
                         absl::string_view hint = "", absl::string_view use = "");

template <typename T>
std::vector<std::string> NamesOf(const std::vector<T>& registry) {
  std::vector<std::string> names;
  for (const T& element : registry) names.emplace_back(element.name);
  return names;
}

// The element of a registry (tables, renderers …) with this name.
template <typename T>
absl::StatusOr<const T*> FindNamed(const std::vector<T>& registry, absl::string_view what, absl::string_view name) {
  for (const T& element : registry) {
    if (element.name == name) return &element;
  }
  return UnknownName(what, name, NamesOf(registry));
}

// A registry as a part of a help text, meanings behind a column of `width` characters.
template <typename T>
void AppendRegistry(absl::string_view title, const std::vector<T>& registry, absl::string_view T::*meaning,
                    std::string* text, int width = 20) {
  absl::StrAppendFormat(text, "\n%s:\n", title);
  for (const T& element : registry) absl::StrAppendFormat(text, "  %-*s%s\n", width, element.name, element.*meaning);
}

}  // namespace dlhook::analyzer::cli
