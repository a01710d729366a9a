// Sorts the bytes of an answer to a range request into the memory that waits for them, whatever of
// the allowed answers the server chose: one range, several parts, or the whole file.
#pragma once

#include "io/http/answer.h"
#include "io/origin.h"

namespace forebay::io::http {

// "bytes=0-9,100-109" for ranges of at least one byte.
std::string range_header(std::span<const Range> ranges);

// Errors: kIo where the file is another one than is known, or is sent in a form without ranges;
// kUnavailable where the answer breaks HTTP's rules, kTruncated where it ends early: another try
// may bring a better one. None of them says that the file's bytes are bad.
class RangeAnswer final : public Sink {
 public:
  // The ranges ascend, do not overlap and have at least one byte each; their memory outlives this.
  // Empty parts of the identity are not known. The answer to a request for some ranges of a file
  // whose size is not known (0) may not be the whole file.
  RangeAnswer(std::vector<Range> ranges, Identity known);

  Status begin(const Head& head) override;
  Status append(Bytes bytes) override;
  Status end() override;
  bool has_enough() const override;

  // What is still missing, as ranges into the same memory. A server may answer fewer ranges than
  // were asked for, or be cut off: the rest must be asked for again.
  std::vector<Range> rest() const;
  // Whether the server had several ranges in one answer.
  bool had_parts() const { return has_parts_; }
  // Whether the server sent the whole file although only parts of it were asked for.
  bool ignored_ranges() const { return ignored_ranges_; }
  // Whether the server sent only a part of the file, as it was asked to.
  bool honoured_ranges() const { return honoured_ranges_; }

 private:
  enum class State : uint8_t { kBytes, kBoundary, kPartHead, kIgnore };

  Status begin_bytes(uint64_t first, uint64_t end);
  Status take_bytes(Bytes bytes);
  Status take_line(std::string_view line);
  Status end_of_part_head();
  Status check_identity(const Head& head);
  Status check_size(uint64_t size);

  const std::vector<Range> ranges_;
  const Identity known_;
  Identity found_;
  size_t next_ = 0;    // the range that is filled at the moment
  uint64_t have_ = 0;  // bytes of it that are filled
  State state_ = State::kIgnore;
  uint64_t at_ = 0;         // the position in the file of the next byte
  uint64_t bytes_end_ = 0;  // where the run of bytes ends in the file
  bool has_parts_ = false;
  bool ignored_ranges_ = false;
  bool honoured_ranges_ = false;
  std::string delimiter_;  // "--" and the boundary
  std::string line_;       // what has come of the current line
  uint64_t between_ = 0;   // bytes of lines since the last run of the file's bytes
  uint64_t useless_ = 0;   // bytes that came when nothing more was wanted
  std::string content_range_;
};

// "bytes 0-9/100" as first, end (exclusive) and the file's size; nothing where it is malformed. The
// size is 0 where the server does not tell it ("*").
struct ContentRange {
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t size = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace forebay::io::http
