#include "bind/batch.h"

#include "bind/arrays.h"

namespace forebay::bind {
namespace {

nb::dlpack::dtype dlpack_dtype(image::DType dtype) {
  switch (dtype) {
    case image::DType::kUint8:
      return nb::dtype<uint8_t>();
    case image::DType::kFloat32:
      return nb::dtype<float>();
    case image::DType::kBfloat16:
      return {static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
    case image::DType::kFloat16:
      break;
  }
  return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
}

// Returns an array over the batch's memory, which keeps the batch alive.
template <class Array, class T>
Array array_of(const Batch& batch, const T* data, const std::vector<size_t>& shape,
               nb::dlpack::dtype dtype, const Where& where = {}) {
  using Shared = std::shared_ptr<const Batch::Owner>;
  const nb::capsule owner(new Shared(batch.owner),
                          [](void* p) noexcept { delete static_cast<Shared*>(p); });
  return Array(const_cast<T*>(data), shape.size(), shape.data(), owner, nullptr, dtype, where.type,
               where.number);
}

// Returns the samples' own images (number 0), or the further images with this number, from 1.
nb::ndarray<nb::array_api> images(const Batch& self, uint32_t number) {
  const feed::Batch& batch = self.batch();
  if (batch.images == nullptr || number >= batch.images_each) {
    throw nb::value_error("the batch has no such tensor of images");
  }
  const uint8_t* const data = batch.images + batch.images_bytes / batch.images_each * number;
  std::vector<size_t> shape{batch.valid.size(), batch.size.height, batch.size.width};
  shape.insert(self.tensor.layout == image::Layout::kNchw ? shape.begin() + 1 : shape.end(), 3);
  return array_of<nb::ndarray<nb::array_api>>(self, data, shape, dlpack_dtype(self.tensor.dtype),
                                              self.where);
}

// Returns the images of a batch in which each image has its own size; empty for other batches.
std::span<const image::OwnSize> whole_of(const Batch& self, uint32_t number) {
  const feed::Batch& batch = self.batch();
  if (batch.whole.empty() || number >= batch.images_each) return {};
  return std::span(batch.whole).subspan(batch.valid.size() * number, batch.valid.size());
}

// Returns an array for each sample, or None if the sample is not valid.
nb::list whole(const Batch& self, uint32_t number) {
  nb::list out;
  for (const image::OwnSize& image : whole_of(self, number)) {
    if (image.bytes.empty()) {
      out.append(nb::none());
      continue;
    }
    std::vector<size_t> shape{image.size.height, image.size.width};
    shape.insert(self.tensor.layout == image::Layout::kNchw ? shape.begin() : shape.end(), 3);
    out.append(array_of<nb::ndarray<nb::array_api>>(self, image.bytes.data(), shape,
                                                    dlpack_dtype(self.tensor.dtype)));
  }
  return out;
}

nb::list whole_sizes(const Batch& self) {
  nb::list out;
  for (const image::OwnSize& image : whole_of(self, 0)) {
    out.append(nb::make_tuple(image.size.height, image.size.width));
  }
  return out;
}

// Returns the boxes of all samples: float32 [objects, 4].
nb::ndarray<nb::numpy, float> boxes(const Batch& self) {
  std::vector<image::Bounds> all;
  for (const feed::SampleTargets& targets : self.batch().targets) {
    all.insert(all.end(), targets.objects.boxes.begin(), targets.objects.boxes.end());
  }
  return to_rows<float>(std::move(all));
}
nb::ndarray<nb::numpy, float> points(const Batch& self) {
  std::vector<image::Point> all;
  for (const feed::SampleTargets& targets : self.batch().targets) {
    all.insert(all.end(), targets.objects.points.begin(), targets.objects.points.end());
  }
  return to_rows<float>(std::move(all));
}

// Returns for each sample the number of its first object in Targets, how many it has, and with
// Targets::are_fractions how many pixels the image has that they were drawn on.
nb::tuple objects(const Batch& self) {
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  std::vector<int64_t> pixels;
  for (const feed::SampleTargets& targets : self.batch().targets) {
    first.push_back(static_cast<int64_t>(targets.first_object));
    count.push_back(static_cast<int64_t>(targets.objects.boxes.size()));
    pixels.push_back(int64_t{targets.drawn_on.width} * targets.drawn_on.height);
  }
  return nb::make_tuple(to_array(std::move(first)), to_array(std::move(count)),
                        to_array(std::move(pixels)));
}

nb::list masks(const Batch& self) {
  nb::list out;
  for (const feed::SampleTargets& targets : self.batch().targets) {
    const image::OwnSize& masks = targets.masks;
    out.append(array_of<nb::ndarray<nb::numpy>>(
        self, masks.bytes.data(),
        {targets.objects.boxes.size(), masks.size.height, masks.size.width}, nb::dtype<uint8_t>()));
  }
  return out;
}

// Maps of labels have one byte a label, or two.
nb::list maps(const Batch& self) {
  nb::list out;
  for (const feed::SampleTargets& targets : self.batch().targets) {
    const auto& [size, bytes] = targets.labels;
    const bool is_wide = bytes.size() > size_t{size.width} * size.height;
    out.append(
        array_of<nb::ndarray<nb::numpy>>(self, bytes.data(), {size.height, size.width},
                                         is_wide ? nb::dtype<uint16_t>() : nb::dtype<uint8_t>()));
  }
  return out;
}

nb::list files(const Batch& self) {
  nb::list out;
  for (const base::ByteVector& file : self.batch().files) {
    out.append(nb::bytes(file.data(), file.size()));
  }
  return out;
}

template <class T>
nb::ndarray<nb::numpy, T> column(const Batch& self, const std::vector<T>& values) {
  return array_of<nb::ndarray<nb::numpy, T>>(self, values.data(), {values.size()}, nb::dtype<T>());
}

}  // namespace

void bind_batch(nb::module_& m) {
  nb::class_<Batch>(m, "Batch")
      .def("images", &images, nb::rv_policy::automatic, nb::arg("number") = 0,
           "[samples, 3, height, width] or [samples, height, width, 3]: the samples' own images "
           "(number 0), or the further images with this number, from 1.")
      .def("whole", &whole, nb::arg("number") = 0,
           "With Images.WHOLE and OWN_SIZE: an image for each sample, or None.")
      .def_prop_ro("whole_sizes", &whole_sizes,
                   "Height and width of each image of whole(); 0 and 0 for None.")
      .def_prop_ro(
          "image_size",
          [](const Batch& self) {
            return nb::make_tuple(self.batch().size.height, self.batch().size.width);
          },
          "Height and width of the images, if the batch has them in one tensor.")
      .def_prop_ro("boxes", &boxes, nb::rv_policy::automatic,
                   "With targets: float32 [objects of all samples, 4].")
      .def_prop_ro("points", &points, nb::rv_policy::automatic,
                   "With targets: x, y and visibility, float32 [keypoints of all objects, 3].")
      .def_prop_ro("objects", &objects,
                   "With targets: for each sample, the number of its first object and how many "
                   "objects it has.")
      .def_prop_ro("masks", &masks, "With targets: uint8 [objects, height, width] each sample.")
      .def_prop_ro("maps", &maps,
                   "With targets: uint8 or uint16 [height, width] of labels for each sample.")
      .def_prop_ro("files", &files, "Each sample's file; empty if the sample is not valid.")
      .def_prop_ro(
          "labels", [](const Batch& self) { return column(self, self.batch().labels); },
          nb::rv_policy::automatic, "int32 [samples]; -1 for a sample without a label.")
      .def_prop_ro(
          "samples", [](const Batch& self) { return column(self, self.batch().samples); },
          nb::rv_policy::automatic,
          "uint64 [samples]: the samples' numbers in the dataset, or 2^64 - 1 for none.")
      .def_prop_ro(
          "drawn_for", [](const Batch& self) { return column(self, self.batch().drawn_for); },
          nb::rv_policy::automatic,
          "uint64 [samples]: the number that each sample's augmentation is drawn for, together "
          "with seed and epoch; 0 for a slot without a sample.")
      .def_prop_ro("epoch", [](const Batch& self) { return self.batch().epoch; })
      .def_prop_ro("step", [](const Batch& self) { return self.batch().step; })
      .def_prop_ro(
          "valid", [](const Batch& self) { return column(self, self.batch().valid); },
          nb::rv_policy::automatic, "uint8 [samples]; 0 for a slot without a sample.");
}

}  // namespace forebay::bind
