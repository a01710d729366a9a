// Errors as values: Status and Result<T>. Only the Python bindings turn them into exceptions. What
// a message contains, and the list of codes with what to do about each, is in docs/errors.md.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace forebay::base {

enum class Code : unsigned char {
  kOk,
  kInvalid,      // the caller asked for something that makes no sense
  kNotFound,     // a named file, chunk, sample or field does not exist
  kExists,       // something exists that would be overwritten
  kCorrupt,      // stored bytes are damaged or malformed
  kUnsupported,  // valid, but not something that Forebay reads
  kTooBig,       // above a limit of base/limits.h
  kNoSpace,      // the disk is full
  kNoMemory,     // the memory cap is reached
  kIo,           // the operating system could not read or write
  kTruncated,    // a file ended before the requested bytes
  kUnavailable,  // the other side is gone, or refuses for now
  kTimedOut,     // not done before its deadline
  kBusy,         // another process holds the dataset
  kChanged,      // somebody else replaced the file first
  kCancelled,    // stopped on request
};

std::string_view code_name(Code code);

// The outcome of an operation that may fail: ok, or a code with a message for people.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): lets `return fail(…)` serve Status and Result.
  Status(tl::unexpected<Status> error) : Status(std::move(error.value())) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns the same error with "where: " before its message. An ok status stays ok.
  Status at(std::string_view where) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <class T>
using Result = tl::expected<T, Status>;

// Makes an error to return from a function whose type is Status or Result<T>.
template <class... Args>
tl::unexpected<Status> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Status>(Status(code, fmt::format(format, std::forward<Args>(args)...)));
}

inline const Status& status_of(const Status& status) { return status; }
template <class T>
Status status_of(const Result<T>& result) {
  return result ? Status() : result.error();
}

// Ends the program with a message. For programming errors, never for bad input.
[[noreturn]] void die(const char* file, int line, const char* what);

}  // namespace forebay::base

#define FOREBAY_CONCAT_INNER(a, b) a##b
#define FOREBAY_CONCAT(a, b) FOREBAY_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr`, a Status or Result, holds an error.
#define RETURN_IF_ERROR(expr)                                             \
  do {                                                                    \
    if (auto status_ = ::forebay::base::status_of(expr); !status_.ok()) { \
      return tl::unexpected<::forebay::base::Status>(std::move(status_)); \
    }                                                                     \
  } while (false)

// ASSIGN_OR_RETURN(auto file, fs.open(path)) assigns the value of the result, or returns its error
// from the enclosing function.
#define ASSIGN_OR_RETURN(lhs, expr)                            \
  auto FOREBAY_CONCAT(result_, __LINE__) = (expr);             \
  if (!FOREBAY_CONCAT(result_, __LINE__)) {                    \
    return tl::unexpected<::forebay::base::Status>(            \
        std::move(FOREBAY_CONCAT(result_, __LINE__).error())); \
  }                                                            \
  lhs = std::move(*FOREBAY_CONCAT(result_, __LINE__))

#define FOREBAY_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::forebay::base::die(__FILE__, __LINE__, #condition))
