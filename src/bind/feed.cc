#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bind/arrays.h"
#include "bind/batch.h"
#include "bind/dataset.h"
#include "feed/read/traffic_since.h"
#include "feed/starting.h"
#include "io/machine.h"
#include "prep/host/assisted_feed.h"

namespace forebay::bind {
namespace {

using feed::FeedOptions;

constexpr int kSignalsMs = 50;  // Ctrl-C is noticed after at most this time

Where where_are(const std::shared_ptr<image::gpu::Device>& device) {
  if (device == nullptr || device->number() < 0) return {};
  return {nb::device::cuda::value, device->number()};
}

// The Python object of a feed. Any thread may call any function. A forked child cannot use the
// feed: there, every turn is over.
class Feed {
 public:
  using Turn = feed::SharedFeed::Turn;

  Feed(const Dataset& dataset, const FeedOptions& options,
       const std::optional<prep::PrepOptions>& with)
      : feed_(open(dataset, options, with)),
        tensor_(options.tensor),
        where_(where_are(options.device)),
        is_remote_(feed::is_any_remote(*dataset.opened) || with) {}

  bool is_here() const { return feed_.is_here(); }
  // Same contract as feed::Feed::start(), but the turn, or the error as an exception, is appended
  // to `into`. What is thrown instead comes from a signal's handler; the start can then be tried
  // again.
  void start(const feed::FeedState& from, const std::shared_ptr<feed::SampleList>& list,
             nb::list into) {
    const base::Result<Turn> turn = try_start(from, list);
    into.append(turn ? nb::cast(*turn) : exception(turn.error()));
  }
  void end(Turn turn) { feed().end(turn); }
  bool is_over(Turn turn) const { return !is_here() || feed().is_over(turn); }
  feed::FeedStats stats() const { return feed().stats(); }
  // The figures of the prep servers; nothing for a feed without prep servers.
  std::optional<prep::PrepStats> prep_stats() const {
    if (assisted_ == nullptr) return std::nullopt;
    return assisted_->prep_stats();
  }
  void start_trace() { feed().trace().start(); }
  std::string stop_trace() {
    const WithoutInterpreter released;
    feed().trace().stop();
    return feed().trace().json();
  }
  // Same contract as feed::Feed::wait_ms(), but a signal such as Ctrl-C can end the wait with an
  // exception.
  bool wait_ms(Turn turn, int64_t ms) const {
    for (;;) {
      const auto now = static_cast<int>(std::min<int64_t>(ms, kSignalsMs));
      {
        const WithoutInterpreter released;
        if (unwrap(feed().wait_ms(turn, now))) return true;
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      ms -= now;
      if (ms == 0) return false;
    }
  }
  // Appends (batch, state after it) to `into`, the batch None at the epoch's end; or the error that
  // ends the epoch, as an exception. A batch is in `into` before Python can run a signal's handler,
  // which may raise, so no batch is lost. Throws an error after which the same batch can be asked
  // for again, and the error of a turn that is over.
  void next(Turn turn, nb::list into) {
    std::optional<base::Result<feed::Taken>> taken;
    {
      const WithoutInterpreter released;
      taken = feed().next(turn);
    }
    if (!*taken) {
      const base::Code code = taken->error().code();
      if (code == base::Code::kNoMemory || code == base::Code::kCancelled) raise(taken->error());
      return into.append(exception(taken->error()));
    }
    std::optional<Batch> batch;
    if ((*taken)->batch != nullptr) {
      batch =
          Batch{std::make_shared<const Batch::Owner>(std::move((*taken)->batch)), tensor_, where_};
    }
    into.append(nb::make_tuple(std::move(batch), std::move((*taken)->state)));
  }

 private:
  feed::SharedFeed& feed() const { return **feed_; }
  // If the start may wait for a server, it runs in a thread of its own, so that a signal such as
  // Ctrl-C can end the wait with an exception.
  base::Result<Turn> try_start(const feed::FeedState& from,
                               const std::shared_ptr<feed::SampleList>& list) {
    if (!is_remote_) {
      const WithoutInterpreter released;
      return feed().start(from, list);
    }
    feed::Starting starting(feed(), from, list);
    for (;;) {
      {
        const WithoutInterpreter released;
        if (auto begun = starting.wait_ms(kSignalsMs)) return std::move(*begun);
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }
  std::unique_ptr<feed::SharedFeed> open(const Dataset& dataset, const FeedOptions& options,
                                         const std::optional<prep::PrepOptions>& with) {
    const WithoutInterpreter released;
    if (!with) {
      return std::make_unique<feed::SharedFeed>(unwrap(feed::Feed::open(dataset.opened, options)));
    }
    auto feed = unwrap(prep::AssistedFeed::open(dataset.opened, options, *with));
    assisted_ = feed.get();
    return std::make_unique<feed::SharedFeed>(std::move(feed));
  }

  const prep::AssistedFeed* assisted_ = nullptr;  // owned by feed_
  InItsProcess<std::unique_ptr<feed::SharedFeed>> feed_;
  image::TensorOptions tensor_;
  Where where_;
  bool is_remote_;
};

using Numbers = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void add_further(FeedOptions& self, std::string name, const Dataset& dataset,
                 const Numbers& image_of) {
  self.further.push_back(std::make_shared<const feed::FurtherImages>(feed::FurtherImages{
      std::move(name), dataset.opened, {image_of.data(), image_of.data() + image_of.size()}}));
}

void bind_options(nb::module_& m) {
  nb::enum_<feed::Images>(m, "Images")
      .value("NONE", feed::Images::kNone)
      .value("TENSOR", feed::Images::kTensor)
      .value("OWN_SIZE", feed::Images::kOwnSize)
      .value("WHOLE", feed::Images::kWhole);
  m.def("usable_cores", &io::usable_cores, "How many threads of this process can run at once.");
  nb::enum_<feed::Decode>(m, "Decode")
      .value("AUTO", feed::Decode::kAuto)
      .value("HOST", feed::Decode::kHost)
      .value("GPU", feed::Decode::kGpu);
  nb::enum_<feed::Regions>(m, "Regions")
      .value("AUTO", feed::Regions::kAuto)
      .value("NEVER", feed::Regions::kNever);
  nb::class_<FeedOptions>(m, "FeedOptions")
      .def(nb::init<>())
      .def_rw("images", &FeedOptions::images)
      .def_rw("files", &FeedOptions::files)
      .def_rw("targets", &FeedOptions::targets, nb::arg().none())
      .def("add_further", &add_further, nb::arg("name"), nb::arg("dataset"), nb::arg("image_of"),
           "Adds a further image of each sample: the one with the number image_of[sample].")
      .def_rw("transform", &FeedOptions::transform)
      .def_rw("tensor", &FeedOptions::tensor)
      .def_rw("damaged", &FeedOptions::damaged)
      .def_rw("device", &FeedOptions::device, nb::arg().none())
      .def_rw("decode", &FeedOptions::decode)
      .def_rw("global_batch", &FeedOptions::global_batch)
      .def_rw("rank", &FeedOptions::rank)
      .def_rw("world_size", &FeedOptions::world_size)
      .def_rw("seed", &FeedOptions::seed)
      .def(
          "set_order",
          [](FeedOptions& self, std::variant<feed::Shuffled, feed::Stored, feed::Weighted> order) {
            std::visit([&](auto& source) { self.order = std::move(source); }, order);
          },
          nb::arg("order"), "Sets which samples epochs have, and in which order.")
      .def_rw("replace_bad", &FeedOptions::replace_bad)
      .def_rw("drop_last", &FeedOptions::drop_last)
      .def_rw("even_ranks", &FeedOptions::even_ranks)
      .def_rw("threads", &FeedOptions::threads)
      .def_rw("prefetch", &FeedOptions::prefetch)
      .def_rw("memory_bytes_max", &FeedOptions::memory_bytes_max)
      .def_rw("regions", &FeedOptions::regions)
      .def_rw("bad_samples_max", &FeedOptions::bad_samples_max);
}

}  // namespace

void bind_feed(nb::module_& m) {
  bind_options(m);
  bind_batch(m);
  nb::class_<io::Traffic>(m, "Traffic",
                          "The bytes and requests that went over a network, and their speed; 0 "
                          "means unknown.")
      .def_ro("requests", &io::Traffic::requests)
      .def_ro("retries", &io::Traffic::retries)
      .def_ro("hedges", &io::Traffic::hedges)
      .def_ro("bytes_received", &io::Traffic::bytes_received)
      .def_ro("bytes_sent", &io::Traffic::bytes_sent)
      .def_ro("latency_s", &io::Traffic::latency_s)
      .def_ro("bytes_per_s", &io::Traffic::bytes_per_s);
  nb::class_<feed::FeedStats>(m, "FeedStats")
      .def_ro("samples", &feed::FeedStats::samples)
      .def_ro("bytes_read", &feed::FeedStats::bytes_read)
      .def_ro("whole_bytes", &feed::FeedStats::whole_bytes)
      .def_ro("requests", &feed::FeedStats::requests)
      .def_ro("ranges", &feed::FeedStats::ranges)
      .def_ro("made_on_gpu", &feed::FeedStats::made_on_gpu)
      .def_ro("wait_ns", &feed::FeedStats::wait_ns)
      .def_ro("prepare_ns", &feed::FeedStats::prepare_ns)
      .def_ro("starved_ns", &feed::FeedStats::starved_ns)
      .def_ro("idle_ns", &feed::FeedStats::idle_ns)
      .def_ro("read_ns", &feed::FeedStats::read_ns)
      .def_ro("reading_ns", &feed::FeedStats::reading_ns)
      .def_ro("batch_bytes_peak", &feed::FeedStats::batch_bytes_peak)
      .def_ro("link", &feed::FeedStats::link)
      .def(
          "cost",
          [](const feed::FeedStats& self, double per_1000_requests, double per_gb) {
            return feed::cost(self, {.per_1000_requests = per_1000_requests, .per_gb = per_gb});
          },
          nb::arg("per_1000_requests"), nb::arg("per_gb"),
          "What the requests and the bytes received cost at these prices.")
      .def("describe_link", &feed::describe_link,
           "Traffic over the network, for a progress line; empty if there was none.");
  nb::class_<Feed>(m, "Feed", "Makes the batches of an epoch. Any thread may call any method.")
      .def(nb::init<const Dataset&, const FeedOptions&, const std::optional<prep::PrepOptions>&>(),
           nb::arg("dataset"), nb::arg("options"), nb::arg("prep").none() = nb::none())
      .def_prop_ro("is_here", &Feed::is_here, "False in a forked child, which cannot use the feed.")
      .def("start", &Feed::start, nb::arg("state"), nb::arg("samples").none(), nb::arg("into"),
           "Starts a new turn at `state` and ends earlier turns; appends the new turn's number, or "
           "the exception that tells why it cannot start, to `into`. `samples` are the turn's "
           "samples; None: those of the order in FeedOptions.")
      .def("end", &Feed::end, nb::arg("turn"), "Ends this turn, if it is not over yet.")
      .def("is_over", &Feed::is_over, nb::arg("turn"), "Whether a newer turn or a fork ended it.")
      .def("wait_ms", &Feed::wait_ms, nb::arg("turn"), nb::arg("ms"),
           "Waits for the next batch for at most this time; returns whether it is there.")
      .def("stats", &Feed::stats)
      .def("prep_stats", &Feed::prep_stats,
           "The figures of the prep servers; None for a feed without prep servers.")
      .def("start_trace", &Feed::start_trace)
      .def("stop_trace", &Feed::stop_trace,
           "Returns the trace since start_trace(), as JSON that Perfetto opens.")
      .def("next", &Feed::next, nb::arg("turn"), nb::arg("into"),
           "Appends to `into` the turn's next batch (None at the epoch's end) and the FeedState "
           "after it, as a tuple; or the exception that ends the epoch. Raises an exception only "
           "if the same batch can be asked for again, or if the turn is over.");
}

}  // namespace forebay::bind
