// Whether and when a request is sent again. Plain logic, so that tests need no server.
#pragma once

#include "base/random.h"
#include "io/http/client.h"

namespace forebay::io::http {

struct RetryOptions {
  // Further tries after one that brought nothing. A try that brought bytes does not count.
  int retries_max = 7;
  int64_t first_wait_ns = 100'000'000;
  int64_t wait_ns_max = 20'000'000'000;
};

// What an answer or a failure is worth.
struct Verdict {
  Status status = {};  // ok where the answer is one
  bool again = false;  // whether another try may succeed
  // How long the server asks to wait before (Retry-After); 0 where it says nothing.
  int64_t after_ns = 0;
};

// Judges what a request came to. `said` is what the server's answer says about an error, in words;
// empty where nothing.
Verdict judge(const Outcome& outcome, std::string_view said);

// How long to wait before the try with this number, from 1 on: exponentially longer, at most
// wait_ns_max, a random half of it so that many clients do not come back at the same moment.
int64_t wait_ns(const RetryOptions& options, int retry, int64_t after_ns, base::Random& random);

}  // namespace forebay::io::http
