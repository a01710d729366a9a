#include "train/sync/links.h"

#include <array>
#include <system_error>

#include "base/bytes.h"

namespace forebay::train {

using base::Code;
using base::fail;
using base::MutexLock;
using Channel = io::Mesh::Channel;

namespace {

// Before each message: how many bytes it has.
using Size = std::array<uint8_t, sizeof(uint32_t)>;

}  // namespace

Result<std::unique_ptr<Links>> Links::start(Exchange& exchange, io::Mesh& mesh, bool has_sums) {
  std::unique_ptr<Links> out(new Links(exchange, mesh));
  RETURN_IF_ERROR(out->begin_all(has_sums));
  return out;
}

Status Links::begin_all(bool has_sums) {
  if (has_sums) {
    sums_ = std::make_unique<Sums>(mesh_, Channel::kSums);
    return begin(&Links::sum, 0);
  }
  for (uint32_t peer = 0; peer < mesh_.processes(); ++peer) {
    if (peer == mesh_.rank()) continue;
    RETURN_IF_ERROR(begin(&Links::send, peer));
    RETURN_IF_ERROR(begin(&Links::receive, peer));
  }
  return {};
}

Links::~Links() {
  if (is_closed_) return;
  mesh_.stop();  // first, so that this process takes no part in further sums
  exchange_.close();
}

Status Links::begin(void (Links::*job)(uint32_t), uint32_t peer) try {
  {
    const MutexLock lock(mutex_);
    ++running_;
  }
  threads_.emplace_back([this, job, peer] {
    (this->*job)(peer);
    const MutexLock lock(mutex_);
    --running_;
    ended_.notify_all();
  });
  return {};
} catch (const std::system_error& error) {
  return fail(Code::kNoMemory, "sync: cannot start a thread ({}); allow more processes (ulimit -u)",
              error.what());
}

bool Links::close(int64_t deadline_ns) {
  exchange_.close();
  const MutexLock lock(mutex_);
  while (running_ > 0) {
    if (!io::monotonic_clock().wait_until(mutex_, ended_, deadline_ns) && running_ > 0) {
      return false;
    }
  }
  is_closed_ = true;
  return true;
}

std::vector<uint32_t> Links::waits_for() const {
  return sums_ ? sums_->missing() : exchange_.waits_for();
}

void Links::send(uint32_t peer) {
  while (true) {
    const base::Bytes message = exchange_.next(peer);
    if (message.empty()) return;
    Size size{};
    base::store_le(size.data(), static_cast<uint32_t>(message.size()));
    const Status sent =
        mesh_.transfer(Channel::kMessages, {{.peer = peer, .rest = size, .then = message}}, {});
    if (!sent.ok()) return exchange_.lost(peer, sent.message());
  }
}

void Links::receive(uint32_t peer) {
  base::ByteVector message;
  Size size{};
  bool has_size = false;
  const auto body = [&]() -> Result<base::MutableBytes> {
    if (has_size) return base::MutableBytes();
    has_size = true;
    const auto bytes = base::load_le<uint32_t>(size.data());
    if (bytes > exchange_.message_bytes_max()) {
      return fail(Code::kCorrupt, "rank {} sends a message of {} bytes, but the largest has {}",
                  peer, bytes, exchange_.message_bytes_max());
    }
    message.resize(bytes);
    return base::MutableBytes(message);
  };
  while (true) {
    has_size = false;
    Status status =
        mesh_.transfer(Channel::kMessages, {}, {{.peer = peer, .rest = size, .more = body}});
    if (status.ok()) {
      const auto goes_on = exchange_.received(peer, message);
      if (goes_on && !*goes_on) return;
      status = base::status_of(goes_on);
    }
    if (!status.ok()) return exchange_.lost(peer, status.message());
  }
}

void Links::sum(uint32_t /*unused*/) {
  if (const Status status = sum_all(); !status.ok()) {
    exchange_.fail({status.code(), "sync: a sum over all processes failed: " + status.message()});
  }
}

Status Links::sum_all() {
  while (true) {
    const auto numbers = exchange_.next_reduction();
    if (numbers.empty()) break;
    RETURN_IF_ERROR(sums_->add(numbers, INT64_MAX, exchange_.left_out()));
    exchange_.reduced();
  }
  RETURN_IF_ERROR(sums_->say_end());
  while (true) {
    ASSIGN_OR_RETURN(const bool goes_on, sums_->wait_for_more());
    if (!goes_on) return {};
    const auto numbers = exchange_.next_empty_reduction();
    if (numbers.empty()) {
      return fail(Code::kInvalid, "another process began a sum, but this model has no numbers");
    }
    RETURN_IF_ERROR(sums_->add(numbers, INT64_MAX, exchange_.left_out()));
    exchange_.reduced();
  }
}

}  // namespace forebay::train
