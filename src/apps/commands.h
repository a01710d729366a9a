// The commands of `forebay`. Each adds itself to the command line; when it runs it sets the exit
// code (docs/errors.md): 0 done, 1 failed or found damage, kExitStopped.
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

// Prints "forebay: <message>" to standard error, on one line; gives the exit code.
int report_error(const base::Status& status);

}  // namespace forebay::apps
