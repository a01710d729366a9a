// How a host names to a prep server what it asks for.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace forebay::prep {

// A job's text is sent here with POST. The answer is a JobAnswer (answers.h).
inline constexpr std::string_view kJobsPath = "/prep/jobs";

// What is asked with GET of a step of a job.
enum class Asked : uint8_t {
  kSend,  // the batch as encode_batch() makes it, which is not kept any more
  kFile,  // the same in a file of the prep server's folder: a FileAnswer, or the batch where the
          // prep server could not write it
  kKeep,  // to prepare the batch and keep it; the answer is empty, and comes when it is made
  kKeepFile,  // the same in a file
  kOver,      // not to keep it or its file any more; the answer is empty
};
struct StepPath {
  std::string job;
  uint64_t epoch = 0;
  uint64_t step = 0;
  Asked asked = Asked::kSend;
};
inline constexpr std::pair<Asked, std::string_view> kStepEnds[] = {{Asked::kSend, ""},
                                                                   {Asked::kFile, "/file"},
                                                                   {Asked::kKeep, "/keep"},
                                                                   {Asked::kKeepFile, "/keep-file"},
                                                                   {Asked::kOver, "/over"}};
inline std::string text_of(const StepPath& path) {
  const std::string_view end = kStepEnds[static_cast<size_t>(path.asked)].second;
  return fmt::format("/prep/{}/{}/{}{}", path.job, path.epoch, path.step, end);
}

std::optional<StepPath> parse_step(std::string_view path);

// A host asks for this as long as it needs the job. It is not answered; when the host hangs up, the
// prep server ends the job, with all that it keeps for it.
inline std::string stay_path(std::string_view job) { return fmt::format("/prep/{}/stay", job); }
// The job, where the path is a stay_path().
std::optional<std::string> parse_stay(std::string_view path);

// A piece of a table (tables.h) is sent here with POST; the answer is empty. Pieces come one after
// the other.
struct TablePiece {
  std::string table;   // its name
  uint64_t bytes = 0;  // of the whole table
  uint64_t offset = 0;
};
inline std::string text_of(const TablePiece& piece) {
  return fmt::format("/prep/tables/{}/{}/{}", piece.table, piece.bytes, piece.offset);
}
std::optional<TablePiece> parse_piece(std::string_view path);

// Asks with GET that from now on a job's steps are those of one epoch, whose samples are a table's
// list; or, without a table, those of the job's own epochs. The answer is empty.
struct ListPath {
  std::string job;
  uint64_t epoch = 0;
  std::string table = {};
};
inline std::string text_of(const ListPath& path) {
  return fmt::format("/prep/{}/{}/list/{}", path.job, path.epoch, path.table);
}
std::optional<ListPath> parse_list(std::string_view path);

}  // namespace forebay::prep
