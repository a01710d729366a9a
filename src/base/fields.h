// Descriptions of structs: the names of their fields, with which code can go through all fields to
// write, read or compare them. If a field is added to a described struct but not to its
// description, the code does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>

namespace forebay::base {

template <size_t kCount>
struct Fields {
  const char* type;                       // the struct's name, as an alternative of a variant
  std::array<const char*, kCount> names;  // in the order of the declaration
};
template <class... Names>
constexpr Fields<sizeof...(Names)> fields(const char* type, Names... names) {
  return {type, {names...}};
}

// The description of T, which a function in T's namespace returns:
//     constexpr auto fields_of(const Size*) { return base::fields("Size", "width", "height"); }
// A variant may have a description, too, without names of fields.
template <class T>
inline constexpr auto kFieldsOf = fields_of(static_cast<const T*>(nullptr));

// Returns references to all fields of a struct that has kCount fields.
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
