// deps: forebay_io Boost::headers
// What a client sends to a server of ranges, over a real connection. Whatever it is, the connection
// ends, every answer has one of the few forms that there are, and the server goes on.
#include <algorithm>
#include <array>

#include "io/serve/range_server.h"
#include "io/testing/raw_client.h"

namespace {

using namespace forebay;

constexpr uint64_t kFileBytes = 100'000;

// "/file" is read, and "/held" lies in a file.
class Files final : public io::serve::ServedFiles {
 public:
  Files()
      : scratch_(io::ScratchFiles::open("/tmp/serve_request_fuzz_" + std::to_string(::getpid()),
                                        io::Found::kRemove)
                     .value()) {
    FOREBAY_CHECK(scratch_->write(kName, 0, base::ByteVector(kFileBytes, 'x')).ok());
  }
  std::optional<uint64_t> size(const std::string& path) const override {
    if (path != "/file" && path != "/held") return std::nullopt;
    return kFileBytes;
  }
  std::optional<std::vector<io::serve::HeldRange>> find(
      const std::string& path, const std::vector<io::serve::WantedRange>& ranges) const override {
    if (path != "/held") return std::nullopt;
    std::vector<io::serve::HeldRange> held;
    for (const auto& range : ranges) {
      FOREBAY_CHECK(base::in_bounds(range.offset, range.length, kFileBytes) && range.length > 0);
      // In memory and in a file, as the store has them.
      io::serve::HeldPiece piece{.offset = range.offset, .length = range.length};
      if (range.length < 100) piece.bytes.resize(range.length);
      if (range.length >= 100) piece.file = scratch_->file(kName).value();
      held.push_back({.pieces = {std::move(piece)}});
    }
    return held;
  }
  void read(const std::string&, std::vector<io::Range> ranges,
            std::function<void(base::Status)> done) const override {
    uint64_t least = 0;
    for (const io::Range& range : ranges) {
      FOREBAY_CHECK(range.offset >= least);
      least = range.offset + range.out.size();
      std::fill(range.out.begin(), range.out.end(), uint8_t{'x'});
    }
    FOREBAY_CHECK(!ranges.empty() && least <= kFileBytes);
    done({});
  }

 private:
  inline static const std::string kName = std::string(64, 'a');
  std::unique_ptr<io::ScratchFiles> scratch_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Files files;
  static const auto server = io::serve::RangeServer::start({}, files).value();
  const std::string answer =
      io::testing::exchange(server->port(), {reinterpret_cast<const char*>(data), size});
  constexpr std::array<std::string_view, 7> kBegins = {
      "HTTP/1.1 206 ", "HTTP/1.1 400 ", "HTTP/1.1 404 ", "HTTP/1.1 405 ",
      "HTTP/1.1 411 ", "HTTP/1.1 413 ", "HTTP/1.1 416 "};
  FOREBAY_CHECK(answer.empty() || std::ranges::any_of(kBegins, [&](std::string_view begin) {
                  return answer.starts_with(begin);
                }));
  return 0;
}
