// For tests: requests of a RangeClient, with functions to wait for their outcome.
#pragma once

#include <future>

#include "io/serve/range_client.h"

namespace forebay::io::testing {

inline std::future<serve::RangeOutcome> begin(serve::RangeClient& client,
                                              serve::RangeRequest request, http::Sink& sink) {
  auto outcome = std::make_shared<std::promise<serve::RangeOutcome>>();
  client.start(std::move(request), sink,
               [outcome](serve::RangeOutcome done) { outcome->set_value(std::move(done)); });
  return outcome->get_future();
}

inline serve::RangeOutcome perform(serve::RangeClient& client, serve::RangeRequest request,
                                   http::Sink& sink) {
  return begin(client, std::move(request), sink).get();
}

}  // namespace forebay::io::testing
