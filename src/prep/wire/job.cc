#include "prep/wire/job.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/json_fields.h"
#include "base/utf8.h"
#include "prep/wire/enum_names.h"
#include "prep/wire/job_check.h"
#include "prep/wire/option_fields.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::FieldReader;
using base::FieldWriter;
using nlohmann::json;

namespace {

constexpr uint32_t kFormat = 3;  // of the text

enum class JobOrder : uint8_t { kShuffled, kStored, kWeighted };
constexpr const char* name_of(JobOrder order) {
  switch (order) {
    case JobOrder::kShuffled:
      return "shuffled";
    case JobOrder::kStored:
      return "stored";
    case JobOrder::kWeighted:
      return "weighted";
  }
  return nullptr;
}

// The order of epochs whose samples are drawn by weights.
struct JobDraws {
  std::string weights;   // the table's name
  uint64_t samples = 0;  // of an epoch
};

// A job in the form of its text.
struct JobText {
  std::string dataset;
  std::string forebay;  // the version
  uint32_t format = 0;
  std::string host;
  feed::FeedOptions options;
  JobOrder order = JobOrder::kShuffled;
  std::optional<std::string> targets;
  std::optional<JobDraws> draws;  // with kWeighted
  std::vector<std::string> selections;
};

constexpr auto fields_of(const JobDraws*) { return base::fields("JobDraws", "weights", "samples"); }
constexpr auto fields_of(const JobText*) {
  return base::fields("Job", "dataset", "forebay", "format", "host", "options", "order", "targets",
                      "draws", "selections");
}

Status check_hash(const char* name, const std::string& text) {
  if (base::sha256_from_hex(text)) return {};
  return fail(Code::kInvalid, "job: {} must be a SHA-256 in hexadecimal digits", name);
}

Status check_job(const JobText& job) {
  RETURN_IF_ERROR(check_hash("dataset", job.dataset));
  if (!base::sha256_from_hex(job.host)) {
    return fail(Code::kInvalid, "job: host must be 64 hexadecimal digits");
  }
  if (job.targets) RETURN_IF_ERROR(check_hash("targets", *job.targets));
  if (job.selections.size() > base::kJobSelectionsMax) {
    return fail(Code::kInvalid, "job: {} selections of selections, but there may be {} at most",
                job.selections.size(), base::kJobSelectionsMax);
  }
  for (const std::string& name : job.selections) RETURN_IF_ERROR(check_hash("selections", name));
  if (job.draws) RETURN_IF_ERROR(check_hash("draws", job.draws->weights));
  if (job.draws.has_value() != (job.order == JobOrder::kWeighted)) {
    return fail(Code::kInvalid, "job: the order \"weighted\", and no other, must have draws");
  }
  feed::FeedOptions options = job.options;
  options.targets = job.targets ? std::make_shared<feed::Targets>() : nullptr;
  RETURN_IF_ERROR(feed::check_options(options).at("job"));
  return check_job_steps(options.transform.steps).at("job");
}

// Also adds the tables that the text names to `tables`.
Result<JobText> text_of(const PrepJob& job, std::vector<Table>* tables) {
  JobText out{.dataset = job.dataset,
              .forebay = FOREBAY_VERSION,
              .format = kFormat,
              .host = job.host,
              .options = job.options,
              .targets = {},
              .draws = {},
              .selections = job.selections};
  if (std::holds_alternative<feed::Stored>(job.options.order)) {
    out.order = JobOrder::kStored;
  } else if (const auto* weighted = std::get_if<feed::Weighted>(&job.options.order)) {
    out.order = JobOrder::kWeighted;
    const bool has_table = weighted->weights != nullptr;
    out.draws = {.weights = has_table ? tables->emplace_back(table_of(*weighted->weights)).name
                                      : job.weights,
                 .samples = weighted->samples};
  } else if (!std::holds_alternative<feed::Shuffled>(job.options.order)) {
    return fail(Code::kUnsupported, "job: its order cannot be a list of one epoch's samples");
  }
  if (!job.options.further.empty()) {
    return fail(Code::kUnsupported,
                "job: a prep server cannot yet prepare the further images of samples");
  }
  if (!job.targets.empty()) out.targets = job.targets;
  if (job.options.targets == nullptr) return out;
  if (job.options.targets->maps != nullptr) {
    return fail(Code::kUnsupported, "job: a prep server cannot yet prepare maps of labels");
  }
  out.targets = tables->emplace_back(table_of(*job.options.targets)).name;
  return out;
}

// Checked first, because another version's text may look wrong here.
Status check_version(const json& text) {
  const auto version = text.find("forebay");
  const auto format = text.find("format");
  if (version == text.end() || !version->is_string() || format == text.end() ||
      !format->is_number_unsigned()) {
    return fail(Code::kInvalid, "job: its text does not say which version of Forebay wrote it");
  }
  const auto its_version = version->get<std::string>().substr(0, base::kMessageTextBytesMax);
  const auto its_format = format->get<uint64_t>();
  if (its_version == FOREBAY_VERSION && its_format == kFormat) return {};
  return fail(Code::kUnsupported,
              "job: it comes from Forebay {} (format {}), but this is Forebay {} (format {}); use "
              "the same version on both machines",
              base::to_utf8(its_version), its_format, FOREBAY_VERSION, kFormat);
}

Result<std::string> written(const JobText& job) {
  FieldWriter writer("job");
  const json text = writer.write(job);
  RETURN_IF_ERROR(writer.status());
  RETURN_IF_ERROR(check_job(job));
  std::string out = text.dump();
  if (out.size() <= base::kJobBytesMax) return out;
  return fail(Code::kInvalid, "job: its text would have {} bytes, but may have at most {}",
              out.size(), base::kJobBytesMax);
}

}  // namespace

void set_dataset(const store::Dataset& dataset, PrepJob* job, std::vector<Table>* tables) {
  const auto selected = dataset.selected();
  if (!selected) {
    job->dataset = base::to_hex(dataset.fingerprint());
    return;
  }
  set_dataset(*selected->base, job, tables);
  job->selections.push_back(tables->emplace_back(table_of(selected->samples)).name);
}

Result<EncodedJob> encode_job(const PrepJob& job) {
  EncodedJob out;
  ASSIGN_OR_RETURN(const JobText text, text_of(job, &out.tables));
  ASSIGN_OR_RETURN(out.text, written(text));
  return out;
}

Result<PrepJob> decode_job(std::string_view text) {
  if (text.size() > base::kJobBytesMax) {
    return fail(Code::kInvalid, "job: its text has {} bytes, but may have at most {}", text.size(),
                base::kJobBytesMax);
  }
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return fail(Code::kInvalid, "job: its text is not a JSON object");
  RETURN_IF_ERROR(check_version(parsed));
  JobText read;
  FieldReader reader("job");
  reader.read(parsed, &read);
  RETURN_IF_ERROR(reader.status());
  const JobDraws draws = read.draws.value_or(JobDraws());
  if (read.order == JobOrder::kStored) read.options.order = feed::Stored{};
  if (read.order == JobOrder::kWeighted) {
    read.options.order = feed::Weighted{.weights = nullptr, .samples = draws.samples};
  }
  ASSIGN_OR_RETURN(const std::string again, written(read));
  if (again != text) {
    const auto [differs, unused] = std::ranges::mismatch(again, text);
    return fail(Code::kInvalid, "job: its text differs from what Forebay would write, at byte {}",
                differs - again.begin());
  }
  return PrepJob{.dataset = std::move(read.dataset),
                 .host = std::move(read.host),
                 .options = std::move(read.options),
                 .targets = std::move(read.targets).value_or(""),
                 .weights = draws.weights,
                 .selections = std::move(read.selections)};
}

std::string job_name(std::string_view text) {
  return base::to_hex(base::sha256(base::as_bytes(text)));
}

}  // namespace forebay::prep
