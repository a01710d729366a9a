// Whether and when a request is sent again. Plain logic, so that tests need no server.
#pragma once

#include "base/random.h"
#include "io/http/budget.h"
#include "io/http/client.h"

namespace forebay::io::http {

struct RetryOptions {
  // Further tries after one that brought next to nothing. A try that brought bytes at more than
  // kHttpSlowBytes a second does not count.
  int retries_max = 7;
  // Half of each wait is drawn by chance, so all waits together take 12.7 to 25.4 s. A server that
  // is away for ten seconds therefore fails nobody's read.
  int64_t first_wait_ns = 200'000'000;
  int64_t wait_ns_max = 20'000'000'000;
  // What all requests of a service may retry together. Without tokens a retry waits for one, so
  // that a server in trouble is not kept there by those who wait for it.
  BudgetOptions budget = {.most = 40, .per_success = 0.5, .per_second = 20};
};

// How often something was asked for, and what came of it.
struct Tries {
  int64_t begin_ns = 0;
  int sent = 0;               // requests so far, without hedges
  int vain = 0;               // those since something last came
  int64_t vain_since_ns = 0;  // when the first of these had failed
  int64_t waited_ns = 0;      // since then, without what servers asked for
  // The keys that were refused last, and how often they were sent again.
  std::shared_ptr<const void> refused_keys = {};
  int key_waits = 0;
};

// What an answer or a failure is worth.
struct Verdict {
  Status status = {};  // ok where the answer is one
  bool again = false;  // whether another try may succeed
  // How long the server asks to wait before (Retry-After); 0 where it says nothing.
  int64_t after_ns = 0;
};

// Whether an answer's code says that the request was served.
bool is_success(int code);

// Judges what a request came to. `said` is what the server's answer says about an error, in words;
// it may be empty.
Verdict judge(const Outcome& outcome, std::string_view said);

// How long to wait before the retry with this number, from 1 on: exponentially longer, at most
// wait_ns_max, a random half of it so that many clients do not come back at the same moment.
int64_t wait_ns(const RetryOptions& options, int retry, base::Random& random);
// The longest that all retries of a request wait together.
int64_t total_wait_ns(const RetryOptions& options);

}  // namespace forebay::io::http
