#include "io/http/service.h"

#include "base/limits.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

// Takes a small body as a text.
class TextSink final : public Sink {
 public:
  Status begin(const Head&) override { return {}; }
  Status append(Bytes bytes) override {
    if (text.size() + bytes.size() > base::kHttpDocumentBytesMax) {
      return fail(Code::kTooBig, "the server's answer has more than {} bytes",
                  base::kHttpDocumentBytesMax);
    }
    text.append(base::as_text(bytes));
    return {};
  }
  Status end() override { return {}; }

  std::string text;
};

}  // namespace

// A client's thread does not exist in a forked process.
struct Service::Connections {
  Connections(int64_t owner, const ClientOptions& options) : process(owner), client(options) {}
  const int64_t process;
  Client client;
};

Service::Service(std::unique_ptr<const Protocol> protocol, const ServiceOptions& options)
    : protocol_(std::move(protocol)), options_(options) {}

Service::~Service() {
  Connections* const own = connections_;
  // The parent's client cannot be ended here, as its thread is not here.
  if (own != nullptr && own->process == process_id()) delete own;
}

Client& Service::client() const {
  Connections* own = connections_;
  const int64_t process = process_id();
  while (own == nullptr || own->process != process) {
    auto fresh = std::make_unique<Connections>(process, options_.client);
    if (connections_.compare_exchange_strong(own, fresh.get())) own = fresh.release();
  }
  return own->client;
}

// The request for a question, to be sent after a wait.
Result<Request> Service::request(const Question& question, int64_t wait_ns) const {
  auto request = protocol_->request(question.method, question.path, question.query);
  if (!request) return request;
  for (const std::string& header : question.headers) request->headers.push_back(header);
  request->body = question.body;
  request->body_sha256 = question.body_sha256;
  request->options = question.options;
  request->begin_ns = monotonic_ns() + wait_ns;
  return request;
}

Verdict Service::judge_document(const Question& question, const Outcome& outcome,
                                std::string_view body) const {
  Verdict verdict = judge(outcome, protocol_->explain(body));
  if (!verdict.status.ok() || question.method != "POST" || !protocol_->is_error(body)) {
    return verdict;
  }
  return {.status = fail(Code::kUnavailable, "the server answered {}, and then an error ({})",
                         outcome.head.code, protocol_->explain(body)),
          .again = true};
}

Result<Document> Service::ask(const Question& question) const {
  const int64_t begin_ns = monotonic_ns();
  int64_t wait_ns = 0;
  for (int tries = 1;; ++tries) {
    ASSIGN_OR_RETURN(Request request, this->request(question, wait_ns));
    const std::string region = request.region;
    TextSink sink;
    Outcome outcome = client().perform(std::move(request), sink);
    count(outcome, tries > 1);
    Verdict verdict = judge_document(question, outcome, sink.text);
    if (verdict.status.ok()) return Document{std::move(outcome.head), std::move(sink.text)};
    verdict.again |= protocol_->learns_from(question.path, region, outcome.head, sink.text);
    if (!verdict.again || tries > options_.retry.retries_max) {
      return tl::unexpected(describe(verdict.status, question.path, tries, begin_ns));
    }
    wait_ns = this->wait_ns(tries, verdict.after_ns);
  }
}

int64_t Service::wait_ns(int retry, int64_t after_ns) const {
  // Different clients must draw different numbers, so the clock is part of the seed.
  base::Random random(static_cast<uint64_t>(monotonic_ns()), base::Purpose::kRetry, waits_++);
  return http::wait_ns(options_.retry, retry, after_ns, random);
}

void Service::count(const Outcome& outcome, bool is_retry) const {
  if (outcome.sent_ns == 0) return;
  ++requests_;
  if (is_retry) ++retries_;
  bytes_received_ += outcome.bytes_received;
  bytes_sent_ += outcome.bytes_sent;
}

Traffic Service::traffic() const {
  return {.requests = requests_,
          .retries = retries_,
          .bytes_received = bytes_received_,
          .bytes_sent = bytes_sent_};
}

Status Service::describe(const Status& status, const std::string& path, int tries,
                         int64_t begin_ns) const {
  const double seconds = static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
  const std::string times =
      tries == 1 ? std::string() : fmt::format(", tried {} times in {:.1f} s", tries, seconds);
  return {status.code(),
          fmt::format("{}: {} ({}{})", path, status.message(), protocol_->host(path), times)};
}

}  // namespace forebay::io::http
