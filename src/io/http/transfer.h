// One request that libcurl carries out: sets it up, and passes the answer to its sink.
#pragma once

#include <curl/curl.h>

#include <stop_token>

#include "io/http/client.h"

namespace forebay::io::http {

// libcurl's list of headers. The destructor overwrites them, because some are secret.
class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList();
  void add(const std::string& line);
  void add(const Secret& line);
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// It cannot be moved, because libcurl has its address. One thread at a time may use it.
class Transfer {
 public:
  Transfer(Request request, Sink& sink, Client::Done done)
      : request_(std::move(request)), sink_(sink), done_(std::move(done)) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Calls `wake` when a stop of the request is requested.
  void watch(std::function<void()> wake) {
    stopped_.emplace(request_.options.stop, std::move(wake));
  }
  const Request& request() const { return request_; }
  // Why the request should be given up: it was stopped, is late or is no longer wanted. Nothing if
  // it should go on.
  std::optional<Status> given_up(int64_t now_ns) const;

  // Sets up `handle` to send the request. `fresh` asks for a new connection. The options and the
  // link must outlive the transfer.
  void prepare(CURL* handle, const ClientOptions& options, Link& link, bool fresh);
  CURL* handle() const { return handle_; }
  // When to call is_slow() next; INT64_MAX for never.
  int64_t next_look_ns() const;
  // Whether the transfer is slow, so that on_slow() should be called. True at most once.
  bool is_slow(int64_t now_ns);
  // Each of these ends the transfer and calls `done`. The caller frees the handle.
  void finish(CURLcode code);
  void fail(Status status);

  int64_t sent_ns() const { return outcome_.sent_ns; }

 private:
  static int on_socket(void* options, curl_socket_t socket, curlsocktype purpose);
  static size_t on_header(char* text, size_t one, size_t size, void* self);
  static size_t on_body(char* text, size_t one, size_t size, void* self);
  static size_t on_upload(char* out, size_t one, size_t size, void* self);
  static int on_rewind(void* self, curl_off_t offset, int origin);
  void set_connection(const ClientOptions& options, bool fresh);
  void set_method();
  void set_body();
  void set_headers();
  template <class Take>
  bool take(Take take);
  bool take_header(std::string_view line);
  bool take_body(Bytes bytes);
  void note_head();
  bool begin_body();
  bool is_wanted() const { return !request_.wanted || request_.wanted(); }
  void count_bytes();
  // The status for an error of libcurl; `answer` is the answer's code so far.
  Status failure(CURLcode code) const;

  Request request_;
  Sink& sink_;
  Client::Done done_;
  Outcome outcome_;
  CURL* handle_ = nullptr;
  HeaderList headers_;
  size_t piece_ = 0;     // the piece of the request's body that is being sent
  size_t in_piece_ = 0;  // bytes of this piece that were sent
  uint64_t uploaded_ = 0;
  Link* link_ = nullptr;
  size_t head_lines_ = 0;   // lines of the current head after its status line
  bool begun_ = false;      // the sink has the head
  bool receiving_ = false;  // bytes of the answer's body have come
  bool was_slow_ = false;
  int64_t mark_ns_ = 0;      // once the body has begun: since when it is checked for being slow
  uint64_t mark_bytes_ = 0;  // bytes_received at that time
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::optional<std::stop_callback<std::function<void()>>> stopped_;
};

}  // namespace forebay::io::http
