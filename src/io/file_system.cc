#include "io/file_system.h"

namespace forebay::io {

Result<std::unique_ptr<WritableFile>> FileSystem::append_to(const std::string& path) {
  return base::fail(base::Code::kUnsupported,
                    "cannot append to {}: files of this origin can only be written whole; give a "
                    "file on a local disk",
                    path);
}

}  // namespace forebay::io
