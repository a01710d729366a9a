// The limit on how many of a source's samples pack may refuse. Above it, pack fails, so that a
// mistake in the source does not end as a small dataset that looks complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::store {

struct SkipMax {
  double value = 1;
  bool is_percent = true;  // a share of all samples, 0 to 100; else a whole number of samples

  bool allows(uint64_t refused, uint64_t samples) const;
};

// Reads "5%", "0.5%" or "200". Errors: kInvalid.
base::Result<SkipMax> parse_skip_max(std::string_view text);
// Returns a text that parse_skip_max() takes.
std::string to_text(const SkipMax& skip_max);

}  // namespace forebay::store
