// Checks of a job's steps, besides those of feed::check_options(). A job may come from anybody who
// has the secret, and no job may crash or occupy a prep server.
#pragma once

#include <span>

#include "image/augment/steps.h"

namespace forebay::prep {

// Errors: kInvalid if an action fits only the picture that it was drawn for, such as a cut of a
// given region; if an action has numbers that no step draws; or if the steps may draw more than
// base::kJobDrawsMax times for one sample.
base::Status check_job_steps(std::span<const image::Step> steps);

}  // namespace forebay::prep
