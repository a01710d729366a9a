// The statistics of a feed, and what its traffic costs.
#pragma once

#include <string>

#include "io/origin.h"

namespace forebay::feed {

// Totals since the feed was opened. A wait is added when it has ended.
struct FeedStats {
  uint64_t samples = 0;  // samples that the consumer received
  uint64_t bytes_read = 0;
  // What bytes_read would be if every image were read as a whole, and no index.
  uint64_t whole_bytes = 0;
  uint64_t requests = 0;          // reads, each of one or more ranges of one file
  uint64_t ranges = 0;            // runs of bytes in these reads
  uint64_t made_on_gpu = 0;       // samples whose tensors the GPU made; includes prepared batches
  int64_t wait_ns = 0;            // time in which the consumer waited, in wait_ms() and next()
  int64_t prepare_ns = 0;         // CPU time of the threads that decode
  int64_t starved_ns = 0;         // time in which these threads waited for data to be read
  int64_t idle_ns = 0;            // time in which they had nothing to do: enough batches are ready
  int64_t read_ns = 0;            // CPU time of the threads that read
  int64_t reading_ns = 0;         // time in which these threads were reading
  uint64_t batch_bytes_peak = 0;  // the most that batches have taken at the same time
  // What went over the network for the dataset (feed/read/traffic_since.h). A read that `requests`
  // counts may have taken several of these requests.
  io::Traffic link = {};
};

// The prices of an object store, in any currency.
struct Price {
  double per_1000_requests = 0;
  double per_gb = 0;  // for 10^9 received bytes
};
double cost(const FeedStats& stats, const Price& price);

// A summary of the link's traffic for a progress line: "1204 requests, 98.1 MiB (54 % of whole
// files), 0 retries, 2 hedges, 23 MB/s, 21 ms". Empty if nothing came over a network.
std::string describe_link(const FeedStats& stats);

}  // namespace forebay::feed
