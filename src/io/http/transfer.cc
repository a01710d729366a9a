#include "io/http/transfer.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr long kBufferBytes = 512 << 10;  // what libcurl hands over at once, at most
// A connection that moves less is of no use to anybody.
constexpr long kSlowBytes = 1000;  // a second

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(handle, option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  FOREBAY_CHECK(code == CURLE_OK);
}

Code code_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return Code::kTimedOut;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return Code::kInvalid;
    case CURLE_PARTIAL_FILE:
      return Code::kTruncated;
    case CURLE_OUT_OF_MEMORY:
      return Code::kNoMemory;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_TOO_MANY_REDIRECTS:
      return Code::kIo;
    default:
      return Code::kUnavailable;
  }
}

std::string_view trimmed_end(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' ')) {
    line.remove_suffix(1);
  }
  return line;
}

}  // namespace

void HeaderList::add(const std::string& line) {
  curl_slist* const longer = curl_slist_append(list_, line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  list_ = longer;
}

std::optional<Status> Transfer::given_up(int64_t now_ns) const {
  if (request_.options.stop.stop_requested()) {
    return Status(Code::kCancelled, "reading was stopped");
  }
  if (request_.options.deadline_ns && now_ns >= *request_.options.deadline_ns) {
    return Status(Code::kTimedOut, "there was no whole answer before the deadline");
  }
  return std::nullopt;
}

void Transfer::prepare(CURL* handle, const ClientOptions& options) {
  handle_ = handle;
  outcome_.sent_ns = monotonic_ns();
  set(handle, CURLOPT_URL, request_.url.c_str());
  set(handle, CURLOPT_ERRORBUFFER, error_.data());
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  // A signature is for one host; where S3 redirects, the origin signs anew.
  set(handle, CURLOPT_FOLLOWLOCATION, request_.signing ? 0L : 1L);
  set(handle, CURLOPT_MAXREDIRS, long{base::kHttpRedirectsMax});
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_ns / kMs));
  set(handle, CURLOPT_LOW_SPEED_LIMIT, kSlowBytes);
  set(handle, CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(options.stall_ns / (1000 * kMs))));
  set(handle, CURLOPT_BUFFERSIZE, kBufferBytes);
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  if (!options.ca_file.empty()) set(handle, CURLOPT_CAINFO, options.ca_file.c_str());
  set(handle, CURLOPT_HEADERFUNCTION, &on_header);
  set(handle, CURLOPT_HEADERDATA, this);
  set(handle, CURLOPT_WRITEFUNCTION, &on_body);
  set(handle, CURLOPT_WRITEDATA, this);
  set_method();
  set_headers();
}

void Transfer::set_method() {
  if (request_.method == "HEAD") {
    set(handle_, CURLOPT_NOBODY, 1L);
  } else if (request_.method == "PUT") {
    set(handle_, CURLOPT_UPLOAD, 1L);
    set_body();
  } else if (request_.method == "POST") {
    set(handle_, CURLOPT_POST, 1L);
    set_body();
  } else if (request_.method != "GET") {
    set(handle_, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

void Transfer::set_body() {
  curl_off_t bytes = 0;
  for (const Bytes& piece : request_.body) bytes += static_cast<curl_off_t>(piece.size());
  const bool post = request_.method == "POST";
  set(handle_, post ? CURLOPT_POSTFIELDSIZE_LARGE : CURLOPT_INFILESIZE_LARGE, bytes);
  set(handle_, CURLOPT_READFUNCTION, &on_upload);
  set(handle_, CURLOPT_READDATA, this);
  set(handle_, CURLOPT_SEEKFUNCTION, &on_rewind);
  set(handle_, CURLOPT_SEEKDATA, this);
}

void Transfer::set_headers() {
  if (const auto& signing = request_.signing) {
    const std::string provider = fmt::format("aws:amz:{}:s3", request_.region);
    set(handle_, CURLOPT_AWS_SIGV4, provider.c_str());
    set(handle_, CURLOPT_USERNAME, std::string(signing->access_key).c_str());
    set(handle_, CURLOPT_PASSWORD, std::string(signing->secret_key).c_str());
    headers_.add(fmt::format("x-amz-content-sha256: {}", request_.body_sha256.empty()
                                                             ? "UNSIGNED-PAYLOAD"
                                                             : request_.body_sha256));
    if (!signing->session_token.empty()) {
      headers_.add(fmt::format("x-amz-security-token: {}", signing->session_token));
    }
  }
  // No waiting for "100 Continue" before a body. libcurl 7.88 would sign the missing header, too.
  if (!request_.signing) headers_.add("Expect:");
  for (const std::string& header : request_.headers) headers_.add(header);
  set(handle_, CURLOPT_HTTPHEADER, headers_.get());
}

size_t Transfer::on_header(char* text, size_t one, size_t size, void* self) {
  const size_t bytes = one * size;
  return static_cast<Transfer*>(self)->take_header({text, bytes}) ? bytes : 0;
}

// An answer to a redirect has a head too: each status line begins a new one.
bool Transfer::take_header(std::string_view line) {
  if (outcome_.first_byte_ns == 0) outcome_.first_byte_ns = monotonic_ns();
  line = trimmed_end(line);
  if (line.starts_with("HTTP/")) {
    outcome_.head = {};
    return true;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  if (outcome_.head.headers.size() == base::kHttpHeadersMax) {
    outcome_.status = base::fail(Code::kIo, "the server's answer has more than {} headers",
                                 base::kHttpHeadersMax);
    return false;
  }
  std::string name(line.substr(0, colon));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  std::string_view value = line.substr(colon + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  outcome_.head.headers.emplace_back(std::move(name), std::string(value));
  return true;
}

size_t Transfer::on_body(char* text, size_t one, size_t size, void* self) {
  const size_t bytes = one * size;
  const auto* const data = reinterpret_cast<const uint8_t*>(text);
  return static_cast<Transfer*>(self)->take_body({data, bytes}) ? bytes : 0;
}

bool Transfer::take_body(Bytes bytes) {
  outcome_.bytes_received += bytes.size();
  if (!begun_) {
    long code = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &code);
    outcome_.head.code = static_cast<int>(code);
    begun_ = true;
    outcome_.status = sink_.begin(outcome_.head);
  }
  if (outcome_.status.ok()) outcome_.status = sink_.append(bytes);
  return outcome_.status.ok() && !sink_.has_enough();
}

size_t Transfer::on_upload(char* out, size_t one, size_t size, void* self) {
  auto& at = *static_cast<Transfer*>(self);
  size_t room = one * size;
  size_t bytes = 0;
  while (room > 0 && at.piece_ < at.request_.body.size()) {
    const Bytes left = at.request_.body[at.piece_].subspan(at.in_piece_);
    const size_t now = std::min(room, left.size());
    std::copy_n(left.begin(), now, reinterpret_cast<uint8_t*>(out) + bytes);
    bytes += now;
    room -= now;
    at.in_piece_ += now;
    if (now < left.size()) break;
    ++at.piece_;
    at.in_piece_ = 0;
  }
  at.uploaded_ += bytes;
  return bytes;
}

// libcurl goes back to the beginning when a connection that it used again had been closed.
int Transfer::on_rewind(void* self, curl_off_t offset, int origin) {
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  auto& at = *static_cast<Transfer*>(self);
  at.piece_ = 0;
  at.in_piece_ = 0;
  return CURL_SEEKFUNC_OK;
}

void Transfer::count_bytes() {
  long bytes = 0;
  curl_easy_getinfo(handle_, CURLINFO_HEADER_SIZE, &bytes);
  outcome_.bytes_received += static_cast<uint64_t>(bytes);
  bytes = 0;
  curl_easy_getinfo(handle_, CURLINFO_REQUEST_SIZE, &bytes);
  outcome_.bytes_sent = static_cast<uint64_t>(bytes) + uploaded_;
}

void Transfer::finish(CURLcode code) {
  long answer = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &answer);
  outcome_.head.code = static_cast<int>(answer);
  count_bytes();
  const bool cut = code == CURLE_WRITE_ERROR && begun_ && outcome_.status.ok();
  if (code == CURLE_OK || cut) {
    if (!begun_) outcome_.status = sink_.begin(outcome_.head);
    if (outcome_.status.ok()) outcome_.status = sink_.end();
  } else if (outcome_.status.ok()) {
    const char* const why = error_[0] != 0 ? error_.data() : curl_easy_strerror(code);
    outcome_.status = {code_of(code), why};
  }
  fail(std::move(outcome_.status));
}

void Transfer::fail(Status status) {
  stopped_.reset();
  outcome_.status = std::move(status);
  outcome_.end_ns = monotonic_ns();
  done_(std::move(outcome_));
}

}  // namespace forebay::io::http
