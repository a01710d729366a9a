#include "image/batch_decoder.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"

namespace forebay::bind {
namespace {

using image::PrepareRequest;

using File = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Crops = nb::ndarray<const uint32_t, nb::shape<-1, 6>, nb::c_contig, nb::device::cpu>;

using Stored = std::shared_ptr<image::ResidentFile>;
using AnyFile = std::variant<Stored, File>;

image::Bytes bytes_of(const File& file) { return {file.data(), file.size()}; }

// A batch that is being made, and its files, which may be needed again.
struct Pending {
  std::vector<AnyFile> files;
  std::unique_ptr<image::BatchDecoder::Pending> pending;
};

std::unique_ptr<Pending> begin(image::BatchDecoder& self, std::vector<AnyFile> files,
                               const Numbers& outs, const Numbers& drawn_for,
                               const std::optional<Crops>& crops, uint64_t seed, uint32_t epoch,
                               uint64_t stream) {
  const size_t count = files.size();
  if (outs.size() != count || drawn_for.size() != count || (crops && crops->shape(0) != count)) {
    throw nb::value_error("outs, drawn_for and crops must have one entry for each file");
  }
  std::vector<PrepareRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    requests.push_back(
        {.file = {},
         .random = base::Random(seed, base::Purpose::kAugment, epoch, drawn_for.data()[i]),
         .out = reinterpret_cast<uint8_t*>(outs.data()[i])});
    PrepareRequest& request = requests.back();
    if (const auto* const stored = std::get_if<Stored>(&files[i])) {
      if (!self.may_use(**stored)) {
        throw nb::value_error("a file was stored by a decoder of another device");
      }
      request.file = (*stored)->file;
      request.stored = (*stored)->jpeg ? &*(*stored)->jpeg : nullptr;
    } else {
      request.file = bytes_of(std::get<File>(files[i]));
    }
    if (!crops) continue;
    const uint32_t* const c = crops->data() + 6 * i;
    request.crop = image::FixedCrop{{c[0], c[1], c[2], c[3]}, {c[4], c[5]}};
  }
  auto out = std::make_unique<Pending>();
  const WithoutInterpreter released;
  out->pending = self.begin(std::move(requests), reinterpret_cast<void*>(stream));
  out->files = std::move(files);
  return out;
}

std::vector<Stored> store(const image::BatchDecoder& self, const std::vector<File>& files) {
  std::vector<image::Bytes> bytes;
  for (const File& file : files) bytes.push_back(bytes_of(file));
  base::Result<std::vector<Stored>> stored;
  {
    const WithoutInterpreter released;
    stored = self.store(bytes);
  }
  return unwrap(std::move(stored));
}

nb::list finish(Pending& self) {
  std::span<const PrepareRequest> requests;
  {
    const WithoutInterpreter released;
    requests = self.pending->finish();
  }
  nb::list out;
  for (size_t i = 0; i < requests.size(); ++i) {
    const base::Status& status = requests[i].status;
    const bool device = status.code() == base::Code::kIo || status.code() == base::Code::kNoMemory;
    if (device) raise(status);
    if (!status.ok()) out.append(nb::make_tuple(i, text(status.message())));
  }
  return out;
}

}  // namespace

void bind_batch_decoder(nb::module_& m) {
  nb::class_<image::gpu::Device>(m, "Device", "A GPU: where batches lie and JPEGs are decoded.")
      .def_static(
          "open",
          [](int number) {
            return number < 0 ? image::gpu::host_device() : unwrap(image::gpu::open_device(number));
          },
          nb::arg("number"),
          "Opens the GPU with this number in CUDA's order. -1 opens a stand-in for tests, which is "
          "slow and runs on the CPU in this machine's memory.");
  nb::class_<Pending>(m, "PendingBatch",
                      "A batch that is being made. One thread at a time may use it.")
      .def("finish", &finish,
           "Waits for the batch. Returns the place of each bad sample and what is wrong with it. "
           "Raises the device's errors.");
  nb::class_<image::ResidentFile>(m, "StoredFile", "A file that BatchDecoder.store() keeps.")
      .def_prop_ro(
          "nbytes",
          [](const image::ResidentFile& self) {
            return self.jpeg ? self.jpeg->bits_bytes : uint64_t{self.file.size()};
          },
          "How many bytes the file takes: of the GPU's memory, or of this machine's if `on_gpu` is "
          "False.")
      .def_prop_ro("on_gpu", [](const image::ResidentFile& self) { return self.jpeg.has_value(); });
  nb::class_<image::BatchDecoder>(m, "BatchDecoder", "Makes batches. Any thread may call it.")
      .def_static(
          "open",
          [](const image::Transform& transform, const image::TensorOptions& tensor,
             std::shared_ptr<image::gpu::Device> device, image::Damaged damaged) {
            return unwrap(image::BatchDecoder::make(transform, tensor, std::move(device), damaged));
          },
          nb::arg("transform"), nb::arg("tensor"), nb::arg("device").none(), nb::arg("damaged"))
      .def("store", &store, nb::arg("files"),
           "Keeps files in the GPU's memory, if it can decode them. Raises the device's errors.")
      .def("begin", &begin, nb::arg("files"), nb::arg("outs"), nb::arg("drawn_for"),
           nb::arg("crops").none(), nb::arg("seed"), nb::arg("epoch"), nb::arg("stream"),
           "Begins a batch. outs: the address of each sample. crops: [x, y, width, height, width "
           "and height of the sample]. stream: a cudaStream_t.");
  m.def(
      "read_size",
      [](const File& file, bool oriented) {
        const auto source = unwrap(image::read_header(bytes_of(file), oriented));
        return std::pair(source.size.width, source.size.height);
      },
      nb::arg("file"), nb::arg("oriented") = false,
      "The width and height of an encoded image, from its header, with `oriented` as its "
      "orientation tag says.");
}

}  // namespace forebay::bind
