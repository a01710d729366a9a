#include "io/s3/small_request.h"

#include "base/limits.h"
#include "base/utf8.h"
#include "io/http/client.h"
#include "io/http/url.h"
#include "io/machine.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;
using base::Result;

namespace {

constexpr int64_t kMs = 1'000'000;

class SmallSink final : public http::Sink {
 public:
  Status begin(const http::Head& head) override {
    answer.status = head.code;
    answer.date_ns = http::date_ns(head.header("date"));
    return {};
  }
  Status append(Bytes bytes) override {
    if (bytes.size() > base::kCredentialAnswerBytesMax - answer.body.size()) {
      return fail(Code::kTooBig, "the answer is too long");
    }
    answer.body.append(base::as_text(bytes));
    return {};
  }
  Status end() override { return {}; }

  SmallAnswer answer;
};

http::Request request_of(const SmallRequest& small, const std::stop_token& stop) {
  http::Request request{.method = small.method,
                        .url = small.url,
                        .headers = {"User-Agent: forebay"},
                        .secret_headers = small.headers};
  if (!small.form.empty()) request.body.push_back(base::as_bytes(small.form.reveal()));
  request.options = {.deadline_ns = monotonic_ns() + small.timeout_ms * kMs, .stop = stop};
  request.redirects = false;
  request.through_proxy = small.through_proxy;
  return request;
}

// The client lives for one request only, because days may pass until the next one.
Result<SmallAnswer> try_once(const SmallRequest& request, const std::stop_token& stop) {
  http::Client client({.requests_max = 1, .ca_file = request.ca_file});
  SmallSink sink;
  const http::Outcome outcome = client.perform(request_of(request, stop), sink);
  const std::string where = base::to_utf8(request.url.substr(0, request.url.find('?')));
  switch (outcome.status.code()) {
    case Code::kOk:
      return std::move(sink.answer);
    case Code::kTooBig:
      return fail(Code::kTooBig, "the answer of {} is longer than {} bytes", where,
                  base::kCredentialAnswerBytesMax);
    case Code::kCancelled:
      return fail(Code::kCancelled, "asking {} was stopped", where);
    case Code::kTimedOut:
      return fail(Code::kTimedOut, "{} did not answer within {} ms", where, request.timeout_ms);
    default:
      return fail(Code::kUnavailable, "cannot ask {}: {}", where,
                  base::to_utf8(outcome.status.message()));
  }
}

bool worth_another_try(const Result<SmallAnswer>& answer) {
  if (answer) return answer->status >= 500;
  return answer.error().code() == Code::kUnavailable || answer.error().code() == Code::kTimedOut;
}

}  // namespace

Result<SmallAnswer> ask(const SmallRequest& request, const std::stop_token& stop) {
  Result<SmallAnswer> answer = try_once(request, stop);
  for (int tries = 1; tries < request.tries && worth_another_try(answer); ++tries) {
    answer = try_once(request, stop);
  }
  return answer;
}

Secret form_value(std::string_view text) {
  std::string escaped = http::encode_value(text);
  return Secret::take(escaped);
}

}  // namespace forebay::io::s3
