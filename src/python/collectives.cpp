#include "python/collectives.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyze/collectives/pass_collectives.h"
#include "python/text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

// With the passes that it reads.
struct HeldCollectives {
  std::vector<nb::object> passes;
  std::unique_ptr<PassCollectives> of;
};

HeldCollectives open_collectives(const std::vector<std::pair<uint32_t, nb::object>>& ranks) {
  HeldCollectives held;
  std::vector<RankPass> read;
  for (const auto& [rank, pass] : ranks) {
    held.passes.push_back(pass);
    read.push_back({.rank = rank, .pass = &nb::cast<const Pass&>(pass)});
  }
  held.of = std::make_unique<PassCollectives>(std::move(read));
  return held;
}

nb::object call_as_dict(const HeldCollectives& self, size_t part, uint32_t event) {
  const CollectiveCall* call = self.of->at(part, event);
  if (call == nullptr) return nb::none();
  nb::dict result;
  result["event"] = call->event;
  result["text"] = text(call_text(*call));
  result["group_rank"] = call->group_rank;
  result["group_size"] = call->group_size;
  return result;
}

// What one rank gave: (group_rank, part, event, tensors, missing); a tensor is (path, record).
nb::tuple given_as_tuple(const GivenByRank& given) {
  nb::list tensors;
  for (const ContributedTensor& each : given.tensors)
    tensors.append(nb::make_tuple(text(each.path), number_or_none(each.record)));
  const nb::object part = given.from.part ? nb::object(nb::int_(*given.from.part)) : nb::none();
  const nb::object event = given.from.call == nullptr ? nb::none() : nb::object(nb::int_(given.from.call->event));
  return nb::make_tuple(given.from.group_rank, part, event, tensors, text(given.from.missing));
}

}  // namespace

void init_collectives(nb::module_& m) {
  nb::class_<HeldCollectives>(m, "PassCollectives", "The collectives of one pass on all its ranks.")
      .def_static("open", &open_collectives, "ranks"_a, "Of the passes of several ranks, each with the rank's number.")
      .def("call", &call_as_dict, "part"_a, "event"_a)
      .def(
          "given_to",
          [](const HeldCollectives& self, size_t part, uint32_t event, nb::str path) {
            const GivenByRanks found = self.of->given_to(part, event, bytes_of(path));
            nb::list ranks;
            for (const GivenByRank& each : found.ranks) ranks.append(given_as_tuple(each));
            return nb::make_tuple(text(found.problem), ranks);
          },
          "part"_a, "event"_a, "path"_a)
      .def(
          "held_results",
          [](const HeldCollectives& self, size_t part) {
            nb::list held;
            for (const HeldResult& each : self.of->held_results(part))
              held.append(nb::make_tuple(each.record, each.result.event, text(each.result.path)));
            return held;
          },
          "part"_a);
}

}  // namespace ttap::python
