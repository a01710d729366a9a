#include "feed/order/order_source.h"

#include <algorithm>
#include <limits>

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

// If each chunk has few samples (a folder in place has a chunk for each file), most are read one
// by one in any group: small groups begin sooner and take less memory.
constexpr uint64_t kGroupBytesOfFiles = 4'000'000;

template <class... Functions>
struct Visitor : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Visitor(Functions...) -> Visitor<Functions...>;

Result<Order> make_whole(const store::Dataset& dataset, OrderOptions options, bool shuffle,
                         uint64_t epoch) {
  std::vector<ChunkSize> chunks(dataset.chunk_count());
  for (uint32_t number = 0; number < chunks.size(); ++number) {
    const store::ChunkInfo& chunk = dataset.chunk(number);
    chunks[number] = {
        .first_sample = chunk.first_sample, .samples = chunk.samples, .bytes = chunk.bytes};
  }
  options.shuffle = shuffle;
  if (dataset.sample_count() < 2 * chunks.size()) {
    options.group_bytes = std::min(options.group_bytes, kGroupBytesOfFiles);
  }
  return Order::make(chunks, options, epoch);
}

}  // namespace

Status check_source(const OrderSource& source, uint64_t dataset_samples) {
  if (const auto* weighted = std::get_if<Weighted>(&source)) {
    if (weighted->weights == nullptr || weighted->weights->size() != dataset_samples) {
      return fail(Code::kInvalid, "there are {} weights, but the dataset has {} samples",
                  weighted->weights == nullptr ? 0 : weighted->weights->size(), dataset_samples);
    }
  }
  if (const auto* listed = std::get_if<Listed>(&source)) {
    if (*listed == nullptr) return fail(Code::kInvalid, "no list of samples was given");
    return check_list(**listed, dataset_samples);
  }
  return {};
}

uint64_t epoch_samples(const OrderSource& source, uint64_t dataset_samples) {
  if (const auto* weighted = std::get_if<Weighted>(&source)) return weighted->samples;
  const SampleList* list = list_of(source);
  return list != nullptr ? list->samples.size() : dataset_samples;
}

bool varies_by_epoch(const OrderSource& source) { return std::holds_alternative<Weighted>(source); }

const SampleList* list_of(const OrderSource& source) {
  const auto* listed = std::get_if<Listed>(&source);
  return listed != nullptr ? listed->get() : nullptr;
}

Result<Order> make_order(const store::Dataset& dataset, const OrderSource& source,
                         const OrderOptions& options, uint64_t epoch, const io::ReadOptions& read) {
  const auto drawn = [&](const Weighted& weighted) {
    return std::make_shared<const SampleList>(
        draw_samples(*weighted.weights, options.seed, epoch, weighted.samples));
  };
  return std::visit(
      Visitor{
          [&](Shuffled) { return make_whole(dataset, options, true, epoch); },
          [&](Stored) { return make_whole(dataset, options, false, epoch); },
          // No long stretches: each epoch must fit into the memory that the first one was given.
          [&](const Weighted& weighted) -> Result<Order> {
            RETURN_IF_ERROR(dataset.load_all_locations(read));
            return Order::make_listed(dataset, drawn(weighted), options, kGroupBytesInOrder);
          },
          [&](const Listed& list) -> Result<Order> {
            RETURN_IF_ERROR(dataset.load_all_locations(read));
            return Order::make_listed(dataset, list, options, std::numeric_limits<uint64_t>::max());
          }},
      source);
}

}  // namespace forebay::feed
