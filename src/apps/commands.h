// The commands of `forebay`. Each function adds one command to the command line. When the command
// runs, it sets the exit code (docs/errors.md): 0 when all went well, kExitFailed when it failed or
// found damage, kExitStopped when it was interrupted.
#pragma once

#include "arguments.h"
#include "base/status.h"

namespace forebay::apps {

void add_pack(CLI::App& app, int* exit_code);
void add_index(CLI::App& app, int* exit_code);
void add_ls(CLI::App& app, int* exit_code);
void add_inspect(CLI::App& app, int* exit_code);
void add_verify(CLI::App& app, int* exit_code);
void add_export(CLI::App& app, int* exit_code);
void add_cp(CLI::App& app, int* exit_code);
void add_cache(CLI::App& app, int* exit_code);
void add_prep(CLI::App& app, int* exit_code);
void add_secret(CLI::App& app, int* exit_code);

// Prints "forebay: <message>" to standard error on one line; returns the exit code.
int report_error(const base::Status& status);

}  // namespace forebay::apps
