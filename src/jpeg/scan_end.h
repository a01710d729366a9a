// Judges the bytes between the last block of a scan and the next marker: either they are foreign to
// the scan, or they are the rest of a scan that was decoded wrongly. Used only for files that have
// such bytes.
#pragma once

#include "jpeg/format/header.h"

namespace forebay::jpeg {

// Whether the last `rest_bytes` bytes before the marker that ends a scan are zeros. `scan` is the
// number of the scan in the file, from 1.
bool ends_in_zeros(Bytes file, int scan, size_t rest_bytes);

// Whether all bytes that are left over in the one scan of a sequential file, after its last block
// or before a restart marker, are foreign to the scan, so that its pixels are complete. False for
// all other files.
//
// Zeros are foreign. Before other bytes, the byte of the last block must be filled up with ones
// (T.81 F.1.2.3), and the bytes must not be further blocks of the image: after a wrong bit, a
// decoder soon falls into step again, so the rest of damaged data is a whole number of MCUs.
bool has_foreign_rests(Bytes file, const Header& header);

}  // namespace forebay::jpeg
