#include "image/batch_decoder.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "bind/in_its_process.h"

namespace forebay::bind {
namespace {

using image::PrepareRequest;

using File = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Crops = nb::ndarray<const uint32_t, nb::shape<-1, 6>, nb::c_contig, nb::device::cpu>;

using Stored = std::shared_ptr<image::ResidentFile>;
// Bytes are what most callers have, and taking them is many times as fast as taking an array.
using AnyFile = std::variant<Stored, nb::bytes, File>;

image::Bytes bytes_of(const File& file) { return {file.data(), file.size()}; }
image::Bytes bytes_of(const nb::bytes& file) {
  return {static_cast<const uint8_t*>(file.data()), file.size()};
}

// The destructor waits for threads and for the GPU, so it lets other Python threads run meanwhile.
class HeldBatchDecoder {
 public:
  explicit HeldBatchDecoder(std::shared_ptr<image::BatchDecoder> decoder) {
    owner_.emplace(std::move(decoder));
  }
  ~HeldBatchDecoder() {
    const WithoutInterpreter released;
    owner_.reset();
  }
  image::BatchDecoder& operator*() const { return ***owner_; }

 private:
  std::optional<InItsProcess<std::shared_ptr<image::BatchDecoder>>> owner_;
};

// A batch that is being made. It keeps alive the object that owns its output memory (`room`), and
// its files, which may be needed again.
struct Pending {
  using Owner = InItsProcess<std::unique_ptr<image::BatchDecoder::Pending>>;
  nb::object room;
  std::vector<AnyFile> files;
  std::optional<Owner> owner;

  image::BatchDecoder::Pending& batch() const {
    if (!owner->is_here())
      throw nb::value_error("this batch was begun in the parent process; begin it again here");
    return ***owner;
  }
  ~Pending() {
    const WithoutInterpreter released;
    owner.reset();
  }
};

std::unique_ptr<Pending> begin(const HeldBatchDecoder& decoder, std::vector<AnyFile> files,
                               const Numbers& outs, const Numbers& drawn_for,
                               const std::optional<Crops>& crops, uint64_t seed, uint32_t epoch,
                               nb::object room, uint64_t after) {
  image::BatchDecoder& self = *decoder;
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
    } else if (const auto* const bytes = std::get_if<nb::bytes>(&files[i])) {
      request.file = bytes_of(*bytes);
    } else {
      request.file = bytes_of(std::get<File>(files[i]));
    }
    if (!crops) continue;
    const uint32_t* const c = crops->data() + 6 * i;
    request.crop = image::FixedCrop{{c[0], c[1], c[2], c[3]}, {c[4], c[5]}};
  }
  auto out = std::make_unique<Pending>();
  out->room = std::move(room);
  out->files = std::move(files);
  const WithoutInterpreter released;
  out->owner.emplace(self.begin(std::move(requests), reinterpret_cast<void*>(after)));
  return out;
}

std::vector<Stored> store(const HeldBatchDecoder& self, const std::vector<File>& files) {
  std::vector<image::Bytes> bytes;
  for (const File& file : files) bytes.push_back(bytes_of(file));
  base::Result<std::vector<Stored>> stored;
  {
    const WithoutInterpreter released;
    stored = (*self).store(bytes);
  }
  return unwrap(std::move(stored));
}

void order_before(Pending& self, uint64_t stream) {
  image::BatchDecoder::Pending& batch = self.batch();
  base::Status status;
  {
    const WithoutInterpreter released;
    status = batch.order_before(reinterpret_cast<void*>(stream));
  }
  if (!status.ok()) raise(status);
}

nb::list finish(Pending& self, uint64_t after) {
  image::BatchDecoder::Pending& batch = self.batch();
  std::span<const PrepareRequest> requests;
  {
    const WithoutInterpreter released;
    requests = batch.finish(reinterpret_cast<void*>(after));
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
  nb::class_<image::gpu::Device>(m, "Device", "A GPU that holds batches and decodes JPEGs.")
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
      .def(
          "order_before", &order_before, nb::arg("stream"),
          "Waits until the batch is made or, with a GPU, until all its work is queued there. Later "
          "work of `stream`, a cudaStream_t, then waits for the batch, so the batch's memory may "
          "be "
          "freed in that stream's order. Raises the device's errors.")
      .def(
          "finish", &finish, nb::arg("after") = 0,
          "Waits for the batch. Returns the number of each bad sample and an error message. after: "
          "a cudaEvent_t, or 0; samples that are made only now wait for it. Raises the device's "
          "errors.");
  nb::class_<image::ResidentFile>(m, "StoredFile", "A file that BatchDecoder.store() keeps.")
      .def_prop_ro(
          "nbytes",
          [](const image::ResidentFile& self) {
            return self.jpeg ? self.jpeg->bits_bytes : uint64_t{self.file.size()};
          },
          "Bytes that the file takes in the GPU's memory, or in the host's memory if `on_gpu` is "
          "False.")
      .def_prop_ro("on_gpu", [](const image::ResidentFile& self) { return self.jpeg.has_value(); });
  nb::class_<HeldBatchDecoder>(m, "BatchDecoder", "Makes batches. Any thread may call it.")
      .def_static(
          "open",
          [](const image::Transform& transform, const image::TensorOptions& tensor,
             std::shared_ptr<image::gpu::Device> device, uint32_t threads, image::Damaged damaged) {
            return std::make_unique<HeldBatchDecoder>(unwrap(
                image::BatchDecoder::make(transform, tensor, std::move(device), threads, damaged)));
          },
          nb::arg("transform"), nb::arg("tensor"), nb::arg("device").none(), nb::arg("threads"),
          nb::arg("damaged"))
      .def("store", &store, nb::arg("files"),
           "Keeps files in the GPU's memory, if it can decode them. Raises the device's errors.")
      .def(
          "begin", &begin, nb::arg("files"), nb::arg("outs"), nb::arg("drawn_for"),
          nb::arg("crops").none(), nb::arg("seed"), nb::arg("epoch"), nb::arg("room").none(),
          nb::arg("after"),
          "Begins a batch. outs: the address at which each sample is written. crops: [x, y, width, "
          "height, width and height of the sample]. room: the object that owns this memory, kept "
          "alive while it is written. after: a cudaEvent_t that the GPU waits for first, or 0.");
  m.def(
      "read_size",
      [](const std::variant<nb::bytes, File>& file, bool oriented) {
        const image::Bytes bytes = std::visit([](const auto& one) { return bytes_of(one); }, file);
        const auto source = unwrap(image::read_header(bytes, oriented));
        return std::pair(source.size.width, source.size.height);
      },
      nb::arg("file"), nb::arg("oriented") = false,
      "The width and height of an encoded image, from its header; `oriented` turns the image as "
      "its orientation tag says.");
}

}  // namespace forebay::bind
