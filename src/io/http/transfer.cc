#include "io/http/transfer.h"

#include <algorithm>
#include <limits>
#include <new>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/http/signature.h"
#include "io/http/url.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr long kBufferBytes = 512 << 10;  // the most that libcurl passes to a callback at once
// Unused connections are tested this often, so that a connection whose other side vanished is not
// used again.
constexpr long kKeepAliveSeconds = 15;
// A body does not count as slow before this time.
constexpr int64_t kLookNs = 1000 * kMs;

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(handle, option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  FOREBAY_CHECK(code == CURLE_OK);
}

// The code for a failure of libcurl, and what the user can do about it.
struct Failure {
  Code code;
  std::string_view advice;
};

constexpr std::string_view kLookAtTheWay = "check the server, and proxies on the way to it";

Failure failure_of(CURLcode code, bool is_redirect) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return {Code::kTimedOut,
              "check the server and the way to it, or allow more time (the storage options "
              "connect_timeout and read_timeout)"};
    case CURLE_COULDNT_RESOLVE_HOST:
      return {Code::kUnavailable, "check the host's name, and this machine's DNS"};
    case CURLE_COULDNT_CONNECT:
      return {Code::kUnavailable,
              "check that the server runs, and that it can be reached from here"};
    case CURLE_URL_MALFORMAT:
      return {Code::kInvalid, "correct the address"};
    case CURLE_UNSUPPORTED_PROTOCOL:  // also for answers that are not HTTP
      if (is_redirect) return {Code::kIo, "use the address that it redirects to"};
      return {Code::kUnavailable, "check that a web server or a store answers there"};
    case CURLE_PARTIAL_FILE:
      return {Code::kTruncated, kLookAtTheWay};
    case CURLE_OUT_OF_MEMORY:
      return {Code::kNoMemory, "free some memory"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return {Code::kIo,
              "check the server's certificate, or name a file of certificates to trust (the "
              "storage option verify)"};
    case CURLE_SSL_CONNECT_ERROR:
      return {Code::kUnavailable, "check that the server speaks TLS there (https:// or http://)"};
    case CURLE_TOO_MANY_REDIRECTS:
      return {Code::kIo, "use the address that the redirects should lead to"};
    default:
      return {Code::kUnavailable, kLookAtTheWay};
  }
}

// Adds advice for the user to an error about an invalid answer or a lack of memory.
Status advised(const Status& status) {
  if (status.code() == Code::kNoMemory) {
    return {status.code(), "no memory for the server's answer; free some memory"};
  }
  if (status.code() != Code::kUnavailable && status.code() != Code::kTruncated) return status;
  return {status.code(), fmt::format("{}; {}", status.message(), kLookAtTheWay)};
}

}  // namespace

HeaderList::~HeaderList() {
  for (curl_slist* item = list_; item != nullptr; item = item->next) {
    Secret::wipe(item->data, std::char_traits<char>::length(item->data));
  }
  curl_slist_free_all(list_);
}

void HeaderList::add(const Secret& line) {
  std::string text(line.reveal());
  add(text);
  Secret::wipe(text.data(), text.size());
}

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
    return Status(Code::kTimedOut, "the whole answer did not come before the deadline");
  }
  if (!is_wanted()) return Status(Code::kCancelled, "the answer is no longer needed");
  return std::nullopt;
}

int64_t Transfer::next_look_ns() const {
  if (was_slow_ || !request_.on_slow) return std::numeric_limits<int64_t>::max();
  if (!receiving_) return outcome_.sent_ns + link_->slow_ns();
  return mark_ns_ + std::max(link_->slow_ns(), kLookNs);
}

// A body is slow if it gets much less than its share of the link for a while.
bool Transfer::is_slow(int64_t now_ns) {
  if (now_ns < next_look_ns()) return false;
  const uint64_t came = outcome_.bytes_received - mark_bytes_;
  was_slow_ = !receiving_ || came < link_->bytes_expected(now_ns - mark_ns_);
  mark_ns_ = now_ns;
  mark_bytes_ = outcome_.bytes_received;
  return was_slow_;
}

void Transfer::prepare(CURL* handle, const ClientOptions& options, Link& link, bool fresh) {
  handle_ = handle;
  link_ = &link;
  outcome_.sent_ns = monotonic_ns();
  set(handle, CURLOPT_URL, request_.url.c_str());
  // The keys of objects may have "." and ".." as ordinary parts.
  set(handle, CURLOPT_PATH_AS_IS, 1L);
  set(handle, CURLOPT_ERRORBUFFER, error_.data());
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  // A redirect must not lead from TLS to plain HTTP.
  set(handle, CURLOPT_REDIR_PROTOCOLS_STR,
      request_.url.starts_with("https://") ? "https" : "http,https");
  // A signature is for one host; after a redirect by S3, the origin signs a new request.
  set(handle, CURLOPT_FOLLOWLOCATION, request_.redirects && !request_.signing ? 1L : 0L);
  set(handle, CURLOPT_MAXREDIRS, long{base::kHttpRedirectsMax});
  set_connection(options, fresh);
  set(handle, CURLOPT_HEADERFUNCTION, &on_header);
  set(handle, CURLOPT_HEADERDATA, this);
  set(handle, CURLOPT_WRITEFUNCTION, &on_body);
  set(handle, CURLOPT_WRITEDATA, this);
  // Without this header, servers may compress. libcurl sends it without signing it, because proxies
  // change it. An answer that is compressed all the same must not be decoded here: ranges count
  // bytes of the file.
  set(handle, CURLOPT_ACCEPT_ENCODING, "identity");
  set(handle, CURLOPT_HTTP_CONTENT_DECODING, 0L);
  set_method();
  set_headers();
}

void Transfer::set_connection(const ClientOptions& options, bool fresh) {
  set(handle_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_ns / kMs));
  set(handle_, CURLOPT_LOW_SPEED_LIMIT, long{base::kHttpSlowBytes});
  set(handle_, CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(options.stall_ns / (1000 * kMs))));
  set(handle_, CURLOPT_TCP_KEEPALIVE, 1L);
  set(handle_, CURLOPT_TCP_KEEPIDLE, kKeepAliveSeconds);
  set(handle_, CURLOPT_TCP_KEEPINTVL, kKeepAliveSeconds);
  set(handle_, CURLOPT_SOCKOPTFUNCTION, &on_socket);
  set(handle_, CURLOPT_SOCKOPTDATA, const_cast<ClientOptions*>(&options));
  if (fresh) set(handle_, CURLOPT_FRESH_CONNECT, 1L);
  set(handle_, CURLOPT_BUFFERSIZE, kBufferBytes);
  set(handle_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(handle_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));  // or newer
  if (!request_.through_proxy) set(handle_, CURLOPT_NOPROXY, "*");
  if (!options.ca_file.empty()) set(handle_, CURLOPT_CAINFO, options.ca_file.c_str());
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
  const bool signs_here = request_.signing && needs_own_signature(request_.headers);
  if (const auto& signing = request_.signing) {
    if (signs_here) {
      for (const Secret& line : signed_headers(request_, wall_ns())) headers_.add(line);
    } else {
      const std::string provider = fmt::format("aws:amz:{}:s3", request_.region);
      set(handle_, CURLOPT_AWS_SIGV4, provider.c_str());
      set(handle_, CURLOPT_USERNAME, std::string(signing->access_key).c_str());
      set(handle_, CURLOPT_PASSWORD, std::string(signing->secret_key).c_str());
    }
    headers_.add(fmt::format("x-amz-content-sha256: {}", request_.body_sha256.empty()
                                                             ? "UNSIGNED-PAYLOAD"
                                                             : request_.body_sha256));
    if (!signing->session_token.empty()) {
      Secret token("x-amz-security-token: ");
      token.append(signing->session_token);
      headers_.add(token);
    }
  }
  // No waiting for "100 Continue" before a body. libcurl 7.88 would sign the missing header, too.
  if (!request_.signing || signs_here) headers_.add("Expect:");
  for (const std::string& header : request_.headers) headers_.add(header);
  for (const Secret& header : request_.secret_headers) headers_.add(header);
  set(handle_, CURLOPT_HTTPHEADER, headers_.get());
}

// Without this limit, HTTP/2 would use a connection whose other side vanished again and again. The
// requests on it end earlier, at the stall limit.
int Transfer::on_socket(void* options, curl_socket_t socket, curlsocktype) {
  fail_when_unacknowledged(socket, 2 * static_cast<const ClientOptions*>(options)->stall_ns);
  return CURL_SOCKOPT_OK;
}

// Calls a function that takes a piece of the answer. No exception may pass through libcurl. A lack
// of memory ends only the request that needs memory; most of that is for the sink, which then frees
// it.
template <class Take>
bool Transfer::take(Take take) try {
  return take();
} catch (const std::bad_alloc&) {
  outcome_.status = Status(Code::kNoMemory, "");
  return false;
}

size_t Transfer::on_header(char* text, size_t one, size_t size, void* self) {
  const size_t bytes = one * size;
  auto& at = *static_cast<Transfer*>(self);
  return at.take([&] { return at.take_header({text, bytes}); }) ? bytes : 0;
}

// A redirect has a head too: each status line begins a new head.
bool Transfer::take_header(std::string_view line) {
  if (outcome_.first_byte_ns == 0) outcome_.first_byte_ns = monotonic_ns();
  line = trimmed_end(line);
  if (line.starts_with("HTTP/")) {
    outcome_.head = {};
    head_lines_ = 0;
    return true;
  }
  // The empty line at the end of the head is counted too.
  if (++head_lines_ > base::kHttpHeadersMax + 1) {
    outcome_.status = base::fail(Code::kUnavailable, "the server's answer has more than {} headers",
                                 base::kHttpHeadersMax);
    return false;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  outcome_.head.headers.emplace_back(lower(line.substr(0, colon)),
                                     std::string(trimmed(line.substr(colon + 1))));
  return true;
}

size_t Transfer::on_body(char* text, size_t one, size_t size, void* self) {
  const size_t bytes = one * size;
  const auto* const data = reinterpret_cast<const uint8_t*>(text);
  auto& at = *static_cast<Transfer*>(self);
  return at.take([&] { return at.take_body({data, bytes}); }) ? bytes : 0;
}

bool Transfer::take_body(Bytes bytes) {
  const int64_t now_ns = monotonic_ns();
  outcome_.bytes_received += bytes.size();
  link_->add_bytes(bytes.size(), now_ns, !receiving_);
  if (!receiving_) {
    receiving_ = true;
    mark_ns_ = now_ns;
    mark_bytes_ = outcome_.bytes_received;
  }
  if (!is_wanted()) {
    outcome_.status = {Code::kCancelled, "the answer is no longer needed"};
    return false;
  }
  if (!begun_ && !begin_body()) return false;
  outcome_.status = sink_.append(bytes);
  return outcome_.status.ok() && !sink_.has_enough();
}

// Completes the head: the headers alone do not tell where it came from.
void Transfer::note_head() {
  long code = 0;
  const char* url = nullptr;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &code);
  curl_easy_getinfo(handle_, CURLINFO_EFFECTIVE_URL, &url);
  outcome_.head.code = static_cast<int>(code);
  outcome_.head.url = without_query(url == nullptr ? "" : url);
}

bool Transfer::begin_body() {
  note_head();
  const int code = outcome_.head.code;
  begun_ = true;
  // Errors come faster than bytes of files, so their latency does not count.
  if (request_.reader != nullptr && code >= 200 && code < 300) {
    link_->add_first_byte(outcome_.first_byte_ns - outcome_.sent_ns);
  }
  outcome_.status = sink_.begin(outcome_.head);
  return outcome_.status.ok();
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

// libcurl goes back to the beginning if a connection that it reused turns out to be closed.
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

Status Transfer::failure(CURLcode code) const {
  // For a header line that is too long, libcurl reports a lack of memory.
  if (code == CURLE_OUT_OF_MEMORY && outcome_.first_byte_ns != 0 && !begun_) {
    return advised({Code::kUnavailable, "the server's answer has a header without end"});
  }
  const int answer = outcome_.head.code;
  const Failure failure = failure_of(code, answer >= 300 && answer < 400);
  const std::string why = without_user(error_[0] != 0 ? error_.data() : curl_easy_strerror(code));
  // libcurl reads the proxy's address with the request, and gives no code of its own for this.
  if (why.starts_with("Unsupported proxy")) {
    return {Code::kInvalid,
            fmt::format("{}; correct the proxy's address in https_proxy, http_proxy or all_proxy",
                        why)};
  }
  return {failure.code, fmt::format("{}; {}", why, failure.advice)};
}

void Transfer::finish(CURLcode code) {
  note_head();
  const bool cut = code == CURLE_WRITE_ERROR && begun_ && outcome_.status.ok();
  if (code == CURLE_OK || cut) {
    take([&] {
      if (!begun_) outcome_.status = sink_.begin(outcome_.head);
      if (outcome_.status.ok()) outcome_.status = sink_.end();
      return true;
    });
  } else if (outcome_.status.ok()) {
    return fail(failure(code));
  }
  fail(advised(outcome_.status));
}

void Transfer::fail(Status status) {
  stopped_.reset();
  if (handle_ != nullptr) count_bytes();
  if (receiving_) link_->done();
  outcome_.status = std::move(status);
  outcome_.end_ns = monotonic_ns();
  done_(std::move(outcome_));
}

}  // namespace forebay::io::http
