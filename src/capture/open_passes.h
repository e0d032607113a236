#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "capture/name_table.h"
#include "ttap/record.h"

namespace ttap {

// A pass between its begin and its end, as those who capture see it.
class OpenPass {
 public:
  explicit OpenPass(uint64_t start) : start_ns(start) {}

  const uint64_t start_ns;  // on the steady clock
  DropCounts drops = {};    // what did not reach the ring

  uint32_t next_event() { return events_++; }
  // The number of this call within the pass: from 1; calls done again are counted apart.
  uint32_t next_call(const NameEntry& entry, bool again);

 private:
  uint32_t events_ = 0;
  // By NameEntry::index.
  std::vector<uint32_t> calls_;
  std::vector<uint32_t> calls_again_;
};

// The passes that are open, with their numbers. Guarded by the ring's lock, which makes it agree with the order of the
// records: a record of a pass stands between the records of its begin and its end.
class OpenPasses {
 public:
  explicit OpenPasses(uint32_t first_number) : next_(first_number) {}

  uint32_t open(uint64_t start_ns);
  uint32_t open_as_current(uint64_t start_ns);  // there must be none
  uint32_t skip() { return next_++; }
  // What was dropped in it; nothing when it was not open.
  std::optional<DropCounts> close(uint32_t number);

  std::optional<uint32_t> current() const { return current_; }
  std::vector<uint32_t> numbers() const;
  struct Found {
    uint32_t number = 0;
    OpenPass* pass = nullptr;  // null: not open
  };
  // By its number, or the current one.
  Found find(std::optional<uint32_t> number);

  // In the pass that find() gave, if any, and in the sum.
  void count_drop(const Found& where, uint64_t DropCounts::*cause, uint64_t count);
  const DropCounts& all_drops() const { return all_drops_; }

 private:
  uint32_t next_;
  std::optional<uint32_t> current_;
  std::map<uint32_t, OpenPass> open_;
  DropCounts all_drops_;  // of all passes that ever were, and of none
};

}  // namespace ttap
