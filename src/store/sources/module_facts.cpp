#include "store/sources/module_facts.h"

#include "core/json.h"
#include "store/files/mapped_file.h"

namespace ttap {
namespace {

constexpr size_t kLargestModelFile = size_t{256} << 20;

// What `json` has under this name, if that is of the type wanted; else something empty.
const Json& member(const Json& json, const char* name, bool (Json::*is_wanted)() const noexcept) {
  static const Json kNothing = Json::array();
  if (!json.is_object()) return kNothing;
  const auto found = json.find(name);
  return found != json.end() && ((*found).*is_wanted)() ? *found : kNothing;
}

std::string text(const Json& json, const char* name) {
  const Json& found = member(json, name, &Json::is_string);
  return found.is_string() ? found.get<std::string>() : std::string();
}

// Two models may have modules of one name: of which it is, is not known.
void add(const std::string& name, const ModuleFacts& facts, ModulesByName& modules) {
  const auto [known, is_new] = modules.try_emplace(name, facts);
  if (!is_new && known->second != facts) known->second = {};
}

void add_settings(const Json& json, ModuleFacts& facts) {
  if (const Json& settings = member(json, "settings", &Json::is_object); settings.is_object())
    for (const auto& [name, value] : settings.items())
      facts.settings.emplace(name, value.is_string() ? value.get<std::string>() : json_text(value));
}

std::vector<std::string> texts(const Json& json, const char* name) {
  std::vector<std::string> found;
  for (const Json& each : member(json, name, &Json::is_array))
    if (each.is_string()) found.push_back(each.get<std::string>());
  return found;
}

// The sizes of a list; nothing where one makes no sense.
std::vector<int64_t> sizes(const Json& json, const char* name) {
  constexpr int64_t kLargest = int64_t{1} << 40;
  std::vector<int64_t> found;
  for (const Json& each : member(json, name, &Json::is_array)) {
    if (!each.is_number_integer() || each < 0 || each > kLargest) return {};
    found.push_back(each.get<int64_t>());
  }
  return found;
}

// {"out": {"concat": -1, "sizes": [64, 32, 32], "copies": [1, 2, 2]}, "param/weight": {"concat": 0, "size": 321}}, or
// "sum" in place of such an object.
void add_shards(const Json& module, ModuleFacts& facts) {
  const Json& shards = member(module, "shards", &Json::is_object);
  if (!shards.is_object()) return;
  for (const auto& [name, value] : shards.items()) {
    ShardFacts shard{.is_sum = value == "sum"};
    if (const Json& dim = member(value, "concat", &Json::is_number_integer); dim.is_number_integer()) {
      shard.dim = static_cast<int>(dim.get<int64_t>());
    } else if (!shard.is_sum) {
      continue;
    }
    shard.sizes = sizes(value, "sizes");
    shard.copies = sizes(value, "copies");
    if (const Json& size = member(value, "size", &Json::is_number_integer); size.is_number_integer())
      shard.size = size.get<int64_t>();
    facts.shards.emplace(name, std::move(shard));
  }
}

void add_module(const Json& module, ModulesByName& modules) {
  ModuleFacts facts{.type = text(module, "type")};
  if (facts.class_name().empty()) return;
  add_settings(module, facts);
  facts.parts = texts(module, "parts");
  facts.product = texts(module, "product");
  facts.sums = member(module, "sums", &Json::is_boolean) == true;
  facts.sums_inputs = member(module, "sums_inputs", &Json::is_boolean) == true;
  if (const Json& times = member(module, "times", &Json::is_number); times.is_number())
    facts.times = times.get<double>();
  add_shards(module, facts);
  add(text(module, "name"), facts, modules);
  for (const Json& alias : member(module, "aliases", &Json::is_array))
    if (alias.is_string()) add(alias.get<std::string>(), facts, modules);
}

void add_optimizer(const Json& optimizer, ModulesByName& optimizers) {
  for (const Json& group : member(optimizer, "groups", &Json::is_array)) {
    ModuleFacts facts{.type = text(optimizer, "type")};
    add_settings(group, facts);
    for (const Json& parameter : member(group, "parameters", &Json::is_array))
      if (parameter.is_string()) add(parameter.get<std::string>(), facts, optimizers);
  }
}

}  // namespace

ModelFacts read_model_facts(const std::filesystem::path& rank_directory) {
  ModelFacts found;
  const auto file = MappedFile::open(rank_directory / "model.json");
  if (!file.ok() || (*file)->bytes().size() > kLargestModelFile) return found;
  const auto bytes = (*file)->bytes();
  const Json json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 1000);
  for (const Json& model : member(json, "models", &Json::is_array))
    for (const Json& module : member(model, "modules", &Json::is_array)) add_module(module, found.modules);
  for (const Json& optimizer : member(json, "optimizers", &Json::is_array)) add_optimizer(optimizer, found.optimizers);
  return found;
}

}  // namespace ttap
