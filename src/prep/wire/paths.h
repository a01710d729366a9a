// The paths of a host's requests to a prep server.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace forebay::prep {

// POST of a job's text. The answer is a JobAnswer (answers.h).
inline constexpr std::string_view kJobsPath = "/prep/jobs";

// What a GET of a job's step asks for.
enum class Asked : uint8_t {
  kSend,  // to send the batch in the form of encode_batch(), and to keep it no longer
  kFile,  // to leave the batch as a file; the answer is a FileAnswer or, if that fails, the batch
  kKeep,  // to prepare the batch and keep it; the answer is empty, and comes when it is made
  kKeepFile,  // to prepare the batch and keep it in a file
  kOver,      // to drop the batch and its file; the answer is empty
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

// A host holds a GET of this path open as long as it needs the job. The request is not answered;
// when the host hangs up, the prep server ends the job and drops its kept steps.
inline std::string stay_path(std::string_view job) { return fmt::format("/prep/{}/stay", job); }
// The job's name, if the path is a stay_path().
std::optional<std::string> parse_stay(std::string_view path);

// POST of a piece of a table (tables.h); the answer is empty. Pieces come one after the other.
struct TablePiece {
  std::string table;   // the table's name
  uint64_t bytes = 0;  // of the whole table
  uint64_t offset = 0;
};
inline std::string text_of(const TablePiece& piece) {
  return fmt::format("/prep/tables/{}/{}/{}", piece.table, piece.bytes, piece.offset);
}
std::optional<TablePiece> parse_piece(std::string_view path);

// GET that sets a job's samples: from now on its steps are those of one epoch, whose samples are
// the list in a table; or, without a table, those of the job's own epochs. The answer is empty.
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
