// Signatures for S3 (AWS's Signature Version 4), for the few requests that libcurl signs wrongly:
// libcurl 7.88 sorts the lines of headers, and not their names, so that a name which begins another
// one comes after it (decision 0012).
#pragma once

#include "io/http/client.h"

namespace forebay::io::http {

// Whether libcurl would sign these headers ("Name: value") wrongly.
bool needs_own_signature(const std::vector<std::string>& headers);

// The headers that sign a request at this time of the wall clock, as whole lines. All of its
// headers are signed. Its query must be sorted, and its body's hash known.
std::vector<Secret> signed_headers(const Request& request, int64_t wall_ns);

}  // namespace forebay::io::http
