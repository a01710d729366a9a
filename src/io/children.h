// Descriptors that a child must not have. A child of a process that was killed would otherwise hold
// its locks and keep its connections open.
#pragma once

namespace forebay::io {

// From now on the descriptor is closed in every child, also in one that only runs a program.
void close_in_children(int fd);
// To be called before the descriptor is closed, so that another one with its number is left alone.
void keep_in_children(int fd);

}  // namespace forebay::io
