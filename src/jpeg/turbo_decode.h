// Decoding through libjpeg-turbo: for what our own decoder leaves to it, and to compare with.
#pragma once

#include <memory>

#include "jpeg/header.h"

namespace forebay::jpeg {

// Keeps its buffers between images. One thread at a time.
class TurboDecoder {
 public:
  explicit TurboDecoder(Damaged damaged = Damaged::kRefuse);
  ~TurboDecoder();
  TurboDecoder(TurboDecoder&&) noexcept;
  TurboDecoder& operator=(TurboDecoder&&) noexcept;

  // Same contract as Decoder::decode(); `header` is the file's, `region` inside its scaled image.
  Status decode(Bytes file, const Header& header, const base::Rect& region, base::Pixels* out,
                uint32_t scale = 1);

 private:
  struct State;
  Damaged damaged_;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::jpeg
