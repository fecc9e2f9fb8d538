// Demangles symbol names.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline names {

// C++ (Itanium ABI) and Rust (legacy scheme) names with arguments; without the version that a symbol in .symtab may
// have ("@@GLIBC_2.34"). Names that are not mangled, or that the demangler rejects, are returned unchanged.
std::string DemangleSymbol(absl::string_view symbol);
std::string Demangle(absl::string_view mangled);  // for names without a version, such as kernels'

// The identifiers at the beginning of a mangled name: at, native, foo for "_ZN2at6native3fooI…E…". For names that the
// demangler rejects (more than 1 024 characters of lambdas in templates). Empty: not such a name.
std::vector<absl::string_view> PathOfMangled(absl::string_view mangled);

}  // namespace dlhook::analyzer::names
