// The command line of Forebay. Each command is in cmd_<command>.cc, except three: `forebay train`
// starts the separate program forebay-train, because training needs libtorch, or Python with
// `--sync`, because torch's process groups are Python's; `forebay bench`, `forebay show` and
// `forebay explore` start Python, because they run the Python package.
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

#include "base/crew.h"
#include "commands.h"

namespace forebay::apps {

int report_error(const base::Status& status) {
  std::cout.flush();
  std::cerr << "forebay: " << status.message() << std::endl;
  return status.code() == base::Code::kCancelled ? kExitStopped : kExitFailed;
}

namespace {

// Returns the path of this program. If the system does not tell it, prints an error and returns an
// empty path.
std::filesystem::path own_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    std::cerr << "forebay: cannot find the folder of this program: /proc/self/exe: "
              << error.message() << "; is /proc mounted?\n";
  }
  return self;
}

// Returns the Python that has the package: $FOREBAY_PYTHON, which the package's launcher sets;
// else, for a program in a build folder, the Python of that build; else python3 on PATH.
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

// Replaces this process by a module of the Python package, with the words after the command;
// returns only on failure.
int run_python(const char* module, int argc, char** argv) {
  const auto self = own_path();
  if (self.empty()) return kExitFailed;
  ::setenv("FOREBAY_BIN", self.c_str(), 0);
  const std::string python = python_of_package();
  std::vector<std::string> words = {python, "-m", module};
  words.insert(words.end(), argv + 2, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(python.c_str(), arguments.data());
  std::cerr << "forebay: cannot start " << python << ": " << std::strerror(errno) << "; " << argv[1]
            << " needs the Python package forebay: set FOREBAY_PYTHON to a Python that has it\n";
  return kExitFailed;
}

// Whether several processes train together (--sync), which needs Python.
bool has_sync(int argc, char** argv) {
  return std::any_of(argv + 2, argv + argc, [](std::string_view word) {
    return word == "--sync" || word.starts_with("--sync=");
  });
}

// Replaces this process by the program forebay-train in the same folder; returns only on failure.
int run_train(int argc, char** argv) {
  const auto self = own_path();
  if (self.empty()) return kExitFailed;
  const std::string program = (self.parent_path() / "forebay-train").string();
  // Before PyTorch's threads sleep at a barrier, they spin for this long. By default libgomp lets
  // them spin for some milliseconds, which takes the processor from the loader's threads, although
  // these may be what PyTorch waits for.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "10000", 0);
  if (has_sync(argc, argv)) return run_python("forebay.sync.train", argc, argv);
  argv[1] = argv[0];
  ::execv(program.c_str(), argv + 1);
  const int why = errno;
  std::cerr << "forebay: cannot start " << program << ": " << std::strerror(why) << "\n";
  if (why == ENOENT) {
    std::cerr
        << "forebay: training needs the program forebay-train, which can only be built where "
           "torch is installed: configure with -DFOREBAY_TORCH=ON (the default) and build it\n";
  }
  return kExitFailed;
}

int run(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) return run_train(argc, argv);
  if (argc > 1 && std::strcmp(argv[1], "bench") == 0)
    return run_python("forebay.bench", argc, argv);
  if (argc > 1 && std::strcmp(argv[1], "show") == 0)
    return run_python("forebay.preview", argc, argv);
  if (argc > 1 && std::strcmp(argv[1], "explore") == 0)
    return run_python("forebay.explore", argc, argv);
  CLI::App app("Forebay prepares image datasets for training and trains on them.");
  app.require_subcommand(1);
  app.set_version_flag("--version", "forebay " FOREBAY_VERSION);
  int exit_code = 0;
  add_pack(app, &exit_code);
  add_index(app, &exit_code);
  add_ls(app, &exit_code);
  add_inspect(app, &exit_code);
  add_verify(app, &exit_code);
  add_export(app, &exit_code);
  add_cp(app, &exit_code);
  add_cache(app, &exit_code);
  add_prep(app, &exit_code);
  add_secret(app, &exit_code);
  app.add_subcommand("train", "Train a model; see forebay train --help");
  app.add_subcommand("bench", "Measure how fast loading is on your data, and what slows it down");
  app.add_subcommand("show", "Write a page that shows samples before and after a transform");
  app.add_subcommand("explore", "Look at a study of forebay.explore, or go on with it");
  const auto commands = app.get_subcommands({});
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(commands, is_named)) {
    std::cerr << "forebay: there is no command " << argv[1]
              << "; forebay --help lists the commands\n";
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
  } catch (const forebay::base::NoThread& error) {
    std::cerr << "forebay: " << error.what() << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "forebay: there is not enough memory; free some and run the command again\n";
  } catch (const std::exception& error) {
    std::cerr << "forebay: " << error.what() << "\n";
  }
  return forebay::apps::kExitFailed;
}
