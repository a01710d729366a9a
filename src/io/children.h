// Descriptors that child processes must not inherit. Otherwise, when this process was killed, its
// children would still hold its locks and keep its connections open.
#pragma once

namespace forebay::io {

// From now on the descriptor is closed in every child process, also in one that runs another
// program.
void close_in_children(int fd);
// Undoes close_in_children(). Call it before closing the descriptor, because a new one may get the
// same number.
void keep_in_children(int fd);

}  // namespace forebay::io
