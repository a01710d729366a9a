#include "io/find_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>

namespace forebay::io {

FoundAddress address_of(const std::string& text) {
  return {.text = text, .is_loopback = boost::asio::ip::make_address(text).is_loopback()};
}

base::Result<std::vector<FoundAddress>> find_addresses(const std::string& host) {
  boost::asio::io_context context;
  boost::system::error_code error;
  boost::asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, "", error);
  if (error || found.empty()) {
    return base::fail(base::Code::kUnavailable, "cannot find the address of the host {}: {}", host,
                      error.message());
  }
  std::vector<FoundAddress> addresses;
  for (const auto& one : found) {
    const auto address = one.endpoint().address();
    FoundAddress next{.text = address.to_string(), .is_loopback = address.is_loopback()};
    if (std::ranges::find(addresses, next) == addresses.end()) addresses.push_back(std::move(next));
  }
  return addresses;
}

base::Result<FoundAddress> find_address(const std::string& host) {
  ASSIGN_OR_RETURN(const std::vector<FoundAddress> found, find_addresses(host));
  return found.front();
}

std::string source_address_to(const std::string& address) {
  using boost::asio::ip::udp;
  constexpr uint16_t kAnyPort = 9;
  boost::system::error_code error;
  const auto place = boost::asio::ip::make_address(address, error);
  if (error) return {};
  boost::asio::io_context context;
  udp::socket socket(context);
  const udp::endpoint there(place, kAnyPort);
  socket.open(there.protocol(), error);
  if (!error) socket.connect(there, error);
  const udp::endpoint here = error ? udp::endpoint() : socket.local_endpoint(error);
  return error || here.address().is_unspecified() ? std::string() : here.address().to_string();
}

}  // namespace forebay::io
