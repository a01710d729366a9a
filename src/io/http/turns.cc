#include "io/http/turns.h"

#include <limits>

namespace forebay::io::http {

namespace {

// A read whose requests fit into one turn sends them all at once, so that it is done early.
constexpr uint32_t kRequestsInTurn = 16;

template <class Container, class TransferOf>
void take_from(Container& container, TransferOf transfer_of,
               const std::function<bool(const Transfer&)>& is_over,
               std::vector<std::unique_ptr<Transfer>>* taken) {
  for (auto at = container.begin(); at != container.end();) {
    std::unique_ptr<Transfer>& transfer = transfer_of(*at);
    if (!is_over(*transfer)) {
      ++at;
      continue;
    }
    taken->push_back(std::move(transfer));
    at = container.erase(at);
  }
}

}  // namespace

void Turns::push(std::unique_ptr<Transfer> transfer) {
  const Request& request = transfer->request();
  if (request.begin_ns > 0) {
    later_.emplace(request.begin_ns, std::move(transfer));
  } else if (request.is_hedge) {
    hedges_.push_back(std::move(transfer));
  } else if (request.reader == nullptr) {
    questions_.push_back(std::move(transfer));
  } else {
    Queue& queue = reads_[request.reader];
    if (queue.empty()) order_.push_back(request.reader);
    queue.push_back(std::move(transfer));
  }
}

void Turns::wake(int64_t now_ns) {
  while (!later_.empty() && later_.begin()->first <= now_ns) {
    std::unique_ptr<Transfer> transfer = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    const void* const reader = transfer->request().reader;
    Queue& queue = reader == nullptr ? questions_ : reads_[reader];
    if (reader != nullptr && queue.empty()) order_.push_back(reader);
    queue.push_front(std::move(transfer));
  }
}

std::unique_ptr<Transfer> Turns::pop(int64_t now_ns, bool may_send) {
  wake(now_ns);
  Queue* queue = nullptr;
  if (!hedges_.empty()) {
    queue = &hedges_;
  } else if (may_send && !questions_.empty()) {
    queue = &questions_;
  }
  if (queue == nullptr) return may_send && !order_.empty() ? pop_of_read() : nullptr;
  std::unique_ptr<Transfer> transfer = std::move(queue->front());
  queue->pop_front();
  return transfer;
}

std::unique_ptr<Transfer> Turns::pop_of_read() {
  const void* const reader = order_.front();
  const auto queue = reads_.find(reader);
  std::unique_ptr<Transfer> transfer = std::move(queue->second.front());
  queue->second.pop_front();
  const bool is_empty = queue->second.empty();
  if (is_empty) reads_.erase(queue);
  if (is_empty || ++sent_in_turn_ == kRequestsInTurn) {
    order_.pop_front();
    if (!is_empty) order_.push_back(reader);
    sent_in_turn_ = 0;
  }
  return transfer;
}

std::vector<std::unique_ptr<Transfer>> Turns::take_if(
    const std::function<bool(const Transfer&)>& is_over) {
  std::vector<std::unique_ptr<Transfer>> taken;
  const auto itself = [](auto& transfer) -> auto& { return transfer; };
  take_from(hedges_, itself, is_over, &taken);
  take_from(questions_, itself, is_over, &taken);
  for (auto& [reader, queue] : reads_) take_from(queue, itself, is_over, &taken);
  take_from(later_, [](auto& entry) -> auto& { return entry.second; }, is_over, &taken);
  if (taken.empty()) return taken;
  std::erase_if(reads_, [](const auto& entry) { return entry.second.empty(); });
  const void* const at_turn = order_.empty() ? nullptr : order_.front();
  std::erase_if(order_, [&](const void* reader) { return !reads_.contains(reader); });
  if (order_.empty() || order_.front() != at_turn) sent_in_turn_ = 0;
  return taken;
}

int64_t Turns::next_ns(bool may_send) const {
  if (!hedges_.empty() || (may_send && (!questions_.empty() || !order_.empty()))) return 0;
  if (later_.empty() || !may_send) return std::numeric_limits<int64_t>::max();
  return later_.begin()->first;
}

bool Turns::empty() const {
  return hedges_.empty() && questions_.empty() && reads_.empty() && later_.empty();
}

}  // namespace forebay::io::http
