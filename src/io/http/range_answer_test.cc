#include "io/http/range_answer.h"

#include <gmock/gmock.h>

#include "base/random.h"

namespace forebay::io::http {
namespace {

using base::ByteVector;
using base::Code;

ByteVector file_of(size_t size) {
  ByteVector file(size);
  for (size_t i = 0; i < size; ++i) file[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return file;
}

Bytes bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Asks for ranges of a file, and feeds an answer in pieces of drawn sizes.
class Asker {
 public:
  explicit Asker(std::vector<std::pair<uint64_t, uint64_t>> ranges) {
    for (const auto& [offset, length] : ranges) outs_.emplace_back(length, uint8_t{0xee});
    for (size_t i = 0; i < ranges.size(); ++i) {
      wanted_.push_back({.offset = ranges[i].first, .out = outs_[i]});
    }
  }
  Status take(const Head& head, std::string_view body, const Identity& identity, uint64_t seed) {
    RangeAnswer answer(wanted_, identity);
    RETURN_IF_ERROR(answer.begin(head));
    base::Random random(seed, base::Purpose::kTest);
    while (!body.empty()) {
      const size_t now = std::min<size_t>(body.size(), 1 + random.below(40));
      RETURN_IF_ERROR(answer.append(bytes(body.substr(0, now))));
      body.remove_prefix(now);
    }
    filled = wanted_.size() - answer.rest().size();
    return answer.end();
  }
  void expect_filled(const ByteVector& file, size_t count) const {
    EXPECT_EQ(filled, count);
    for (size_t i = 0; i < count; ++i) {
      const auto from = file.begin() + static_cast<int64_t>(wanted_[i].offset);
      EXPECT_TRUE(std::equal(outs_[i].begin(), outs_[i].end(), from)) << i;
    }
  }
  size_t filled = 0;
  const std::vector<Range>& wanted() const { return wanted_; }

 private:
  std::vector<ByteVector> outs_;
  std::vector<Range> wanted_;
};

std::string text(const ByteVector& file, size_t first, size_t end) {
  return {file.begin() + static_cast<int64_t>(first), file.begin() + static_cast<int64_t>(end)};
}

std::string part(const ByteVector& file, size_t first, size_t end) {
  return fmt::format("\r\n--B o\r\nContent-Type: x/y\r\nContent-range: bytes {}-{}/{}\r\n\r\n",
                     first, end - 1, file.size()) +
         text(file, first, end);
}

const Head kParts{.code = 206,
                  .headers = {{"content-type", "Multipart/Byteranges; boundary=\"B o\""}}};

TEST(RangeAnswer, WritesTheRequestsHeader) {
  Asker asker({{0, 10}, {100, 1}});
  EXPECT_EQ(range_header(asker.wanted()), "bytes=0-9,100-100");
}

TEST(RangeAnswer, TakesWhateverAServerMayAnswer) {
  const ByteVector file = file_of(1000);
  const Identity identity{.size = file.size(), .etag = "\"e\""};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Asker whole({{5, 10}, {15, 3}, {900, 100}});
    EXPECT_TRUE(whole.take({.code = 200}, text(file, 0, 1000), identity, seed).ok());
    whole.expect_filled(file, 3);

    Asker one({{5, 10}, {100, 30}});
    const Head single{.code = 206, .headers = {{"content-range", "bytes 5-14/1000"}}};
    EXPECT_TRUE(one.take(single, text(file, 5, 15), identity, seed).ok());
    one.expect_filled(file, 1);  // the first range only, as Ceph answers

    Asker parts({{5, 10}, {100, 30}, {200, 1}});
    const std::string body =
        part(file, 5, 15) + part(file, 100, 130) + part(file, 200, 201) + "\r\n--B o--\r\n";
    EXPECT_TRUE(parts.take(kParts, body, identity, seed).ok());
    parts.expect_filled(file, 3);

    Asker joined({{5, 10}, {20, 30}});  // a server may send near ranges as one
    EXPECT_TRUE(joined.take(kParts, part(file, 5, 50) + "\r\n--B o--", identity, seed).ok());
    joined.expect_filled(file, 2);
  }
}

TEST(RangeAnswer, RefusesWhatIsNotTheFile) {
  const ByteVector file = file_of(1000);
  const Identity identity{.size = file.size(), .etag = "\"e\""};
  const auto code = [&](Head head, std::string_view body) {
    Asker asker({{5, 10}});
    return asker.take(head, body, identity, 1).code();
  };
  const std::string ten(10, 'x');
  EXPECT_EQ(code({.code = 206, .headers = {{"content-range", "bytes 6-15/1000"}}}, ten),
            Code::kUnavailable);
  EXPECT_EQ(code({.code = 206, .headers = {{"content-range", "bytes 5-13/1000"}}}, ten),
            Code::kUnavailable);
  EXPECT_EQ(code({.code = 206}, ten), Code::kUnavailable);
  EXPECT_EQ(code({.code = 206, .headers = {{"content-range", "bytes 5-14/999"}}}, ten), Code::kIo);
  EXPECT_EQ(code({.code = 200, .headers = {{"etag", "\"f\""}}}, ten), Code::kIo);
  EXPECT_EQ(code({.code = 206, .headers = {{"content-range", "bytes 5-14/1000"}}}, "xxx"),
            Code::kTruncated);
  EXPECT_EQ(code(kParts, "\r\n--B o\r\nnonsense\r\n\r\n"), Code::kUnavailable);
  EXPECT_EQ(code(kParts, "what"), Code::kTruncated);
  EXPECT_EQ(code(kParts, "what\n"), Code::kUnavailable);
  EXPECT_EQ(code(kParts, std::string(100'000, 'x')), Code::kUnavailable);
}

TEST(RangeAnswer, AnAnswerWithoutEndIsCut) {
  const ByteVector file = file_of(1000);
  const std::string more(100'000, 'x');
  const Head one{.code = 206, .headers = {{"content-range", "bytes 5-14/1000"}}};
  const std::string again = part(file, 0, 1000);
  for (const auto& [head, body, useless] :
       {std::tuple{one, text(file, 5, 15), more}, {kParts, part(file, 5, 15), again}}) {
    Asker asker({{5, 10}});
    RangeAnswer answer(asker.wanted(), {.size = file.size()});
    ASSERT_TRUE(answer.begin(head).ok());
    ASSERT_TRUE(answer.append(bytes(body)).ok());
    EXPECT_FALSE(answer.has_enough());
    for (int i = 0; i < 1000 && !answer.has_enough(); ++i) {
      ASSERT_TRUE(answer.append(bytes(useless)).ok());
    }
    EXPECT_TRUE(answer.has_enough());
    EXPECT_TRUE(answer.end().ok());
    EXPECT_TRUE(answer.rest().empty());
  }
}

TEST(RangeAnswer, HeadsOfPartsHaveAnEnd) {
  for (const std::string_view begin : {"", "--B o\n"}) {
    Asker asker({{5, 10}});
    std::string body(begin);
    for (int i = 0; i < 20'000; ++i) body += begin.empty() ? "\n" : "a: b\n";
    EXPECT_EQ(asker.take(kParts, body, {}, 1).code(), Code::kUnavailable) << begin;
  }
}

TEST(RangeAnswer, BytesFarBeforeTheRangeAreNotWaitedFor) {
  Asker asker({{1u << 30, 10}});
  const Head head{.code = 206, .headers = {{"content-range", "bytes 0-2000000000/*"}}};
  EXPECT_EQ(asker.take(head, "", {}, 1).code(), Code::kUnavailable);
}

TEST(RangeAnswer, ReadsContentRanges) {
  for (const char* const wrong :
       {"", "bytes", "bytes 1-2", "bytes 2-1/9", "bytes 1-9/9", "bytes -1-2/9", "bytes 1-2/x",
        "items 1-2/9", "bytes 1-18446744073709551615/*",
        "bytes 1-2/9 "
        "x"}) {
    EXPECT_FALSE(parse_content_range(wrong)) << wrong;
  }
  const auto range = parse_content_range(" Bytes 1-2/*\r");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 1u);
  EXPECT_EQ(range->end, 3u);
  EXPECT_EQ(range->size, 0u);
}

}  // namespace
}  // namespace forebay::io::http
