// Work that lets the interpreter run other threads meanwhile.
#pragma once

#include <Python.h>

namespace forebay::bind {

// As nanobind's gil_scoped_release. But a thread that would come back when the interpreter ends
// does not: before Python 3.14 that ends the thread in the middle of C++, and so the process in an
// abort. It stays where it is, for the little time that the process still has.
class WithoutInterpreter {
 public:
  WithoutInterpreter() : state_(PyEval_SaveThread()) {}
  ~WithoutInterpreter();
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* state_;
};

// Before the interpreter ends; from Python's atexit.
void end_interpreter();

}  // namespace forebay::bind
