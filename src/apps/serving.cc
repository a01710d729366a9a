#include "serving.h"

#include <future>
#include <stop_token>

namespace forebay::apps {

void wait_for_stop(const io::StopFlag& flag) {
  std::promise<void> stopped;
  const std::stop_callback on_stop(flag.token(), [&] { stopped.set_value(); });
  stopped.get_future().wait();
}

}  // namespace forebay::apps
