#include "torch/notes.h"

#include <nlohmann/json.hpp>

namespace ttap::torch_source {

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ttap::torch_source
