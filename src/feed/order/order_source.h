// Where the order of an epoch comes from, as a value. With it, the dataset and the options, whoever
// must reproduce an epoch can.
#pragma once

#include <variant>

#include "feed/order/order.h"

namespace forebay::feed {

// Each sample once, in an order that the seed and the epoch decide.
struct Shuffled {};
// Each sample once: position p is sample p.
struct Stored {};
// Samples drawn by their weights, with replacement; the seed and the epoch decide which.
struct Weighted {
  std::shared_ptr<const SampleWeights> weights;  // one for each sample of the dataset
  uint64_t samples = 0;                          // how many an epoch draws
};
// A given list, of one epoch alone.
using Listed = std::shared_ptr<const SampleList>;

using OrderSource = std::variant<Shuffled, Stored, Weighted, Listed>;

// kInvalid, when the source does not suit a dataset with this number of samples.
Status check_source(const OrderSource& source, uint64_t dataset_samples);
// How many samples an epoch has.
uint64_t epoch_samples(const OrderSource& source, uint64_t dataset_samples);
// Whether epochs of the source have different samples, which may need different memory.
bool varies_by_epoch(const OrderSource& source);
// The list, where the source is one; else null.
const SampleList* list_of(const OrderSource& source);

// The order of an epoch from any source that suits the dataset. `epoch` below 2^32;
// OrderOptions::shuffle does not count. A list or weights need to know where the dataset's samples
// lie, and wait for that over a network; `read` limits this. Errors: like Order::make(); those of
// Dataset::load_all_locations().
Result<Order> make_order(const store::Dataset& dataset, const OrderSource& source,
                         const OrderOptions& options, uint64_t epoch,
                         const io::ReadOptions& read = {});

}  // namespace forebay::feed
