#include "jpeg/decode.h"

#include "jpeg/row_maker.h"
#include "jpeg/turbo_decode.h"

namespace forebay::jpeg {

using base::Code;
using base::fail;
using base::Pixels;
using base::Rect;

namespace {

// Pixels of regions that are decoded together, at most: what the samples take in the cache.
constexpr uint64_t kTogetherPixelsMax = 1u << 20;

}  // namespace

struct Decoder::State {
  // An image that goes our own way.
  struct Waiting {
    DecodeRequest* request = nullptr;
    Scan scan;
    Rect region;
  };

  explicit State(const DecoderOptions& options)
      : segments_min(options.segments_min), scan_decoder(options.kernel) {}

  void begin();
  void take(DecodeRequest& request);
  bool add(DecodeRequest& request, const Scan& scan, const Rect& region);
  void run();
  void finish(size_t image);

  const uint32_t segments_min;
  ScanDecoder scan_decoder;
  std::vector<Waiting> waiting;
  uint64_t pixels = 0;  // that wait
  RowMaker rows;
  TurboDecoder turbo;
};

void Decoder::State::begin() {
  scan_decoder.begin();
  waiting.clear();
  pixels = 0;
}

void Decoder::State::take(DecodeRequest& request) {
  const auto header = parse_header(request.file);
  if (!header) {
    request.status = header.error();
    return;
  }
  const Rect region = request.region.value_or(Rect{0, 0, header->width, header->height});
  if (!region.inside(header->width, header->height)) {
    request.status =
        fail(Code::kInvalid, "region {} x {} at ({}, {}) is not inside the {} x {} image",
             region.width, region.height, region.x, region.y, header->width, header->height);
    return;
  }
  const bool ours = header->segment_count() >= segments_min;
  const auto scan = ours ? read_scan(request.file, *header) : std::nullopt;
  if (!scan || !add(request, *scan, region)) {
    request.status = turbo.decode(request.file, *header, region, request.out);
  }
}

bool Decoder::State::add(DecodeRequest& request, const Scan& scan, const Rect& region) {
  if (!scan_decoder.add(scan, request.file, region)) {
    if (waiting.empty()) return false;
    run();  // its tables may not have found a place beside those of the others
    if (!scan_decoder.add(scan, request.file, region)) return false;
  }
  waiting.push_back({&request, scan, region});
  pixels += uint64_t{region.width} * region.height;
  if (!scan_decoder.wants_more() || pixels > kTogetherPixelsMax) run();
  return true;
}

void Decoder::State::run() {
  scan_decoder.run();
  for (size_t image = 0; image < waiting.size(); ++image) finish(image);
  begin();
}

void Decoder::State::finish(size_t image) {
  const Waiting& done = waiting[image];
  const Rect& region = done.region;
  Pixels& out = *done.request->out;
  if (!scan_decoder.good(image)) {
    done.request->status = turbo.decode(done.request->file, done.scan.header, region, &out);
    return;
  }
  out.reset(region.width, region.height);
  rows.begin(done.scan, scan_decoder, image, region);
  for (uint32_t y = 0; y < region.height; ++y) {
    rows.make(region.y + y, out.rgb.data() + size_t{y} * region.width * 3);
  }
  done.request->status = {};
}

Decoder::Decoder(const DecoderOptions& options) : state_(std::make_unique<State>(options)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::decode(std::span<DecodeRequest> requests) {
  state_->begin();
  for (DecodeRequest& request : requests) state_->take(request);
  state_->run();
}

Status Decoder::decode(Bytes file, const std::optional<Rect>& region, Pixels* out) {
  DecodeRequest request{file, region, out};
  decode({&request, 1});
  return request.status;
}

}  // namespace forebay::jpeg
