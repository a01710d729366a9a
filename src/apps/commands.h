// The commands of `forebay`. Each adds itself to the command line; when it runs it sets the exit
// code (docs/errors.md): 0 done, 1 failed or found damage, kExitStopped.
#pragma once

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace forebay::apps {

inline constexpr int kExitWrongUsage = 2;
inline constexpr int kExitStopped = 130;  // as a shell says of Ctrl-C

void add_pack(CLI::App& app, int* exit_code);
void add_ls(CLI::App& app, int* exit_code);
void add_inspect(CLI::App& app, int* exit_code);
void add_verify(CLI::App& app, int* exit_code);
void add_export(CLI::App& app, int* exit_code);

// Prints "forebay: <message>" to standard error, on one line; gives the exit code.
int report_error(const base::Status& status);

}  // namespace forebay::apps
