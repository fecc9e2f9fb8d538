// Does a vendor's header declare a function as preload/api/*.api says? Included by the file that
// `scripts/gen_hooks.py --abi HEADER` writes; the check is that it compiles.
//
// Types are compared as the calling convention sees them: the width of integers, float against
// double, pointers down to pointers to pointers. Which number a `float*` points to does not matter
// to a wrapper that passes it on.
#ifndef DLHOOK_TESTS_SCRIPTS_ABI_MATCH_H_
#define DLHOOK_TESTS_SCRIPTS_ABI_MATCH_H_

#include <type_traits>

// Width of the integers of functions without an ILP64 suffix: 8 where the header is told so
// (-DMKL_ILP64).
#ifndef DLHOOK_ABI_INT_BYTES
#define DLHOOK_ABI_INT_BYTES 4
#endif

namespace dlhook_abi {

constexpr int kIntBytes = DLHOOK_ABI_INT_BYTES;

template <int kBytes>
struct Int {};
struct Enum {};
struct Ptr {};  // to anything but a pointer
template <class Tag>
struct PtrTo {};

template <class T>
constexpr int IntegerBytes() {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return sizeof(T);
  return 0;
}

template <class Tag, class T>
struct Matches : std::is_same<Tag, T> {};  // void, char, float, double
template <int kBytes, class T>
struct Matches<Int<kBytes>, T> : std::bool_constant<IntegerBytes<T>() == kBytes> {};
template <class T>
struct Matches<Enum, T> : std::bool_constant<IntegerBytes<T>() == 4> {};
template <class T>
struct Matches<Ptr, T*> : std::bool_constant<!std::is_pointer_v<T>> {};
template <class Tag, class T>
struct Matches<PtrTo<Tag>, T*> : Matches<Tag, std::remove_cv_t<T>> {};

template <class Function>
struct Signature;
template <class Return, class... Parameters>
struct Signature<Return(Parameters...)> {
  template <class ReturnTag, class... Tags>
  static constexpr bool Conforms() {
    if constexpr (sizeof...(Tags) == sizeof...(Parameters)) {
      return Matches<ReturnTag, Return>::value && (Matches<Tags, Parameters>::value && ...);
    }
    return false;
  }
};
template <class Return, class... Parameters>
struct Signature<Return(Parameters...) noexcept> : Signature<Return(Parameters...)> {};

template <class Function, class... Tags>
constexpr bool Conforms() {
  return Signature<Function>::template Conforms<Tags...>();
}

}  // namespace dlhook_abi

#endif  // DLHOOK_TESTS_SCRIPTS_ABI_MATCH_H_
