// How a Connection sends held ranges: by sendfile() over TCP, and as many TLS records at once over
// TLS.
#pragma once

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "io/serve/connection.h"

namespace forebay::io::serve {

template <class Stream>
void Connection<Stream>::send_held(std::vector<HeldRange> held) {
  held_ = std::move(held);
  std::vector<uint32_t> crc32cs;
  for (const HeldRange& range : held_) crc32cs.push_back(range.crc32c);
  texts_ = answer_texts(wanted_, size_, keep_, crc32cs, loop_.proofs().of_server);
  segments_.clear();
  const auto add = [&](Bytes memory) { segments_.push_back({memory, nullptr, 0, memory.size()}); };
  add(base::as_bytes(texts_[0]));
  for (size_t i = 0; i < held_.size(); ++i) {
    add(base::as_bytes(texts_[1 + i]));
    for (const HeldPiece& piece : held_[i].pieces) {
      if (piece.file == nullptr) add(piece.bytes);
      if (piece.file != nullptr) {
        segments_.push_back({{}, piece.file.get(), piece.offset, piece.length});
      }
    }
  }
  add(base::as_bytes(texts_.back()));
  std::erase_if(segments_, [](const Segment& segment) { return segment.length == 0; });
  begin_sending(bytes_of(wanted_));
}

// Sends all segments. `bytes` counts their bytes without the texts around them.
template <class Stream>
void Connection<Stream>::begin_sending(uint64_t bytes) {
  next_segment_ = 0;
  loop_.count_answer(bytes);
  expect_taking(bytes);
  if constexpr (kIsPlain) {
    send_segments();
  } else {
    send_encrypted();
  }
}

template <class Stream>
void Connection<Stream>::send_segments() {
  uint64_t turn = 0;
  while (next_segment_ < segments_.size() && turn < kTurnBytes) {
    const ssize_t sent = send_plain();
    if (sent > 0) {
      turn += static_cast<uint64_t>(sent);
      move_on(static_cast<uint64_t>(sent));
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return stream_.lowest_layer().async_wait(boost::asio::socket_base::wait_write,
                                               [self = this->shared_from_this()](error_code error) {
                                                 if (error) return self->close();
                                                 self->send_segments();
                                               });
    } else if (sent == 0 || errno != EINTR) {
      return close();  // the client is gone, or the file was cut
    }
  }
  if (next_segment_ == segments_.size()) return finish();
  boost::asio::post(stream_.get_executor(),
                    [self = this->shared_from_this()] { self->send_segments(); });
}

// sendfile() sends a file's bytes without copying them into this process. MSG_MORE for the text
// before them would make the kernel send them in worse pieces, which took twice the time.
template <class Stream>
ssize_t Connection<Stream>::send_plain() {
  const Segment& next = segments_[next_segment_];
  if (next.file != nullptr) {
    auto offset = static_cast<off_t>(next.offset);
    return ::sendfile(socket(), next.file->fd(), &offset, next.length);
  }
  std::array<iovec, 64> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  for (size_t i = next_segment_; i < segments_.size() && message.msg_iovlen < parts.size(); ++i) {
    if (segments_[i].file != nullptr) break;
    const Bytes bytes = segments_[i].bytes;
    parts[message.msg_iovlen++] = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  }
  return ::sendmsg(socket(), &message, MSG_NOSIGNAL);
}

template <class Stream>
void Connection<Stream>::move_on(uint64_t sent) {
  while (sent > 0) {
    Segment& segment = segments_[next_segment_];
    const uint64_t step = std::min(sent, segment.length);
    sent -= step;
    segment.offset += step;
    segment.length -= step;
    if (segment.file == nullptr) segment.bytes = segment.bytes.subspan(step);
    if (segment.length == 0) ++next_segment_;
  }
}

template <class Stream>
void Connection<Stream>::send_encrypted() {
  if (chunk_ == nullptr) chunk_ = std::make_unique_for_overwrite<uint8_t[]>(kEncryptedBytes);
  size_t filled = 0;
  while (next_segment_ < segments_.size() && filled < kEncryptedBytes) {
    const Segment& segment = segments_[next_segment_];
    const size_t step = std::min<uint64_t>(segment.length, kEncryptedBytes - filled);
    if (segment.file == nullptr) {
      std::memcpy(chunk_.get() + filled, segment.bytes.data(), step);
    } else if (::pread(segment.file->fd(), chunk_.get() + filled, step,
                       static_cast<off_t>(segment.offset)) != static_cast<ssize_t>(step)) {
      return close();  // the file was cut
    }
    filled += step;
    move_on(step);
  }
  const Bytes records = encrypt({chunk_.get(), filled});
  if (records.empty()) return close();
  boost::asio::async_write(stream_.next_layer(),
                           boost::asio::buffer(records.data(), records.size()),
                           [self = this->shared_from_this()](error_code error, size_t) {
                             if (error) return self->close();
                             BIO_reset(self->records_.get());
                             if (self->next_segment_ == self->segments_.size()) {
                               return self->finish();
                             }
                             self->send_encrypted();
                           });
}

// Returns the bytes as TLS records, or nothing if OpenSSL fails. Asio would send each record of 16
// KiB by itself, which takes more time. So OpenSSL writes the records into memory here, while
// nothing else is written.
template <class Stream>
Bytes Connection<Stream>::encrypt(Bytes bytes) {
  SSL* const tls = stream_.native_handle();
  BIO* const asios = SSL_get_wbio(tls);
  if (records_ == nullptr) records_.reset(BIO_new(BIO_s_mem()));
  if (records_ == nullptr || BIO_up_ref(records_.get()) != 1 || BIO_up_ref(asios) != 1) return {};
  SSL_set0_wbio(tls, records_.get());
  while (!bytes.empty()) {
    const int written = SSL_write(tls, bytes.data(), static_cast<int>(bytes.size()));
    if (written <= 0) break;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  SSL_set0_wbio(tls, asios);
  if (!bytes.empty()) return {};
  char* records = nullptr;
  const long length = BIO_get_mem_data(records_.get(), &records);
  return {reinterpret_cast<const uint8_t*>(records), static_cast<size_t>(length)};
}

}  // namespace forebay::io::serve
