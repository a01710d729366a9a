// For tests: whether values of structs with fields_of() are equal, bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <variant>
#include <vector>

#include "prep/wire/image_fields.h"

namespace forebay::prep {

struct Same {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    if constexpr (std::is_same_v<T, double>) {
      return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
    } else if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      return a == b;
    } else {
      constexpr size_t kCount = base::kFieldsOf<T>.names.size();
      const auto all = [&]<size_t... kAt>(std::index_sequence<kAt...>) {
        return (
            (*this)(std::get<kAt>(base::tied<kCount>(a)), std::get<kAt>(base::tied<kCount>(b))) &&
            ...);
      };
      return all(std::make_index_sequence<kCount>());
    }
  }
  template <class T>
  bool operator()(const std::optional<T>& a, const std::optional<T>& b) const {
    return a && b ? (*this)(*a, *b) : a.has_value() == b.has_value();
  }
  template <class... Kinds>
  bool operator()(const std::variant<Kinds...>& a, const std::variant<Kinds...>& b) const {
    const auto of_kind = [&]<class Kind>(const Kind& kind) {
      return (*this)(kind, std::get<Kind>(b));
    };
    return a.index() == b.index() && std::visit(of_kind, a);
  }
  template <class T, size_t kCount>
  bool operator()(const std::array<T, kCount>& a, const std::array<T, kCount>& b) const {
    return std::ranges::equal(a, b, *this);
  }
  template <class T>
  bool operator()(const std::vector<T>& a, const std::vector<T>& b) const {
    return std::ranges::equal(a, b, *this);
  }
};

}  // namespace forebay::prep
