#pragma once

namespace ttap {

struct BlameOptions {
  bool is_first_pass = true;
  bool strict = false;  // calls are not compared with others of their kind
};

}  // namespace ttap
