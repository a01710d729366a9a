// Decodes through libjpeg-turbo the images that our own decoder does not handle; tests compare with
// it.
#pragma once

#include <memory>

#include "jpeg/format/header.h"

namespace forebay::jpeg {

// Keeps its buffers between images. Used by one thread at a time.
class TurboDecoder {
 public:
  explicit TurboDecoder(Damaged damaged = Damaged::kRefuse);
  ~TurboDecoder();
  TurboDecoder(TurboDecoder&&) noexcept;
  TurboDecoder& operator=(TurboDecoder&&) noexcept;

  // Same contract as Decoder::decode(). `header` is the header of the file, and `region` must be
  // inside its scaled image.
  Status decode(Bytes file, const Header& header, const base::Rect& region, base::Pixels* out,
                uint32_t scale = 1);

 private:
  struct State;
  Damaged damaged_;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::jpeg
