// Copies the bytes of an answer to a range request into the memory of its ranges. The server may
// answer with one range, several parts, or the whole file.
#pragma once

#include "io/http/answer.h"
#include "io/origin.h"

namespace forebay::io::http {

// "bytes=0-9,100-109" for ranges of at least one byte.
std::string range_header(std::span<const Range> ranges);

// Errors: kIo if the file is not the known one, or the server sends it encoded or only whole;
// kUnavailable if the answer is not valid HTTP, and kTruncated if it ends early: another try may
// bring a better answer. None of them means that the file's bytes are damaged.
class RangeAnswer final : public Sink {
 public:
  // The ranges ascend, do not overlap and have at least one byte each; their memory must outlive
  // this. Empty parts of the identity are unknown. If the size is unknown (0), a whole file is
  // accepted only if the answer says its size.
  RangeAnswer(std::vector<Range> ranges, Identity known);

  Status begin(const Head& head) override;
  Status append(Bytes bytes) override;
  Status end() override;
  bool has_enough() const override;

  // The ranges that are still missing, into the same memory. They must be requested again: a server
  // may answer fewer ranges than requested, or the connection may break.
  std::vector<Range> rest() const;
  // Whether the answer could hold several ranges (multipart/byteranges).
  bool had_parts() const { return has_parts_; }
  // Whether the server sent the whole file although only parts of it were asked for.
  bool ignored_ranges() const { return ignored_ranges_; }
  // Whether the server sent only a part of the file, as requested.
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
  size_t next_ = 0;    // the range that is being filled
  uint64_t have_ = 0;  // bytes of this range that are filled
  State state_ = State::kIgnore;
  uint64_t at_ = 0;         // the file offset of the next byte
  uint64_t bytes_end_ = 0;  // the file offset where the run of bytes ends
  bool has_parts_ = false;
  bool ignored_ranges_ = false;
  bool honoured_ranges_ = false;
  std::string delimiter_;  // "--" and the boundary
  std::string line_;       // the part of the current line that has come
  uint64_t between_ = 0;   // bytes of lines since the last run of the file's bytes
  uint64_t useless_ = 0;   // bytes that came when no more were needed
  std::string content_range_;
};

// "bytes 0-9/100" as first, end (exclusive) and the file's size; nothing if it is malformed. The
// size is 0 if the server does not tell it ("*").
struct ContentRange {
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t size = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace forebay::io::http
