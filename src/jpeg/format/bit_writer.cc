#include "jpeg/format/bit_writer.h"

namespace forebay::jpeg {

void BitWriter::grow() {
  const size_t used_bytes = used();
  out_->resize(used_bytes + used_bytes / 4 + 256);
  at_ = out_->data() + used_bytes;
  end_ = out_->data() + out_->size();
}

}  // namespace forebay::jpeg
