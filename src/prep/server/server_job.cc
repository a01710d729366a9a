#include "prep/server/server_job.h"

#include <algorithm>

#include "io/clock.h"
#include "io/machine.h"
#include "prep/wire/answers.h"
#include "prep/wire/batch_bytes.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;
using io::serve::MadeAnswer;

namespace {

constexpr int64_t kLookNs = 50'000'000;  // how often to check whether there is memory again

// A batch with the bytes that are sent of it.
struct Sent {
  std::shared_ptr<const feed::Batch> batch;
  BatchBytes bytes;
};

}  // namespace

MadeAnswer text_answer(std::string text) {
  const auto owner = std::make_shared<std::string>(std::move(text));
  return {.pieces = {base::as_bytes(*owner)}, .owner = owner};
}

ServerJob::ServerJob(std::string name, const feed::FeedOptions& options,
                     std::unique_ptr<feed::StepMaker> maker, std::shared_ptr<BatchFolder> folder,
                     ServerCounts& counts)
    : name_(std::move(name)),
      kept_bytes_max_(kept_bytes_max(options)),
      step_bytes_(usual_step_bytes(options, maker->slots())),
      maker_(std::move(maker)),
      counts_(counts),
      asked_ns_(io::monotonic_ns()),
      files_(std::move(folder)),
      kept_(kept_bytes_max_) {
  crew_.start(1, [this](uint32_t) { run(); });
}

ServerJob::~ServerJob() {
  maker_->stop();
  {
    MutexLock lock(returned_->mutex);
    returned_->ended = true;
    returned_->changed.notify_all();
  }
  crew_.wait();
  Waiters waiting;
  {
    MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (auto& [step, who] : waiting) {
    who->on_unwanted.reset();
    who->done(fail(Code::kCancelled, "prep: the job has ended"));
  }
}

bool ServerJob::is_idle() const {
  MutexLock lock(mutex_);
  return waiting_.empty();
}

bool ServerJob::has_host() const {
  MutexLock lock(mutex_);
  return waiting_.contains(kStay);
}

Status ServerJob::use_list(const ListPath& path, std::shared_ptr<const feed::SampleList> list) {
  if (list != nullptr && !list->step_ends.empty()) {
    return fail(Code::kInvalid, "prep: prep servers cannot prepare batches of different sizes");
  }
  std::vector<std::shared_ptr<Waiting>> others;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(begun_, maker_->begin(std::move(list)));
    list_ = path;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const bool stays = at->first == kStay;
      if (!stays) others.push_back(std::move(at->second));
      at = stays ? std::next(at) : waiting_.erase(at);
    }
  }
  drop_kept();
  for (const auto& who : others) {
    who->on_unwanted.reset();
    who->done(fail(Code::kCancelled, "prep: another epoch has begun"));
  }
  return {};
}

// Whether the step exists.
Status ServerJob::check(const Step& step) const {
  const auto [epoch, number] = step;
  if (!list_.table.empty() && epoch != list_.epoch) {
    return fail(Code::kNotFound, "prep: the list of samples of epoch {} is not here", epoch);
  }
  if (epoch <= UINT32_MAX && number < maker_->steps()) return {};
  return fail(Code::kInvalid, "prep: there is no step {} of epoch {}: epochs have {} steps", number,
              epoch, maker_->steps());
}

void ServerJob::ask(const StepPath& path, const std::stop_token& unwanted, Done done) {
  asked_ns_ = io::monotonic_ns();
  const Step step{path.epoch, path.step};
  if (auto answer = answer_at_once(step, path.asked)) return done(std::move(*answer));
  wait_for(step, std::make_shared<Waiting>(path.asked, std::move(done)), unwanted);
}

// The answer, if nothing has to be prepared for it.
std::optional<MadeAnswer> ServerJob::answer_at_once(const Step& step, Asked asked) {
  const bool is_over = asked == Asked::kOver;
  if (is_over) files_.drop(step);
  if (asked == Asked::kKeepFile && files_.keeps(step)) return MadeAnswer();
  if (asked == Asked::kSend) files_.drop(step);
  if (asked == Asked::kFile) {
    if (const auto file = files_.tell(step)) return text_answer(encode(*file));
  }
  MutexLock lock(mutex_);
  const bool is_to_keep = asked == Asked::kKeep || asked == Asked::kKeepFile;
  if (is_to_keep) return kept_.has(step) ? std::optional(MadeAnswer()) : std::nullopt;
  auto kept = kept_.take(step);
  if (is_over) return MadeAnswer();
  if (!kept) return std::nullopt;
  counts_.bytes += kept->bytes;
  return std::move(kept->answer);
}

void ServerJob::stay(const std::stop_token& unwanted, Done done, std::function<void()> left) {
  const auto host = std::make_shared<Waiting>(Asked::kSend, std::move(done));
  host->left = std::move(left);
  wait_for(kStay, host, unwanted);
}

void ServerJob::drop_kept() {
  files_.drop_kept();
  MutexLock lock(mutex_);
  kept_.drop_all();
}

void ServerJob::wait_for(const Step& step, const std::shared_ptr<Waiting>& who,
                         const std::stop_token& unwanted) {
  // This may call drop() at once, which then finds nothing.
  who->on_unwanted.emplace(unwanted, [this, step, key = who.get()] { drop(step, key); });
  Status status;
  {
    MutexLock lock(mutex_);
    if (step != kStay) status = check(step);
    const bool is_asked = step == kStay || waiting_.contains(step);
    if (status.ok()) waiting_.emplace(step, who);
    if (status.ok() && !is_asked) maker_->ask(step.first, step.second);
  }
  if (!status.ok()) {
    who->on_unwanted.reset();
    return who->done(tl::unexpected(std::move(status)));
  }
  if (unwanted.stop_requested()) drop(step, who.get());
}

// Cancels a request.
void ServerJob::drop(const Step& step, const Waiting* who) {
  std::shared_ptr<Waiting> dropped;
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = waiting_.equal_range(step);
    const auto found =
        std::find_if(begin, end, [&](const auto& waiting) { return waiting.second.get() == who; });
    if (found == end) return;
    dropped = found->second;
    waiting_.erase(found);
    if (step != kStay && !waiting_.contains(step)) maker_->take_back(step.first, step.second);
  }
  if (dropped->left) dropped->left();
  dropped->done(fail(Code::kCancelled, "prep: the answer is no longer wanted"));
}

// Takes the requests that wait for a step. Nobody waits for a step made from an earlier list.
ServerJob::Asking ServerJob::take(const feed::MadeStep& made) {
  MutexLock lock(mutex_);
  if (made.begun != begun_) return {};
  Asking out{.all = {}, .list = list_.table};
  const auto [begin, end] = waiting_.equal_range({made.epoch, made.step});
  for (auto at = begin; at != end; ++at) out.all.push_back(at->second);
  waiting_.erase(begin, end);
  return out;
}

void ServerJob::run() {
  io::work_in_background();
  for (;;) {
    uint64_t given_back = 0;
    {
      MutexLock lock(returned_->mutex);
      given_back = returned_->given_back;
    }
    auto made = maker_->next();
    if (made) {
      give(*made);
      continue;
    }
    if (made.error().code() == Code::kCancelled) return;
    // The batches that are kept or being sent occupy the memory.
    if (has_dropped_oldest()) continue;
    MutexLock lock(returned_->mutex);
    const int64_t until_ns = io::monotonic_ns() + kLookNs;
    while (!returned_->ended && returned_->given_back == given_back &&
           io::monotonic_clock().wait_until(returned_->mutex, returned_->changed, until_ns)) {
    }
  }
}

bool ServerJob::has_dropped_oldest() {
  MutexLock lock(mutex_);
  return kept_.drop_oldest();
}

MadeAnswer ServerJob::answer_of(const feed::Prepared& made, BatchBytes bytes) const {
  auto* const sent = new Sent{made.batch, std::move(bytes)};
  const std::shared_ptr<const Sent> owner(sent, [room = returned_](const Sent* over) {
    delete over;
    MutexLock lock(room->mutex);
    ++room->given_back;
    room->changed.notify_all();
  });
  MadeAnswer answer{.pieces = {sent->bytes.head}, .owner = owner};
  answer.pieces.insert(answer.pieces.end(), sent->bytes.rest.begin(), sent->bytes.rest.end());
  return answer;
}

// The answer to a request for a step that has just been made; `whole` is the answer with the batch.
Result<MadeAnswer> ServerJob::answer_to(Asked asked, const Step& step, const BatchBytes& bytes,
                                        const MadeAnswer& whole) {
  const bool is_for_file = asked == Asked::kFile || asked == Asked::kKeepFile;
  const bool is_to_keep = asked == Asked::kKeep || asked == Asked::kKeepFile;
  if (!is_to_keep) counts_.bytes += bytes.bytes;
  if (is_for_file) {
    const auto file = files_.leave(step, bytes, is_to_keep);
    if (file) return is_to_keep ? MadeAnswer() : text_answer(encode(*file));
  }
  if (!is_to_keep) return whole;
  MutexLock lock(mutex_);
  if (kept_.keep({step, whole, bytes.bytes})) return MadeAnswer();
  return fail(Code::kNoMemory, "prep: a batch of {} is too large to be kept",
              base::human_bytes(bytes.bytes));
}

void ServerJob::give(const feed::MadeStep& made) {
  const Step step{made.epoch, made.step};
  const Asking asking = take(made);
  if (made.batch) ++counts_.steps;
  if (asking.all.empty()) return;
  BatchBytes bytes;
  MadeAnswer whole;
  if (made.batch) {
    bytes = encode_batch(*made.batch->batch, made.batch->bad, name_, asking.list);
    whole = answer_of(*made.batch, bytes);
  }
  for (const auto& who : asking.all) {
    who->on_unwanted.reset();  // without the lock, because it waits while drop() runs
    who->done(made.batch ? answer_to(who->asked, step, bytes, whole)
                         : Result<MadeAnswer>(tl::unexpected(made.batch.error())));
  }
}

}  // namespace forebay::prep
