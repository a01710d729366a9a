#include "io/http/service.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

// While new keys are fetched, a refused request is repeated at this interval.
constexpr int64_t kKeysWaitNs = 1'000'000'000;

// Collects a small body as text.
class TextSink final : public Sink {
 public:
  TextSink(const Protocol& protocol, const std::string& path, uint64_t announced_bytes)
      : protocol_(protocol), path_(path), announced_bytes_(announced_bytes) {}

  // The answer to a HEAD announces a body that does not come.
  Status begin(const Head& head) override {
    RETURN_IF_ERROR(protocol_.check(path_, head));
    if (is_success(head.code)) RETURN_IF_ERROR(check_not_encoded(head));
    is_too_big_ = is_success(head.code) && identity_of(head).size > announced_bytes_;
    return {};
  }
  Status append(Bytes bytes) override {
    if (is_too_big_) {
      return fail(Code::kTooBig, "the server's answer has more than {} bytes", announced_bytes_);
    }
    if (text.size() + bytes.size() > base::kHttpDocumentBytesMax) {
      return fail(Code::kTooBig, "the server's answer has more than {} bytes",
                  base::kHttpDocumentBytesMax);
    }
    text.append(base::as_text(bytes));
    return {};
  }
  Status end() override { return {}; }

  std::string text;

 private:
  const Protocol& protocol_;
  const std::string& path_;
  const uint64_t announced_bytes_;
  bool is_too_big_ = false;
};

}  // namespace

struct Service::Connections {
  explicit Connections(const ServiceOptions& options)
      : retries(options.retry.budget), hedges(options.hedges), client(options.client) {}
  base::Mutex mutex;
  Budget retries GUARDED_BY(mutex);
  Budget hedges GUARDED_BY(mutex);
  int64_t last_success_ns GUARDED_BY(mutex) = 0;
  Client client;  // the last member, because its requests use the others until it ends
};

Basis basis_of(const Request& request) {
  if (!request.signing) return {.region = request.region};
  return {request.region, request.signing->owner, request.signing->fetches};
}

Service::Service(std::unique_ptr<const Protocol> protocol, const ServiceOptions& options)
    : protocol_(std::move(protocol)), options_(options) {}

Service::~Service() = default;

Service::Connections& Service::connections() const {
  Connections* const own = connections_.find();
  return own != nullptr ? *own : connections_.keep(std::make_unique<Connections>(options_));
}

Client& Service::client() const { return connections().client; }

size_t Service::ranges_max() const {
  if (one_range_) return 1;
  return whole_files_ ? SIZE_MAX : protocol_->ranges_max();
}

// The request for a question, to be sent after a wait.
Result<Request> Service::request(const Question& question, int64_t wait_ns) const {
  auto request = protocol_->request(question.method, question.path, question.query);
  if (!request) return request;
  for (const std::string& header : question.headers) request->headers.push_back(header);
  request->body = question.body;
  request->body_sha256 = question.body_sha256;
  if (wait_ns > 0) request->begin_ns = monotonic_ns() + wait_ns;
  return request;
}

Verdict Service::judge_document(const Question& question, const Outcome& outcome,
                                std::string_view body) const {
  Verdict verdict = judge(outcome, is_success(outcome.head.code) ? "" : protocol_->explain(body));
  if (!verdict.status.ok() || question.method != "POST" || !protocol_->is_error(body)) {
    return verdict;
  }
  return {.status = fail(Code::kUnavailable, "the server answered {}, and then an error ({})",
                         outcome.head.code, protocol_->explain(body)),
          .again = true};
}

Result<Document> Service::ask(const Question& question) const {
  Tries tries{.begin_ns = monotonic_ns()};
  int64_t wait_ns = 0;
  bool timed_out = false;
  while (true) {
    ASSIGN_OR_RETURN(Request request, this->request(question, wait_ns));
    request.new_connection = timed_out;
    const Basis basis = basis_of(request);
    TextSink sink(*protocol_, question.path, question.body_bytes);
    Outcome outcome = client().perform(std::move(request), sink);
    count(outcome, tries.sent == 0 ? Why::kFirst : Why::kRetry);
    ++tries.sent;
    ++tries.vain;
    Verdict verdict = judge_document(question, outcome, sink.text);
    if (verdict.status.ok()) {
      note_success();
      return Document{std::move(outcome.head), std::move(sink.text)};
    }
    apply_remedy(question.path, basis, outcome.head, sink.text, &tries, &verdict);
    const auto wait = this->wait_ns(&tries, verdict);
    if (!wait) return tl::unexpected(describe(verdict.status, question.path, tries));
    wait_ns = *wait;
    timed_out = verdict.status.code() == Code::kTimedOut;
  }
}

// Refused keys count as one failed try, however often they are sent until new ones come. A waiting
// request was made before its wait, so the old keys are sent at least once more.
void Service::apply_remedy(const std::string& path, const Basis& basis, const Head& head,
                           std::string_view body, Tries* tries, Verdict* verdict) const {
  if (is_success(head.code)) return;
  const Remedy remedy = protocol_->remedy_for(path, basis, head, body);
  if (remedy == Remedy::kNone) return;
  verdict->again = true;
  if (remedy == Remedy::kAnother) return;
  if (remedy == Remedy::kKeysPending) verdict->after_ns = std::max(verdict->after_ns, kKeysWaitNs);
  const bool is_first = std::exchange(tries->refused_keys, basis.keys) != basis.keys;
  if (!is_first && tries->key_waits++ < base::kKeyWaitsMax) --tries->vain;
}

// The budget may make retries wait. But if the service has had no success meanwhile, the total wait
// is at most what all retries would take without the budget.
std::optional<int64_t> Service::wait_ns(Tries* tries, const Verdict& verdict) const {
  const RetryOptions& retry = options_.retry;
  if (!verdict.again || tries->vain > retry.retries_max) return std::nullopt;
  const int64_t now_ns = monotonic_ns();
  Connections& own = connections();
  base::MutexLock lock(own.mutex);
  if (tries->vain == 0) {  // the last try brought something
    return std::max(own.retries.take_ahead(now_ns), verdict.after_ns);
  }
  if (tries->vain == 1) {
    tries->vain_since_ns = now_ns;
    tries->waited_ns = 0;
  }
  if (tries->waited_ns > total_wait_ns(retry) && own.last_success_ns < tries->vain_since_ns) {
    return std::nullopt;
  }
  // Different clients must draw different numbers, so the clock is part of the seed.
  base::Random random(static_cast<uint64_t>(now_ns), base::Purpose::kRetry, waits_++);
  const int64_t wait_ns =
      std::max(http::wait_ns(retry, tries->vain, random), own.retries.take_ahead(now_ns));
  tries->waited_ns += wait_ns;
  return std::max(wait_ns, verdict.after_ns);
}

bool Service::may_hedge() const {
  Connections& own = connections();
  base::MutexLock lock(own.mutex);
  return own.hedges.take(monotonic_ns());
}

void Service::note_success() const {
  Connections& own = connections();
  base::MutexLock lock(own.mutex);
  own.last_success_ns = monotonic_ns();
  own.retries.add_success();
  own.hedges.add_success();
}

void Service::count(const Outcome& outcome, Why why) const {
  if (outcome.sent_ns == 0) return;
  ++requests_;
  if (why == Why::kRetry) ++retries_;
  if (why == Why::kHedge) ++hedges_;
  bytes_received_ += outcome.bytes_received;
  bytes_sent_ += outcome.bytes_sent;
}

Traffic Service::traffic() const {
  Traffic traffic{.requests = requests_,
                  .retries = retries_,
                  .hedges = hedges_,
                  .bytes_received = bytes_received_,
                  .bytes_sent = bytes_sent_};
  const Connections* const own = connections_.find();
  if (own == nullptr) return traffic;
  traffic.latency_s = own->client.link().latency_s();
  traffic.bytes_per_s = own->client.link().bytes_per_s();
  return traffic;
}

Status Service::describe(const Status& status, const std::string& path, const Tries& tries) const {
  const double seconds = static_cast<double>(monotonic_ns() - tries.begin_ns) * 1e-9;
  const std::string times = tries.sent == 1
                                ? std::string()
                                : fmt::format(", tried {} times in {:.1f} s", tries.sent, seconds);
  return {status.code(),
          fmt::format("{}: {} ({}{})", path, status.message(), protocol_->host(path), times)};
}

}  // namespace forebay::io::http
