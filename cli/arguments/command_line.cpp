#include "cli/arguments/command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace ttap::cli {

Option Option::required() { return Option(option_->required()); }

Option Option::type_name(const std::string& name) { return Option(option_->type_name(name)); }

Option Option::show_default() { return Option(option_->capture_default_str()); }

Option Option::delimiter(char between) { return Option(option_->delimiter(between)); }

Option Option::one_value_each() { return Option(option_->allow_extra_args(false)); }

// Descriptions of validators are left empty: the help texts say in words what is accepted.
Option Option::one_of(const std::vector<std::string>& words) {
  return Option(option_->check(CLI::IsMember(words).description("")));
}

Option Option::in_range(int least, int most) { return Option(option_->check(CLI::Range(least, most).description(""))); }

Option Option::check(std::function<std::string(const std::string&)> what_is_wrong) {
  return Option(option_->check(std::move(what_is_wrong)));
}

Option Option::needs(const std::string& other) { return Option(option_->needs(other)); }

Option Option::excludes(std::initializer_list<std::string> others) {
  for (const std::string& other : others) option_->excludes(other);
  return *this;
}

Option Verb::add_option(const std::string& name, std::string& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, std::optional<std::string>& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, std::vector<std::string>& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, double& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, std::optional<double>& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, uint32_t& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, std::optional<uint32_t>& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, uint64_t& to, const std::string& help) {
  return Option(app_->add_option(name, to, help));
}

Option Verb::add_option(const std::string& name, ColorChoice& to, const std::map<std::string, ColorChoice>& choices,
                        const std::string& help) {
  const auto choose = [&to, choices](const std::string& chosen) { to = choices.at(chosen); };
  std::vector<std::string> names;
  for (const auto& [each, value] : choices) names.push_back(each);
  return Option(
      app_->add_option_function<std::string>(name, choose, help)->check(CLI::IsMember(names).description("")));
}

Option Verb::add_flag(const std::string& name, bool& to, const std::string& help) {
  return Option(app_->add_flag(name, to, help));
}

Option Verb::add_flag(const std::string& name, std::string& to, const std::string& help) {
  return Option(app_->add_flag(name, to, help));
}

void Verb::footer(const std::string& text) { app_->footer(text); }

void Verb::callback(std::function<void()> if_given) { app_->callback(std::move(if_given)); }

bool Verb::takes_value(const std::string& option) const {
  const CLI::Option* found = std::as_const(*app_).get_option_no_throw(option);
  return found != nullptr && found->get_items_expected_max() > 0;
}

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->require_subcommand(0, 1);
}

CommandLine::~CommandLine() = default;

void CommandLine::add_version_flag(const std::string& name, const std::string& version, const std::string& help) {
  app_->set_version_flag(name, version, help);
}

void CommandLine::footer(const std::string& text) { app_->footer(text); }

Verb CommandLine::add_verb(const std::string& name, const std::string& description) {
  return Verb(app_->add_subcommand(name, description));
}

Result<CommandLine::Parsed> CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    app_->exit(help_or_version);
    return Parsed::kAnswered;
  } catch (const CLI::ParseError& error) {
    return Error{.code = ErrorCode::kInvalidArgument, .message = error.what()};
  }
  return Parsed::kAccepted;
}

std::string CommandLine::given_verb() const {
  const auto given = app_->get_subcommands();
  return given.empty() ? "" : given.front()->get_name();
}

std::vector<std::string> CommandLine::verbs() const {
  std::vector<std::string> names;
  for (const CLI::App* verb : std::as_const(*app_).get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::string CommandLine::help() const { return app_->help(); }

}  // namespace ttap::cli
