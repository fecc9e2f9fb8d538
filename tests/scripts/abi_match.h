// Checks that a vendor's header declares a function like preload/api/*.api. Included by the file that
// `scripts/gen_hooks.py --abi HEADER` writes; the check is that it compiles.
//
// Types are compared by calling convention: the width of integers, float against double, pointers down to pointers to
// pointers. The type that a `float*` points to does not matter to a wrapper that passes it on.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

// Width of the integers of functions without an ILP64 suffix: 8 if the header is told so (-DMKL_ILP64).
#ifndef DLHOOK_ABI_INT_BYTES
#define DLHOOK_ABI_INT_BYTES 4
#endif

namespace dlhook_abi {

constexpr int kIntBytes = DLHOOK_ABI_INT_BYTES;

template <int kBytes>
struct Int {};
struct Enum {};
struct Ptr {};  // to anything except a pointer
struct AnyPtr {};
template <class Tag>
struct PtrTo {};
struct PtrToPtr {};
struct Eight {};    // an integer, or a structure that is passed in one register
struct Address {};  // of the device: an integer or a pointer
struct Word {};     // passed in a general register, of any width: handles that libraries define differently
template <int kBytes>
struct Struct {};  // a structure by value, never one of floating-point numbers

template <class T>
constexpr int IntegerBytes() {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return sizeof(T);
  return 0;
}

// True if the structure begins with a float: it would be passed in a vector register, like cuComplex.
template <class T, class = void>
struct BeginsWithFloat : std::false_type {};
template <class T>
struct BeginsWithFloat<T, std::void_t<decltype(T{std::declval<float>()})>> : std::true_type {};

// Only for trivial classes: others are passed by address.
template <int kBytes, class T>
constexpr bool IsStruct() {
  if constexpr (std::is_class_v<T> || std::is_union_v<T>) {
    return sizeof(T) == kBytes && std::is_trivially_copyable_v<T> && !BeginsWithFloat<T>::value;
  }
  return false;
}

template <class Tag, class T>
struct Matches : std::is_same<Tag, T> {};  // void, char, float, double
template <int kBytes, class T>
struct Matches<Int<kBytes>, T> : std::bool_constant<IntegerBytes<T>() == kBytes> {};
template <class T>
struct Matches<Eight, T> : std::bool_constant<IntegerBytes<T>() == 8 || IsStruct<8, T>()> {};
template <class T>
struct Matches<Word, T> : std::bool_constant<IntegerBytes<T>() != 0 || IsStruct<8, T>() || std::is_pointer_v<T>> {};
template <class T>
struct Matches<Address, T> : std::bool_constant<IntegerBytes<T>() == 8 || std::is_pointer_v<T>> {};
template <int kBytes, class T>
struct Matches<Struct<kBytes>, T> : std::bool_constant<IsStruct<kBytes, T>()> {};
template <class T>
struct Matches<Enum, T> : std::bool_constant<IntegerBytes<T>() == 4> {};
template <class T>
struct Matches<Ptr, T*> : std::bool_constant<!std::is_pointer_v<T>> {};
template <class T>
struct Matches<AnyPtr, T*> : std::true_type {};
template <class T>
struct Matches<PtrToPtr, T*> : std::is_pointer<T> {};
template <class Tag, class T>
struct Matches<PtrTo<Tag>, T*> : Matches<Tag, std::remove_cv_t<T>> {};

template <class Function>
struct Signature;
template <class Return, class... Parameters>
struct Signature<Return(Parameters...)> {
  template <class Tags, size_t... kIndex>
  static constexpr bool Begin(std::index_sequence<kIndex...>) {
    return (Matches<std::tuple_element_t<kIndex, Tags>, Parameters>::value && ...);
  }

  // The last `kMore` of the table's parameters may be missing.
  template <int kMore, class ReturnTag, class... Tags>
  static constexpr bool Conforms() {
    constexpr size_t kCount = sizeof...(Parameters);
    if constexpr (kCount <= sizeof...(Tags) && kCount + kMore >= sizeof...(Tags)) {
      return Matches<ReturnTag, Return>::value && Begin<std::tuple<Tags...>>(std::make_index_sequence<kCount>());
    }
    return false;
  }
};
template <class Return, class... Parameters>
struct Signature<Return(Parameters...) noexcept> : Signature<Return(Parameters...)> {};

template <class Function, int kMore, class... Tags>
constexpr bool Conforms() {
  return Signature<Function>::template Conforms<kMore, Tags...>();
}

}  // namespace dlhook_abi
