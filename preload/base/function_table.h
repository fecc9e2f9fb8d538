// Functions and data of libraries that dlhook uses without being linked with them. Each member of a table gives its name:
//
//   struct NcclApi : FunctionTable {
//     using FunctionTable::FunctionTable;
//     int (*rank)(const void* comm, int* rank) = Find("ncclCommUserRank");
//   };
//
// NcclApi() has none of them, NcclApi({find, scope}) those that the scope has; the others are null.
#pragma once

namespace dlhook::inline base {

struct SymbolScope {
  void* (*find)(void* scope, const char* name);
  void* scope;

  void* operator()(const char* name) const { return find(scope, name); }
};

class FunctionTable {
 public:
  constexpr FunctionTable() = default;
  explicit FunctionTable(const SymbolScope& symbols) : symbols_(symbols) {}

  // It has all that are needed.
  bool is_complete() const { return symbols_.find != nullptr && !is_any_missing_; }

 protected:
  struct Symbol {
    void* address;
    template <typename T>
    constexpr operator T*() const {
      return address == nullptr ? nullptr : reinterpret_cast<T*>(address);
    }
  };
  // `other`: its name where it does not have the first.
  constexpr Symbol Find(const char* name, const char* other = nullptr) const {
    void* found = symbols_.find == nullptr ? nullptr : symbols_(name);
    return {found == nullptr && other != nullptr && symbols_.find != nullptr ? symbols_(other) : found};
  }
  constexpr Symbol Need(const char* name) {
    const Symbol found = Find(name);
    if (symbols_.find != nullptr && found.address == nullptr) is_any_missing_ = true;
    return found;
  }

 private:
  SymbolScope symbols_ = {};
  bool is_any_missing_ = false;
};

}  // namespace dlhook::inline base
