// The codes of the answers to requests with kAheadHeader (ranges_wanted.h).
#pragma once

#include "io/serve/fetch_ahead.h"

namespace forebay::io::serve {

constexpr int code_of(Ahead ahead) {
  switch (ahead) {
    case Ahead::kKept:
      return 200;
    case Ahead::kComing:
      return 202;
    case Ahead::kFull:
      return 404;
    case Ahead::kBusy:
      break;
  }
  return 409;
}

// kFull for all other codes.
constexpr Ahead ahead_of(int code) {
  for (const Ahead ahead : {Ahead::kKept, Ahead::kComing, Ahead::kBusy}) {
    if (code == code_of(ahead)) return ahead;
  }
  return Ahead::kFull;
}

}  // namespace forebay::io::serve
