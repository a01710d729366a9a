// deps: forebay_train_sync
// Hands any messages, whose checksums are right, to a process of each strategy. It must refuse or
// take each of them, and go on training.
#include <algorithm>
#include <memory>

#include "base/checksum.h"
#include "train/sync/ako.h"
#include "train/sync/exchange.h"
#include "train/sync/pairs.h"
#include "train/sync/parameter_servers.h"

using namespace forebay;
using namespace forebay::train;

namespace {

constexpr uint32_t kProcesses = 3;
constexpr uint32_t kRank = 1;
constexpr size_t kFloats = 50;

std::unique_ptr<Strategy> make(uint8_t kind, const std::vector<float>& weights) {
  switch (kind % 4) {
    case 0:
      return std::make_unique<Ako>(Ako::Options{.rank = kRank, .processes = kProcesses}, weights);
    case 1:
      return std::make_unique<Pairs>(kRank, kProcesses, 0, weights);
    case 2:
      return std::make_unique<ParameterServers>(
          ParameterServers::Options{
              .rank = kRank, .processes = kProcesses, .servers = {0, 1}, .staleness = 1000},
          weights);
    default:
      return std::make_unique<Ako>(
          Ako::Options{.rank = kRank, .processes = kProcesses, .of = Ako::Of::kGradients}, weights);
  }
}

// Takes the next message from the bytes; its numbers are the bytes after the header, then zeros.
void deliver(base::ByteReader* in, Exchange* exchange) {
  const uint32_t peer = in->number<uint8_t>() % 2 == 0 ? 0 : 2;
  MessageHeader header;
  header.kind = static_cast<MessageHeader::Kind>(in->number<uint8_t>() % 5);
  header.sender = in->number<uint8_t>() % 16 == 0 ? kRank : peer;
  header.number = in->number<uint8_t>();
  header.taken = in->number<uint8_t>();
  header.step = in->number<uint64_t>();
  header.steps = in->number<uint64_t>();
  header.begin = in->number<uint8_t>();
  header.count = header.has_payload() ? in->number<uint8_t>() : 0;
  header.encoding = static_cast<Encoding>(in->number<uint8_t>() % 3);
  base::ByteVector payload(header.payload_bytes());
  const base::Bytes given = in->bytes(std::min(in->remaining(), payload.size()));
  std::copy(given.begin(), given.end(), payload.begin());
  header.payload_crc32c = base::crc32c(payload);
  base::ByteVector message = encode_message_header(header);
  message.insert(message.end(), payload.begin(), payload.end());
  static_cast<void>(exchange->received(peer, message));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto decoded = decode_message_header({data, size});
  if (decoded)
    FOREBAY_CHECK(encode_message_header(*decoded) == base::ByteVector(data, data + size));
  base::ByteReader in({data, size});
  std::vector<float> gradient(kFloats);
  std::vector<float> weights(kFloats);
  Exchange exchange(make(in.number<uint8_t>(), weights), io::monotonic_clock(),
                    {.rank = kRank, .processes = kProcesses}, gradient, weights);
  for (int messages = 0; in.remaining() > 0 && messages < 100; ++messages) {
    deliver(&in, &exchange);
    std::fill(gradient.begin(), gradient.end(), 1);
    FOREBAY_CHECK(exchange.before_update().ok());
    FOREBAY_CHECK(exchange.after_update().ok());
  }
  exchange.close();
  return 0;
}
