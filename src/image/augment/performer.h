// Performs actions on a picture, in their order.
#pragma once

#include "image/augment/action.h"
#include "image/augment/shift.h"
#include "image/augment/tone.h"

namespace forebay::image {

// Keeps its buffers between pictures. Used by one thread at a time.
class Performer {
 public:
  void perform(std::span<const Action> actions, Picture* picture);

 private:
  class Run;
  // The performer for the chains of a Blend, and the picture that it changes.
  struct Chain {
    Picture picture;
    std::unique_ptr<Performer> performer;
  };

  Picture other_;  // the result of an action
  Shifter shifter_;
  Warper warper_;
  Cutter cutter_;
  std::unique_ptr<Chain> chain_;
  std::vector<float> sums_;
};

}  // namespace forebay::image
