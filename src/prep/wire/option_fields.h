// The options of a feed that decide what its batches contain.
#pragma once

#include <concepts>

#include "feed/batch/options.h"
#include "prep/wire/image_fields.h"

namespace forebay::feed {

// Calls visit(name, option) for each of these options. A new option must be named here, and visited
// unless it only decides how batches are made. `targets` and `order` are not visited, because a
// job's text has them in another form; a job with `further` is refused.
template <class Options, class Visit>
  requires std::same_as<std::remove_const_t<Options>, FeedOptions>
void each_field(Options& options, const Visit& visit) {
  auto& [images, files, targets, further, transform, tensor, damaged, device, decode, global_batch,
         rank, world_size, seed, order, replace_bad, drop_last, even_ranks, next_epoch, lanes,
         group_bytes, threads, prefetch, memory_bytes_max, uncached, regions, filter,
         bad_samples_max] = options;
  visit("images", images);
  visit("files", files);
  visit("transform", transform);
  visit("tensor", tensor);
  visit("damaged", damaged);
  visit("global_batch", global_batch);
  visit("rank", rank);
  visit("world_size", world_size);
  visit("seed", seed);
  visit("replace_bad", replace_bad);
  visit("drop_last", drop_last);
  visit("even_ranks", even_ranks);
  visit("lanes", lanes);
  visit("group_bytes", group_bytes);
  visit("bad_samples_max", bad_samples_max);
}

}  // namespace forebay::feed
