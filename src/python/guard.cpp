#include "python/guard.h"

#include <exception>

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

// Calls a function written in C, so that no signal handler runs meanwhile. What it raises is dropped.
template <class... Args>
nb::object quietly(const nb::object& function, Args&&... arguments) noexcept {
  if (function.is_none()) return nb::none();
  try {
    return function(std::forward<Args>(arguments)...);
  } catch (nb::python_error&) {
    return nb::none();
  }
}

// While it lives, Dynamo and functions that override PyTorch's do not see what this thread does, and operators are not
// recorded. Made and undone in C++: an interrupt cannot come in between, which in Python it can after every call.
class Unseen {
 public:
  struct Switches {
    // Each may be None.
    nb::object set_eval_frame;          // of Dynamo
    nb::object disable_torch_function;  // a context manager
    nb::object suppress_recording;      // of operators; nests
    nb::object is_grad_enabled, set_grad_enabled;
  };
  explicit Unseen(const Switches& switches) : switches_(switches) {
    callback_ = quietly(switches.set_eval_frame, nb::none());
    quietly(switches.suppress_recording, 1);
    without_override_ = quietly(switches.disable_torch_function);
    if (!without_override_.is_none()) quietly(without_override_.attr("__enter__"));
    grad_enabled_ = quietly(switches.is_grad_enabled);
  }
  ~Unseen() {
    // An interrupt inside `torch.no_grad()` leaves it on.
    if (std::uncaught_exceptions() > exceptions_) quietly(switches_.set_grad_enabled, grad_enabled_);
    if (!without_override_.is_none()) quietly(without_override_.attr("__exit__"), nb::none(), nb::none(), nb::none());
    quietly(switches_.suppress_recording, -1);
    quietly(switches_.set_eval_frame, callback_);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  const Switches& switches_;
  const int exceptions_ = std::uncaught_exceptions();
  nb::object callback_, without_override_, grad_enabled_;
};

constexpr int kMostInterrupts = 20;  // while one question is asked

class Guard {
 public:
  Guard(nb::object is_to_be_raised, Unseen::Switches switches)
      : is_to_be_raised_(std::move(is_to_be_raised)), switches_(std::move(switches)) {}

  // Exceptions that end a program (KeyboardInterrupt) go on; of the others the owner decides.
  void call(const nb::args& work) const {
    if (!open) return;
    try {
      const Unseen unseen(switches_);
      const nb::object function = work[0];
      const nb::object arguments = nb::steal(PyTuple_GetSlice(work.ptr(), 1, static_cast<Py_ssize_t>(work.size())));
      if (PyObject* result = PyObject_CallObject(function.ptr(), arguments.ptr())) {
        Py_DECREF(result);
        return;
      }
      throw nb::python_error();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception) || is_to_be_raised(error)) throw;
    }
  }

  bool open = true;

 private:
  // A handler of the program may raise while we ask: then that is asked about, and raised in its place. Asking also
  // fails where the interpreter is about to end; that is not for the program.
  bool is_to_be_raised(nb::python_error& error, int asked_before = 0) const {
    try {
      return nb::cast<bool>(is_to_be_raised_(error.value()));
    } catch (nb::python_error& newer) {
      if (!newer.matches(PyExc_Exception)) throw;
      if (asked_before == kMostInterrupts || !is_to_be_raised(newer, asked_before + 1)) return false;
      throw;
    }
  }

  nb::object is_to_be_raised_;
  Unseen::Switches switches_;
};

}  // namespace

void init_guard(nb::module_& m) {
  nb::class_<Guard>(m, "Guard", "Runs the package's own code inside the program's, unseen by other tools.")
      .def(
          "__init__",
          [](Guard* self, nb::object is_to_be_raised, nb::object set_eval_frame, nb::object disable_torch_function,
             nb::object suppress_recording, nb::object is_grad_enabled, nb::object set_grad_enabled) {
            new (self) Guard(std::move(is_to_be_raised),
                             {std::move(set_eval_frame), std::move(disable_torch_function),
                              std::move(suppress_recording), std::move(is_grad_enabled), std::move(set_grad_enabled)});
          },
          "is_to_be_raised"_a, "set_eval_frame"_a.none(), "disable_torch_function"_a.none(),
          "suppress_recording"_a.none(), "is_grad_enabled"_a = nb::none(), "set_grad_enabled"_a = nb::none())
      .def("__call__", [](const Guard& self, const nb::args& work) { self.call(work); })
      .def_rw("open", &Guard::open, "Closed, it runs nothing any more.");
}

}  // namespace ttap::python
