#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

namespace ttap {

// Memory that is taken in pieces and given back as a whole. Pieces have been touched already: page by page, the first
// touch of new memory would cost more than everything else that is done for a row.
class RowMemory {
 public:
  RowMemory() = default;
  ~RowMemory();
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  // Whole pages. Throws std::bad_alloc.
  std::byte* take(size_t bytes);

 private:
  struct Extent {
    std::byte* begin;
    size_t size;
  };
  std::vector<Extent> extents_;
  std::byte* next_ = nullptr;  // in the last one
  size_t left_ = 0;
};

// Rows of which one can only append more, in blocks: nothing is copied when they grow.
template <class Row>
class RowBlocks {
  static_assert(std::is_trivially_copyable_v<Row> && std::is_trivially_destructible_v<Row>);

 public:
  explicit RowBlocks(RowMemory& memory) : memory_(memory) {}

  // The new row: whoever fills it where it lies need not copy it.
  Row& append() {
    if (next_ == end_) grow();
    ++size_;
    return *next_++;
  }
  size_t size() const { return size_; }
  const Row& operator[](size_t index) const { return blocks_[index / kRows][index % kRows]; }
  Row& operator[](size_t index) { return blocks_[index / kRows][index % kRows]; }

 private:
  static constexpr size_t kRows = 1024;

  void grow() {
    blocks_.push_back(reinterpret_cast<Row*>(memory_.take(kRows * sizeof(Row))));
    next_ = blocks_.back();
    end_ = next_ + kRows;
  }

  RowMemory& memory_;
  std::vector<Row*> blocks_;
  Row* next_ = nullptr;
  Row* end_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ttap
