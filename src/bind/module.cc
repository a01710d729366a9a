#include "base/limits.h"
#include "bind/bind.h"

namespace forebay::bind {
namespace {

// Carries a Status to Python as a C++ exception.
class Failure : public std::exception {
 public:
  explicit Failure(const base::Status& status) : status_(status) {}
  const base::Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  base::Status status_;
};

PyObject* data_error = nullptr;  // forebay.DataError, which the module keeps alive

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
    case base::Code::kTruncated:
    case base::Code::kUnavailable:
    case base::Code::kBusy:
    case base::Code::kChanged:
      return PyExc_OSError;
    case base::Code::kTimedOut:
      return PyExc_TimeoutError;
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

nb::str decode(const std::string& bytes, const char* errors) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), errors));
}

}  // namespace

nb::str text(const std::string& utf8) { return decode(utf8, "backslashreplace"); }
nb::str name(const std::string& bytes) { return decode(bytes, "surrogateescape"); }
std::string name_of(const nb::str& name) {
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(name.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) nb::raise_python_error();
  const auto view = nb::cast<nb::bytes>(bytes);
  return {static_cast<const char*>(view.data()), view.size()};
}

void raise(const base::Status& status) { throw Failure(status); }

nb::object exception(const base::Status& status) {
  return nb::borrow(exception_of(status.code()))(text(status.message()));
}

void warn(const std::string& message) {
  constexpr Py_ssize_t kCallerOfThePackage = 2;
  if (PyErr_WarnFormat(PyExc_UserWarning, kCallerOfThePackage, "%U", text(message).ptr()) != 0) {
    nb::raise_python_error();
  }
}

void bind_errors(nb::module_& m) {
  data_error = PyErr_NewExceptionWithDoc(
      "forebay.DataError", "Stored bytes are damaged, or are not in a format that Forebay reads.",
      PyExc_ValueError, nullptr);
  if (data_error == nullptr) nb::raise_python_error();
  m.attr("DataError") = nb::steal(data_error);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      PyErr_SetObject(exception_of(failure.status().code()),
                      text(failure.status().message()).ptr());
    }
  });
}

void bind_limits(nb::module_& m) {
  m.attr("BATCH_MAX") = base::kBatchMax;
  m.attr("DRAWN_FOR_MAX") = base::kDrawnForMax;
  m.attr("EPOCH_MAX") = base::kEpochMax;
  m.attr("PREFETCH_MAX") = base::kPrefetchMax;
  m.attr("THREADS_MAX") = base::kThreadsMax;
  m.attr("WORLD_SIZE_MAX") = base::kWorldSizeMax;
}

}  // namespace forebay::bind

NB_MODULE(_core, m) {
  m.attr("VERSION") = FOREBAY_VERSION;
  nanobind::module_::import_("atexit").attr("register")(
      nanobind::cpp_function(&forebay::bind::end_interpreter));
  // A daemon thread may still hold objects when the interpreter ends, which is not a leak.
  nanobind::set_leak_warnings(false);
  m.def(
      "tell_leaks", [] { nanobind::set_leak_warnings(true); },
      "For tests: when the interpreter ends, lists on stderr the objects that are still alive.");
  m.doc() = "Forebay's C++ core; use the package `forebay`.";
  forebay::bind::bind_errors(m);
  forebay::bind::bind_limits(m);
  forebay::bind::bind_decode(m);
  forebay::bind::bind_cache(m);
  forebay::bind::bind_dataset(m);
  forebay::bind::bind_transforms(m);
  forebay::bind::bind_mix(m);
  forebay::bind::bind_order(m);
  forebay::bind::bind_state(m);
  forebay::bind::bind_sync(m);
  forebay::bind::bind_learners(m);
  forebay::bind::bind_explore(m);
  forebay::bind::bind_targets(m);
  forebay::bind::bind_prep(m);
  forebay::bind::bind_feed(m);
  forebay::bind::bind_batch_decoder(m);
}
