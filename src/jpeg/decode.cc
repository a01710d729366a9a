#include "jpeg/decode.h"

#include "jpeg/row_maker.h"
#include "jpeg/turbo_decode.h"

namespace forebay::jpeg {

using base::Code;
using base::fail;
using base::Pixels;
using base::Rect;

struct Decoder::State {
  // A request that our own decoder handles, until its batch is full.
  struct Waiting {
    size_t number = 0;
    Scan scan;
  };

  explicit State(const DecoderOptions& options)
      : choose(options.turbo_where_faster),
        damaged(options.damaged),
        region_batch(options.kernel),
        turbo(options.damaged) {}

  void decode(std::span<const RegionRequest> all, const Take& to);
  void begin();
  Status check(const RegionRequest& request) const;
  bool add(size_t number, const Scan& scan);
  void run();
  void finish(size_t image);
  void decode_by_turbo(size_t number);

  const bool choose;
  const Damaged damaged;
  std::span<const RegionRequest> requests;
  const Take* take = nullptr;
  RegionBatch region_batch;
  std::vector<Waiting> waiting;
  RowMaker rows;
  TurboDecoder turbo;
  base::PixelRows turbo_rows;
};

void Decoder::State::decode(std::span<const RegionRequest> all, const Take& to) {
  requests = all;
  take = &to;
  begin();
  for (size_t number = 0; number < requests.size(); ++number) {
    const RegionRequest& request = requests[number];
    if (Status status = check(request); !status.ok()) {
      to(number, std::move(status), turbo_rows);
      continue;
    }
    auto scan = read_scan(request.file, request.header, request.scale);
    // For a damaged image, the result of libjpeg-turbo may depend on more than the region, so all
    // damage in the needed segments must be found.
    if (scan) scan->whole_segments = damaged == Damaged::kDecode;
    if (!scan || !add(number, *scan)) decode_by_turbo(number);
  }
  run();
}

void Decoder::State::begin() {
  region_batch.begin();
  waiting.clear();
}

Status Decoder::State::check(const RegionRequest& request) const {
  const auto& [file, header, region, scale] = request;
  if (scale != 1 && scale != 2 && scale != 4 && scale != 8) {
    return fail(Code::kInvalid, "scale is {}, but must be 1, 2, 4 or 8", scale);
  }
  const uint32_t width = divide_up(header.width, scale);
  const uint32_t height = divide_up(header.height, scale);
  if (region.inside(width, height)) return {};
  return fail(Code::kInvalid, "region {} x {} at ({}, {}) is not inside the {} x {} image",
              region.width, region.height, region.x, region.y, width, height);
}

bool Decoder::State::add(size_t number, const Scan& scan) {
  const RegionRequest& request = requests[number];
  const bool may_build = !choose || scan.header.mcu_count() >= kPrivateTablesMcusMin;
  auto added = region_batch.add(scan, request.file, request.region, may_build);
  if (added == RegionBatch::Added::kNoRoom) {
    run();
    added = region_batch.add(scan, request.file, request.region, may_build);
  }
  if (added != RegionBatch::Added::kYes) return false;
  waiting.push_back({number, scan});
  if (!region_batch.wants_more()) run();
  return true;
}

void Decoder::State::run() {
  region_batch.run();
  for (size_t image = 0; image < waiting.size(); ++image) finish(image);
  begin();
}

void Decoder::State::finish(size_t image) {
  const Waiting& done = waiting[image];
  if (!region_batch.good(image)) {
    decode_by_turbo(done.number);
    return;
  }
  rows.begin(done.scan, region_batch, image, requests[done.number].region);
  (*take)(done.number, {}, rows);
}

void Decoder::State::decode_by_turbo(size_t number) {
  const auto& [file, header, region, scale] = requests[number];
  Status status = turbo.decode(file, header, region, &turbo_rows.pixels, scale);
  (*take)(number, std::move(status), turbo_rows);
}

Decoder::Decoder(const DecoderOptions& options) : state_(std::make_unique<State>(options)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::decode(std::span<const RegionRequest> requests, const Take& take) {
  state_->decode(requests, take);
}

Status Decoder::decode(Bytes file, const std::optional<Rect>& region, Pixels* out) {
  ASSIGN_OR_RETURN(const Header header, parse_header(file));
  const RegionRequest request{file, header,
                              region.value_or(Rect{0, 0, header.width, header.height})};
  Status result;
  decode({&request, 1}, [&](size_t, Status status, base::Rows& rows) {
    result = std::move(status);
    if (result.ok()) rows.move_to(out);
  });
  return result;
}

}  // namespace forebay::jpeg
