// What lies between the blocks of a scan and the marker after them: bytes that do not belong to the
// scan, or the rest of a scan that was read wrongly.
#pragma once

#include "jpeg/header.h"

namespace forebay::jpeg {

// Whether the last `rest_bytes` bytes before the marker that ends a scan are zeros. `scan`: its
// number in the file, from 1.
bool ends_in_zeros(Bytes file, int scan, size_t rest_bytes);

// Whether all bytes that are left over in the one scan of a sequential file, after its last block
// or before a restart marker, are foreign to it, so that its pixels are whole. False for other
// files.
//
// Zeros are foreign. Before others the last block's byte must be filled up with ones (T.81
// F.1.2.3), and they must not be further blocks of the image: after a wrong bit a decoder soon
// falls into step again, so that what is left of damaged data is a number of whole MCUs.
bool has_foreign_rests(Bytes file, const Header& header);

}  // namespace forebay::jpeg
