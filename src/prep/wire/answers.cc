#include "prep/wire/answers.h"

#include "base/checksum.h"
#include "base/json_fields.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::FieldReader;
using base::FieldWriter;
using nlohmann::json;

constexpr auto fields_of(const JobAnswer*) {
  return base::fields("JobAnswer", "job", "keeps", "keeps_files", "folder", "mark");
}
constexpr auto fields_of(const FileAnswer*) { return base::fields("FileAnswer", "name", "bytes"); }

namespace {

template <class T>
std::string encode_fields(const T& answer) {
  return FieldWriter("answer").write(answer).dump();
}

template <class T>
Result<T> decode_fields(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return fail(Code::kCorrupt, "the prep server's answer is not JSON");
  T out;
  FieldReader reader("the prep server's answer");
  reader.read(parsed, &out);
  if (reader.status().ok()) return out;
  return fail(Code::kCorrupt, "{}", reader.status().message());
}

// File names must be random numbers, so that they never lead out of the folder.
bool is_file_name(const std::string& name) { return base::sha256_from_hex(name).has_value(); }

}  // namespace

std::string encode(const JobAnswer& answer) { return encode_fields(answer); }
std::string encode(const FileAnswer& answer) { return encode_fields(answer); }

Result<JobAnswer> decode_job_answer(std::string_view text) {
  ASSIGN_OR_RETURN(auto answer, decode_fields<JobAnswer>(text));
  const bool is_folder = answer.folder.starts_with('/') && is_file_name(answer.mark);
  if (is_folder || (answer.folder.empty() && answer.mark.empty())) return answer;
  return fail(Code::kCorrupt, "the prep server's answer has an invalid folder or mark");
}

Result<FileAnswer> decode_file_answer(std::string_view text) {
  ASSIGN_OR_RETURN(auto answer, decode_fields<FileAnswer>(text));
  if (is_file_name(answer.name)) return answer;
  return fail(Code::kCorrupt, "the prep server's answer has an invalid file name");
}

}  // namespace forebay::prep
