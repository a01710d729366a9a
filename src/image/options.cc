#include "image/options.h"

#include <cmath>

namespace forebay::image {

Status check_options(const Transform& transform, const TensorOptions& tensor) {
  const Size crop_size = transform.crop_size.value_or(transform.size);
  if (transform.size != Size{}) RETURN_IF_ERROR(check_size("size", transform.size));
  if (crop_size != Size{} || !std::holds_alternative<WholeImage>(transform.crop)) {
    RETURN_IF_ERROR(check_size("size of the crop", crop_size));
  }
  RETURN_IF_ERROR(check_range("flip probability", transform.flip, 0.0, 1.0));
  RETURN_IF_ERROR(check_range("vertical flip probability", transform.vertical_flip, 0.0, 1.0));
  const auto known = crop_size == Size{} ? std::nullopt : std::optional(crop_size);
  RETURN_IF_ERROR(check_steps(transform.steps, known));
  RETURN_IF_ERROR(check_erasing(transform.erasing, tensor.dtype));
  for (const float std : tensor.std) {
    if (!(std > 0 && std::isfinite(std))) {
      return base::fail(base::Code::kInvalid, "std is {}, but must be above 0", std);
    }
  }
  return check_crop(transform.crop);
}

}  // namespace forebay::image
