// Converts between libtorch's at::Tensor and Python's torch.Tensor, which share the same memory.
#pragma once

#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/python_variable.h>

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, uint8_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    if (!THPVariable_Check(source.ptr())) return false;
    value = THPVariable_Unpack(source.ptr());
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy /*policy*/,
                         cleanup_list* /*cleanup*/) noexcept {
    return THPVariable_Wrap(tensor);
  }
};

}  // namespace nanobind::detail
