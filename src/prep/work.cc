#include "prep/work.h"

#include "io/machine.h"
#include "prep/batch_bytes.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

// What is sent of a batch, which it owns.
struct Sent {
  std::shared_ptr<const feed::Batch> batch;
  BatchBytes bytes;
};

}  // namespace

Work::Work(std::string name, std::unique_ptr<feed::StepMaker> maker, WorkCounts& counts)
    : name_(std::move(name)), maker_(std::move(maker)), counts_(counts) {
  crew_.start(1, [this](uint32_t) { run(); });
}

Work::~Work() {
  maker_->stop();
  {
    MutexLock lock(room_->mutex);
    room_->ended = true;
    room_->changed.notify_all();
  }
  crew_.wait();
  Waiters waiting;
  {
    MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (auto& [step, who] : waiting) {
    who->on_unwanted.reset();
    who->done(fail(Code::kCancelled, "prep: this near side ends"));
  }
}

bool Work::is_idle() const {
  MutexLock lock(mutex_);
  return waiting_.empty();
}

void Work::ask(uint64_t epoch, uint64_t step, const std::stop_token& unwanted, Done done) {
  asked_ns_ = io::monotonic_ns();
  const Step wanted{epoch, step};
  const auto who = std::make_shared<Waiting>(std::move(done));
  {
    MutexLock lock(mutex_);
    const bool is_asked = waiting_.contains(wanted);
    waiting_.emplace(wanted, who);
    if (!is_asked) maker_->ask(epoch, step);
  }
  // This may call drop() at once.
  who->on_unwanted.emplace(unwanted, [this, wanted, key = who.get()] { drop(wanted, key); });
}

// Whoever asked does not wait any more.
void Work::drop(const Step& step, const Waiting* who) {
  std::shared_ptr<Waiting> dropped;
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = waiting_.equal_range(step);
    const auto found =
        std::find_if(begin, end, [&](const auto& waiting) { return waiting.second.get() == who; });
    if (found == end) return;
    dropped = found->second;
    waiting_.erase(found);
    if (!waiting_.contains(step)) maker_->take_back(step.first, step.second);
  }
  dropped->done(fail(Code::kCancelled, "prep: it is not wanted any more"));
}

std::vector<std::shared_ptr<Work::Waiting>> Work::take(const Step& step) {
  std::vector<std::shared_ptr<Waiting>> out;
  MutexLock lock(mutex_);
  const auto [begin, end] = waiting_.equal_range(step);
  for (auto at = begin; at != end; ++at) out.push_back(at->second);
  waiting_.erase(begin, end);
  return out;
}

void Work::run() {
  io::work_in_background();
  for (;;) {
    uint64_t given_back = 0;
    {
      MutexLock lock(room_->mutex);
      given_back = room_->given_back;
    }
    auto made = maker_->next();
    if (made) {
      give(*made);
      continue;
    }
    if (made.error().code() == Code::kCancelled) return;
    // There is no memory beside the batches that are being sent.
    MutexLock lock(room_->mutex);
    while (!room_->ended && room_->given_back == given_back) room_->changed.wait(room_->mutex);
  }
}

void Work::give(const feed::MadeStep& made) {
  const auto waiting = take({made.epoch, made.step});
  if (made.batch) ++counts_.steps;
  if (waiting.empty()) return;
  Result<io::serve::MadeAnswer> answer;
  if (made.batch) {
    const auto& batch = made.batch->batch;
    auto* const sent = new Sent{batch, encode_batch(*batch, made.batch->bad, name_)};
    const std::shared_ptr<const Sent> owner(sent, [room = room_](const Sent* over) {
      delete over;
      MutexLock lock(room->mutex);
      ++room->given_back;
      room->changed.notify_all();
    });
    answer->pieces = {sent->bytes.head};
    answer->pieces.insert(answer->pieces.end(), sent->bytes.rest.begin(), sent->bytes.rest.end());
    answer->owner = owner;
    counts_.bytes += sent->bytes.bytes * waiting.size();
  } else {
    answer = tl::unexpected(made.batch.error());
  }
  for (const auto& who : waiting) {
    who->on_unwanted.reset();  // without the lock, because it waits while drop() runs
    who->done(answer);
  }
}

}  // namespace forebay::prep
