#include "prep/server/prep_server.h"

#include <algorithm>

#include "base/queue.h"
#include "io/clock.h"
#include "io/machine.h"
#include "prep/server/batch_folder.h"
#include "prep/server/held_tables.h"
#include "prep/server/server_job.h"
#include "prep/wire/answers.h"
#include "prep/wire/job.h"
#include "prep/wire/paths.h"
#include "store/view.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;
using io::serve::MadeAnswer;
using io::serve::Question;

namespace {

constexpr uint64_t kTablesShare = 2;  // all tables may take a job's memory over this
// About how many bytes each sample of a list or a selection takes.
constexpr uint64_t kChosenBytes = 100;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kLeftNs = 60 * kSecondNs;  // so long a job without a host or half a table is kept
constexpr int64_t kLookNs = 10 * kSecondNs;
constexpr int kChoresMost = 64;  // that may wait for the one thread that does them

class PrepServerImpl final : public PrepServer, private io::serve::ServedFiles {
 public:
  PrepServerImpl(std::shared_ptr<const store::Dataset> dataset, const PrepServerOptions& options)
      : dataset_(std::move(dataset)),
        options_(options),
        tables_(options.job_memory_bytes / kTablesShare) {}
  ~PrepServerImpl() override;

  Status begin();
  uint16_t port() const override { return server_->port(); }
  PrepServerStats stats() const override EXCLUDES(mutex_);

 private:
  using Done = std::function<void(Result<MadeAnswer>)>;
  std::optional<uint64_t> size(const std::string&) const override { return std::nullopt; }
  std::optional<std::vector<io::serve::HeldRange>> find(
      const std::string&, const std::vector<io::serve::WantedRange>&) const override {
    return std::nullopt;
  }
  void read(const std::string&, std::vector<io::Range>,
            std::function<void(Status)> done) const override {
    done({Code::kNotFound, "prep: a prep server serves no files"});
  }
  bool answer(const Question& question, Done done) const override EXCLUDES(mutex_);

  void expire() EXCLUDES(mutex_);
  void begin_chore(Done done, std::function<Result<MadeAnswer>()> chore);
  Result<std::shared_ptr<const ByteVector>> find_table(const std::string& name);
  Result<MadeAnswer> take_piece(const TablePiece& piece, const std::string& bytes);
  Status check_count(uint64_t samples) const;
  Result<MadeAnswer> use_list(const ListPath& path) EXCLUDES(mutex_);
  void end_where_left(const std::weak_ptr<ServerJob>& work) EXCLUDES(mutex_);
  MadeAnswer answer_of(const ServerJob& work) const;
  Result<MadeAnswer> open_job(const std::string& text) EXCLUDES(mutex_);
  Result<std::shared_ptr<ServerJob>> make_work(const std::string& text);
  std::shared_ptr<ServerJob> find_work(const std::string& name) const EXCLUDES(mutex_);
  std::shared_ptr<ServerJob> oldest_idle() const REQUIRES(mutex_);

  const std::shared_ptr<const store::Dataset> dataset_;
  const PrepServerOptions options_;
  HeldTables tables_;
  mutable ServerCounts counts_;
  std::shared_ptr<BatchFolder> folder_;  // null: there is none
  mutable base::Mutex mutex_;
  base::CondVar ends_;
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<ServerJob>> works_ GUARDED_BY(mutex_);
  // Work that may take long: beginning and ending jobs, and taking tables.
  base::Queue<std::function<void()>> chores_{SIZE_MAX};
  std::atomic<int> asked_chores_ = 0;  // chores that hosts wait for
  base::Crew crew_;
  std::unique_ptr<io::serve::RangeServer> server_;
};

Status PrepServerImpl::begin() {
  if (!options_.folder.empty()) {
    ASSIGN_OR_RETURN(folder_, BatchFolder::open(options_.folder, options_.folder_bytes));
  }
  io::serve::RangeServerOptions server{.address = options_.address, .port = options_.port};
  if (!options_.secret.empty()) {
    auto job = io::serve::make_job_certificate(options_.secret);
    if (!job) return job.error().at("prep");
    server.job = std::make_shared<const io::serve::JobCertificate>(std::move(*job));
  }
  crew_.start(2, [this](uint32_t number) {
    if (number == 1) return expire();
    while (const auto chore = chores_.pop()) (*chore)();
  });
  auto started = io::serve::RangeServer::start(server, *this);
  if (!started) return started.error().at("prep");
  server_ = std::move(*started);
  return {};
}

// Destroying server_ drops all requests and waits for their answers; the closed queue takes no
// further chores from them.
PrepServerImpl::~PrepServerImpl() {
  chores_.close();
  {
    MutexLock lock(mutex_);
    has_ended_ = true;
    ends_.notify_all();
  }
  server_.reset();
  crew_.wait();
}

PrepServerStats PrepServerImpl::stats() const {
  MutexLock lock(mutex_);
  return {.jobs = works_.size(),
          .steps = counts_.steps,
          .bytes = counts_.bytes,
          .trouble = folder_ == nullptr ? "" : folder_->trouble()};
}

// ServedFiles::answer() is const because it shares its interface with constant files; a prep
// server's answers change its state.
bool PrepServerImpl::answer(const Question& question, Done done) const {
  auto* const self = const_cast<PrepServerImpl*>(this);
  if (question.path == kJobsPath) {
    self->begin_chore(std::move(done),
                      [self, text = question.body] { return self->open_job(text); });
    return true;
  }
  if (const auto piece = parse_piece(question.path)) {
    self->begin_chore(std::move(done), [self, piece = *piece, bytes = question.body] {
      return self->take_piece(piece, bytes);
    });
    return true;
  }
  if (const auto list = parse_list(question.path)) {
    self->begin_chore(std::move(done), [self, list = *list] { return self->use_list(list); });
    return true;
  }
  const auto job = parse_stay(question.path);
  const auto path = parse_step(question.path);
  if (!job && !path) return false;
  const auto work = find_work(job ? *job : path->job);
  if (work == nullptr) {
    done(fail(Code::kNotFound, "prep: no such job is open here"));
  } else if (job) {
    work->stay(question.unwanted, std::move(done), [self, left = std::weak_ptr<ServerJob>(work)] {
      self->chores_.push([self, left] { self->end_where_left(left); });
    });
  } else {
    work->ask(*path, question.unwanted, std::move(done));
  }
  return true;
}

// Drops what hosts began and left, because they were killed or cut off: jobs without a host, and
// tables of which only a part came.
void PrepServerImpl::expire() {
  const io::Clock& clock = io::monotonic_clock();
  for (;;) {
    std::vector<std::shared_ptr<ServerJob>> left;  // destroyed without the lock
    const int64_t before_ns = clock.now_ns() - kLeftNs;
    tables_.drop_unfinished(before_ns);
    MutexLock lock(mutex_);
    if (has_ended_) return;
    for (const auto& work : works_) {
      if (work->is_idle() && work->asked_ns() < before_ns) left.push_back(work);
    }
    for (const auto& work : left) std::erase(works_, work);
    if (left.empty()) clock.wait_until(mutex_, ends_, clock.now_ns() + kLookNs);
  }
}

void PrepServerImpl::begin_chore(Done done, std::function<Result<MadeAnswer>()> chore) {
  const bool is_begun =
      asked_chores_++ < kChoresMost && chores_.push([this, done, chore = std::move(chore)] {
        try {
          done(chore());
        } catch (const base::NoThread& error) {
          done(fail(Code::kNoMemory, "prep: {}", error.what()));
        }
        --asked_chores_;
      });
  if (is_begun) return;
  --asked_chores_;
  done(fail(Code::kBusy, "prep: this prep server has too many requests at once"));
}

Result<MadeAnswer> PrepServerImpl::take_piece(const TablePiece& piece, const std::string& bytes) {
  RETURN_IF_ERROR(tables_.put(piece, base::as_bytes(bytes)));
  return MadeAnswer();
}

// Finds a table. If it is missing, the host sends it and asks again.
Result<std::shared_ptr<const ByteVector>> PrepServerImpl::find_table(const std::string& name) {
  auto table = tables_.find(name);
  if (table == nullptr) return fail(Code::kNotFound, "prep: the table {} is not here", name);
  return table;
}

// Whether a job's memory suffices for a list or a selection of so many samples.
Status PrepServerImpl::check_count(uint64_t samples) const {
  if (samples <= options_.job_memory_bytes / kChosenBytes) return {};
  return fail(Code::kNoMemory, "prep: a choice of {} samples needs more than --memory-bytes",
              samples);
}

Result<MadeAnswer> PrepServerImpl::use_list(const ListPath& path) {
  const auto work = find_work(path.job);
  if (work == nullptr) return fail(Code::kNotFound, "prep: no such job is open here");
  std::shared_ptr<const feed::SampleList> list;
  if (!path.table.empty()) {
    ASSIGN_OR_RETURN(const auto table, find_table(path.table));
    auto read = decode_list(*table);
    if (!read) return tl::unexpected(read.error().at("prep"));
    RETURN_IF_ERROR(check_count(read->samples.size()));
    list = std::make_shared<const feed::SampleList>(std::move(*read));
  }
  RETURN_IF_ERROR(work->use_list(path, std::move(list)));
  return MadeAnswer();
}

std::shared_ptr<ServerJob> PrepServerImpl::find_work(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(works_, name, &ServerJob::name);
  return found == works_.end() ? nullptr : *found;
}

// Ends a job that its host has left, unless the host has come back on another connection.
void PrepServerImpl::end_where_left(const std::weak_ptr<ServerJob>& work) {
  const auto ended = work.lock();  // destroyed without the lock
  MutexLock lock(mutex_);
  if (ended != nullptr && !ended->has_host()) std::erase(works_, ended);
}

MadeAnswer PrepServerImpl::answer_of(const ServerJob& work) const {
  JobAnswer answer{.job = work.name(), .keeps = work.keeps()};
  if (folder_ != nullptr) {
    answer.keeps_files = work.keeps_in(options_.folder_bytes / options_.jobs);
    answer.folder = folder_->path();
    answer.mark = folder_->mark();
  }
  return text_answer(encode(answer));
}

Result<MadeAnswer> PrepServerImpl::open_job(const std::string& text) {
  const std::string name = job_name(text);
  if (const auto there = find_work(name)) {
    there->drop_kept();
    return answer_of(*there);
  }
  std::shared_ptr<ServerJob> replaced;  // destroyed without the lock
  {
    MutexLock lock(mutex_);
    if (works_.size() >= options_.jobs) {
      replaced = oldest_idle();
      if (replaced == nullptr) {
        return fail(Code::kBusy,
                    "prep: this server already serves {} of at most {} loaders "
                    "(`forebay prep --processes`)",
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

std::shared_ptr<ServerJob> PrepServerImpl::oldest_idle() const {
  std::shared_ptr<ServerJob> oldest;
  for (const auto& work : works_) {
    if (!work->is_idle()) continue;
    if (oldest == nullptr || work->asked_ns() < oldest->asked_ns()) oldest = work;
  }
  return oldest;
}

Result<std::shared_ptr<ServerJob>> PrepServerImpl::make_work(const std::string& text) {
  auto job = decode_job(text);
  if (!job) return tl::unexpected(job.error().at("prep"));
  const std::string own = base::to_hex(dataset_->fingerprint());
  if (job->dataset != own) {
    return fail(Code::kInvalid,
                "prep: the host has another dataset: its fingerprint is {}, but {} here; start "
                "`forebay prep` with the same dataset",
                job->dataset, own);
  }
  std::shared_ptr<const store::Dataset> dataset = dataset_;
  for (const std::string& name : job->selections) {
    ASSIGN_OR_RETURN(const auto table, find_table(name));
    auto selected = decode_selected(*table);
    if (!selected) return tl::unexpected(selected.error().at("prep"));
    RETURN_IF_ERROR(check_count(selected->size()));
    ASSIGN_OR_RETURN(dataset, store::select(std::move(dataset), std::move(*selected)));
  }
  feed::FeedOptions options = job->options;
  if (!job->targets.empty()) {
    ASSIGN_OR_RETURN(const auto table, find_table(job->targets));
    auto targets = decode_targets(*table);
    if (!targets) return tl::unexpected(targets.error().at("prep"));
    options.targets = std::make_shared<const feed::Targets>(std::move(*targets));
  }
  if (auto* const weighted = std::get_if<feed::Weighted>(&options.order)) {
    RETURN_IF_ERROR(check_count(weighted->samples));
    ASSIGN_OR_RETURN(const auto table, find_table(job->weights));
    auto weights = decode_weights(*table);
    if (!weights) return tl::unexpected(weights.error().at("prep"));
    weighted->weights = std::make_shared<const feed::SampleWeights>(std::move(*weights));
  }
  options.threads = options_.threads;
  options.memory_bytes_max = options_.job_memory_bytes;
  ASSIGN_OR_RETURN(auto maker, feed::StepMaker::open(std::move(dataset), options));
  return std::make_shared<ServerJob>(job_name(text), options, std::move(maker), folder_, counts_);
}

}  // namespace

Result<std::unique_ptr<PrepServer>> PrepServer::serve(std::shared_ptr<const store::Dataset> dataset,
                                                      const PrepServerOptions& options) {
  auto server = std::make_unique<PrepServerImpl>(std::move(dataset), options);
  RETURN_IF_ERROR(server->begin());
  return server;
}

}  // namespace forebay::prep
