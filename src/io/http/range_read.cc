#include "io/http/range_read.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;
using base::fail;
using base::MutexLock;

// One request for a part's ranges. It takes the bytes of the answer, or the text of an error. Only
// the client's thread calls it.
class RangeRead::Attempt final : public Sink {
 public:
  // The part, the read and the client must outlive the attempt's request.
  Attempt(const PartialRequest& part, const RangeRead& read, Client& client,
          std::vector<Range> ranges, Basis basis, Why why)
      : part_(part),
        read_(read),
        client_(client),
        ranges_(std::move(ranges), read.known_),
        basis_(std::move(basis)),
        why_(why) {}

  Status begin(const Head& head) override {
    Status checked = read_.service_.protocol().check(read_.path_, head);
    if (!checked.ok()) return checked;
    is_error_ = head.code < 200 || head.code >= 300;
    return is_error_ ? Status() : ranges_.begin(head);
  }
  Status append(Bytes bytes) override {
    if (!is_error_) {
      if (!std::exchange(has_bytes_, true)) cut_others();
      return ranges_.append(bytes);
    }
    const size_t room = base::kHttpErrorBytesMax - text_.size();
    text_.append(base::as_text(bytes.first(std::min(room, bytes.size()))));
    return {};
  }
  Status end() override { return is_error_ ? Status() : ranges_.end(); }
  bool has_enough() const override {
    return is_error_ ? text_.size() == base::kHttpErrorBytesMax : ranges_.has_enough();
  }

  // Cuts the other request for the part. From now on the client gives that request no more bytes,
  // so that the two never write to the same memory at the same time.
  void cut_others() {
    for (const auto& other : part_.in_flight) {
      if (other.get() == this) continue;
      other->is_cut_ = true;
      client_.drop_unwanted();
    }
  }
  bool is_cut() const { return is_cut_; }
  const RangeAnswer& ranges() const { return ranges_; }
  const std::string& text() const { return text_; }
  const Basis& basis() const { return basis_; }
  Why why() const { return why_; }

 private:
  const PartialRequest& part_;
  const RangeRead& read_;
  Client& client_;
  RangeAnswer ranges_;
  const Basis basis_;
  const Why why_;
  bool is_cut_ = false;
  bool has_bytes_ = false;
  bool is_error_ = false;
  std::string text_;
};

namespace {

// The header for one range around all ranges.
std::string around(const std::vector<Range>& ranges) {
  const uint64_t last = ranges.back().offset + ranges.back().out.size() - 1;
  return fmt::format("bytes={}-{}", ranges.front().offset, last);
}

// Whether a failed try brought enough bytes to count as a success. If any byte were enough, a
// server that hangs up after each byte, or sends a byte now and then, would be asked forever.
bool was_worth_it(uint64_t bytes, const Outcome& outcome) {
  const double seconds = static_cast<double>(outcome.end_ns - outcome.sent_ns) * 1e-9;
  return static_cast<double>(bytes) >= base::kHttpSlowBytes * (1 + seconds);
}

}  // namespace

void RangeRead::start(const Service& service, const std::string& path, const Identity& known,
                      std::vector<Range> ranges, const ReadOptions& options,
                      std::function<void(Status)> done) {
  const auto read = std::make_shared<RangeRead>(service, path, known, options, std::move(done));
  read->add(std::move(ranges));
  read->finish({});
}

// Divides ranges among requests.
void RangeRead::add(std::vector<Range> ranges) {
  const size_t most = service_.ranges_max();
  for (size_t at = 0; at < ranges.size();) {
    const size_t count = std::min(most, ranges.size() - at);
    const auto first = ranges.begin() + static_cast<int64_t>(at);
    const auto part = std::make_shared<PartialRequest>();
    part->rest.assign(first, first + static_cast<int64_t>(count));
    part->tries.begin_ns = monotonic_ns();
    at += count;
    {
      MutexLock lock(mutex_);
      ++users_;
    }
    send(part, 0);
  }
}

Result<Request> RangeRead::request(const std::vector<Range>& ranges) const {
  ASSIGN_OR_RETURN(Request request, service_.protocol().request("GET", path_, ""));
  // More ranges are requested only from a server that sends the whole file for any request.
  const bool one_by_one = ranges.size() <= service_.protocol().ranges_max();
  request.headers.push_back("Range: " + (one_by_one ? range_header(ranges) : around(ranges)));
  request.options = options_;
  request.reader = this;
  return request;
}

void RangeRead::send(const std::shared_ptr<PartialRequest>& part, int64_t wait_ns) {
  if (failed_) return finish({});
  auto request = this->request(part->rest);
  if (!request) return finish(request.error());
  if (wait_ns > 0) request->begin_ns = monotonic_ns() + wait_ns;
  request->on_slow = [self = shared_from_this(), part] { self->hedge(part); };
  request->new_connection = part->timed_out;
  const Why why = part->tries.sent++ == 0 ? Why::kFirst : Why::kRetry;
  start(part, part->rest, std::move(*request), why);
}

// Sends a slow request a second time, if the budget allows it.
void RangeRead::hedge(const std::shared_ptr<PartialRequest>& part) {
  if (failed_ || part->in_flight.size() != 1) return;
  std::vector<Range> rest = part->in_flight.front()->ranges().rest();
  if (rest.empty() || !service_.may_hedge()) return;  // perhaps only the answer's end is missing
  auto request = this->request(rest);
  if (!request) return;
  request->is_hedge = true;
  {
    MutexLock lock(mutex_);
    ++users_;
  }
  start(part, std::move(rest), std::move(*request), Why::kHedge);
}

void RangeRead::start(const std::shared_ptr<PartialRequest>& part, std::vector<Range> ranges,
                      Request request, Why why) {
  Client& client = service_.client();
  const auto attempt =
      std::make_shared<Attempt>(*part, *this, client, std::move(ranges), basis_of(request), why);
  part->in_flight.push_back(attempt);
  const auto self = shared_from_this();
  request.wanted = [self, attempt] { return !attempt->is_cut() && !self->failed_; };
  client.start(std::move(request), *attempt, [self, part, attempt](const Outcome& outcome) {
    self->take(part, attempt, outcome);
  });
}

void RangeRead::take(const std::shared_ptr<PartialRequest>& part,
                     const std::shared_ptr<Attempt>& attempt, const Outcome& outcome) {
  service_.count(outcome, attempt->why());
  std::erase(part->in_flight, attempt);
  if (attempt->is_cut()) return finish({});
  if (attempt->ranges().rest().empty()) {
    attempt->cut_others();
  } else if (std::ranges::any_of(part->in_flight, [](const auto& a) { return !a->is_cut(); })) {
    return finish({});  // the other request for the part goes on
  }
  take_last(part, *attempt, outcome);
}

void RangeRead::take_last(const std::shared_ptr<PartialRequest>& part, const Attempt& attempt,
                          const Outcome& outcome) {
  const size_t ranges_before = part->rest.size();
  const uint64_t before = bytes_of(part->rest);
  part->rest = attempt.ranges().rest();
  if (attempt.ranges().ignored_ranges()) service_.note_whole_files(true);
  if (attempt.ranges().honoured_ranges()) service_.note_whole_files(false);
  if (part->rest.empty()) {
    service_.note_success();
    return finish({});
  }
  const uint64_t came = before - bytes_of(part->rest);
  Verdict verdict = judge(outcome, service_.protocol().explain(attempt.text()));
  if (verdict.status.ok()) {  // fewer ranges than were asked for
    if (came > 0) {
      if (!attempt.ranges().had_parts()) service_.note_one_range();
      service_.note_success();
      add(std::move(part->rest));
      return finish({});
    }
    verdict = {.status = fail(Code::kTruncated, "the server sent none of the requested bytes"),
               .again = true};
  }
  const bool brought_whole = part->rest.size() < ranges_before;
  part->tries.vain = brought_whole || was_worth_it(came, outcome) ? 0 : part->tries.vain + 1;
  service_.apply_remedy(path_, attempt.basis(), outcome.head, attempt.text(), &part->tries,
                        &verdict);
  // After the caller's deadline, nobody waits for the bytes.
  if (options_.deadline_ns && monotonic_ns() >= *options_.deadline_ns) verdict.again = false;
  part->timed_out = verdict.status.code() == Code::kTimedOut;
  const auto wait_ns = service_.wait_ns(&part->tries, verdict);
  if (!wait_ns) return finish(service_.describe(verdict.status, path_, part->tries));
  send(part, *wait_ns);
}

void RangeRead::finish(const Status& status) {
  bool is_last = false;
  Status outcome;
  {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
    if (!status.ok()) failed_ = true;
    is_last = --users_ == 0;
    if (is_last) outcome = std::move(status_);
  }
  if (is_last) return done_(std::move(outcome));
  // The requests of the other parts are no longer needed.
  if (!status.ok()) service_.client().drop_unwanted();
}

}  // namespace forebay::io::http
