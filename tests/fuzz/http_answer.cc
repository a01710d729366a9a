// deps: forebay_io
// A server's answer to a request for ranges: a status code, headers as lines, an empty line, and
// the body. Whatever it is, only the memory of the ranges is written, what is missing is known, and
// what it is worth can be said.
#include <algorithm>
#include <charconv>

#include "base/random.h"
#include "io/http/range_answer.h"
#include "io/http/retry.h"

namespace {

using forebay::base::Bytes;
using forebay::base::ByteVector;
using forebay::base::Code;
using forebay::io::Identity;
using forebay::io::Range;
using forebay::io::Status;
using forebay::io::http::Head;
using forebay::io::http::RangeAnswer;

std::string_view take_line(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

Head take_head(std::string_view* text) {
  Head head;
  const std::string_view code = take_line(text);
  std::from_chars(code.data(), code.data() + code.size(), head.code);
  while (!text->empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) break;
    const size_t colon = std::min(line.find(": "), line.size());
    head.headers.emplace_back(line.substr(0, colon), line.substr(std::min(colon + 2, line.size())));
  }
  return head;
}

// Gives the body in pieces whose sizes depend on the seed.
Status feed(const Head& head, std::string_view body, uint64_t seed, RangeAnswer* answer) {
  RETURN_IF_ERROR(answer->begin(head));
  forebay::base::Random random(seed, forebay::base::Purpose::kTest);
  while (!body.empty() && !answer->has_enough()) {
    const size_t now = std::min<size_t>(body.size(), 1 + random.below(64));
    const auto* const data = reinterpret_cast<const uint8_t*>(body.data());
    RETURN_IF_ERROR(answer->append(Bytes(data, now)));
    body.remove_prefix(now);
  }
  return answer->end();
}

std::vector<std::pair<uint64_t, size_t>> places_of(const std::vector<Range>& ranges) {
  std::vector<std::pair<uint64_t, size_t>> places;
  for (const Range& range : ranges) places.emplace_back(range.offset, range.out.size());
  return places;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const Head head = take_head(&text);
  const std::vector<std::pair<uint64_t, size_t>> wanted = {{5, 10}, {15, 3}, {100, 30}, {900, 100}};
  const auto verdict = forebay::io::http::judge({.head = head}, "");
  FOREBAY_CHECK(verdict.after_ns >= 0 && (!verdict.again || !verdict.status.ok()));
  std::vector<ByteVector> first;
  std::vector<std::pair<uint64_t, size_t>> first_rest;
  Code first_code{};
  for (const uint64_t seed : {1u, 2u}) {
    std::vector<ByteVector> outs;
    for (const auto& [offset, length] : wanted) outs.emplace_back(length);
    std::vector<Range> ranges;
    for (size_t i = 0; i < wanted.size(); ++i) ranges.push_back({wanted[i].first, outs[i]});
    RangeAnswer answer(ranges, Identity{.size = 1000, .etag = "\"e\""});
    const Status status = feed(head, text, seed, &answer);
    const std::vector<Range> rest = answer.rest();
    FOREBAY_CHECK(rest.size() <= ranges.size());
    FOREBAY_CHECK(!status.ok() || rest.size() < ranges.size());
    const auto places = places_of(rest);
    // The pieces in which an answer comes make no difference.
    if (first.empty()) {
      first = outs;
      first_rest = places;
      first_code = status.code();
    } else {
      FOREBAY_CHECK(first == outs && first_rest == places && first_code == status.code());
    }
  }
  return 0;
}
