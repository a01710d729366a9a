#include "io/serve/ranges_wanted.h"

#include <charconv>

#include "base/limits.h"
#include "io/serve/own_user.h"

namespace forebay::io::serve {

using base::Code;
using base::fail;
using base::Result;

namespace {

constexpr std::string_view kBoundary = "forebay-part";

std::string content_range(const WantedRange& range, uint64_t size) {
  return fmt::format("Content-Range: bytes {}-{}/{}\r\n", range.offset,
                     range.offset + range.length - 1, size);
}

// Takes the digits at the beginning of `text`; false if there are none, or too many.
bool take_number(std::string_view& text, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

Result<std::vector<WantedRange>> parse_range_header(std::string_view text, uint64_t size) {
  std::vector<WantedRange> ranges;
  if (!take(text, "bytes="))
    return fail(Code::kInvalid, "the header Range does not begin with bytes=");
  uint64_t least = 0;  // where the next range may begin
  do {
    uint64_t first = 0;
    uint64_t last = 0;
    if (!take_number(text, &first) || !take(text, "-") || !take_number(text, &last)) {
      return fail(Code::kInvalid, "a range is not of the form FIRST-LAST");
    }
    if (first < least || last < first || last >= size) {
      return fail(Code::kInvalid,
                  "the range {}-{} of a file of {} bytes is outside, or does not ascend", first,
                  last, size);
    }
    if (ranges.size() == base::kHttpRangesMax) {
      return fail(Code::kTooBig, "more than {} ranges", base::kHttpRangesMax);
    }
    ranges.push_back({first, last - first + 1});
    least = last + 1;
    if (take(text, ","))
      take(text, " ");
    else
      break;
  } while (true);
  if (!text.empty()) return fail(Code::kInvalid, "a range is not of the form FIRST-LAST");
  return ranges;
}

uint64_t bytes_of(std::span<const WantedRange> ranges) {
  uint64_t bytes = 0;
  for (const WantedRange& range : ranges) bytes += range.length;
  return bytes;
}

std::vector<std::string> answer_texts(const std::vector<WantedRange>& ranges, uint64_t size,
                                      bool keep, const std::vector<uint32_t>& crc32cs,
                                      std::string_view proof) {
  std::vector<std::string> texts(1);
  std::string type;
  if (ranges.size() == 1) {
    type = content_range(ranges[0], size);
    texts.resize(3);
  } else {
    type = fmt::format("Content-Type: multipart/byteranges; boundary={}\r\n", kBoundary);
    for (const WantedRange& range : ranges) {
      texts.push_back(fmt::format("\r\n--{}\r\n{}\r\n", kBoundary, content_range(range, size)));
    }
    texts.push_back(fmt::format("\r\n--{}--\r\n", kBoundary));
  }
  if (!crc32cs.empty()) {
    type += kChecksumsHeader;
    for (size_t i = 0; i < crc32cs.size(); ++i) {
      type += fmt::format("{}{:08x}", i == 0 ? ": " : ",", crc32cs[i]);
    }
    type += "\r\n";
  }
  if (!proof.empty()) type += fmt::format("{}: {}\r\n", kServerProofHeader, proof);
  uint64_t length = bytes_of(ranges);
  for (const std::string& text : texts) length += text.size();
  texts[0] = fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n{}{}\r\n", length,
                         type, keep ? "" : "Connection: close\r\n");
  return texts;
}

}  // namespace forebay::io::serve
