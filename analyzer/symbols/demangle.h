// Names of symbols as they were written in the source.
#ifndef DLHOOK_ANALYZER_SYMBOLS_DEMANGLE_H_
#define DLHOOK_ANALYZER_SYMBOLS_DEMANGLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline symbols {

// Of C++ (Itanium ABI) and of Rust (legacy scheme) with arguments; without the version that a symbol of .symtab may
// carry ("@@GLIBC_2.34"). What is not mangled stays as it is.
std::string DemangleSymbol(absl::string_view symbol);

}  // namespace dlhook::analyzer::symbols

#endif  // DLHOOK_ANALYZER_SYMBOLS_DEMANGLE_H_
