#include "image/codec/decode.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"

namespace forebay::bind {
namespace {

using image::Bytes;
using Array = nb::ndarray<nb::numpy, uint8_t, nb::shape<-1, -1, 3>, nb::c_contig>;

Bytes bytes_of(const nb::bytes& file) {
  return {static_cast<const uint8_t*>(file.data()), file.size()};
}

Array to_array(image::Pixels&& pixels) {
  auto* const owned = new image::Pixels(std::move(pixels));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<image::Pixels*>(p); });
  return Array(owned->rgb.data(), {owned->height, owned->width, 3}, owner);
}

// Decodes images, and keeps its buffers for the next ones. One thread at a time may use it.
class Decoder {
 public:
  explicit Decoder(image::Damaged damaged) : decoder_(damaged) {}

  // Decodes all files; `oriented` is that of image::read_header(). If an image cannot be decoded,
  // throws its error and returns no image. Errors number the images from `first`.
  std::vector<Array> decode(const std::vector<nb::bytes>& files, size_t first, bool oriented) {
    std::vector<Bytes> bytes;
    for (const nb::bytes& file : files) bytes.push_back(bytes_of(file));
    std::vector<image::Pixels> pixels(files.size());
    base::Status status;
    {
      const WithoutInterpreter released;
      status = decode_all(bytes, first, oriented, &pixels);
    }
    check(status);
    std::vector<Array> out;
    for (image::Pixels& one : pixels) out.push_back(to_array(std::move(one)));
    return out;
  }

 private:
  base::Status decode_all(const std::vector<Bytes>& files, size_t first, bool oriented,
                          std::vector<image::Pixels>* out) {
    std::vector<image::DecodeRequest> requests;
    for (size_t i = 0; i < files.size(); ++i) {
      auto source = image::read_header(files[i], oriented);
      if (!source) return source.error().at(fmt::format("decode: image {}", first + i));
      const image::Size size = source->size;
      requests.push_back({*source, {0, 0, size.width, size.height}});
    }
    base::Status bad;
    decoder_.decode(requests, [&](size_t i, const base::Status& status, base::Rows& rows) {
      if (status.ok()) {
        rows.move_to(&(*out)[i]);
      } else if (bad.ok()) {
        bad = status.at(fmt::format("decode: image {}", first + i));
      }
    });
    return bad;
  }

  image::ImageDecoder decoder_;
};

}  // namespace

void bind_decode(nb::module_& m) {
  nb::enum_<image::Damaged>(m, "Damaged")
      .value("REFUSE", image::Damaged::kRefuse)
      .value("DECODE", image::Damaged::kDecode);
  nb::class_<Decoder>(m, "Decoder", "Decodes images. One thread at a time may use it.")
      .def(nb::init<image::Damaged>(), nb::arg("damaged"))
      .def("decode", &Decoder::decode, nb::arg("files"), nb::arg("first") = 0,
           nb::arg("oriented") = false,
           "The RGB pixels of each file: uint8 arrays [height, width, 3]. `oriented` turns images "
           "as their orientation tags say. Errors number the files from `first`.");
}

}  // namespace forebay::bind
