#include "jpeg/decode.h"

#include "jpeg/row_maker.h"
#include "jpeg/turbo_decode.h"

namespace forebay::jpeg {

using base::Code;
using base::fail;
using base::Pixels;
using base::Rect;

namespace {

// Pixels of regions that are decoded together, at most: bounds the memory of their samples.
constexpr uint64_t kTogetherPixelsMax = 1u << 23;

}  // namespace

struct Decoder::State {
  // An image that goes our own way.
  struct Waiting {
    size_t number = 0;
    Scan scan;
  };

  explicit State(const DecoderOptions& options)
      : segments_min(options.segments_min), scan_decoder(options.kernel) {}

  void decode(std::span<const DecodeRequest> all, const Take& to);
  void begin();
  Status check(const DecodeRequest& request) const;
  bool add(size_t number, const Scan& scan);
  void run();
  void finish(size_t image);
  void decode_by_turbo(size_t number);

  const uint32_t segments_min;
  std::span<const DecodeRequest> requests;
  const Take* take = nullptr;
  ScanDecoder scan_decoder;
  std::vector<Waiting> waiting;
  uint64_t waiting_pixels = 0;
  RowMaker rows;
  TurboDecoder turbo;
  Pixels pixels;
};

void Decoder::State::decode(std::span<const DecodeRequest> all, const Take& to) {
  requests = all;
  take = &to;
  uint64_t segments = 0;
  for (const DecodeRequest& request : requests) segments += request.header.segment_count();
  begin();
  for (size_t number = 0; number < requests.size(); ++number) {
    const DecodeRequest& request = requests[number];
    if (Status status = check(request); !status.ok()) {
      to(number, std::move(status), pixels);
      continue;
    }
    const auto scan =
        segments >= segments_min ? read_scan(request.file, request.header) : std::nullopt;
    if (!scan || !add(number, *scan)) decode_by_turbo(number);
  }
  run();
}

void Decoder::State::begin() {
  scan_decoder.begin();
  waiting.clear();
  waiting_pixels = 0;
}

Status Decoder::State::check(const DecodeRequest& request) const {
  const Rect& region = request.region;
  if (region.inside(request.header.width, request.header.height)) return {};
  return fail(Code::kInvalid, "region {} x {} at ({}, {}) is not inside the {} x {} image",
              region.width, region.height, region.x, region.y, request.header.width,
              request.header.height);
}

bool Decoder::State::add(size_t number, const Scan& scan) {
  const DecodeRequest& request = requests[number];
  if (!scan_decoder.add(scan, request.file, request.region)) {
    if (waiting.empty()) return false;
    run();  // its tables may not have found a place beside those of the others
    if (!scan_decoder.add(scan, request.file, request.region)) return false;
  }
  waiting.push_back({number, scan});
  waiting_pixels += uint64_t{request.region.width} * request.region.height;
  if (!scan_decoder.wants_more() || waiting_pixels > kTogetherPixelsMax) run();
  return true;
}

void Decoder::State::run() {
  if (scan_decoder.segments() < segments_min) {
    for (const Waiting& image : waiting) decode_by_turbo(image.number);
  } else {
    scan_decoder.run();
    for (size_t image = 0; image < waiting.size(); ++image) finish(image);
  }
  begin();
}

void Decoder::State::finish(size_t image) {
  const Waiting& done = waiting[image];
  if (!scan_decoder.good(image)) {
    decode_by_turbo(done.number);
    return;
  }
  const Rect& region = requests[done.number].region;
  pixels.reset(region.width, region.height);
  rows.begin(done.scan, scan_decoder, image, region);
  rows.make(region.y, region.y + region.height, pixels.rgb.data());
  (*take)(done.number, {}, pixels);
}

void Decoder::State::decode_by_turbo(size_t number) {
  const DecodeRequest& request = requests[number];
  Status status = turbo.decode(request.file, request.header, request.region, &pixels);
  (*take)(number, std::move(status), pixels);
}

Decoder::Decoder(const DecoderOptions& options) : state_(std::make_unique<State>(options)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::decode(std::span<const DecodeRequest> requests, const Take& take) {
  state_->decode(requests, take);
}

Status Decoder::decode(Bytes file, const std::optional<Rect>& region, Pixels* out) {
  ASSIGN_OR_RETURN(const Header header, parse_header(file));
  const DecodeRequest request{file, header,
                              region.value_or(Rect{0, 0, header.width, header.height})};
  Status result;
  decode({&request, 1}, [&](size_t, Status status, Pixels& pixels) {
    result = std::move(status);
    if (result.ok()) std::swap(*out, pixels);
  });
  return result;
}

}  // namespace forebay::jpeg
