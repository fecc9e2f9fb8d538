// Names of symbols as they were written in the source.
#ifndef DLHOOK_ANALYZER_NAMES_DEMANGLE_H_
#define DLHOOK_ANALYZER_NAMES_DEMANGLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline names {

// Of C++ (Itanium ABI) and of Rust (legacy scheme) with arguments; without the version that a symbol of .symtab may
// carry ("@@GLIBC_2.34"). What is not mangled, or what the demangler gives up on, stays as it is.
std::string DemangleSymbol(absl::string_view symbol);
std::string Demangle(absl::string_view mangled);  // of names without a version: kernels'

// The identifiers that a mangled name begins with: at, native, foo of "_ZN2at6native3fooI…E…". For names that the demangler gives up
// on (beyond 1 024 characters of lambdas in templates). Empty: it is no such name.
std::vector<absl::string_view> PathOfMangled(absl::string_view mangled);

}  // namespace dlhook::analyzer::names

#endif  // DLHOOK_ANALYZER_NAMES_DEMANGLE_H_
