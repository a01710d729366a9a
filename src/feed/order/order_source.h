// What the order of an epoch is made from, as a value. Together with the dataset and the options it
// is enough to reproduce an epoch.
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
// A given list, for a single epoch.
using Listed = std::shared_ptr<const SampleList>;

using OrderSource = std::variant<Shuffled, Stored, Weighted, Listed>;

// Errors: kInvalid if the source does not suit a dataset with this number of samples.
Status check_source(const OrderSource& source, uint64_t dataset_samples);
// How many samples an epoch has.
uint64_t epoch_samples(const OrderSource& source, uint64_t dataset_samples);
// Whether epochs of the source have different samples, which may need different memory.
bool varies_by_epoch(const OrderSource& source);
// The list, if the source is one; else null.
const SampleList* list_of(const OrderSource& source);

// The order of an epoch from any source that suits the dataset. `epoch` below 2^32;
// OrderOptions::shuffle is ignored. A list or weights need the locations of all samples, and wait
// for them over a network; `read` limits that wait. Errors: those of Order::make() and
// Dataset::load_all_locations().
Result<Order> make_order(const store::Dataset& dataset, const OrderSource& source,
                         const OrderOptions& options, uint64_t epoch,
                         const io::ReadOptions& read = {});

}  // namespace forebay::feed
