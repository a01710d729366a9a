// A batch as Python sees it: arrays over its memory, which keep it alive.
#pragma once

#include <nanobind/ndarray.h>

#include "bind/bind.h"
#include "bind/in_its_process.h"
#include "feed/batch/batch.h"

namespace forebay::bind {

// The device that holds a batch's images: its kind and its number.
struct Where {
  int type = nb::device::cpu::value;
  int number = 0;
};

// A batch, and the type, layout and device of its images.
struct Batch {
  using Owner = InItsProcess<std::shared_ptr<const feed::Batch>>;
  std::shared_ptr<const Owner> owner;
  image::TensorOptions tensor;
  Where where;

  const feed::Batch& batch() const { return ***owner; }
};

void bind_batch(nb::module_& m);

}  // namespace forebay::bind
