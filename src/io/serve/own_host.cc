#include "io/serve/own_host.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "io/ascii.h"

namespace forebay::io::serve {

namespace {

bool is_own_host(std::string_view host, const std::vector<std::string>& names) {
  const bool is_bracketed = host.starts_with('[');
  const size_t end = is_bracketed ? host.find(']') : host.find(':');
  const std::string name =
      lower(std::string(host.substr(is_bracketed ? 1 : 0, end - (is_bracketed ? 1 : 0))));
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error || name == "localhost" ||
         std::ranges::any_of(names, [&](const std::string& own) { return lower(own) == name; });
}

}  // namespace

bool is_own_request(std::string_view host, std::string_view origin,
                    const std::vector<std::string>& names) {
  if (!host.empty() && !is_own_host(host, names)) return false;
  if (origin.empty()) return true;
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && is_own_host(origin.substr(scheme + 3), names);
}

}  // namespace forebay::io::serve
