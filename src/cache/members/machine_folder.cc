#include "cache/members/machine_folder.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "io/machine.h"
#include "io/scratch_files.h"

namespace forebay::cache {

using base::Code;

namespace {

constexpr const char* kLock = "lock";
constexpr const char* kNotice = "server";
constexpr std::string_view kPresence = "process-";
constexpr int kPresenceTries = 5;

nlohmann::json encode(const Member& member) {
  return {{"id", member.id},
          {"host", member.host},
          {"port", member.port},
          {"room_bytes", member.room_bytes},
          {"incarnation", member.incarnation}};
}

Member decode(const nlohmann::json& found) {
  return {.id = found.at("id"),
          .host = found.at("host"),
          .port = found.at("port"),
          .room_bytes = found.at("room_bytes"),
          .incarnation = found.at("incarnation")};
}

}  // namespace

Result<std::unique_ptr<MachineFolder>> MachineFolder::open(const std::string& path) {
  static std::atomic<int> number = 0;
  RETURN_IF_ERROR(io::make_private_folder(path));
  std::unique_ptr<MachineFolder> folder(new MachineFolder(path));
  for (int tries = kPresenceTries; true; --tries) {
    // No two processes ever have the same name, even if process numbers begin anew.
    folder->own_ = fmt::format("{}{}-{}-{}", kPresence, io::process_id(), number++, io::wall_ns());
    auto lock = io::posix_file_system().lock(io::join_path(path, folder->own_));
    // Another process may have tested the file between its creation and its lock.
    const bool is_busy = !lock && lock.error().code() == Code::kBusy;
    if (is_busy && tries > 1) continue;
    ASSIGN_OR_RETURN(folder->presence_, std::move(lock));
    return folder;
  }
}

void MachineFolder::leave() {
  if (presence_ == nullptr) return;
  static_cast<void>(io::posix_file_system().remove(io::join_path(path_, own_)));
  presence_.reset();
}

MachineFolder::~MachineFolder() {
  leave();
  io::FileSystem& disk = io::posix_file_system();
  if (claim_ != nullptr) static_cast<void>(disk.remove(io::join_path(path_, kLock)));
  static_cast<void>(disk.remove(path_));  // only if it is empty
}

Result<bool> MachineFolder::claim() {
  auto lock = io::posix_file_system().lock(io::join_path(path_, kLock));
  if (!lock && lock.error().code() == Code::kBusy) return false;
  ASSIGN_OR_RETURN(claim_, std::move(lock));
  return true;
}

std::optional<Notice> MachineFolder::read() const {
  const auto text = io::posix_file_system().read_whole(io::join_path(path_, kNotice),
                                                       base::kMembersNoticeBytesMax);
  if (!text) return std::nullopt;
  const auto found = nlohmann::json::parse(text->begin(), text->end(), nullptr, false);
  if (!found.is_object()) return std::nullopt;
  try {
    Notice notice{.machine = decode(found.at("machine")),
                  .members = {},
                  .job = found.at("job"),
                  .local_port = found.at("local_port"),
                  .local_secret = io::Secret(found.value("local_secret", "")),
                  .presence = found.at("presence")};
    for (const nlohmann::json& member : found.at("members")) {
      notice.members.push_back(decode(member));
    }
    return notice;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<Notice> MachineFolder::read_served() const {
  auto notice = read();
  if (notice && !io::is_locked(io::join_path(path_, notice->presence))) return std::nullopt;
  return notice;
}

bool MachineFolder::has_changed() {
  const auto info = io::posix_file_system().stat(io::join_path(path_, kNotice));
  if (!info || (info->modified_ns == seen_.modified_ns && info->size == seen_.size)) return false;
  seen_ = *info;
  return true;
}

Status MachineFolder::write(const Notice& notice) const {
  nlohmann::json members = nlohmann::json::array();
  for (const Member& member : notice.members) members.push_back(encode(member));
  const std::string text = nlohmann::json{
      {"machine", encode(notice.machine)},
      {"members", std::move(members)},
      {"job", notice.job},
      {"local_port", notice.local_port},
      {"local_secret", notice.local_secret.reveal()},
      {"presence", own_}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return io::posix_file_system().put(io::join_path(path_, kNotice), base::as_bytes(text),
                                     {.durable = false});
}

bool MachineFolder::has_others() const {
  const auto entries = io::posix_file_system().list(path_);
  return entries && std::ranges::any_of(*entries, [&](const io::DirEntry& entry) {
           if (!entry.name.starts_with(kPresence) || entry.name == own_) return false;
           const std::string path = io::join_path(path_, entry.name);
           if (io::is_locked(path)) return true;
           const auto lock = io::posix_file_system().lock(path);
           if (!lock) return lock.error().code() == Code::kBusy;
           static_cast<void>(io::posix_file_system().remove(path));
           return false;
         });
}

void MachineFolder::remove_notice() const {
  static_cast<void>(io::posix_file_system().remove(io::join_path(path_, kNotice)));
}

}  // namespace forebay::cache
