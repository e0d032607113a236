#include "cli/model_file.h"

#include "report/text/json_reader.h"
#include "store/files/mapped_file.h"

namespace ttap::cli {
namespace {

using Json = nlohmann::ordered_json;

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
void add_class(const std::string& name, const std::string& class_name, ModuleClasses& classes) {
  const auto [known, is_new] = classes.try_emplace(name, class_name);
  if (!is_new && known->second != class_name) known->second.clear();
}

void add_module(const Json& module, ModuleClasses& classes) {
  const std::string type = text(module, "type");  // torch.nn.modules.linear.Linear
  const std::string class_name = type.substr(type.rfind('.') + 1);
  if (class_name.empty()) return;
  add_class(text(module, "name"), class_name, classes);
  for (const Json& alias : member(module, "aliases", &Json::is_array))
    if (alias.is_string()) add_class(alias.get<std::string>(), class_name, classes);
}

}  // namespace

ModuleClasses read_module_classes(const std::filesystem::path& rank_directory) {
  ModuleClasses classes;
  const auto file = MappedFile::open(rank_directory / "model.json");
  if (!file.ok() || (*file)->bytes().size() > kLargestModelFile) return classes;
  const auto bytes = (*file)->bytes();
  const auto json = read_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json.ok()) return classes;
  for (const Json& model : member(*json, "models", &Json::is_array))
    for (const Json& module : member(model, "modules", &Json::is_array)) add_module(module, classes);
  return classes;
}

}  // namespace ttap::cli
