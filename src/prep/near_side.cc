#include "prep/near_side.h"

#include <algorithm>
#include <charconv>

#include "base/queue.h"
#include "io/machine.h"
#include "prep/answers.h"
#include "prep/batch_folder.h"
#include "prep/job.h"
#include "prep/paths.h"
#include "prep/work.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;
using io::serve::MadeAnswer;
using io::serve::Question;

namespace {

constexpr std::string_view kBegin = "/prep/";
constexpr int kNewJobsMost = 64;  // one thread opens them one after the other

std::optional<uint64_t> take_number(std::string_view* text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(rest - text->data()));
  return number;
}

std::optional<StepPath> parse(std::string_view path) {
  if (!path.starts_with(kBegin)) return std::nullopt;
  path.remove_prefix(kBegin.size());
  const size_t job_end = path.find('/');
  if (job_end == std::string_view::npos) return std::nullopt;
  StepPath out{.job = std::string(path.substr(0, job_end))};
  path.remove_prefix(job_end + 1);
  const auto epoch = take_number(&path);
  if (!epoch || !path.starts_with('/')) return std::nullopt;
  path.remove_prefix(1);
  const auto step = take_number(&path);
  if (!step) return std::nullopt;
  out.epoch = *epoch;
  out.step = *step;
  for (const auto& [asked, end] : kStepEnds) {
    out.asked = asked;
    if (path == end) return out;
  }
  return std::nullopt;
}

// Returns the job if the path is a stay_path().
std::optional<std::string> stays(std::string_view path) {
  if (!path.starts_with(kBegin) || !path.ends_with(kStayEnd)) return std::nullopt;
  path.remove_prefix(kBegin.size());
  path.remove_suffix(std::min(path.size(), kStayEnd.size()));
  return path.find('/') == path.npos ? std::optional(std::string(path)) : std::nullopt;
}

class NearSideImpl final : public NearSide, private io::serve::ServedFiles {
 public:
  NearSideImpl(std::shared_ptr<const store::Dataset> dataset,
               std::shared_ptr<const feed::Targets> targets, const NearSideOptions& options)
      : dataset_(std::move(dataset)), targets_(std::move(targets)), options_(options) {}
  ~NearSideImpl() override;

  Status begin();
  uint16_t port() const override { return server_->port(); }
  NearSideStats stats() const override EXCLUDES(mutex_);

 private:
  using Done = std::function<void(Result<MadeAnswer>)>;
  std::optional<uint64_t> size(const std::string&) const override { return std::nullopt; }
  std::optional<std::vector<io::serve::HeldRange>> find(
      const std::string&, const std::vector<io::serve::WantedRange>&) const override {
    return std::nullopt;
  }
  void read(const std::string&, std::vector<io::Range>,
            std::function<void(Status)> done) const override {
    done({Code::kNotFound, "prep: there are no files here"});
  }
  bool answer(const Question& question, Done done) const override EXCLUDES(mutex_);

  void end_where_left(const std::weak_ptr<Work>& work) EXCLUDES(mutex_);
  MadeAnswer answer_of(const Work& work) const;
  Result<MadeAnswer> open_job(const std::string& text) EXCLUDES(mutex_);
  Result<std::shared_ptr<Work>> make_work(const std::string& text) const;
  std::shared_ptr<Work> find_work(const std::string& name) const EXCLUDES(mutex_);
  std::shared_ptr<Work> oldest_idle() const REQUIRES(mutex_);

  const std::shared_ptr<const store::Dataset> dataset_;
  const std::shared_ptr<const feed::Targets> targets_;
  const NearSideOptions options_;
  mutable WorkCounts counts_;
  std::shared_ptr<BatchFolder> folder_;  // null: there is none
  mutable base::Mutex mutex_;
  std::vector<std::shared_ptr<Work>> works_ GUARDED_BY(mutex_);
  // What takes long: the beginnings and ends of jobs.
  mutable base::Queue<std::function<void()>> chores_{SIZE_MAX};
  mutable std::atomic<int> new_jobs_ = 0;  // in chores_
  base::Crew crew_;
  std::unique_ptr<io::serve::RangeServer> server_;
};

Status NearSideImpl::begin() {
  if (!options_.folder.empty()) {
    ASSIGN_OR_RETURN(folder_, BatchFolder::open(options_.folder, options_.folder_bytes));
  }
  io::serve::RangeServerOptions server{.address = options_.address, .port = options_.port};
  if (!options_.secret.empty()) {
    auto job = io::serve::make_job_certificate(options_.secret);
    if (!job) return job.error().at("prep");
    server.job = std::make_shared<const io::serve::JobCertificate>(std::move(*job));
  }
  crew_.start(1, [this](uint32_t) {
    while (const auto chore = chores_.pop()) (*chore)();
  });
  auto started = io::serve::RangeServer::start(server, *this);
  if (!started) return started.error().at("prep");
  server_ = std::move(*started);
  return {};
}

// The server's end waits for all answers, so what is unwanted then must not be awaited.
NearSideImpl::~NearSideImpl() {
  chores_.close();
  server_.reset();
  crew_.wait();
}

NearSideStats NearSideImpl::stats() const {
  MutexLock lock(mutex_);
  return {.jobs = works_.size(),
          .steps = counts_.steps,
          .bytes = counts_.bytes,
          .trouble = folder_ == nullptr ? "" : folder_->trouble()};
}

bool NearSideImpl::answer(const Question& question, Done done) const {
  if (question.path == kJobsPath) {
    auto* const self = const_cast<NearSideImpl*>(this);
    const bool is_begun = new_jobs_++ < kNewJobsMost && chores_.push([self, question, done] {
      done(self->open_job(question.body));
      --self->new_jobs_;
    });
    if (!is_begun) {
      --new_jobs_;
      done(fail(Code::kBusy, "prep: too many jobs begin at once"));
    }
    return true;
  }
  const auto job = stays(question.path);
  const auto path = parse(question.path);
  if (!job && !path) return false;
  const auto work = find_work(job ? *job : path->job);
  if (work == nullptr) {
    done(fail(Code::kNotFound, "prep: no such job is open here"));
  } else if (job) {
    auto* const self = const_cast<NearSideImpl*>(this);
    work->stay(question.unwanted, std::move(done), [self, left = std::weak_ptr<Work>(work)] {
      self->chores_.push([self, left] { self->end_where_left(left); });
    });
  } else if (path->epoch > UINT32_MAX || path->step >= work->steps()) {
    done(fail(Code::kInvalid, "prep: there is no step {} of epoch {}: epochs have {} steps",
              path->step, path->epoch, work->steps()));
  } else {
    work->ask(*path, question.unwanted, std::move(done));
  }
  return true;
}

std::shared_ptr<Work> NearSideImpl::find_work(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(works_, name, &Work::name);
  return found == works_.end() ? nullptr : *found;
}

// A host that comes back meanwhile, on another connection, goes on.
void NearSideImpl::end_where_left(const std::weak_ptr<Work>& work) {
  const auto ended = work.lock();  // ends without the lock
  MutexLock lock(mutex_);
  if (ended != nullptr && !ended->has_host()) std::erase(works_, ended);
}

MadeAnswer NearSideImpl::answer_of(const Work& work) const {
  JobAnswer answer{.job = work.name(), .keeps = work.keeps()};
  if (folder_ != nullptr) {
    answer.keeps_files = work.keeps_in(options_.folder_bytes / options_.jobs);
    answer.folder = folder_->path();
    answer.mark = folder_->mark();
  }
  return text_answer(encode(answer));
}

Result<MadeAnswer> NearSideImpl::open_job(const std::string& text) {
  const std::string name = job_name(text);
  if (const auto there = find_work(name)) {
    there->drop_kept();
    return answer_of(*there);
  }
  std::shared_ptr<Work> replaced;  // ends without the lock
  {
    MutexLock lock(mutex_);
    if (works_.size() >= options_.jobs) {
      replaced = oldest_idle();
      if (replaced == nullptr) {
        return fail(
            Code::kBusy,
            "prep: {} of at most {} loaders are served already (`forebay prep --processes`)",
            works_.size(), options_.jobs);
      }
      std::erase(works_, replaced);
    }
  }
  replaced.reset();
  ASSIGN_OR_RETURN(auto work, make_work(text));
  MutexLock lock(mutex_);
  works_.push_back(std::move(work));
  return answer_of(*works_.back());
}

std::shared_ptr<Work> NearSideImpl::oldest_idle() const {
  std::shared_ptr<Work> oldest;
  for (const auto& work : works_) {
    if (!work->is_idle()) continue;
    if (oldest == nullptr || work->asked_ns() < oldest->asked_ns()) oldest = work;
  }
  return oldest;
}

Result<std::shared_ptr<Work>> NearSideImpl::make_work(const std::string& text) const {
  auto job = decode_job(text);
  if (!job) return tl::unexpected(job.error().at("prep"));
  const std::string own = base::to_hex(dataset_->fingerprint());
  if (job->dataset != own) {
    return fail(Code::kInvalid,
                "prep: the host has another dataset: its fingerprint is {}, and {} here; start "
                "`forebay prep` with the same content",
                job->dataset, own);
  }
  const std::string targets = targets_ == nullptr ? "" : targets_fingerprint(*targets_);
  if (!job->targets.empty() && job->targets != targets) {
    return fail(
        Code::kInvalid,
        "prep: the host has other boxes, masks or keypoints for this dataset than are here");
  }
  feed::FeedOptions options = job->options;
  if (!job->targets.empty()) options.targets = targets_;
  options.threads = options_.threads;
  options.memory_bytes_max = options_.job_memory_bytes;
  ASSIGN_OR_RETURN(auto maker, feed::StepMaker::open(dataset_, options));
  return std::make_shared<Work>(job_name(text), options, std::move(maker), folder_, counts_);
}

}  // namespace

Result<std::unique_ptr<NearSide>> NearSide::serve(std::shared_ptr<const store::Dataset> dataset,
                                                  std::shared_ptr<const feed::Targets> targets,
                                                  const NearSideOptions& options) {
  auto side = std::make_unique<NearSideImpl>(std::move(dataset), std::move(targets), options);
  RETURN_IF_ERROR(side->begin());
  return side;
}

}  // namespace forebay::prep
