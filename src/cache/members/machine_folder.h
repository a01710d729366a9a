// The folder in which the processes of a machine find the one that serves its share, and know when
// another one must.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/members/members.h"
#include "io/file_system.h"

namespace forebay::cache {

using base::Result;
using base::Status;

// What the process that serves tells the others.
struct Notice {
  Member machine = {};
  std::vector<Member> members = {};  // of the job, with this one
  std::string job = {};              // the launcher's name of it; empty where there is none
  // Where processes of this machine have everything from, also other jobs, and without TLS; 0: they
  // are of the same job, and ask all members.
  uint16_t local_port = 0;
  std::string presence = {};  // the file that shows that the process is there; write() names it
  bool operator==(const Notice&) const = default;
};

// One thread at a time may use it.
class MachineFolder {
 public:
  // Makes the folder if need be, and shows that this process is there. Errors: those of
  // io::make_private_folder(); kIo.
  static Result<std::unique_ptr<MachineFolder>> open(const std::string& path);
  ~MachineFolder();
  MachineFolder(const MachineFolder&) = delete;
  MachineFolder& operator=(const MachineFolder&) = delete;

  // True where this process is the one that serves from now on. Errors: kIo.
  Result<bool> claim();
  // Lets another process be the one.
  void give_up_claim() { claim_.reset(); }
  // What the process that serves, or one that served before, has told; nothing where none did.
  std::optional<Notice> read() const;
  // Like read(), but nothing if that process is gone, so that nobody follows a dead one.
  std::optional<Notice> read_served() const;
  // Whether what read() returns may have changed since this was called last.
  bool has_changed();
  Status write(const Notice& notice) const;
  // This process counts as one that is there no more.
  void leave();
  // Whether other processes are there. Those that were killed are not.
  bool has_others() const;
  // Nobody needs the folder any more; what others put there stays.
  void remove_notice() const;

 private:
  explicit MachineFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::string own_;                         // the name of this process's file
  std::unique_ptr<io::FileLock> presence_;  // on that file
  std::unique_ptr<io::FileLock> claim_;     // of the process that serves
  io::FileInfo seen_;                       // of the notice
};

}  // namespace forebay::cache
