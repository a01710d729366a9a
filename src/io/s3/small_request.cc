#include "io/s3/small_request.h"

#include <curl/curl.h>

#include <memory>

#include "base/limits.h"
#include "base/utf8.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;
using base::Result;

namespace {

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

// libcurl's list of headers, whose copies are overwritten in the end.
class HeaderList {
 public:
  explicit HeaderList(const std::vector<Secret>& headers) {
    for (const Secret& header : headers) {
      std::string text(header.reveal());
      curl_slist* longer = curl_slist_append(list_, text.c_str());
      Secret::wipe(text.data(), text.size());
      if (longer == nullptr) continue;  // out of memory; the service will refuse the request
      list_ = longer;
    }
  }
  ~HeaderList() {
    for (curl_slist* item = list_; item != nullptr; item = item->next) {
      Secret::wipe(item->data, std::char_traits<char>::length(item->data));
    }
    curl_slist_free_all(list_);
  }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

struct Transfer {
  SmallAnswer answer = {};
  bool too_big = false;
  std::stop_token stop = {};
};

size_t take_body(char* data, size_t, size_t bytes, void* to) {
  Transfer& transfer = *static_cast<Transfer*>(to);
  if (bytes > base::kCredentialAnswerBytesMax - transfer.answer.body.size()) {
    transfer.too_big = true;
    return 0;
  }
  transfer.answer.body.append({data, bytes});
  return bytes;
}

size_t take_header(char* data, size_t, size_t bytes, void* to) {
  constexpr std::string_view kName = "date:";
  if (bytes > kName.size() && curl_strnequal(data, kName.data(), kName.size())) {
    const std::string value(data + kName.size(), bytes - kName.size());
    const time_t seconds = curl_getdate(value.c_str(), nullptr);
    constexpr time_t kSecondsEnd = INT64_MAX / 1'000'000'000;
    if (seconds > 0 && seconds < kSecondsEnd) {
      static_cast<Transfer*>(to)->answer.date_ns = int64_t{seconds} * 1'000'000'000;
    }
  }
  return bytes;
}

// libcurl calls this at least once a second.
int look_for_stop(void* from, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(from)->stop.stop_requested() ? 1 : 0;
}

void set_up(CURL* curl, const SmallRequest& request, const HeaderList& headers) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "forebay");
  if (!request.through_proxy) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  if (!request.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request.ca_file.c_str());
  if (request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.form.reveal().data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.form.size()));
  } else {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void receive_into(CURL* curl, Transfer& transfer, char* error) {
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &look_for_stop);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
}

// libcurl sets itself up with the first handle; its version 7.84 made that safe in any thread.
Result<SmallAnswer> try_once(const SmallRequest& request, const std::stop_token& stop) {
  const Handle curl(curl_easy_init(), &curl_easy_cleanup);
  if (!curl) return fail(Code::kNoMemory, "no memory to ask for credentials");
  const HeaderList headers(request.headers);
  Transfer transfer{.stop = stop};
  char error[CURL_ERROR_SIZE] = {};
  set_up(curl.get(), request, headers);
  receive_into(curl.get(), transfer, error);
  const CURLcode code = curl_easy_perform(curl.get());
  const std::string where = base::to_utf8(request.url.substr(0, request.url.find('?')));
  if (transfer.too_big) {
    return fail(Code::kTooBig, "the answer of {} is longer than {} bytes", where,
                base::kCredentialAnswerBytesMax);
  }
  if (stop.stop_requested()) return fail(Code::kCancelled, "asking {} was stopped", where);
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return fail(Code::kTimedOut, "{} did not answer within {} ms", where, request.timeout_ms);
  }
  if (code != CURLE_OK) {
    return fail(Code::kUnavailable, "cannot ask {}: {}", where,
                base::to_utf8(*error != '\0' ? error : curl_easy_strerror(code)));
  }
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &transfer.answer.status);
  return std::move(transfer.answer);
}

bool worth_another_try(const Result<SmallAnswer>& answer) {
  if (answer) return answer->status >= 500;
  return answer.error().code() == Code::kUnavailable || answer.error().code() == Code::kTimedOut;
}

}  // namespace

Result<SmallAnswer> ask(const SmallRequest& request, const std::stop_token& stop) {
  Result<SmallAnswer> answer = try_once(request, stop);
  for (int tries = 1; tries < request.tries && worth_another_try(answer); ++tries) {
    answer = try_once(request, stop);
  }
  return answer;
}

Secret form_value(std::string_view text) {
  const std::unique_ptr<char, decltype(&curl_free)> escaped(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), &curl_free);
  if (!escaped) return Secret();
  Secret value(escaped.get());
  Secret::wipe(escaped.get(), value.size());
  return value;
}

}  // namespace forebay::io::s3
