#include "analyze/diff/match/ops/op_kernels.h"

#include <algorithm>
#include <limits>
#include <string>

#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "core/op_name.h"

namespace ttap {
namespace {

constexpr size_t kMostOps = 1024;  // that are looked at for one kernel
constexpr size_t kMostUsers = 64;  // of one value
constexpr uint64_t kFewestOfUnlisted =
    16;  // elements by which a value is known though the kernel's name does not mention its op
constexpr double kRounding = 1e-5;  // what is as near as this is equally near

// One side of a gap with kernels in it, the other without: the same code for both directions.
class KernelMatcher {
 public:
  KernelMatcher(OpPairing& ops, const SideOps& kernels, const SideOps& others, bool swapped)
      : ops_(ops), kernels_(kernels), others_(others), swapped_(swapped) {}

  void match(std::span<const uint32_t> with, std::span<const uint32_t> ops) {
    std::vector<Kernel> found;
    for (const uint32_t op : with)
      if (kernels_.list().ops()[op].kernel) found.push_back({.op = kernels_.list().ops()[op]});
    if (found.empty()) return;
    others_here_ = ops;
    names_.assign(ops.size(), {});
    // From the last to the first, each before what the one after it took.
    size_t end = ops.size();
    for (size_t k = found.size(); k-- > 0;) {
      found[k].text = std::string(kernels_.side().event(found[k].op.event).name) + "_";
      found[k].end = end;
      match_near(found[k]);
      end = found[k].begin;
    }
    for (size_t k = 0; k < found.size(); ++k) {
      // One of which nothing was found may have taken all since the one before it.
      if (!found[k].any) found[k].begin = k == 0 ? 0 : found[k - 1].taken;
      found[k].taken = found[k].any ? found[k].end : found[k].begin;
      match_left(found[k]);
    }
  }

 private:
  struct Kernel {
    const Op& op;
    std::string text = {};  // its name
    // Positions among the other side's ops between which those stand that went into it.
    size_t begin = 0, end = 0;
    bool any = false;  // something of them was found
    size_t taken = 0;  // behind the last op that it, or one before it, took
  };

  // Whether the kernel's name mentions an op.
  bool names(const Kernel& kernel, size_t position) {
    std::string& name = names_[position];
    if (name.empty()) name = mention_of(others_here_[position]);
    return kernel.text.find(name) != std::string::npos;
  }
  std::string mention_of(uint32_t op) const {
    const std::string called = operator_of(others_.side().event(others_.list().ops()[op].event));
    const std::string_view name = split_operator(called).name;
    const size_t begin = name.find_first_not_of('_');
    return "_" + std::string(begin == std::string_view::npos ? name : name.substr(begin)) + "_";
  }

  bool is_free(uint32_t value) const { return swapped_ ? !ops_.pairing.has_a(value) : !ops_.pairing.has_b(value); }
  bool is_free_other(uint32_t value) const {
    return swapped_ ? !ops_.pairing.has_b(value) : !ops_.pairing.has_a(value);
  }
  void join(uint32_t buffer, uint32_t value) {
    swapped_ ? ops_.join_values(buffer, value, MatchedBy::kPlace) : ops_.join_values(value, buffer, MatchedBy::kPlace);
  }
  bool is_alike(uint32_t buffer, uint32_t value) const {
    return others_.list().shape(value) == kernels_.list().shape(buffer) &&
           others_.list().is_real(value) == kernels_.list().is_real(buffer) && is_free_other(value);
  }

  // What the kernel wrote and has no counterpart. An argument that it might have written to, and did not, is left out.
  std::vector<uint32_t> left_of(const Kernel& kernel) const {
    std::vector<uint32_t> left;
    for (const uint32_t value : kernels_.list().values(kernel.op)) {
      const bool unchanged = std::ranges::any_of(kernels_.list().inputs(kernel.op), [&](uint32_t input) {
        return input != kNoTensor && kernels_.list().bits(input) != 0 &&
               kernels_.list().bits(input) == kernels_.list().bits(value);
      });
      if (!unchanged && is_free(value)) left.push_back(value);
    }
    return left;
  }

  // Joins what is near by its statistics, and finds where the kernel's ops begin.
  void match_near(Kernel& kernel) {
    kernel.begin = kernel.end;
    size_t first = kernel.end, last = 0;
    for (const uint32_t buffer : left_of(kernel)) {
      const auto [position, value] = nearest(kernel, buffer);
      if (value == kNoTensor) continue;
      join(buffer, value);
      if (!names(kernel, position)) continue;
      kernel.any = true;
      first = std::min(first, position);
      last = std::max(last, position);
    }
    if (kernel.any) kernel.begin = std::min(first, begin_of_fused(kernel, last));
  }

  // The value that is nearest to `buffer`, of ops that the kernel's name mentions or else of any; of several the last.
  std::pair<size_t, uint32_t> nearest(const Kernel& kernel, uint32_t buffer) {
    std::pair<size_t, uint32_t> best = {0, kNoTensor};
    if (!kernels_.list().is_real(buffer)) return best;
    const TensorRecord wanted = kernels_.side().tensor(buffer);
    const bool telling = kernels_.list().elements(buffer) >= kFewestOfUnlisted && !kernels_.list().is_plain(buffer);
    double least = std::numeric_limits<double>::infinity();
    bool named = false;
    const size_t begin = kernel.end - std::min(kernel.end, kMostOps);
    for (size_t i = kernel.end; i-- > begin && !(named && least == 0);) {
      const Op& op = others_.list().ops()[others_here_[i]];
      if (op.kernel || (op.copies && !(op.same && names(kernel, i)))) continue;
      for (const uint32_t value : others_.list().values(op)) {
        if (!is_alike(buffer, value)) continue;
        const bool mentioned = names(kernel, i);
        if (!mentioned && (named || !telling)) continue;
        const TensorRecord record = others_.side().tensor(value);
        if (!is_near(record, wanted)) continue;
        double distance = distance_of(record, wanted);
        if (distance < kRounding) distance = 0;
        if (named == mentioned && distance >= least) continue;
        named = mentioned;
        least = distance;
        best = {i, value};
      }
    }
    return best;
  }

  // Where the ops begin that went into the same kernel as the one at `at`: each operator that its name mentions once.
  size_t begin_of_fused(const Kernel& kernel, size_t at) {
    std::vector<uint64_t> taken = {others_.list().ops()[others_here_[at]].name};
    size_t begin = at;
    while (begin > 0) {
      const Op& op = others_.list().ops()[others_here_[begin - 1]];
      if (!op.copies && (!names(kernel, begin - 1) || std::ranges::find(taken, op.name) != taken.end())) break;
      if (!op.copies) taken.push_back(op.name);
      --begin;
    }
    return begin;
  }

  // Joins a buffer that is near to nothing, where it cannot be anything else.
  void match_left(const Kernel& kernel) {
    const std::vector<uint32_t> left = left_of(kernel);
    for (const uint32_t buffer : left) {
      const uint32_t value = only_end(kernel, buffer);
      if (value == kNoTensor || is_reordered(others_.side().tensor(value), kernels_.side().tensor(buffer))) continue;
      if (is_likeliest(left, buffer, value)) join(buffer, value);
    }
  }

  // Whether no other buffer may be the value: there is none like it, or of those that nothing is made of, as of the
  // value, this is the nearest.
  bool is_likeliest(std::span<const uint32_t> left, uint32_t buffer, uint32_t value) const {
    const TensorRecord record = others_.side().tensor(value);
    const double distance = distance_of(record, kernels_.side().tensor(buffer));
    return std::ranges::all_of(left, [&](uint32_t other) {
      if (other == buffer || !is_alike(other, value)) return true;
      if (!is_last(others_, value) || !is_last(kernels_, buffer)) return false;
      return !is_last(kernels_, other) || distance < distance_of(record, kernels_.side().tensor(other));
    });
  }

  // The only value like `buffer` of an op that the kernel's name mentions and that no other op in the kernel is given;
  // kNoTensor where there is none or are several.
  uint32_t only_end(const Kernel& kernel, uint32_t buffer) {
    uint32_t found = kNoTensor;
    const size_t begin = std::max(kernel.begin, kernel.end - std::min(kernel.end, kMostOps));
    for (size_t i = kernel.end; i-- > begin;) {
      const Op& op = others_.list().ops()[others_here_[i]];
      if (op.kernel || op.copies || !names(kernel, i)) continue;
      for (const uint32_t value : others_.list().values(op)) {
        if (!is_alike(buffer, value) || is_constant(value) || !is_end(kernel, value)) continue;
        // What an op makes beside its result, a kernel may have in another form.
        const bool result = others_.list().position_of(value) == 0;
        if (!are_given_alike(buffer, value) && !(result && is_last(kernels_, buffer) && is_last(others_, value)))
          continue;
        if (found != kNoTensor) return kNoTensor;
        found = value;
      }
    }
    return found;
  }

  bool is_constant(uint32_t value) const {
    return others_.list().is_plain(value) && others_.list().elements(value) > 1;
  }

  // Whether no op among those of the kernel was given a value or a copy of it, nor is the copy what was kept.
  bool is_end(const Kernel& kernel, uint32_t value) const {
    const uint32_t last = others_here_[kernel.end - 1];
    return !for_each_user(others_, value, [&](uint32_t user) {
      const Op& op = others_.list().ops()[user];
      if (op.copies)
        return std::ranges::any_of(others_.list().values(op), [&](uint32_t v) { return !is_free_other(v); });
      return user <= last && kernel.text.find(mention_of(user)) != std::string::npos;
    });
  }

  // Whether both are given to the same operator, outside kernels.
  bool are_given_alike(uint32_t buffer, uint32_t value) const {
    for (const uint32_t one : kernels_.uses().of(buffer))
      for (const uint32_t other : others_.uses().of(value))
        if (!kernels_.list().ops()[one].kernel && kernels_.list().ops()[one].name == others_.list().ops()[other].name)
          return true;
    return false;
  }

  // Whether a value is left in the end: nothing is made of it but copies.
  static bool is_last(const SideOps& ops, uint32_t value) {
    return !for_each_user(ops, value, [&](uint32_t user) { return !ops.list().ops()[user].copies; });
  }

  // Visits the ops that were given a value or a copy of it, until visit() says that it is found; whether it was.
  template <class Visit>
  static bool for_each_user(const SideOps& ops, uint32_t value, Visit&& visit) {
    std::vector<uint32_t> values = {value};
    for (size_t next = 0; next < values.size() && next < kMostUsers; ++next)
      for (const uint32_t user : ops.uses().of(values[next])) {
        if (visit(user)) return true;
        const Op& op = ops.list().ops()[user];
        if (!op.copies) continue;
        for (const uint32_t copy : ops.list().values(op)) values.push_back(copy);
      }
    return false;
  }

  OpPairing& ops_;
  const SideOps& kernels_;
  const SideOps& others_;
  const bool swapped_;
  std::span<const uint32_t> others_here_;  // the other side's ops in the gap
  std::vector<std::string> names_;         // how a kernel's name would mention each; empty before it was asked for
};

}  // namespace

void match_kernels(OpPairing& ops) {
  KernelMatcher in_b(ops, ops.listed_b, ops.listed_a, false), in_a(ops, ops.listed_a, ops.listed_b, true);
  ops.for_each_gap([&](const OpPairing::Gap& gap) {
    in_b.match(gap.b, gap.a);
    in_a.match(gap.a, gap.b);
  });
}

}  // namespace ttap
