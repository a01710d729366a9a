#include "io/find_address.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace forebay::io {

base::Result<FoundAddress> find_address(const std::string& host) {
  boost::asio::io_context context;
  boost::system::error_code error;
  boost::asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, "", error);
  if (error || found.empty()) {
    return base::fail(base::Code::kUnavailable, "cannot find the address of the host {}: {}", host,
                      error.message());
  }
  const auto address = found.begin()->endpoint().address();
  return FoundAddress{.text = address.to_string(), .is_loopback = address.is_loopback()};
}

}  // namespace forebay::io
