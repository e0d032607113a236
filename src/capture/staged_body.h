#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>

#include "capture/staging_ring.h"
#include "store/segment/segment_file.h"
#include "ttap/record.h"

namespace ttap {

// Lays out spans and texts behind a struct in a ring record's body.
class BodyWriter {
 public:
  BodyWriter(StagingRing::Record* record, size_t struct_bytes) : at_(record->body() + struct_bytes) {}
  std::span<const int64_t> put(std::span<const int64_t> numbers) {
    auto* start = reinterpret_cast<int64_t*>(put_bytes(numbers.data(), numbers.size_bytes()));
    return {start, numbers.size()};
  }
  // The views in them still have to be put.
  std::span<Use> put(std::span<const Use> uses) {
    static_assert(std::is_trivially_copyable_v<Use> && alignof(Use) <= sizeof(int64_t));
    return {reinterpret_cast<Use*>(put_bytes(uses.data(), uses.size_bytes())), uses.size()};
  }
  std::string_view put(std::string_view text) {
    return {reinterpret_cast<char*>(put_bytes(text.data(), text.size())), text.size()};
  }
  std::byte* align_to(size_t alignment) {
    const auto address = reinterpret_cast<uintptr_t>(at_);
    return at_ += (alignment - address % alignment) % alignment;
  }

 private:
  std::byte* put_bytes(const void* from, size_t size) {
    std::byte* start = align_to(sizeof(int64_t));
    if (size > 0) std::memcpy(start, from, size);
    at_ = start + size;
    return start;
  }
  std::byte* at_;
};

// What a payload of `bytes` must be aligned to: a large one so that it can go to the disk from where it lies.
inline size_t payload_alignment(uint64_t bytes) {
  return bytes < kDirectBytes ? StagingRing::kAlignment : kDirectAlignment;
}

// Room for a struct, what BodyWriter puts behind it, and an aligned payload.
inline uint64_t body_bytes(size_t struct_bytes, std::initializer_list<size_t> parts, uint64_t payload = 0) {
  uint64_t total = struct_bytes;
  for (size_t part : parts) total += part + sizeof(int64_t);
  return payload == 0 ? total : total + payload_alignment(payload) + payload;
}

}  // namespace ttap
