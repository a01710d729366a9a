// What lies in a source and is no part of it, counted by reason, so that nothing is left out in
// silence.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/origin.h"
#include "store/format/listing.h"

namespace forebay::store {

class LeftOut {
 public:
  // Notes a file or folder that a user may take for data. `path` is below the source's folder.
  void add(const std::string& path, std::string_view reason) { note(path, reason, &data_); }
  // Notes a hidden one, or one of another program's.
  void add_hidden(const std::string& path, std::string_view reason) {
    note(path, reason, &hidden_);
  }
  // Notes a file that is no image by its name, if its suffix is that of an image in a format that
  // is not read, or of a compressed archive.
  void add_if_data(const std::string& path);

  // One remark for each reason: the first path, and how many others have the same reason.
  std::vector<Remark> data() const { return remarks_of(data_); }
  std::vector<Remark> hidden() const { return remarks_of(hidden_); }

 private:
  struct Group {
    std::string first;
    uint64_t count = 0;
  };
  using Groups = std::map<std::string, Group, std::less<>>;  // by reason
  static void note(const std::string& path, std::string_view reason, Groups* groups);
  static std::vector<Remark> remarks_of(const Groups& groups);

  Groups data_;
  Groups hidden_;
};

inline constexpr std::string_view kHiddenFolder = "a hidden folder, or another program's";
inline constexpr std::string_view kHiddenFile = "a hidden file, or another program's";

// Whether a folder or file is hidden, or belongs to another program: its name begins with a dot, or
// is "@eaDir" (Synology) or "__MACOSX". Such are no part of any source.
bool is_hidden(std::string_view name);

}  // namespace forebay::store
