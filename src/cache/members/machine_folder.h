// The folder in which the processes of a machine find the one that serves the machine's share, and
// notice when another one must take over.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/members/members.h"
#include "io/file_system.h"
#include "io/secret.h"

namespace forebay::cache {

using base::Result;
using base::Status;

// What the process that serves tells the machine's other processes.
struct Notice {
  Member machine = {};
  std::vector<Member> members = {};  // of the job, including this machine
  std::string job = {};              // the launcher's name for it; empty: none
  // The port at which processes of this machine, also those of other jobs, read everything without
  // TLS; 0: all are of the same job and ask the members themselves.
  uint16_t local_port = 0;
  // What this machine's processes must have to be served without TLS; empty: nobody is. Only this
  // user can read the folder, and with it the secret.
  io::Secret local_secret = {};
  std::string presence = {};  // file that the process keeps locked while it lives; write() sets it
  bool operator==(const Notice&) const = default;
};

// One thread at a time may use it.
class MachineFolder {
 public:
  // Creates the folder if it is missing, and makes this process visible in it. Errors: those of
  // io::make_private_folder(); kIo.
  static Result<std::unique_ptr<MachineFolder>> open(const std::string& path);
  ~MachineFolder();
  MachineFolder(const MachineFolder&) = delete;
  MachineFolder& operator=(const MachineFolder&) = delete;

  // True if this process is from now on the one that serves. Errors: kIo.
  Result<bool> claim();
  // Lets another process serve.
  void give_up_claim() { claim_.reset(); }
  // The notice of the process that serves, or of an earlier one; nothing if there is none.
  std::optional<Notice> read() const;
  // Like read(), but nothing if that process is gone, so that nobody follows a dead one.
  std::optional<Notice> read_served() const;
  // Whether what read() returns may have changed since the last call.
  bool has_changed();
  Status write(const Notice& notice) const;
  // From now on this process does not count as present.
  void leave();
  // Whether other processes of this machine are present. Killed ones do not count.
  bool has_others() const;
  // Removes the notice, because no process needs it any more. Other files in the folder stay.
  void remove_notice() const;

 private:
  explicit MachineFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::string own_;                         // the name of this process's file
  std::unique_ptr<io::FileLock> presence_;  // on that file
  std::unique_ptr<io::FileLock> claim_;     // held by the process that serves
  io::FileInfo seen_;                       // the notice at the last has_changed()
};

}  // namespace forebay::cache
