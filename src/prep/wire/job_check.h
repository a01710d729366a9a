// Checks of what a job asks for beyond those of feed::check_options(), which programs of this
// machine pass: a job may come from anybody who has the job's secret, and no text may crash or
// occupy a prep server.
#pragma once

#include <span>

#include "image/augment/steps.h"

namespace forebay::prep {

// kInvalid when an action can only be performed on the picture that it was drawn for, such as a cut
// of a given region, when an action has numbers that no step draws, or when steps may draw more
// than base::kJobDrawsMax times for one sample.
base::Status check_job_steps(std::span<const image::Step> steps);

}  // namespace forebay::prep
