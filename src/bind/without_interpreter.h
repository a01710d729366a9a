// Releases the interpreter's lock during work in C++, so that other Python threads can run.
#pragma once

#include <Python.h>

namespace forebay::bind {

// Like nanobind's gil_scoped_release, except when the interpreter ends. Before Python 3.14, a
// thread that takes the lock then is ended in the middle of C++, which aborts the process. Here the
// thread waits instead, for the short time until the process exits.
class WithoutInterpreter {
 public:
  WithoutInterpreter() : state_(PyEval_SaveThread()) {}
  ~WithoutInterpreter();
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* state_;
};

// Python's atexit calls this before the interpreter ends.
void end_interpreter();

}  // namespace forebay::bind
