#include "prep/work.h"

#include <algorithm>

#include "io/machine.h"
#include "prep/answers.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;
using io::serve::MadeAnswer;

namespace {

// A host that has not read a file by then is gone.
constexpr int64_t kFileNs = 60'000'000'000;

// What is sent of a batch, which it owns.
struct Sent {
  std::shared_ptr<const feed::Batch> batch;
  BatchBytes bytes;
};

}  // namespace

io::serve::MadeAnswer text_answer(std::string text) {
  const auto owner = std::make_shared<std::string>(std::move(text));
  return {.pieces = {base::as_bytes(*owner)}, .owner = owner};
}

Work::Work(std::string name, std::unique_ptr<feed::StepMaker> maker,
           std::shared_ptr<BatchFolder> folder, WorkCounts& counts)
    : name_(std::move(name)),
      maker_(std::move(maker)),
      folder_(std::move(folder)),
      counts_(counts) {
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

void Work::ask(const StepPath& step, const std::stop_token& unwanted, Done done) {
  asked_ns_ = io::monotonic_ns();
  const Step wanted{step.epoch, step.step};
  if (step.wish == Wish::kOver) {
    drop_file(wanted);
    return done(text_answer(""));
  }
  const auto who = std::make_shared<Waiting>(step.wish, std::move(done));
  {
    MutexLock lock(mutex_);
    const bool is_asked = waiting_.contains(wanted);
    waiting_.emplace(wanted, who);
    if (!is_asked) maker_->ask(step.epoch, step.step);
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

void Work::drop_file(const Step& step) {
  LeftFile dropped;  // ends without the lock
  MutexLock lock(mutex_);
  const auto found = files_.find(step);
  if (found == files_.end()) return;
  dropped = std::move(found->second);
  files_.erase(found);
}

// Leaves a batch in the folder, and forgets files that nobody has read. Nothing where there is no
// folder, or no room in it.
std::optional<MadeAnswer> Work::leave_file(const Step& step, const BatchBytes& bytes) {
  if (folder_ == nullptr) return std::nullopt;
  const int64_t now_ns = io::monotonic_ns();
  std::vector<LeftFile> unread;
  {
    MutexLock lock(mutex_);
    std::erase_if(files_, [&](auto& file) {
      const bool is_unread = file.second.left_ns < now_ns - kFileNs;
      if (is_unread) unread.push_back(std::move(file.second));
      return is_unread;
    });
  }
  unread.clear();
  auto file = folder_->write(bytes);
  if (file == nullptr) return std::nullopt;
  MadeAnswer answer = text_answer(encode(FileAnswer{file->name(), file->bytes()}));
  MutexLock lock(mutex_);
  files_.insert_or_assign(step, LeftFile{std::move(file), now_ns});
  return answer;
}

// The answer with all of a batch.
MadeAnswer Work::bytes_answer(const feed::MadeStep& made, BatchBytes bytes) const {
  auto* const sent = new Sent{made.batch->batch, std::move(bytes)};
  const std::shared_ptr<const Sent> owner(sent, [room = room_](const Sent* over) {
    delete over;
    MutexLock lock(room->mutex);
    ++room->given_back;
    room->changed.notify_all();
  });
  MadeAnswer answer{.pieces = {sent->bytes.head}, .owner = owner};
  answer.pieces.insert(answer.pieces.end(), sent->bytes.rest.begin(), sent->bytes.rest.end());
  return answer;
}

void Work::give(const feed::MadeStep& made) {
  const auto waiting = take({made.epoch, made.step});
  if (made.batch) ++counts_.steps;
  if (waiting.empty()) return;
  Result<MadeAnswer> whole;
  std::optional<MadeAnswer> in_file;
  if (made.batch) {
    BatchBytes bytes = encode_batch(*made.batch->batch, made.batch->bad, name_);
    counts_.bytes += bytes.bytes * waiting.size();
    const bool is_for_file =
        std::ranges::any_of(waiting, [](const auto& who) { return who->wish == Wish::kFile; });
    if (is_for_file) in_file = leave_file({made.epoch, made.step}, bytes);
    whole = bytes_answer(made, std::move(bytes));
  } else {
    whole = tl::unexpected(made.batch.error());
  }
  for (const auto& who : waiting) {
    who->on_unwanted.reset();  // without the lock, because it waits while drop() runs
    who->done(in_file && who->wish == Wish::kFile ? Result<MadeAnswer>(*in_file) : whole);
  }
}

}  // namespace forebay::prep
