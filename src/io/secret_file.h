// Secrets in files, and the secret of this user's own programs on this machine.
#pragma once

#include <string>

#include "base/status.h"
#include "io/secret.h"

namespace forebay::io {

using base::Result;
using base::Status;

// Reads a secret, and removes line breaks at its end. Errors: those of reading the file; kInvalid
// if it belongs to this user and others can read it, too.
Result<Secret> read_secret_file(const std::string& path);

// A new secret of 256 random bits, in hexadecimal digits. Errors: kIo.
Result<Secret> new_secret();

// Makes a file with a new secret of 256 random bits, in hexadecimal digits, that this user alone
// can read. Errors: kExists; kNotFound if the folder is missing; kNoSpace, kIo.
Status make_secret_file(const std::string& path);

// The secret of this user's programs on this machine, in a file below XDG_STATE_HOME, or
// ~/.local/state. Programs of one user recognise each other by it. `make`: whether it is made if it
// is missing. Errors: those of the two functions above; kNotFound also if there is no home folder.
Result<Secret> own_secret(bool make);

// A text that only who has the secret can make, for one purpose: 64 hexadecimal digits
// (HMAC-SHA256).
std::string token_of(const Secret& secret, std::string_view purpose);

// A key for other keys, from a secret that a person may have chosen: scrypt (RFC 7914) with 32 MiB,
// so that guessing is slow for whoever recorded a connection. The same for the same secret
// everywhere. It takes about 0.1 s for the first time in a process. Errors: kNoMemory, kIo.
Result<Secret> stretched(const Secret& secret);

}  // namespace forebay::io
