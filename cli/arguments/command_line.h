#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/text/terminal.h"
#include "ttap/result.h"

// The command line: verbs, their options, and the parser, which is CLI11. Including that costs seconds of compile time,
// so only command_line.cpp does; the verbs use these plain functions.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ttap::cli {

// An option, flag or positional argument of a verb. A handle, valid as long as the CommandLine; each property returns
// it again, for the next one.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option type_name(const std::string& name);  // what the help calls the value: DIR; empty: nothing
  Option show_default();                      // in the help: the value that the variable has now

  // Of a vector.
  Option delimiter(char between);  // one word may hold several values
  Option one_value_each();         // the option is repeated for each value, so a positional argument may follow

  // Which values are accepted. The function returns what is wrong with a value, or an empty string.
  Option one_of(const std::vector<std::string>& words);
  Option in_range(int least, int most);
  Option check(std::function<std::string(const std::string&)> what_is_wrong);

  // Other options of the same verb, which must have been added before.
  Option needs(const std::string& other);
  Option excludes(std::initializer_list<std::string> others);

 private:
  CLI::Option* option_;
};

// A subcommand, as `ls` in `ttap ls`. A handle, valid as long as the CommandLine.
class Verb {
 public:
  explicit Verb(CLI::App* app) : app_(app) {}

  // A name is "--limit", "-o,--output", or "RUN" for a positional argument. The parser writes to `to`, which keeps its
  // value when the option is not given; it must outlive the parsing.
  Option add_option(const std::string& name, std::string& to, const std::string& help);
  Option add_option(const std::string& name, std::optional<std::string>& to, const std::string& help);
  Option add_option(const std::string& name, std::vector<std::string>& to, const std::string& help);
  Option add_option(const std::string& name, double& to, const std::string& help);
  Option add_option(const std::string& name, std::optional<double>& to, const std::string& help);
  Option add_option(const std::string& name, uint32_t& to, const std::string& help);
  Option add_option(const std::string& name, std::optional<uint32_t>& to, const std::string& help);
  Option add_option(const std::string& name, uint64_t& to, const std::string& help);
  Option add_option(const std::string& name, ColorChoice& to, const std::map<std::string, ColorChoice>& choices,
                    const std::string& help);

  Option add_flag(const std::string& name, bool& to, const std::string& help);
  // "true" of --flag, "word" of --flag=word.
  Option add_flag(const std::string& name, std::string& to, const std::string& help);

  void footer(const std::string& text);           // of the help
  void callback(std::function<void()> if_given);  // called when the verb is given and its options are accepted

  bool takes_value(const std::string& option) const;  // false of a flag, and of what is no option

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void add_version_flag(const std::string& name, const std::string& version, const std::string& help);
  void footer(const std::string& text);
  Verb add_verb(const std::string& name, const std::string& description);

  enum class Parsed : uint8_t {
    kAccepted,  // the callback of the given verb has been called; there may be none
    kAnswered,  // --help or --version was given, and has been printed
  };
  // Fails, with a message alone, when the arguments are not what was declared.
  Result<Parsed> parse(int argc, const char* const* argv);

  std::string given_verb() const;          // as far as it was parsed; empty: none
  std::vector<std::string> verbs() const;  // their names, in the order they were added
  std::string help() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace ttap::cli
