#include "bind/bind.h"

namespace forebay::bind {
namespace {

// A Status on its way to Python.
class Failure : public std::exception {
 public:
  explicit Failure(const base::Status& status) : status_(status) {}
  const base::Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  base::Status status_;
};

PyObject* data_error = nullptr;  // forebay.DataError; the module holds it

PyObject* exception_of(base::Code code) {
  switch (code) {
    case base::Code::kInvalid:
      return PyExc_ValueError;
    case base::Code::kNotFound:
      return PyExc_FileNotFoundError;
    case base::Code::kExists:
      return PyExc_FileExistsError;
    case base::Code::kNoMemory:
      return PyExc_MemoryError;
    case base::Code::kNoSpace:
    case base::Code::kIo:
    case base::Code::kBusy:
      return PyExc_OSError;
    case base::Code::kCorrupt:
    case base::Code::kUnsupported:
    case base::Code::kTooBig:
      return data_error;
    case base::Code::kOk:
    case base::Code::kCancelled:
      break;
  }
  return PyExc_RuntimeError;
}

// File names need not be UTF-8.
nb::object to_python(const std::string& message) {
  return nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()),
                                        "backslashreplace"));
}

}  // namespace

void raise(const base::Status& status) { throw Failure(status); }

void warn(const std::string& message) {
  constexpr Py_ssize_t kCallerOfThePackage = 2;
  const nb::object text = to_python(message);
  if (PyErr_WarnFormat(PyExc_UserWarning, kCallerOfThePackage, "%U", text.ptr()) != 0) {
    nb::raise_python_error();
  }
}

void bind_errors(nb::module_& m) {
  data_error = PyErr_NewExceptionWithDoc(
      "forebay.DataError",
      "Stored bytes are not what they should be, or are nothing that Forebay reads.",
      PyExc_ValueError, nullptr);
  if (data_error == nullptr) nb::raise_python_error();
  m.attr("DataError") = nb::steal(data_error);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      const nb::object text = to_python(failure.status().message());
      PyErr_SetObject(exception_of(failure.status().code()), text.ptr());
    }
  });
}

}  // namespace forebay::bind

NB_MODULE(_core, m) {
  nanobind::module_::import_("atexit").attr("register")(
      nanobind::cpp_function(&forebay::bind::end_interpreter));
  m.doc() = "Forebay's C++ core; use the package `forebay`.";
  forebay::bind::bind_errors(m);
  forebay::bind::bind_decode(m);
  forebay::bind::bind_dataset(m);
  forebay::bind::bind_transforms(m);
  forebay::bind::bind_mix(m);
  forebay::bind::bind_feed(m);
}
