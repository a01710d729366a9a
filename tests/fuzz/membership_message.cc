// deps: forebay_cache
// Decodes any bytes as a datagram of the membership. The result must be an error, or a message that
// encodes to the same bytes and that a machine can take.
#include "cache/members/membership_message.h"

#include <algorithm>

#include "cache/members/membership.h"

using namespace forebay;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const base::Bytes datagram(data, size);
  const auto message = cache::decode_message(datagram);
  if (!message) return 0;
  FOREBAY_CHECK(std::ranges::equal(cache::encode_message(*message), datagram));
  cache::Membership machine({.id = "me", .host = "here", .port = 1}, 0);
  for (int64_t now_ns = 0; now_ns < 2'000'000'000;) {
    machine.step(now_ns, cache::Membership::Received{*message});
    now_ns = std::min(machine.step(now_ns, cache::Membership::Tick{}).next_tick_ns,
                      now_ns + 100'000'000);
    for (const auto& send : machine.step(now_ns, cache::Membership::Tick{}).sends) {
      FOREBAY_CHECK(cache::decode_message(cache::encode_message(send.message)).has_value());
    }
  }
  return 0;
}
