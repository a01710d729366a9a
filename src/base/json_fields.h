// Writes described structs (fields.h) as JSON, and reads them from JSON that may be wrong in any
// way. A struct becomes an object with its fields, a variant an object with one member named like
// the type of the value, an enumerator its name (name_of() beside the enum), an unset optional
// null.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/limits.h"
#include "base/status.h"

namespace forebay::base {

// Whether a T may contain lists of T, like the steps of an augmentation. The depth of such lists in
// a text and the number of all their elements are limited (kJobStepDepthMax, kJobStepsMax).
template <class T>
inline constexpr bool kMayNest = false;

// Returns the enumerator with a name, if there is one. Enumerators must count from 0, and name_of()
// must return null after the last one.
template <class Enum>
constexpr std::optional<Enum> enumerator(std::string_view name) {
  for (unsigned value = 0; value < 256; ++value) {
    const auto found = static_cast<Enum>(value);
    const char* const its = name_of(found);
    if (its == nullptr) break;
    if (its == name) return found;
  }
  return std::nullopt;
}

// What reader and writer share: the place of the present field, the first error, and the number of
// steps so far.
class FieldVisitor {
 public:
  // `subject` begins each message, like "job" in "job: options.seed is missing".
  explicit FieldVisitor(std::string subject) : subject_(std::move(subject)) {}
  const Status& status() const { return status_; }
  // Records an error unless there is one already. In its message `what` follows the place's name.
  void refuse(std::string_view what);

 protected:
  template <class Inside>
  void at(std::string_view name, const Inside& inside) {
    const size_t before = place_.size();
    if (before > 0) place_ += '.';
    place_ += name;
    inside();
    place_.resize(before);
  }
  // Calls inside(i) for each element of a list. Elements may be steps with lists of their own.
  template <class T, class Inside>
  void each(size_t count, const Inside& inside) {
    constexpr bool kSteps = kMayNest<T>;
    if (kSteps && !enter_steps(count)) return;
    for (size_t i = 0; i < count && status_.ok(); ++i) {
      at(std::to_string(i), [&] { inside(i); });
    }
    if (kSteps) --depth_;
  }
  void check_number(double value);

 private:
  bool enter_steps(size_t count);

  const std::string subject_;
  std::string place_;
  Status status_;
  int depth_ = 0;     // how many lists of steps contain the present place
  size_t steps_ = 0;  // how many steps all lists so far have
};

class FieldWriter : public FieldVisitor {
 public:
  using FieldVisitor::FieldVisitor;
  // After an error (status()) the result must not be used.
  template <class T>
  nlohmann::json write(const T& value) {
    if constexpr (std::is_integral_v<T>) {
      return value;
    } else if constexpr (std::is_floating_point_v<T>) {
      check_number(value);
      return double{value};
    } else if constexpr (std::is_same_v<T, std::string>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      const char* const name = name_of(value);
      if (name == nullptr) refuse("is not a known value");
      return name == nullptr ? "" : name;
    } else {
      nlohmann::json out = nlohmann::json::object();
      each_field(value, [&](const char* name, const auto& field) {
        at(name, [&] { out[name] = write(field); });
      });
      return out;
    }
  }
  template <class T>
  nlohmann::json write(const std::optional<T>& value) {
    return value ? write(*value) : nlohmann::json();
  }
  template <class... Kinds>
  nlohmann::json write(const std::variant<Kinds...>& value) {
    nlohmann::json out = nlohmann::json::object();
    const auto write_kind = [&]<class Kind>(const Kind& kind) {
      constexpr const char* kName = kFieldsOf<Kind>.type;
      at(kName, [&] { out[kName] = write(kind); });
    };
    std::visit(write_kind, value);
    return out;
  }
  template <class T, size_t kCount>
  nlohmann::json write(const std::array<T, kCount>& values) {
    return write_list<T>(values);
  }
  template <class T>
  nlohmann::json write(const std::vector<T>& values) {
    return write_list<T>(values);
  }

 private:
  template <class T, class List>
  nlohmann::json write_list(const List& values) {
    nlohmann::json out = nlohmann::json::array();
    each<T>(values.size(), [&](size_t i) { out.push_back(write(values[i])); });
    return out;
  }
};

class FieldReader : public FieldVisitor {
 public:
  using FieldVisitor::FieldVisitor;
  // Replaces `out` by the value in the JSON. After an error (status()) it must not be used.
  template <class T>
  void read(const nlohmann::json& from, T* out) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!from.is_boolean()) return refuse("must be true or false");
      *out = from.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(from, out);
    } else if constexpr (std::is_floating_point_v<T>) {
      read_number(from, out);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!from.is_string()) return refuse("must be a string");
      *out = from.get<std::string>();
    } else if constexpr (std::is_enum_v<T>) {
      const auto found =
          from.is_string() ? enumerator<T>(from.get_ref<const std::string&>()) : std::optional<T>();
      if (!found) return refuse("must be the name of a known value");
      *out = *found;
    } else {
      read_object(from, out);
    }
  }
  template <class T>
  void read(const nlohmann::json& from, std::optional<T>* out) {
    out->reset();
    if (!from.is_null()) read(from, &out->emplace());
  }
  template <class... Kinds>
  void read(const nlohmann::json& from, std::variant<Kinds...>* out) {
    if (!from.is_object() || from.size() != 1) return refuse("must be an object with one member");
    const auto only = from.begin();
    const bool is_known = (read_kind<Kinds>(only.key(), only.value(), out) || ...);
    if (!is_known) refuse_member(only.key());
  }
  template <class T, size_t kCount>
  void read(const nlohmann::json& from, std::array<T, kCount>* out) {
    if (!from.is_array() || from.size() != kCount) {
      return refuse(fmt::format("must be a list of {}", kCount));
    }
    each<T>(kCount, [&](size_t i) { read(from[i], &(*out)[i]); });
  }
  template <class T>
  void read(const nlohmann::json& from, std::vector<T>* out) {
    if (!from.is_array()) return refuse("must be a list");
    out->clear();
    each<T>(from.size(), [&](size_t i) { read(from[i], &out->emplace_back()); });
  }

 private:
  void refuse_member(std::string_view name);
  void refuse_others(const nlohmann::json& from, const std::vector<std::string_view>& known);

  template <class T>
  void read_object(const nlohmann::json& from, T* out) {
    if (!from.is_object()) return refuse("must be an object");
    std::vector<std::string_view> known;
    each_field(*out, [&](const char* name, auto& field) {
      known.push_back(name);
      if (!status().ok()) return;
      at(name, [&] {
        const auto found = from.find(name);
        if (found == from.end()) return refuse("is missing");
        read(*found, &field);
      });
    });
    refuse_others(from, known);
  }
  template <class T>
  void read_integer(const nlohmann::json& from, T* out) {
    const bool fits = from.is_number_unsigned()
                          ? std::in_range<T>(from.get<uint64_t>())
                          : from.is_number_integer() && std::in_range<T>(from.get<int64_t>());
    if (fits) {
      *out = from.get<T>();
      return;
    }
    refuse(fmt::format("must be a whole number from {} to {}", std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::max()));
  }
  template <class T>
  void read_number(const nlohmann::json& from, T* out) {
    if (!from.is_number_float()) return refuse("must be a number with a point or an exponent");
    const auto value = from.get<double>();
    check_number(value);
    constexpr double kMost{std::numeric_limits<T>::max()};
    if (!(std::abs(value) <= kMost)) return refuse("is too large");
    *out = static_cast<T>(value);
  }
  template <class Kind, class Variant>
  bool read_kind(std::string_view name, const nlohmann::json& from, Variant* out) {
    constexpr const char* kName = kFieldsOf<Kind>.type;
    if (name != kName) return false;
    at(kName, [&] { read(from, &out->template emplace<Kind>()); });
    return true;
  }
};

}  // namespace forebay::base
