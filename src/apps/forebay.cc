// The command line of Forebay. What each command does stands in cmd_<command>.cc; training is a
// program of its own, forebay-train, because it needs libtorch; bench is Python's.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <vector>

#include "commands.h"

namespace forebay::apps {

int report_error(const base::Status& status) {
  std::cout.flush();
  std::cerr << "forebay: " << status.message() << std::endl;
  return status.code() == base::Code::kCancelled ? kExitStopped : kExitFailed;
}

namespace {

// Where this program lies; empty, and said, where the system does not tell.
std::filesystem::path own_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    std::cerr << "forebay: cannot tell where this program is: /proc/self/exe: " << error.message()
              << "\n";
  }
  return self;
}

// Replaces this process by the forebay-train beside it; returns only when that fails.
int run_train(char** argv) {
  const auto self = own_path();
  if (self.empty()) return kExitFailed;
  const std::string program = (self.parent_path() / "forebay-train").string();
  // How long PyTorch's threads spin at a barrier before they sleep: libgomp's own some milliseconds
  // take the processor from the loader's threads, or anyone else's, which may be what they wait
  // for.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "10000", 0);
  argv[1] = argv[0];
  ::execv(program.c_str(), argv + 1);
  const int why = errno;
  std::cerr << "forebay: cannot start " << program << ": " << std::strerror(why) << "\n";
  if (why == ENOENT) {
    std::cerr << "forebay: training is a program of its own, built where torch is installed: "
                 "configure with -DFOREBAY_TORCH=ON (the default) and build forebay-train\n";
  }
  return kExitFailed;
}

// The Python that the package is installed or built for: its launcher names it in the environment,
// a build folder's program knows it. Else the first one on PATH.
std::string python_of_package() {
  if (const char* const named = std::getenv("FOREBAY_PYTHON")) return named;
#ifdef FOREBAY_BUILD_PYTHON
  const char* const others = std::getenv("PYTHONPATH");
  const std::string path =
      FOREBAY_BUILD_PACKAGE + (others == nullptr ? std::string() : std::string(":") + others);
  ::setenv("PYTHONPATH", path.c_str(), 1);
  return FOREBAY_BUILD_PYTHON;
#else
  return "python3";
#endif
}

// Replaces this process by the Python package's forebay.bench.
int run_bench(int argc, char** argv) {
  const auto self = own_path();
  if (self.empty()) return kExitFailed;
  ::setenv("FOREBAY_BIN", self.c_str(), 0);
  const std::string python = python_of_package();
  std::vector<std::string> words = {python, "-m", "forebay.bench"};
  words.insert(words.end(), argv + 2, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(python.c_str(), arguments.data());
  std::cerr
      << "forebay: cannot start " << python << ": " << std::strerror(errno)
      << "; bench is part of the Python package: FOREBAY_PYTHON names the Python that has it\n";
  return kExitFailed;
}

int run(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) return run_train(argv);
  if (argc > 1 && std::strcmp(argv[1], "bench") == 0) return run_bench(argc, argv);
  CLI::App app("Forebay: image datasets for training");
  app.require_subcommand(1);
  app.set_version_flag("--version", "forebay " FOREBAY_VERSION);
  int exit_code = 0;
  add_pack(app, &exit_code);
  add_index(app, &exit_code);
  add_ls(app, &exit_code);
  add_inspect(app, &exit_code);
  add_verify(app, &exit_code);
  add_export(app, &exit_code);
  app.add_subcommand("train", "train a model (forebay train --help)");
  app.add_subcommand("bench", "how fast loading is on your data, and what holds it back");
  const auto commands = app.get_subcommands({});
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(commands, is_named)) {
    std::cerr << "forebay: there is no command " << argv[1] << "; forebay --help lists them\n";
    return kExitWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "forebay: " << error.what() << "; forebay --help says more\n";
    return kExitWrongUsage;
  }
  return exit_code;
}

// A list that is cut short by a full disk must not look complete.
int check_output(int exit_code) {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  std::cerr << "forebay: cannot write all of the output; is the disk full?\n";
  return kExitFailed;
}

}  // namespace

}  // namespace forebay::apps

int main(int argc, char** argv) {
  try {
    return forebay::apps::check_output(forebay::apps::run(argc, argv));
  } catch (const std::bad_alloc&) {
    std::cerr << "forebay: no memory\n";
  } catch (const std::exception& error) {
    std::cerr << "forebay: " << error.what() << "\n";
  }
  return forebay::apps::kExitFailed;
}
