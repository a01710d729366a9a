// Whether a request to a server without TLS may have been made by a web page of another site. A
// browser sends such requests when the site's name suddenly stands for this machine ("DNS
// rebinding"), but it still names the site.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay::io::serve {

// Whether a request's headers Host and Origin, each empty if the request does not have it, name
// this server: by an IP address, as localhost, or by one of these names.
bool is_own_request(std::string_view host, std::string_view origin,
                    const std::vector<std::string>& names = {});

}  // namespace forebay::io::serve
