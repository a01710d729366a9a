// The HTTP codes of the answers to requests with kPrefetchHeader (ranges_wanted.h).
#pragma once

#include "io/serve/prefetch.h"

namespace forebay::io::serve {

constexpr int code_of(PrefetchOutcome outcome) {
  switch (outcome) {
    case PrefetchOutcome::kKept:
      return 200;
    case PrefetchOutcome::kComing:
      return 202;
    case PrefetchOutcome::kFull:
      return 404;
    case PrefetchOutcome::kBusy:
      break;
  }
  return 409;
}

// kFull for all other codes.
constexpr PrefetchOutcome outcome_of(int code) {
  for (const PrefetchOutcome outcome :
       {PrefetchOutcome::kKept, PrefetchOutcome::kComing, PrefetchOutcome::kBusy}) {
    if (code == code_of(outcome)) return outcome;
  }
  return PrefetchOutcome::kFull;
}

}  // namespace forebay::io::serve
