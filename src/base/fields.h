// Descriptions of structs: the names of their fields, by which code goes through all of them to
// write, read or compare them. A field that is added to a described struct, and not to its
// description, is an error of the compiler.
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>

namespace forebay::base {

template <size_t kCount>
struct Fields {
  const char* type;                       // the name as an alternative of a variant
  std::array<const char*, kCount> names;  // in the order of the declaration
};
template <class... Names>
constexpr Fields<sizeof...(Names)> fields(const char* type, Names... names) {
  return {type, {names...}};
}

// The description of T, which T's own namespace gives as a function beside the struct:
//     constexpr auto fields_of(const Size*) { return base::fields("Size", "width", "height"); }
// Variants have one too, without names of fields.
template <class T>
inline constexpr auto kFieldsOf = fields_of(static_cast<const T*>(nullptr));

// References to all fields of a struct that has kCount of them.
template <size_t kCount, class T>
constexpr auto tied(T& value) {
  static_assert(kCount <= 12, "add a case below");
  if constexpr (kCount == 0) {
    static_assert(std::is_empty_v<T>);
    return std::tuple<>();
  } else if constexpr (kCount == 1) {
    auto& [a] = value;
    return std::tie(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kCount == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else {
    static_assert(kCount == 12, "add a case above");
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  }
}

// Calls visit(name, field) for each field of a described struct.
template <class T, class Visit>
constexpr void each_field(T& value, const Visit& visit) {
  constexpr auto& kDescribed = kFieldsOf<std::remove_const_t<T>>;
  constexpr size_t kCount = kDescribed.names.size();
  std::apply(
      [&](auto&... each) {
        size_t at = 0;
        (visit(kDescribed.names[at++], each), ...);
      },
      tied<kCount>(value));
}

}  // namespace forebay::base
