// Whether and when a request is sent again. Plain logic, so that tests need no server.
#pragma once

#include "base/random.h"
#include "io/http/budget.h"
#include "io/http/client.h"

namespace forebay::io::http {

struct RetryOptions {
  // The most retries in a row after tries that brought next to nothing. A try that brought bytes at
  // more than kHttpSlowBytes a second begins the count again.
  int retries_max = 7;
  // Half of each wait is random, so all waits together take 12.7 to 25.4 s. A server that is down
  // for ten seconds therefore fails no read.
  int64_t first_wait_ns = 200'000'000;
  int64_t wait_ns_max = 20'000'000'000;
  // The budget for the retries of all requests of a service together. Without a token, a retry
  // waits for one, so that retries do not keep a server overloaded.
  BudgetOptions budget = {.most = 40, .per_success = 0.5, .per_second = 20};
};

// The tries of one request so far, and their success.
struct Tries {
  int64_t begin_ns = 0;
  int sent = 0;               // requests sent so far, without hedges
  int vain = 0;               // tries since the last one that brought something
  int64_t vain_since_ns = 0;  // when the first of these failed
  int64_t waited_ns = 0;      // waited since then, not counting waits that servers asked for
  // The keys that were refused last, and how often they were sent again.
  std::shared_ptr<const void> refused_keys = {};
  int key_waits = 0;
};

// The judgement of an answer or a failure.
struct Verdict {
  Status status = {};  // ok: the request was served
  bool again = false;  // whether another try may succeed
  // How long the server asks to wait before that try (Retry-After); 0 if it does not say.
  int64_t after_ns = 0;
};

// Whether an answer's code says that the request was served.
bool is_success(int code);

// Judges the outcome of a request. `said` is the error text in the server's answer; it may be
// empty.
Verdict judge(const Outcome& outcome, std::string_view said);

// How long to wait before retry number `retry`, counted from 1. The wait grows exponentially, to at
// most wait_ns_max. Half of it is random, so that many clients do not come back at the same moment.
int64_t wait_ns(const RetryOptions& options, int retry, base::Random& random);
// The longest time that all retries of a request wait together.
int64_t total_wait_ns(const RetryOptions& options);

}  // namespace forebay::io::http
