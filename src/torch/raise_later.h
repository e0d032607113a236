#pragma once

namespace ttap::torch_source {

// Takes the exception that is set, if it is one that ends a program (KeyboardInterrupt, SystemExit), and has Python
// raise it on the main thread when that runs code of the program next: nothing may be raised through an operator, or
// in code of ours. False: it is another, and still set. The GIL is held.
bool raise_later();

}  // namespace ttap::torch_source
