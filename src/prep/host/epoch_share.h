// Shares an epoch's steps between the host and its prep servers: connects the policy
// (prep/policy/policy.h) to the host's feed, the prep servers and the consumer.
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
#include "io/clock.h"
#include "prep/host/consumer_delay.h"
#include "prep/host/prep_client.h"
#include "prep/host/prep_options.h"
#include "prep/host/remade_steps.h"
#include "prep/host/server_state.h"
#include "prep/policy/policy.h"
#include "prep/wire/paths.h"
#include "prep/wire/tables.h"

namespace forebay::prep {

// A step for the consumer.
struct GivenStep {
  StepNumber step = 0;
  std::optional<feed::Prepared> batch = {};  // unset: the host's feed has the batch
};

// Values that do not change while the feed is open.
struct EpochShareSetup {
  std::shared_ptr<const store::Dataset> dataset;
  feed::FeedOptions options;       // the host's
  std::string job = {};            // the job's text
  std::vector<Table> tables = {};  // the tables that the job names
  std::vector<ServerAddress> places = {};
  PolicyOptions policy = {};
};

// The host's feed asks it which steps to leave out. Any thread may call anything.
class EpochShare final : public feed::StepFilter {
 public:
  EpochShare(EpochShareSetup setup, std::unique_ptr<PrepClient> client, const io::Clock& clock);
  // The host's feed must have ended before.
  ~EpochShare() override;
  EpochShare(const EpochShare&) = delete;
  EpochShare& operator=(const EpochShare&) = delete;

  // Sends the job to each prep server for the first time. Errors: kInvalid and kUnsupported, if a
  // prep server answers that it cannot take this job at all. A prep server that does not answer is
  // asked again later.
  Status greet();
  // Where the consumer goes on.
  struct Start {
    uint64_t epoch = 0;
    uint64_t step = 0;                  // within the epoch
    std::vector<StepNumber> over = {};  // steps that came before their turn, ascending
    uint64_t steps_each = 1;            // steps of an epoch, at least one
    uint64_t slots = 1;                 // of a batch on this rank (feed::Steps::batch)
    // The samples of this epoch; those of the next epoch are then unknown. Null: the options decide
    // the samples of all epochs.
    std::shared_ptr<const feed::SampleList> list = {};
  };
  // Begins there, and drops all steps that were prepared before.
  void begin(Start start) EXCLUDES(mutex_);
  // From now on the host prepares all steps by itself.
  void pause() EXCLUDES(mutex_);

  bool takes(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);
  void made(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);

  // Waits at most `ms` milliseconds for the consumer's next step; false if there is none yet.
  bool wait_ms(int ms) EXCLUDES(mutex_);
  // Waits for the next step, and gives the same step until took() is called. Errors: why the host
  // could not prepare a step that a prep server did not deliver.
  Result<GivenStep> next() EXCLUDES(mutex_);
  void took() EXCLUDES(mutex_);
  // All steps before this one were given.
  StepNumber position() const EXCLUDES(mutex_);
  // Steps after position() that were given, ascending.
  std::vector<StepNumber> over() const EXCLUDES(mutex_);

  PrepStats stats() const EXCLUDES(mutex_);

 private:
  using Key = std::pair<uint32_t, StepNumber>;  // a server and a step
  struct Server {
    ServerAddress place;
    ServerState state = {};
    uint64_t checked = 0;
    uint64_t bytes = 0;
    uint64_t files = 0;  // batches that came as files
    // Set to end the request of stay(); null: there is none.
    std::shared_ptr<std::atomic<bool>> leaves = {};
  };
  // Set when a request's answer is no longer wanted; each request has its own.
  using Unwanted = std::shared_ptr<std::atomic<bool>>;
  // A request that begins.
  struct Request {
    Unwanted unwanted;
    StepPath path;
    std::string list;  // the name of the epoch's list of samples; empty: there is none
    uint64_t slots = 1;
  };
  // Names the epoch and its list; empty if the epoch has none.
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
  void take_remade(RemadeSteps::Remade remade) EXCLUDES(mutex_);
  std::vector<PolicyAction> settle(RemadeSteps::Remade remade) REQUIRES(mutex_);
  std::vector<PolicyAction> note_not_remade(RemadeSteps::Remade remade) REQUIRES(mutex_);
  ServerAddress place_of(uint32_t server) const EXCLUDES(mutex_);
  void look_up_again(uint32_t server) EXCLUDES(mutex_);
  void send_job(uint32_t server) EXCLUDES(mutex_);
  void note_answer(uint32_t server, const Result<uint32_t>& keeps) EXCLUDES(mutex_);
  void send_list(uint32_t server) EXCLUDES(mutex_);
  void note_list(uint32_t server, const std::string& list, const Status& status) EXCLUDES(mutex_);
  void stay(uint32_t server) EXCLUDES(mutex_);
  void note_stay_over(uint32_t server, const std::shared_ptr<std::atomic<bool>>& leaves,
                      const Status& status) EXCLUDES(mutex_);
  void watch() EXCLUDES(mutex_);
  int64_t next_ns() const REQUIRES(mutex_);
  PrepStats stats_now() const REQUIRES(mutex_);

  const EpochShareSetup setup_;
  const Expected expected_;  // for batches of one slot
  const io::Clock& clock_;

  mutable base::Mutex mutex_;
  base::CondVar given_;    // the consumer waits on it
  base::CondVar watched_;  // watch() waits on it
  bool ended_ GUARDED_BY(mutex_) = false;
  base::Random random_ GUARDED_BY(mutex_);             // prep servers cannot predict it
  std::unique_ptr<Policy> policy_ GUARDED_BY(mutex_);  // null: the host is alone
  std::vector<Server> servers_ GUARDED_BY(mutex_);
  std::map<Key, Unwanted> fetches_ GUARDED_BY(mutex_);
  std::set<Key> kept_ GUARDED_BY(mutex_);  // steps that servers keep, or were asked to keep
  std::map<StepNumber, feed::Prepared> here_ GUARDED_BY(mutex_);
  uint64_t remade_begun_ GUARDED_BY(mutex_) = 0;            // what remade_.begin() returned
  std::map<StepNumber, bool> answered_ GUARDED_BY(mutex_);  // what takes() returned
  StepNumber next_asked_ GUARDED_BY(mutex_) = 0;            // the first step not in answered_ yet
  bool consumer_asks_ GUARDED_BY(mutex_) = false;
  ConsumerDelay delay_ GUARDED_BY(mutex_);
  std::optional<StepNumber> next_ GUARDED_BY(mutex_);  // the consumer's
  bool next_is_hosts_ GUARDED_BY(mutex_) = false;      // the host's feed has next_
  Status failed_ GUARDED_BY(mutex_);                   // why failed_step_ could not be rescued
  StepNumber failed_step_ GUARDED_BY(mutex_) = 0;
  PrepStats before_ GUARDED_BY(mutex_);  // up to the last begin() or pause()

  uint64_t steps_each_ GUARDED_BY(mutex_);
  uint64_t slots_ GUARDED_BY(mutex_) = 1;  // of a batch
  Table list_ GUARDED_BY(mutex_);  // the epoch's list of samples; without a name if it has none
  uint64_t list_epoch_ GUARDED_BY(mutex_) = 0;
  bool has_listed_ GUARDED_BY(mutex_) = false;  // whether there ever was a list

  RemadeSteps remade_;
  base::Crew watcher_;
  const std::unique_ptr<PrepClient> client_;  // destroyed first, because it calls the others
};

}  // namespace forebay::prep
