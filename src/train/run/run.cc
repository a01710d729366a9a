#include "train/run/run.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <set>

#include "io/machine.h"
#include "train/run/data_reports.h"
#include "train/run/interval.h"
#include "train/run/saved_models.h"

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

// A batch that was taken from the training feed.
struct Taken {
  Samples samples;
  feed::FeedState after;  // the feed's state after this batch
  int64_t waited_ns = 0;
};

class Run {
 public:
  Run(Learner& learner, feed::Feed& training, feed::Feed* validation, io::FileSystem& fs, Log& log,
      const RunOptions& options)
      : learner_(learner),
        training_(training),
        validation_(validation),
        fs_(fs),
        log_(log),
        options_(options),
        replicas_(*options.replicas),
        has_shared_counts_(!replicas_.exchanges()) {}

  Result<Summary> go() {
    RETURN_IF_ERROR(begin());
    RETURN_IF_ERROR(join());
    while (progress_.feed.epoch < options_.epochs && !summary_.reached_target) {
      RETURN_IF_ERROR(epoch());
    }
    return end();
  }

 private:
  Status begin() {
    if (options_.out.empty() && !options_.resume) return {};
    if (options_.out.empty()) return fail(Code::kInvalid, "--resume needs the folder --out");
    if (is_first()) {
      ASSIGN_OR_RETURN(lock_, fs_.lock(io::join_path(options_.out, "LOCK")));
    }
    if (options_.resume) return resume();
    ASSIGN_OR_RETURN(auto there, list_checkpoints(fs_, options_.out));
    if (is_first()) {
      ASSIGN_OR_RETURN(const std::string model, saved_.there());
      if (!model.empty()) there.push_back(model);
    }
    if (there.empty()) return {};
    return fail(Code::kExists, "{} already exists: continue with --resume, or give another --out",
                there.front());
  }

  // Loads this process's newest checkpoint, if it has one.
  Status resume() {
    ASSIGN_OR_RETURN(const auto restored,
                     restore_checkpoint(fs_, options_.out, options_.fingerprint, learner_.state()));
    if (!restored) return {};
    for (const std::string& damaged : restored->damaged) {
      log_.warn(damaged + "; an older checkpoint is used");
      log_.event("damaged_checkpoint", {{"what", damaged}});
    }
    progress_ = restored->progress;
    resumed_ = restored->path;
    return is_first() ? saved_.resume() : Status();
  }

  Status say_resumed() {
    if (resumed_.empty() && options_.resume) {
      log_.say(fmt::format("{}: no checkpoint yet, starting at the beginning", options_.out));
    }
    if (resumed_.empty()) return {};
    log_.say(fmt::format("resumed from {} at step {}", resumed_, progress_.step));
    log_.event("resumed", {{"path", resumed_}, {"step", progress_.step}});
    return {};
  }

  // Validates again after a checkpoint at an epoch's end: the run that wrote it may have reached
  // its target, or may have ended before it could validate.
  Status validate_resumed() {
    const bool epoch_is_done =
        progress_.feed.epoch > 0 && progress_.feed.position == 0 && progress_.feed.over.empty();
    if (!options_.target_accuracy || validation_ == nullptr || !epoch_is_done) return {};
    return validate(progress_.feed.epoch - 1);
  }

  bool is_first() const { return replicas_.is_first(); }

  // Gives all processes the state of the process with the newest checkpoint.
  Status join() {
    FlatNumbers numbers;
    if (replicas_.exchanges()) {
      numbers = learner_.flatten();
      RETURN_IF_ERROR(take_newest());
    }
    RETURN_IF_ERROR(say_resumed());
    RETURN_IF_ERROR(validate_resumed());
    RETURN_IF_ERROR(share_target());
    return replicas_.begin(numbers);
  }

  Status take_newest() {
    progress_.options = options_.fingerprint;
    ASSIGN_OR_RETURN(const uint32_t newest, replicas_.newest_rank(progress_.step));
    ByteVector state;
    if (newest == replicas_.rank()) {
      ASSIGN_OR_RETURN(state, encode_checkpoint(progress_, learner_.state()));
    }
    ASSIGN_OR_RETURN(state, replicas_.from_rank(newest, state));
    auto progress = decode_checkpoint(state, options_.fingerprint, learner_.state());
    if (!progress) return progress.error().at(fmt::format("rank {}", newest));
    progress_ = std::move(*progress);
    has_shared_counts_ = progress_.step > 0;
    if (progress_.step > 0 && newest != replicas_.rank()) {
      resumed_ = fmt::format("rank {}'s checkpoint", newest);
    }
    return {};
  }

  // Gives all processes the buffers (running statistics and whitening filters) that rank 0 computes
  // from its first images.
  Status share_first_counts(const Samples& samples) {
    if (has_shared_counts_) return {};
    const auto first = learner_.gradients(samples);
    if (!first) return came_apart(first.error(), learner_.rate(0));
    ByteVector counts;
    if (is_first() && first->samples > 0) {
      ASSIGN_OR_RETURN(counts, encode_tensors(learner_.model().buffers(), {}));
    }
    ASSIGN_OR_RETURN(counts, replicas_.from_rank(0, counts));
    has_shared_counts_ = !counts.empty();
    if (!has_shared_counts_) return {};  // none of rank 0's images has a label
    ASSIGN_OR_RETURN(const Safetensors tensors, decode_safetensors(counts));
    return load_tensors(tensors, learner_.model().buffers());
  }

  Status epoch() {
    const uint64_t number = progress_.feed.epoch;
    RETURN_IF_ERROR(training_.start(progress_.feed));
    uint64_t done = steps_done();
    Interval whole;
    Interval shown;
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<Taken> taken, take());
      if (!taken) break;
      RETURN_IF_ERROR(first_batch());
      RETURN_IF_ERROR(show_bad(training_));
      RETURN_IF_ERROR(share_first_counts(taken->samples));
      // Also correct if another number of processes made the epoch's earlier steps.
      const double rate = learner_.rate(number * training_.steps() + done);
      const auto result = step(*taken, rate);
      if (!result) return is_stopped() ? stopped() : result.error();
      whole.add(*result, taken->waited_ns);
      shown.add(*result, taken->waited_ns);
      if (progress_.step % options_.log_steps == 0) {
        RETURN_IF_ERROR(show(number, done + 1, rate, shown));
        shown = Interval();
      }
      RETURN_IF_ERROR(after_step());
      ++done;
    }
    return finish_epoch(number, whole);
  }

  // Returns the next batch; nothing at the epoch's end.
  Result<std::optional<Taken>> take() {
    if (!ahead_) return take_from_feed();
    auto taken = *std::move(ahead_);
    ahead_.reset();
    return taken;
  }

  Result<std::optional<Taken>> take_from_feed() {
    const int64_t asked_ns = io::monotonic_ns();
    ASSIGN_OR_RETURN(const auto batch, training_.next());
    const int64_t waited_ns = io::monotonic_ns() - asked_ns;
    if (!batch) return std::nullopt;
    return Taken{learner_.take(batch), training_.state(), waited_ns};
  }

  // Returns how many steps of the epoch were made before it was resumed. They need not be its first
  // steps (prep::PrepOptions::any_order).
  uint64_t steps_done() const {
    const auto steps = [&](uint64_t positions) {
      return (positions + options_.global_batch - 1) / options_.global_batch;
    };
    uint64_t done = steps(progress_.feed.position);
    for (const feed::Positions& over : progress_.feed.over) done += steps(over.end - over.begin);
    return done;
  }

  Result<BatchResult> step(const Taken& taken, double rate) {
    const std::vector<at::Tensor> counts = copied_counts();
    std::function<void()> meanwhile;
    if (options_.takes_ahead) meanwhile = [this] { ahead_ = take_from_feed(); };
    const auto result = learner_.gradients(taken.samples, meanwhile);
    if (!result) return tl::unexpected(came_apart(result.error(), rate));
    if (const Status status = replicas_.before_update(); !status.ok()) {
      put_back(counts);
      return tl::unexpected(status);
    }
    if (learner_.has_gradients()) learner_.apply(rate);
    ++progress_.step;
    progress_.feed = taken.after;
    RETURN_IF_ERROR(replicas_.after_update());
    return result;
  }

  // With several processes a step may fail after the forward pass has updated the buffers. A run
  // that continues from here repeats the step, so the buffers are put back.
  std::vector<at::Tensor> copied_counts() const {
    std::vector<at::Tensor> counts;
    if (!replicas_.exchanges()) return counts;
    for (const Named& named : learner_.model().buffers())
      counts.push_back(named.tensor.detach().clone());
    return counts;
  }

  void put_back(const std::vector<at::Tensor>& counts) const {
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < counts.size(); ++i) {
      at::Tensor(learner_.model().buffers()[i].tensor).copy_(counts[i]);
    }
  }

  Status first_batch() {
    if (seen_batch_) return {};
    seen_batch_ = true;
    return options_.on_first_batch ? options_.on_first_batch() : Status();
  }

  // Warns of each bad sample once.
  Status show_bad(const feed::Feed& feed) {
    for (const feed::BadSample& bad : feed.state().bad) {
      if (!bad_.emplace(bad.chunk, bad.key).second) continue;
      const char* instead = &feed == validation_ ? "left out" : "replaced by another";
      log_.warn(fmt::format("sample \"{}\" of chunk {} cannot be used and is {}: {}", bad.key,
                            bad.chunk, instead, bad.reason));
      log_.event("bad_sample", {{"key", bad.key}, {"chunk", bad.chunk}, {"reason", bad.reason}});
    }
    return {};
  }

  // Returns the error for a loss that is not finite, with what the user can do about it.
  Status came_apart(const Status& loss, double rate) const {
    const Status error(
        loss.code(),
        fmt::format("{} (learning rate {:.4g}): training diverged; use a lower --lr or "
                    "a longer --warmup",
                    loss.message(), rate));
    if (options_.out.empty()) return error;
    const auto there = list_checkpoints(fs_, options_.out);
    if (!there || there->empty()) return error;
    return error.at(fmt::format("checkpoints up to now are in {}", options_.out));
  }

  bool is_stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  Status stopped() {
    if (!is_first()) return {Code::kCancelled, "stopped"};
    if (options_.out.empty())
      return {Code::kCancelled, "stopped; nothing was saved, because --out was not given"};
    RETURN_IF_ERROR(checkpoint());
    return {
        Code::kCancelled,
        fmt::format("stopped at step {}; to continue, run it again with --resume", progress_.step)};
  }

  Status after_step() {
    if (is_stopped()) return stopped();
    if (options_.checkpoint_steps == 0 || progress_.step % options_.checkpoint_steps != 0) {
      return {};
    }
    return checkpoint();
  }

  Status checkpoint() {
    if (options_.out.empty() || !is_first()) return {};
    progress_.options = options_.fingerprint;
    return write_checkpoint(fs_, options_.out, progress_, learner_.state());
  }

  Status show(uint64_t epoch, uint64_t step, double rate, const Interval& interval) {
    nlohmann::json fields = interval.fields();
    const uint64_t total = options_.epochs * training_.steps();
    const auto left = static_cast<double>(total - std::min(progress_.step, total));
    const double eta_s =
        left * ratio(seconds_since(interval.start_ns), static_cast<double>(interval.steps));
    static_cast<void>(energy_.used());  // often enough to notice counters that wrap around
    const LinkReport link(training_.stats(), options_.price);
    const PrepReport prep(options_.prep_stats);
    log_.progress(fmt::format(
        "epoch {}/{} step {}/{}  {:.0f} samples/s  waiting {:.1f} %  loss {:.3f}  accuracy "
        "{:.1f} %  {:.0f} s left{}",
        epoch + 1, options_.epochs, step, training_.steps(), fields["samples_per_s"].get<double>(),
        100 * fields["wait_share"].get<double>(), fields["loss"].get<double>(),
        100 * fields["accuracy"].get<double>(), eta_s, link.text() + prep.text() + exchanged()));
    link.add_to(&fields);
    prep.add_to(&fields);
    fields.update({{"epoch", epoch}, {"step", progress_.step}, {"lr", rate}, {"eta_s", eta_s}});
    log_.event("step", fields);
    return {};
  }

  // A text about the exchange, to append to a progress line.
  std::string exchanged() const {
    return replicas_.exchanges() ? "  " + replicas_.describe() : std::string();
  }

  Status finish_epoch(uint64_t number, const Interval& whole) {
    progress_.feed = {number + 1, 0, training_.state().bad};
    nlohmann::json fields = whole.fields();
    wait_ns_ += whole.wait_ns;
    fields.update({{"epoch", number}, {"step", progress_.step}});
    std::string line =
        fmt::format("epoch {}/{}: {:.0f} samples/s, loss {:.3f}", number + 1, options_.epochs,
                    fields["samples_per_s"].get<double>(), fields["loss"].get<double>());
    if (number + 1 == options_.epochs) RETURN_IF_ERROR(replicas_.end());
    // The checkpoint comes before validation, so that a loss of power during validation costs no
    // steps.
    RETURN_IF_ERROR(checkpoint());
    const bool due =
        (number + 1) % options_.validation_epochs == 0 || number + 1 == options_.epochs;
    if (validation_ != nullptr && due) {
      RETURN_IF_ERROR(validate(number));
      const EvalResult& result = *summary_.validation;
      line +=
          fmt::format(", validation {:.2f} % (loss {:.3f})", 100 * result.accuracy(), result.loss);
      fields.update({{"val_accuracy", result.accuracy()}, {"val_loss", result.loss}});
    }
    if (due && options_.is_measured) RETURN_IF_ERROR(share_target());
    if (replicas_.exchanges()) fields["sync"] = nlohmann::json::parse(replicas_.stats());
    const LinkReport link(training_.stats(), options_.price);
    const PrepReport prep(options_.prep_stats);
    log_.say(line +
             fmt::format(", {:.0f} s{}{}", seconds_since(start_ns_), link.text(), prep.text()));
    link.add_to(&fields);
    prep.add_to(&fields);
    log_.event("epoch", fields);
    return {};
  }

  // Tells all processes whether rank 0, which alone validates, has reached the target accuracy.
  Status share_target() {
    ASSIGN_OR_RETURN(const ByteVector reached,
                     replicas_.from_rank(0, {uint8_t{summary_.reached_target}}));
    summary_.reached_target = !reached.empty() && reached.front() != 0;
    return {};
  }

  Status validate(uint64_t number) {
    RETURN_IF_ERROR(replicas_.show_averaged());
    auto result = learner_.evaluate(*validation_, number);
    Status saved;
    if (result) {
      const double accuracy = result->accuracy();
      summary_.reached_target = options_.target_accuracy && accuracy >= *options_.target_accuracy;
      // Rank 0 alone validates, and a run without epochs leaves no model.
      if (options_.epochs > 0) {
        saved = saved_.measured(learner_.model(), accuracy, summary_.reached_target);
      }
    }
    RETURN_IF_ERROR(replicas_.show_own());
    RETURN_IF_ERROR(saved);
    ASSIGN_OR_RETURN(summary_.validation, std::move(result));
    return show_bad(*validation_);
  }

  Result<Summary> end() {
    // A finished run that was resumed has not validated anything in this process.
    if (validation_ != nullptr && !summary_.validation) {
      RETURN_IF_ERROR(validate(options_.epochs));
    }
    RETURN_IF_ERROR(replicas_.end());
    if (is_first()) RETURN_IF_ERROR(saved_.end(learner_.model()));
    summary_.steps = progress_.step;
    summary_.bad_samples = bad_.size();
    summary_.epochs = progress_.feed.epoch;
    summary_.seconds = seconds_since(start_ns_);
    summary_.energy = energy_.used();
    summary_.wait_share = ratio(static_cast<double>(wait_ns_) / 1e9, summary_.seconds);
    return summary_;
  }

  Learner& learner_;
  feed::Feed& training_;
  feed::Feed* const validation_;
  io::FileSystem& fs_;
  Log& log_;
  const RunOptions& options_;
  Replicas& replicas_;
  const int64_t start_ns_ = io::monotonic_ns();
  io::EnergyMeter energy_;
  std::unique_ptr<io::FileLock> lock_;  // keeps other runs away from the checkpoints
  SavedModels saved_{fs_, options_.out};
  Progress progress_;
  std::string resumed_;                                // the checkpoint that the run continues
  std::optional<Result<std::optional<Taken>>> ahead_;  // the result of the next take()
  Summary summary_;
  int64_t wait_ns_ = 0;
  bool seen_batch_ = false;
  bool has_shared_counts_;
  std::set<std::pair<std::string, std::string>> bad_;  // chunk and key of samples warned of
};

}  // namespace

Result<Summary> train(Learner& learner, feed::Feed& training, feed::Feed* validation,
                      io::FileSystem& fs, Log& log, const RunOptions& options) {
  if (options.log_steps == 0 || options.validation_epochs == 0) {
    return fail(Code::kInvalid, "log_steps and validation_epochs must be above 0");
  }
  if (options.epochs > 0 && training.steps() == 0) {
    return fail(Code::kInvalid,
                "nothing to learn from: the dataset has fewer samples than one batch ({}); train "
                "with a smaller batch",
                options.global_batch);
  }
  if (options.epochs == 0 && options.replicas->exchanges()) {
    return fail(Code::kInvalid, "0 epochs only validate, which one process does: leave out --sync");
  }
  if (options.epochs == 0 && validation == nullptr) {
    return fail(Code::kInvalid, "nothing to do: no epochs and no validation dataset");
  }
  return Run(learner, training, validation, fs, log, options).go();
}

}  // namespace forebay::train
