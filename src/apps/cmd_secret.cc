#include <iostream>

#include "commands.h"
#include "io/secret_file.h"
#include "progress.h"

namespace forebay::apps {

void add_secret(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "secret",
      "Make a file with a new secret, which only this user can read: for --secret-file of\n"
      "`forebay prep` and `forebay cache`, and for FOREBAY_PREP_SECRET.");
  auto path = std::make_shared<std::string>();
  command->add_option("file", *path, "The file, which must not exist yet")->required();
  command->callback([path, exit_code] {
    const base::Status status = io::make_secret_file(*path).at("secret");
    *exit_code = status.ok() ? 0 : report_error(status);
    if (status.ok()) std::cout << *path << ": a new secret, for this user alone\n";
  });
}

}  // namespace forebay::apps
