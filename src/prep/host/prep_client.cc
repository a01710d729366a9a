#include "prep/host/prep_client.h"

#include <charconv>

#include "io/file_system.h"
#include "io/find_address.h"
#include "io/http/answer.h"
#include "io/machine.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr uint32_t kConnectionsToOne = 16;  // a step occupies one while it is prepared
constexpr int64_t kConnectNs = 5'000'000'000;
constexpr int64_t kShortNs = 60'000'000'000;  // for small answers
constexpr int64_t kYearNs = 365 * 24 * 3600 * int64_t{1'000'000'000};
// Most bytes of a batch before its tensor: columns, boxes, masks, files.
constexpr uint64_t kFrontBytesMost = 2'000'000'000;
// After so many unreadable files in a row, a server's batches are sent instead.
constexpr uint32_t kUnreadMost = 3;
constexpr size_t kToReadMost = 256;
// A table is sent in pieces of this size.
constexpr size_t kPieceBytes = base::kServedBodyBytesMax / 2;

uint64_t bytes_most(const Expected& expected) { return expected.tensor_bytes + kFrontBytesMost; }

// The error that an HTTP status code other than 200 stands for, with the server's text.
Status error_of(int code, const std::string& text) {
  const std::string said = io::http::printable(text);
  switch (code) {
    case 400:
      return {Code::kInvalid, said};
    case 404:
      return {Code::kNotFound, said};
    case 405:
      return {Code::kUnsupported, "the server at this address is not a prep server"};
    case 501:
      return {Code::kUnsupported, said};
    case 503:
      return {Code::kUnavailable, said};
    case 507:
      return {Code::kNoMemory, said};
    default:
      return {Code::kIo, fmt::format("{} ({})", said, code)};
  }
}

}  // namespace

// Takes an answer: the text of an error, or otherwise the bytes, at `memory_`.
class PrepClient::Taker final : public io::http::Sink {
 public:
  Taker(uint64_t bytes_max, std::shared_ptr<ReceivedMemory> received)
      : bytes_max_(bytes_max), received_(std::move(received)) {}

  Status begin(const io::http::Head& head) override {
    code_ = head.code;
    if (code_ != 200) return {};
    const std::string_view length = head.header("content-length");
    std::from_chars(length.data(), length.data() + length.size(), bytes_);
    if (bytes_ > bytes_max_) {
      return fail(Code::kCorrupt, "the answer has {}, which is more than any batch",
                  base::human_bytes(bytes_));
    }
    try {
      memory_ = received_->take(bytes_ + base::kPlanarPadding);
    } catch (const std::bad_alloc&) {
      return fail(Code::kNoMemory, "no memory for a batch of {}", base::human_bytes(bytes_));
    }
    return {};
  }
  Status append(Bytes bytes) override {
    if (code_ != 200) {
      const size_t room = base::kMessageTextBytesMax - text_.size();
      text_.append(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), room));
      return {};
    }
    if (bytes.size() > bytes_ - filled_) return fail(Code::kCorrupt, "the answer is too long");
    std::copy(bytes.begin(), bytes.end(), memory_.get() + filled_);
    filled_ += bytes.size();
    return {};
  }
  Status end() override {
    if (code_ != 200) return error_of(code_, text_);
    return filled_ == bytes_ ? Status() : fail(Code::kTruncated, "the answer ends early");
  }

  std::shared_ptr<uint8_t> memory() const { return memory_; }
  uint64_t bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(memory_.get()), memory_ == nullptr ? 0 : bytes_};
  }

 private:
  const uint64_t bytes_max_;
  const std::shared_ptr<ReceivedMemory> received_;
  int code_ = 0;
  std::string text_;
  std::shared_ptr<uint8_t> memory_;
  uint64_t bytes_ = 0;
  uint64_t filled_ = 0;
};

Result<ServerAddress> parse_server(const std::string& url) {
  ServerAddress out;
  out.name = url;
  std::string_view rest = url;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!rest.starts_with(scheme)) continue;
    rest.remove_prefix(scheme.size());
    out.is_tls = scheme == "https://";
    break;
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  const bool is_url = rest.size() < url.size() - (url.ends_with('/') ? 1 : 0);
  if (is_url && colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (error == std::errc() && end == port.data() + port.size()) rest = rest.substr(0, colon);
  }
  if (out.port == 0 || rest.empty() || rest.find_first_of("/@?#") != std::string_view::npos) {
    return fail(Code::kInvalid,
                "prep: \"{}\" does not name a prep server; give the address that `forebay prep` "
                "prints, http://HOST:PORT or https://HOST:PORT",
                io::http::printable(url));
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  ASSIGN_OR_RETURN(const io::FoundAddress found, io::find_address(std::string(rest)));
  if (!out.is_tls && !found.is_loopback) {
    return fail(Code::kInvalid,
                "prep: {} is another machine; use https:// and the secret in its "
                "`forebay prep --secret-file`",
                url);
  }
  out.host = found.text;
  out.is_loopback = found.is_loopback;
  return out;
}

Result<std::unique_ptr<PrepClient>> PrepClient::open(const io::Secret& secret, uint32_t servers) {
  std::unique_ptr<PrepClient> out(new PrepClient());
  io::serve::RangeClientOptions options{.connections_max = servers * kConnectionsToOne,
                                        .connections_to_one_max = kConnectionsToOne,
                                        .connect_ns = kConnectNs};
  out->plain_ = std::make_unique<io::serve::RangeClient>(options);
  if (secret.empty()) return out;
  auto job = io::serve::make_job_certificate(secret);
  if (!job) return tl::unexpected(job.error().at("prep"));
  options.job = std::make_shared<const io::serve::JobCertificate>(std::move(*job));
  out->tls_ = std::make_unique<io::serve::RangeClient>(options);
  return out;
}

PrepClient::PrepClient() : to_read_(kToReadMost) {
  readers_.start(1, [this](uint32_t) {
    while (const auto read = to_read_.pop()) (*read)();
  });
}

PrepClient::~PrepClient() {
  to_read_.close();
  readers_.wait();
}

void PrepClient::send_job(const ServerAddress& place, const std::string& text,
                          const std::vector<Table>& tables,
                          std::function<void(Result<uint32_t>)> done) {
  const Small small{.path = std::string(kJobsPath), .body = text, .answer_ns = kShortNs};
  ask_with_tables(
      place, small, tables,
      [this, server = place.name, done = std::move(done)](const Result<std::string>& said) {
        if (!said) return done(tl::unexpected(said.error()));
        const auto answer = decode_job_answer(*said);
        if (!answer) return done(tl::unexpected(answer.error()));
        const bool is_noted = to_read_.try_push(
            [this, server, answer = *answer, done] { done(note_answer(server, answer)); });
        if (!is_noted)
          done(fail(Code::kUnavailable, "prep: too many reads wait for prep servers' folders"));
      });
}

void PrepClient::send_list(const ServerAddress& place, const ListPath& path, const Table& list,
                           std::function<void(Status)> done) {
  std::vector<Table> tables;
  if (list.bytes != nullptr) tables.push_back(list);
  ask_with_tables(
      place, {.path = text_of(path), .answer_ns = kShortNs}, std::move(tables),
      [done = std::move(done)](const Result<std::string>& text) { done(base::status_of(text)); });
}

// Sends a request; if the server answers that a table is missing, sends the table and asks again.
void PrepClient::ask_with_tables(const ServerAddress& place, const Small& small,
                                 std::vector<Table> tables, Done done) {
  ask_small(place, small, [this, place, small, tables, done = std::move(done)](auto text) {
    const auto missing = std::ranges::find_if(tables, [&](const Table& table) {
      return !text && text.error().code() == Code::kNotFound &&
             text.error().message().find(table.name) != std::string::npos;
    });
    if (missing == tables.end()) return done(std::move(text));
    // Each table is sent at most once, so that this ends.
    std::vector<Table> rest = tables;
    rest.erase(rest.begin() + (missing - tables.begin()));
    send_table(place, *missing, 0, [this, place, small, rest, done](const Status& status) {
      if (!status.ok()) return done(tl::unexpected(status));
      ask_with_tables(place, small, rest, done);
    });
  });
}

// Sends the rest of a table, from `offset` on.
void PrepClient::send_table(const ServerAddress& place, const Table& table, uint64_t offset,
                            std::function<void(Status)> done) {
  if (offset == table.bytes->size()) return done({});
  const Bytes rest = Bytes(*table.bytes).subspan(offset);
  const Bytes bytes = rest.first(std::min<size_t>(rest.size(), kPieceBytes));
  const Small small{.path = text_of(TablePiece{table.name, table.bytes->size(), offset}),
                    .body = std::string(base::as_text(bytes)),
                    .answer_ns = kShortNs};
  ask_small(place, small,
            [this, place, table, next = offset + bytes.size(),
             done = std::move(done)](const Result<std::string>& text) {
              if (!text) return done(text.error());
              send_table(place, table, next, done);
            });
}

// Notes whether the server's folder is visible here, and returns how many steps the server can
// keep. A folder under the same path is the server's only if it has the server's mark.
uint32_t PrepClient::note_answer(const std::string& server, const JobAnswer& answer) {
  const bool is_seen =
      !answer.folder.empty() &&
      io::posix_file_system().open(io::join_path(answer.folder, answer.mark)).has_value();
  MutexLock lock(mutex_);
  if (is_seen) {
    folders_[server] = {.path = answer.folder};
  } else {
    folders_.erase(server);
  }
  const uint64_t keeps = uint64_t{answer.keeps} + (is_seen ? answer.keeps_files : 0);
  return static_cast<uint32_t>(std::min<uint64_t>(keeps, base::kKeptStepsMax));
}

std::string PrepClient::folder_of(const std::string& server) {
  MutexLock lock(mutex_);
  const auto found = folders_.find(server);
  return found == folders_.end() ? "" : found->second.path;
}

void PrepClient::note_reading(const std::string& server, const Status& status) {
  MutexLock lock(mutex_);
  const auto found = folders_.find(server);
  if (found == folders_.end()) return;
  uint32_t& failures = found->second.failures;
  failures = status.code() == Code::kIo ? failures + 1 : 0;
  if (failures >= kUnreadMost) folders_.erase(found);
}

Result<PrepClient::Fetched> PrepClient::read_file(const std::string& path, uint64_t bytes,
                                                  const Expected& expected) {
  const auto file = io::posix_file_system().open(path);
  if (!file) return fail(Code::kIo, "{}", file.error().message());
  if ((*file)->identity().size != bytes || bytes > bytes_most(expected)) {
    return fail(Code::kIo, "{}: {} bytes, but the prep server announced {}, of at most {}", path,
                (*file)->identity().size, bytes, bytes_most(expected));
  }
  std::shared_ptr<uint8_t> memory;
  try {
    memory = received_->take(bytes + base::kPlanarPadding);
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "no memory for a batch of {}", base::human_bytes(bytes));
  }
  const Status read = (*file)->read(0, {memory.get(), bytes});
  if (!read.ok()) return fail(Code::kIo, "{}", read.message());
  auto batch = decode_batch(std::move(memory), bytes, expected);
  // kIo, because the file system may be at fault: files are given up before the server is.
  if (!batch) return fail(Code::kIo, "{}: {}", path, batch.error().message());
  return Fetched{.batch = std::move(*batch), .bytes = bytes, .is_file = true};
}

void PrepClient::fetch_file(const ServerAddress& place, const Expected& expected,
                            const std::string& folder, const Taker& taker,
                            std::shared_ptr<const std::atomic<bool>> unwanted,
                            const std::function<void(Result<Fetched>)>& done) {
  constexpr size_t kAnswerMost = 1000;  // characters; the answer may also be a batch
  const auto answer = decode_file_answer(taker.text().substr(0, kAnswerMost));
  if (!answer) return done(tl::unexpected(answer.error()));
  const bool is_begun = to_read_.try_push(
      [this, place, expected, answer = *answer, folder, unwanted = std::move(unwanted), done] {
        auto fetched = read_file(io::join_path(folder, answer.name), answer.bytes, expected);
        // A file of a step that was given up meanwhile may already hold another batch, so a wrong
        // checksum says nothing about the folder.
        if (!unwanted->load()) note_reading(place.name, fetched ? Status() : fetched.error());
        tell_over(place, {.job = expected.job, .epoch = expected.epoch, .step = expected.step});
        done(std::move(fetched));
      });
  if (!is_begun)
    done(fail(Code::kUnavailable, "prep: too many reads wait for prep servers' folders"));
}

void PrepClient::tell(const ServerAddress& place, const std::string& path,
                      std::shared_ptr<const std::atomic<bool>> unwanted,
                      std::function<void(Status)> done) {
  ask_small(
      place, {.path = path, .answer_ns = kYearNs, .unwanted = std::move(unwanted)},
      [done = std::move(done)](const Result<std::string>& text) { done(base::status_of(text)); });
}

void PrepClient::tell_over(const ServerAddress& place, const StepPath& step) {
  StepPath over = step;
  over.asked = Asked::kOver;
  ask_small(place, {.path = text_of(over), .answer_ns = kShortNs},
            [](const Result<std::string>&) {});
}

void PrepClient::ask_small(const ServerAddress& place, const Small& small, Done done) {
  const auto taker = std::make_shared<Taker>(base::kServedBodyBytesMax, received_);
  io::serve::RangeRequest request{.host = place.host,
                                  .port = place.port,
                                  .target = small.path,
                                  .body = small.body,
                                  .answer_ns = small.answer_ns};
  if (small.unwanted != nullptr) {
    request.wanted = [unwanted = small.unwanted] { return !unwanted->load(); };
  }
  client_for(place).start(std::move(request), *taker,
                          [taker, done = std::move(done)](const io::serve::RangeOutcome& outcome) {
                            if (!outcome.status.ok()) return done(tl::unexpected(outcome.status));
                            done(std::string(taker->text()));
                          });
}

void PrepClient::fetch(const ServerAddress& place, const Expected& expected,
                       std::shared_ptr<const std::atomic<bool>> unwanted,
                       std::function<void(Result<Fetched>)> done) {
  const auto taker = std::make_shared<Taker>(bytes_most(expected), received_);
  const std::string folder = folder_of(place.name);
  const std::string target = text_of({.job = expected.job,
                                      .epoch = expected.epoch,
                                      .step = expected.step,
                                      .asked = folder.empty() ? Asked::kSend : Asked::kFile});
  client_for(place).start({.host = place.host,
                           .port = place.port,
                           .target = target,
                           .wanted = [unwanted] { return !unwanted->load(); }},
                          *taker,
                          [this, place, taker, expected, folder, unwanted,
                           done = std::move(done)](const io::serve::RangeOutcome& outcome) {
                            if (!outcome.status.ok()) return done(tl::unexpected(outcome.status));
                            const bool is_file = !folder.empty() && taker->text().starts_with('{');
                            if (is_file)
                              return fetch_file(place, expected, folder, *taker, unwanted, done);
                            auto batch = decode_batch(taker->memory(), taker->bytes(), expected);
                            if (!batch) return done(tl::unexpected(batch.error()));
                            done(Fetched{.batch = std::move(*batch), .bytes = taker->bytes()});
                          });
}

void PrepClient::drop_unwanted() {
  plain_->drop_unwanted();
  if (tls_ != nullptr) tls_->drop_unwanted();
}

}  // namespace forebay::prep
