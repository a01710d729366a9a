// One request on its way through libcurl: how it is set up, and what its answer becomes.
#pragma once

#include <curl/curl.h>

#include <stop_token>

#include "io/http/client.h"

namespace forebay::io::http {

// libcurl's list of headers.
class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_slist_free_all(list_); }
  void add(const std::string& line);
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// libcurl knows its address. One thread at a time may use it.
class Transfer {
 public:
  Transfer(Request request, Sink& sink, Client::Done done)
      : request_(std::move(request)), sink_(sink), done_(std::move(done)) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Calls `wake` when somebody stops the request.
  void watch(std::function<void()> wake) {
    stopped_.emplace(request_.options.stop, std::move(wake));
  }
  const Request& request() const { return request_; }
  // Why nobody waits for it any more, if so.
  std::optional<Status> given_up(int64_t now_ns) const;

  // Makes `handle` ready to send it.
  void prepare(CURL* handle, const ClientOptions& options);
  CURL* handle() const { return handle_; }
  // Either of these ends it and calls `done`.
  void finish(CURLcode code);
  void fail(Status status);

 private:
  static size_t on_header(char* text, size_t one, size_t size, void* self);
  static size_t on_body(char* text, size_t one, size_t size, void* self);
  static size_t on_upload(char* out, size_t one, size_t size, void* self);
  static int on_rewind(void* self, curl_off_t offset, int origin);
  void set_method();
  void set_body();
  void set_headers();
  bool take_header(std::string_view line);
  bool take_body(Bytes bytes);
  void count_bytes();

  Request request_;
  Sink& sink_;
  Client::Done done_;
  Outcome outcome_;
  CURL* handle_ = nullptr;
  HeaderList headers_;
  size_t piece_ = 0;     // of the body: the one that is sent at the moment
  size_t in_piece_ = 0;  // bytes of it that were sent
  uint64_t uploaded_ = 0;
  bool begun_ = false;  // the sink has the head
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::optional<std::stop_callback<std::function<void()>>> stopped_;
};

}  // namespace forebay::io::http
