#pragma once

namespace ttap::torch_source {

// Takes the exception that is set, if it ends a program (KeyboardInterrupt, SystemExit) or is the program's own, raised
// by a signal handler while our code ran, and has Python raise it on the main thread when that runs code of the program
// next: nothing may be raised through an operator, or in code of ours. False: it is another, and still set. The GIL is
// held.
bool raise_later();

}  // namespace ttap::torch_source
