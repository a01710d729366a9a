// A host's view of an epoch that prep servers help to prepare: connects the policy
// (prep/policy/policy.h) to the host's feed, to the prep servers and to the consumer.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "feed/order/step_schedule.h"
#include "feed/step_maker.h"
#include "io/clock.h"
#include "prep/host/consumer_delay.h"
#include "prep/host/prep_client.h"
#include "prep/host/prep_options.h"
#include "prep/policy/policy.h"
#include "prep/wire/paths.h"
#include "prep/wire/tables.h"

namespace forebay::prep {

// A step for the consumer.
struct GivenStep {
  StepNumber step = 0;
  std::optional<feed::Prepared> batch = {};  // unset: the host's feed has it
};

// What does not change while the feed is open.
struct EpochShareSetup {
  std::shared_ptr<const store::Dataset> dataset;
  feed::FeedOptions options;       // the host's
  std::string job = {};            // its text
  std::vector<Table> tables = {};  // that it needs
  std::vector<ServerAddress> places = {};
  PolicyOptions policy = {};
};

// The host's feed asks it which steps are left out. Any thread may call anything.
class EpochShare final : public feed::StepFilter {
 public:
  EpochShare(EpochShareSetup setup, std::unique_ptr<PrepClient> client, const io::Clock& clock);
  // The host's feed has ended before.
  ~EpochShare() override;
  EpochShare(const EpochShare&) = delete;
  EpochShare& operator=(const EpochShare&) = delete;

  // Asks each prep server for the first time. Errors: kInvalid and kUnsupported, where one says
  // that it cannot take this job at all. One that does not answer is asked again later.
  Status greet();
  // Where the consumer goes on.
  struct Start {
    uint64_t epoch = 0;
    uint64_t step = 0;                  // of the epoch
    std::vector<StepNumber> over = {};  // came before their turn; ascending
    uint64_t steps_each = 1;            // steps of an epoch, at least one
    // The samples of this epoch, after which nothing is known of the next; null: all epochs are
    // those of the options.
    std::shared_ptr<const feed::SampleList> list = {};
  };
  // What was prepared for other steps is dropped.
  void begin(Start start) EXCLUDES(mutex_);
  // From now on the host prepares all steps by itself.
  void pause() EXCLUDES(mutex_);

  bool takes(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);
  void made(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);

  // Waits at most `ms` milliseconds for the consumer's next step; false when there is none yet.
  bool wait_ms(int ms) EXCLUDES(mutex_);
  // Waits for the next step. The same one is given until took() is called. Errors: why the host
  // could not prepare a step that did not come.
  Result<GivenStep> next() EXCLUDES(mutex_);
  void took() EXCLUDES(mutex_);
  // All steps before it were given.
  StepNumber position() const EXCLUDES(mutex_);
  // Those after it that were given, ascending.
  std::vector<StepNumber> over() const EXCLUDES(mutex_);

  PrepStats stats() const EXCLUDES(mutex_);

 private:
  using Key = std::pair<uint32_t, StepNumber>;  // a server and a step
  struct Server {
    ServerAddress place;
    bool is_up = false;
    bool is_asked = false;  // whether it was sent the job or a list, and has not answered yet
    bool has_job = false;
    // The list_id() that it takes samples from. Unset: it is not known.
    std::optional<std::string> list = {};
    bool is_banned = false;
    int64_t retry_ns = INT64_MAX;  // when it is asked again; greet() asks for the first time
    int64_t wait_ns = 0;           // how long after the last time
    uint64_t checked = 0;
    uint64_t damaged = 0;  // batches
    uint64_t bytes = 0;
    uint64_t files = 0;  // that batches came in
    std::string trouble = {};
    uint32_t keeps = 0;  // finished steps at most
    int64_t up_ns = 0;   // since when it is up
    // Ends the request that says we are there; null: there is none.
    std::shared_ptr<std::atomic<bool>> leaves = {};
  };
  // A step that the host prepares out of turn, to give it or to compare it.
  struct Remade {
    std::optional<uint32_t> checks = {};  // the server that has sent what was received
    feed::Prepared received = {};
    bool is_rescue = false;
  };
  // Set where a request's answer is not wanted any more; each request has its own.
  using Unwanted = std::shared_ptr<std::atomic<bool>>;
  // A request that begins: what makes it unwanted, and what it is for.
  struct Request {
    Unwanted unwanted;
    StepPath path;
    std::string list;  // the name of the table with its samples; empty: there is none
  };
  // The epoch and its list; empty where it is none.
  std::string list_id() const REQUIRES(mutex_);
  StepNumber number(uint64_t epoch, uint64_t step) const REQUIRES(mutex_) {
    return epoch * steps_each_ + step;
  }
  std::vector<PolicyAction> tell(PolicyEvent::Kind kind, StepNumber step = 0, uint32_t server = 0)
      REQUIRES(mutex_);
  void act(const std::vector<PolicyAction>& actions) EXCLUDES(mutex_);
  Request begin_request(StepNumber step, uint32_t server, Asked asked) EXCLUDES(mutex_);
  bool end_request(StepNumber step, uint32_t server, const Unwanted& unwanted) REQUIRES(mutex_);
  void ask(StepNumber step, uint32_t server) EXCLUDES(mutex_);
  void ask_to_keep(StepNumber step, uint32_t server) EXCLUDES(mutex_);
  void forget(StepNumber step, uint32_t server) EXCLUDES(mutex_);
  StepPath path_of(StepNumber step, Asked asked) const REQUIRES(mutex_);
  void take_fetched(const Unwanted& unwanted, StepNumber step, uint32_t server,
                    Result<PrepClient::Fetched> fetched) EXCLUDES(mutex_);
  void take_kept(const Unwanted& unwanted, StepNumber step, uint32_t server, const Status& status)
      EXCLUDES(mutex_);
  bool is_to_check(uint32_t server) REQUIRES(mutex_);
  std::vector<PolicyAction> note_failure(StepNumber step, uint32_t server, const Status& status)
      REQUIRES(mutex_);
  std::vector<PolicyAction> lose(uint32_t server, const std::string& why) REQUIRES(mutex_);
  void remake(StepNumber step, Remade remade) REQUIRES(mutex_);
  void ask_maker() EXCLUDES(mutex_);
  void work_out_of_turn() EXCLUDES(mutex_);
  void take_remade(feed::MadeStep made) EXCLUDES(mutex_);
  std::vector<PolicyAction> settle(StepNumber step, Remade remade, feed::Prepared batch)
      REQUIRES(mutex_);
  std::vector<PolicyAction> note_not_remade(StepNumber step, Remade remade, const Status& status)
      REQUIRES(mutex_);
  void send_job(uint32_t server) EXCLUDES(mutex_);
  void note_answer(uint32_t server, const Result<uint32_t>& keeps) EXCLUDES(mutex_);
  void note_no_answer(uint32_t server, const Status& status) REQUIRES(mutex_);
  std::vector<PolicyAction> come_up(uint32_t server) REQUIRES(mutex_);
  void send_list(uint32_t server) EXCLUDES(mutex_);
  void note_list(uint32_t server, const std::string& list, const Status& status) EXCLUDES(mutex_);
  void stay(uint32_t server) EXCLUDES(mutex_);
  void note_stay_over(uint32_t server, const std::shared_ptr<std::atomic<bool>>& leaves,
                      const Status& status) EXCLUDES(mutex_);
  void watch() EXCLUDES(mutex_);
  int64_t next_ns() const REQUIRES(mutex_);
  PrepStats stats_now() const REQUIRES(mutex_);

  const EpochShareSetup setup_;
  const Expected expected_;
  const io::Clock& clock_;

  mutable base::Mutex mutex_;
  base::CondVar given_;    // the consumer waits
  base::CondVar watched_;  // the watching thread waits
  base::CondVar freed_;    // the thread that works out of turn waits
  bool ended_ GUARDED_BY(mutex_) = false;
  base::Random random_ GUARDED_BY(mutex_);             // nobody else can know it
  std::unique_ptr<Policy> policy_ GUARDED_BY(mutex_);  // null: the host is alone
  std::vector<Server> servers_ GUARDED_BY(mutex_);
  std::map<Key, Unwanted> fetches_ GUARDED_BY(mutex_);
  std::set<Key> kept_ GUARDED_BY(mutex_);  // what servers keep, or were asked to prepare and keep
  std::map<StepNumber, feed::Prepared> here_ GUARDED_BY(mutex_);
  std::map<StepNumber, Remade> remade_ GUARDED_BY(mutex_);
  std::vector<StepNumber> to_remake_ GUARDED_BY(mutex_);    // the watcher asks for them
  std::map<StepNumber, bool> answered_ GUARDED_BY(mutex_);  // what takes() said
  StepNumber next_asked_ GUARDED_BY(mutex_) = 0;            // takes() said nothing of it yet
  bool consumer_asks_ GUARDED_BY(mutex_) = false;
  ConsumerDelay delay_ GUARDED_BY(mutex_);
  std::optional<StepNumber> next_ GUARDED_BY(mutex_);  // the consumer's
  bool next_is_hosts_ GUARDED_BY(mutex_) = false;      // the host's feed has it
  Status failed_ GUARDED_BY(mutex_);                   // a rescue, which the consumer waits for
  StepNumber failed_step_ GUARDED_BY(mutex_) = 0;      // its step
  PrepStats before_ GUARDED_BY(mutex_);                // of earlier lives

  uint64_t steps_each_ GUARDED_BY(mutex_);
  // The samples of the epoch, and the same as a table; null and without a name where they are those
  // of the options.
  std::shared_ptr<const feed::SampleList> samples_ GUARDED_BY(mutex_);
  Table list_ GUARDED_BY(mutex_);
  uint64_t list_epoch_ GUARDED_BY(mutex_) = 0;
  bool has_listed_ GUARDED_BY(mutex_) = false;  // whether there ever was a list

  // The watcher makes it when a step is remade for the first time.
  std::unique_ptr<feed::StepMaker> maker_;
  // The samples of the steps that it was asked for last, and what its begin() gave for them.
  std::shared_ptr<const feed::SampleList> maker_samples_ GUARDED_BY(mutex_);
  uint64_t maker_begun_ GUARDED_BY(mutex_) = 0;
  base::Crew maker_crew_;
  base::Crew watcher_;
  const std::unique_ptr<PrepClient> client_;  // ends first, because it calls the rest
};

}  // namespace forebay::prep
