#include "io/http/range_answer.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/limits.h"
#include "io/ascii.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

constexpr int kWholeFile = 200;
constexpr int kPartialContent = 206;
// A shorter rest is received to its end, because the connection can then be used again.
constexpr uint64_t kWorthCutting = 512 << 10;

uint64_t end_of(const Range& range) { return range.offset + range.out.size(); }

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return lower(text.substr(0, start.size())) == start;
}

// Removes a number from the front of `text`, and the character after it, which must be `after`.
std::optional<uint64_t> take_number(std::string_view* text, char after) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end == text->data() + text->size() || *end != after) {
    return std::nullopt;
  }
  text->remove_prefix(static_cast<size_t>(end - text->data()) + 1);
  return number;
}

// The boundary of "multipart/byteranges; boundary=x"; empty for every other type.
std::string_view boundary_of(std::string_view type) {
  if (!starts_with_ignoring_case(type, "multipart/byteranges")) return {};
  const size_t at = type.find("boundary=");
  if (at == std::string_view::npos) return {};
  std::string_view boundary = trimmed(type.substr(at + std::strlen("boundary=")));
  boundary = boundary.substr(0, boundary.find(';'));
  if (boundary.size() >= 2 && boundary.front() == '"' && boundary.back() == '"') {
    boundary = boundary.substr(1, boundary.size() - 2);
  }
  return boundary;
}

}  // namespace

std::string range_header(std::span<const Range> ranges) {
  std::string text = "bytes=";
  for (const Range& range : ranges) {
    if (text.back() != '=') text += ',';
    text += fmt::format("{}-{}", range.offset, end_of(range) - 1);
  }
  return text;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  text = trimmed(text);
  if (!starts_with_ignoring_case(text, "bytes ")) return std::nullopt;
  text.remove_prefix(std::strlen("bytes "));
  const auto first = take_number(&text, '-');
  const auto last = first ? take_number(&text, '/') : std::nullopt;
  if (!last || *last < *first || *last == UINT64_MAX) return std::nullopt;
  ContentRange range{.first = *first, .end = *last + 1};
  if (text == "*") return range;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), range.size);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (range.end > range.size) return std::nullopt;
  return range;
}

RangeAnswer::RangeAnswer(std::vector<Range> ranges, Identity known)
    : ranges_(std::move(ranges)), known_(std::move(known)) {}

Status RangeAnswer::check_identity(const Head& head) {
  found_ = identity_of(head);
  if (!known_.etag.empty() && !found_.etag.empty() && found_.etag != known_.etag) {
    return fail(Code::kIo,
                "the file was replaced: its ETag was {} and is now {}; open the dataset again",
                known_.etag, printable(found_.etag));
  }
  if (known_.modified_ns != 0 && found_.modified_ns != 0 &&
      found_.modified_ns != known_.modified_ns) {
    return fail(Code::kIo,
                "the file was changed after it was listed ({} now); open the dataset again",
                printable(head.header("last-modified")));
  }
  return {};
}

Status RangeAnswer::check_size(uint64_t size) {
  found_.size = size;
  if (size == 0 || known_.size == 0 || size == known_.size) return {};
  return fail(
      Code::kIo,
      "the file has {} bytes, but {} were expected: it was replaced after it was listed; open the "
      "dataset again",
      size, known_.size);
}

Status RangeAnswer::begin(const Head& head) {
  RETURN_IF_ERROR(check_not_encoded(head));
  RETURN_IF_ERROR(check_identity(head));
  if (head.code == kWholeFile) {  // the server ignores ranges
    RETURN_IF_ERROR(check_size(found_.size));
    if (ranges_.front().offset > base::kHttpSkippedBytesMax) {
      return fail(Code::kIo,
                  "the server sends whole files where parts are asked for (it does not know HTTP "
                  "ranges); use another server, or copy the data to one");
    }
    const uint64_t size = found_.size == 0 ? known_.size : found_.size;
    const Range& first = ranges_.front();
    ignored_ranges_ = ranges_.size() > 1 || first.offset > 0 || first.out.size() < size;
    return begin_bytes(0, size);
  }
  if (head.code != kPartialContent) {
    return fail(Code::kUnavailable, "the server answered {} to a request for ranges", head.code);
  }
  honoured_ranges_ = true;
  const std::string_view boundary = boundary_of(head.header("content-type"));
  if (!boundary.empty()) {
    has_parts_ = true;
    delimiter_ = fmt::format("--{}", boundary);
    state_ = State::kBoundary;
    return {};
  }
  const auto range = parse_content_range(head.header("content-range"));
  if (!range)
    return fail(Code::kUnavailable,
                "the server's answer does not say which range it holds (Content-Range)");
  RETURN_IF_ERROR(check_size(range->size));
  return begin_bytes(range->first, range->end);
}

// The answer's next bytes are [first, end) of the file. They must include the missing part of the
// next range.
Status RangeAnswer::begin_bytes(uint64_t first, uint64_t end) {
  between_ = 0;
  if (next_ < ranges_.size()) {
    const Range& range = ranges_[next_];
    const uint64_t wanted = range.offset + have_;
    if (first > wanted || end < end_of(range) || wanted - first > base::kHttpSkippedBytesMax) {
      return fail(Code::kUnavailable,
                  "the server sent bytes {} to {} where {} to {} were asked for", first, end,
                  wanted, end_of(range));
    }
  }
  at_ = first;
  bytes_end_ = end;
  state_ = State::kBytes;
  return {};
}

Status RangeAnswer::append(Bytes bytes) {
  if (next_ == ranges_.size() || state_ == State::kIgnore) useless_ += bytes.size();
  while (!bytes.empty() && state_ != State::kIgnore) {
    if (state_ == State::kBytes) {
      const Bytes now = bytes.first(std::min<uint64_t>(bytes.size(), bytes_end_ - at_));
      bytes = bytes.subspan(now.size());
      RETURN_IF_ERROR(take_bytes(now));
      if (at_ < bytes_end_) continue;
      state_ = has_parts_ ? State::kBoundary : State::kIgnore;
      continue;
    }
    std::string_view line = base::as_text(bytes);
    const size_t length = std::min(line.find('\n'), line.size());
    line = line.substr(0, length);
    between_ += std::min(length + 1, bytes.size());
    if (between_ > base::kHttpPartHeadBytesMax) {
      return fail(Code::kUnavailable,
                  "the server's answer has more than {} bytes between its parts",
                  base::kHttpPartHeadBytesMax);
    }
    // Most lines come in one piece and need no copy.
    const bool is_whole = line_.empty() && length < bytes.size();
    if (!is_whole) line_ += line;
    if (length == bytes.size()) break;
    bytes = bytes.subspan(length + 1);
    RETURN_IF_ERROR(take_line(trimmed(is_whole ? line : line_)));
    line_.clear();
  }
  return {};
}

// Copies the bytes, which begin at at_ in the file, to the ranges that need them.
Status RangeAnswer::take_bytes(Bytes bytes) {
  const uint64_t end = at_ + bytes.size();
  while (next_ < ranges_.size() && ranges_[next_].offset + have_ < end) {
    const Range& range = ranges_[next_];
    const uint64_t from = std::max(at_, range.offset + have_);
    const uint64_t to = std::min(end, end_of(range));
    std::memcpy(range.out.data() + (from - range.offset), bytes.data() + (from - at_), to - from);
    have_ = to - range.offset;
    if (to < end_of(range)) break;
    ++next_;
    have_ = 0;
  }
  at_ = end;
  return {};
}

bool RangeAnswer::has_enough() const {
  if (useless_ > kWorthCutting) return true;
  return next_ == ranges_.size() && state_ == State::kBytes && bytes_end_ - at_ > kWorthCutting;
}

std::vector<Range> RangeAnswer::rest() const {
  std::vector<Range> rest(ranges_.begin() + static_cast<int64_t>(next_), ranges_.end());
  if (have_ > 0) rest.front() = {rest.front().offset + have_, rest.front().out.subspan(have_)};
  return rest;
}

Status RangeAnswer::take_line(std::string_view line) {
  if (state_ == State::kBoundary) {
    const bool is_delimiter = line.starts_with(delimiter_);
    const std::string_view after = is_delimiter ? line.substr(delimiter_.size()) : line;
    if (is_delimiter && after.empty()) {
      state_ = State::kPartHead;
      content_range_.clear();
    } else if (is_delimiter && after == "--") {
      state_ = State::kIgnore;
    } else if (!line.empty()) {
      return fail(Code::kUnavailable, "the server's answer in several parts is malformed");
    }
    return {};
  }
  if (line.empty()) return end_of_part_head();
  constexpr std::string_view kName = "content-range:";
  if (starts_with_ignoring_case(line, kName)) content_range_ = line.substr(kName.size());
  return {};
}

Status RangeAnswer::end_of_part_head() {
  const auto range = parse_content_range(content_range_);
  if (!range)
    return fail(Code::kUnavailable, "a part of the server's answer does not say its range");
  RETURN_IF_ERROR(check_size(range->size));
  return begin_bytes(range->first, range->end);
}

Status RangeAnswer::end() {
  // A server may answer fewer ranges than requested, but only whole ones.
  if (next_ > 0 && have_ == 0) return {};
  return fail(Code::kTruncated, "the server's answer ended before the bytes that were asked for");
}

}  // namespace forebay::io::http
