#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

// What the two programs say differently without a tensor: numbers, words and switches.
namespace ttap {

// One setting of two matched modules, one argument of two matched calls of an operator, one setting with which an
// optimizer updates parameters of the same names, or the precision in which PyTorch lets a call multiply f32, that is
// not the same.
struct SettingDiff {
  std::string call_a = {}, call_b = {};      // names of the modules, or keys of the calls
  std::string name = {};                     // "eps", "alpha", "argument 2"
  std::string a = {}, b = {};                // as Python writes it; empty where that side does not have it
  std::vector<std::string> parameters = {};  // of an optimizer's: which it updates so
  bool of_operator = false;                  // it is an argument

  std::string text() const;  // "eps is 1e-06 in A and 1e-05 in B"
  // Whether it changes what is computed. Numbers do; a word of a module may be another way to the same. A word among
  // the arguments of an operator (`approximate='tanh'`) changes it too, and a side that does not have it takes the
  // default. Numbers have defaults that are no number: the scale of attention.
  bool changes_result() const;
};

// Of every pair of calls that has a matched tensor, in the order of the tensors, each once. A setting that only one of
// two modules has counts only where both are of one class; arguments only where both call one operator.
std::vector<SettingDiff> differing_settings(const Side& a, const Side& b, std::span<const TensorDiff> tensors);

}  // namespace ttap
