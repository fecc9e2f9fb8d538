// The C++ runtime's demangler, and what Rust's legacy scheme needs beside it.
#include "analyzer/symbols/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace dlhook::analyzer::inline symbols {
namespace {

// The demangler recurses; names of real libraries have at most some 30 000 characters.
constexpr size_t kMaxSymbolBytes = 1 << 16;

// "17h" and 16 hexadecimal digits end every name of Rust's legacy scheme.
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
  // A part may not begin with '$': the scheme puts an underscore before it.
  return absl::StrReplaceAll(text, {{"::_<", "::<"}}).substr(absl::StartsWith(text, "_<") ? 1 : 0);
}

}  // namespace

std::string DemangleSymbol(absl::string_view symbol) {
  if (const size_t version = symbol.find('@'); version != absl::string_view::npos && version > 0)
    symbol = symbol.substr(0, version);
  if (!absl::StartsWith(symbol, "_Z") || symbol.size() > kMaxSymbolBytes) return std::string(symbol);
  int status = 0;
  const std::string mangled(symbol);
  const std::unique_ptr<char, decltype(&free)> text(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                    &free);
  if (text == nullptr || status != 0) return mangled;
  const absl::string_view demangled = text.get();
  return EndsInRustHash(demangled) ? FromRust(demangled) : std::string(demangled);
}

}  // namespace dlhook::analyzer::symbols
