#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/api.h"

// What a recording says of the modules and optimizers that it has seen, in the file model.json beside the passes.
namespace ttap {

// How a tensor of a module is spread over the ranks. What nothing is declared of is the same on all of them.
struct ShardFacts {
  bool is_sum = false;  // what the ranks have adds up to it; else it is concatenated
  int dim = 0;          // along which; counted from the end when negative
  // Of several parts side by side, each is concatenated by itself: their sizes in one rank. Empty: there is one part.
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> copies = {};  // of each part, how many neighbouring ranks have the same; empty: none has
  int64_t size = 0;                  // of the whole without padding at its end; 0: there is none
  bool operator==(const ShardFacts&) const = default;
};

struct ModuleFacts {
  std::string type = {};                             // torch.nn.modules.linear.Linear
  std::map<std::string, std::string> settings = {};  // its own numbers, words and switches: eps → "1e-05"

  // What an engine declares of a fused module, in terms of those that another program has in its place, by their last
  // names: its result is theirs side by side (`parts`), or their product. `sums`: what another module returns is the
  // sum of its results; `sums_inputs`: what another module is given is the sum of its inputs.
  std::vector<std::string> parts = {}, product = {};
  bool sums = false, sums_inputs = false;
  double times = 1;  // what another module returns is this times its result
  // What it declares of its shards, by role, or by role and path: "out", "in/1", "param/weight".
  std::map<std::string, ShardFacts, std::less<>> shards = {};

  bool declares_fusion() const { return !parts.empty() || !product.empty() || sums || sums_inputs || times != 1; }
  std::string_view class_name() const { return std::string_view(type).substr(type.rfind('.') + 1); }
  bool operator==(const ModuleFacts&) const = default;
};
using ModulesByName = std::map<std::string, ModuleFacts, std::less<>>;

struct ModelFacts {
  ModulesByName modules = {};
  ModulesByName optimizers = {};  // by the name of a parameter: what updates it, with the settings of its group
};

// None when the rank has no such file, or one that cannot be read. A name that different modules have is there without
// facts.
TTAP_API ModelFacts read_model_facts(const std::filesystem::path& rank_directory);

}  // namespace ttap
