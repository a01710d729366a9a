#include "io/http/range_read.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;
using base::fail;
using base::MutexLock;

// Takes the bytes of an answer, or what it says of an error.
class RangeRead::Answer final : public Sink {
 public:
  Answer(const std::vector<Range>& ranges, const Identity& known) : ranges_(ranges, known) {}

  Status begin(const Head& head) override {
    is_error_ = head.code < 200 || head.code >= 300;
    return is_error_ ? Status() : ranges_.begin(head);
  }
  Status append(Bytes bytes) override {
    if (!is_error_) return ranges_.append(bytes);
    const size_t room = base::kHttpErrorBytesMax - text_.size();
    text_.append(base::as_text(bytes.first(std::min(room, bytes.size()))));
    return {};
  }
  Status end() override { return is_error_ ? Status() : ranges_.end(); }
  bool has_enough() const override {
    return is_error_ ? text_.size() == base::kHttpErrorBytesMax : ranges_.has_enough();
  }

  const RangeAnswer& ranges() const { return ranges_; }
  const std::string& text() const { return text_; }

 private:
  RangeAnswer ranges_;
  bool is_error_ = false;
  std::string text_;
};

namespace {

uint64_t bytes_of(const std::vector<Range>& ranges) {
  uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.out.size();
  return bytes;
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
  for (size_t at = 0; at < ranges.size(); at += most) {
    const auto first = ranges.begin() + static_cast<int64_t>(at);
    const auto end = first + static_cast<int64_t>(std::min(most, ranges.size() - at));
    auto part = std::make_shared<Part>();
    part->rest.assign(first, end);
    part->begin_ns = monotonic_ns();
    {
      MutexLock lock(mutex_);
      ++parts_left_;
    }
    send(std::move(part), 0);
  }
}

void RangeRead::send(std::shared_ptr<Part> part, int64_t wait_ns) {
  if (failed_.stop_requested()) return finish({});
  auto request = service_.protocol().request("GET", path_, "");
  if (!request) return finish(request.error());
  request->headers.push_back("Range: " + range_header(part->rest));
  request->options = options_;
  request->begin_ns = wait_ns == 0 ? 0 : monotonic_ns() + wait_ns;
  part->region = request->region;
  ++part->tries;
  const auto answer = std::make_shared<Answer>(part->rest, known_);
  service_.client().start(std::move(*request), *answer,
                          [self = shared_from_this(), part, answer](const Outcome& outcome) {
                            self->take(part, *answer, outcome);
                          });
}

void RangeRead::take(const std::shared_ptr<Part>& part, const Answer& answer,
                     const Outcome& outcome) {
  service_.count(outcome, part->vain > 0);
  const uint64_t before = bytes_of(part->rest);
  part->rest = answer.ranges().rest();
  if (part->rest.empty()) return finish({});
  const bool came = bytes_of(part->rest) < before;
  part->vain = came ? 0 : part->vain + 1;
  Verdict verdict = judge(outcome, service_.protocol().explain(answer.text()));
  if (verdict.status.ok()) {  // fewer ranges than were asked for
    if (came) {
      if (!answer.ranges().had_parts()) service_.note_one_range();
      add(std::move(part->rest));
      return finish({});
    }
    verdict = {.status = fail(Code::kTruncated, "the server sent nothing of what was asked for"),
               .again = true};
  }
  verdict.again |=
      service_.protocol().learns_from(path_, part->region, outcome.head, answer.text());
  if (!verdict.again || part->vain > service_.options().retry.retries_max) {
    return finish(service_.describe(verdict.status, path_, part->tries, part->begin_ns));
  }
  send(part, came ? 0 : service_.wait_ns(part->vain, verdict.after_ns));
}

void RangeRead::finish(Status status) {
  if (!status.ok()) failed_.request_stop();
  {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    if (--parts_left_ > 0) return;
    status = std::move(status_);
  }
  done_(std::move(status));
}

}  // namespace forebay::io::http
