// Uses the C++ runtime's demangler, and adds what Rust's legacy scheme needs.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline names {
namespace {

// The demangler is recursive; names in real libraries have at most some 30 000 characters.
constexpr size_t kMaxSymbolBytes = 1 << 16;

// "17h" and 16 hexadecimal digits end every name in Rust's legacy scheme.
bool EndsInRustHash(absl::string_view name) {
  constexpr size_t kHashCharacters = 19;  // "::h" + 16
  if (name.size() <= kHashCharacters) return false;
  const absl::string_view hash = name.substr(name.size() - kHashCharacters);
  if (!absl::StartsWith(hash, "::h")) return false;
  for (const char character : hash.substr(3)) {
    if (!absl::ascii_isxdigit(character) || absl::ascii_isupper(character)) return false;
  }
  return true;
}

std::string FromRust(absl::string_view name) {
  name.remove_suffix(19);
  std::string text = absl::StrReplaceAll(name, {{"$LT$", "<"},
                                                {"$GT$", ">"},
                                                {"$RF$", "&"},
                                                {"$BP$", "*"},
                                                {"$C$", ","},
                                                {"$SP$", "@"},
                                                {"$LP$", "("},
                                                {"$RP$", ")"},
                                                {"$u20$", " "},
                                                {"$u27$", "'"},
                                                {"$u5b$", "["},
                                                {"$u5d$", "]"},
                                                {"$u7b$", "{"},
                                                {"$u7d$", "}"},
                                                {"..", "::"}});
  // A part must not begin with '$': the scheme prepends an underscore.
  return absl::StrReplaceAll(text, {{"::_<", "::<"}}).substr(absl::StartsWith(text, "_<") ? 1 : 0);
}

}  // namespace

std::string DemangleSymbol(absl::string_view symbol) {
  const size_t version = symbol.find('@');
  return Demangle(version == 0 ? symbol : symbol.substr(0, version));
}

std::string Demangle(absl::string_view mangled) {
  if (!absl::StartsWith(mangled, "_Z") || mangled.size() > kMaxSymbolBytes) return std::string(mangled);
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(
      abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status), &free);
  if (text == nullptr || status != 0) return std::string(mangled);
  const absl::string_view demangled = text.get();
  return EndsInRustHash(demangled) ? FromRust(demangled) : std::string(demangled);
}

std::vector<absl::string_view> PathOfMangled(absl::string_view mangled) {
  if (!absl::ConsumePrefix(&mangled, "_Z")) return {};
  while (absl::ConsumePrefix(&mangled, "Z")) continue;  // inside a function
  const bool is_nested = absl::ConsumePrefix(&mangled, "N");
  if (is_nested) absl::ConsumePrefix(&mangled, "K");
  std::vector<absl::string_view> path;
  if (absl::ConsumePrefix(&mangled, "St")) path.push_back("std");
  size_t size = 0;
  while (true) {
    const size_t digits = std::min(mangled.find_first_not_of("0123456789"), mangled.size());
    if (digits == 0 || !absl::SimpleAtoi(mangled.substr(0, digits), &size) || size > mangled.size() - digits) break;
    path.push_back(mangled.substr(digits, size));
    mangled.remove_prefix(digits + size);
    if (!is_nested) break;  // the types of its arguments follow
  }
  return path;
}

}  // namespace dlhook::analyzer::names
