#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace forebay::base {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not_found";
    case Code::kExists:
      return "exists";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kTooBig:
      return "too_big";
    case Code::kNoSpace:
      return "no_space";
    case Code::kNoMemory:
      return "no_memory";
    case Code::kIo:
      return "io";
    case Code::kTruncated:
      return "truncated";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kTimedOut:
      return "timed_out";
    case Code::kBusy:
      return "busy";
    case Code::kChanged:
      return "changed";
    case Code::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Status Status::at(std::string_view where) const {
  return ok() ? *this : Status(code_, fmt::format("{}: {}", where, message_));
}

void die(const char* file, int line, const char* what) {
  std::fprintf(stderr, "forebay: internal error at %s:%d: %s does not hold\n", file, line, what);
  std::abort();
}

}  // namespace forebay::base
