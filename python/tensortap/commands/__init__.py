"""The commands of `ttap` whose work needs PyTorch, one file each; the command in C++ has checked their options."""
