#include "fingerprint/byte_histogram.h"

#include <cmath>
#include <cstring>

#include "core/element.h"
#include "ttap/result.h"

namespace ttap {
namespace {

// Below this, setting up the tables costs more than it saves.
constexpr size_t kPlainBytes = 1024;
constexpr size_t kTables = 4;
// Pieces that keep the 32-bit counters of one table from overflowing.
constexpr size_t kMaxPiece = size_t{1} << 30;

// By the format's own rule: no exponent, and some mantissa.
bool is_subnormal(DType dtype, uint32_t code) {
  switch (dtype) {
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ: return (code & 0x78) == 0 && (code & 0x07) != 0;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return (code & 0x7C) == 0 && (code & 0x03) != 0;
    case DType::kF4E2M1FNx2: return (code & 0x7) == 1;
    default: return false;
  }
}

// What each code (a byte, or half a byte for packed f4) stands for.
struct CodeTable {
  size_t size = 0;
  std::array<double, 256> value = {};
  std::array<bool, 256> subnormal = {};
};

CodeTable make_table(DType dtype) {
  CodeTable table;
  table.size = dtype == DType::kF4E2M1FNx2 ? 16 : 256;
  for (size_t code = 0; code < table.size; ++code) {
    // As long as the longest element, which is what the compiler sees value_of() read.
    const uint8_t element[16] = {static_cast<uint8_t>(code)};
    table.value[code] = value_of(dtype, element);
    table.subnormal[code] = is_subnormal(dtype, element[0]);
  }
  return table;
}

const CodeTable& code_table(DType dtype) {
  static const auto tables = [] {
    std::array<CodeTable, std::size(kAllDTypes) + 1> made;
    for (DType each : kAllDTypes)
      if (size_of(each) == 1) made[static_cast<size_t>(each)] = make_table(each);
    return made;
  }();
  return tables[static_cast<size_t>(dtype)];
}

}  // namespace

void ByteHistogram::add(const std::byte* data, size_t bytes) {
  while (bytes > kMaxPiece) {
    add(data, kMaxPiece);
    data += kMaxPiece;
    bytes -= kMaxPiece;
  }
  size_t i = 0;
  if (bytes >= kPlainBytes) {
    // Equal neighbours would wait for each other in a single table.
    uint32_t table[kTables][256] = {};
    for (; i + 8 <= bytes; i += 8) {
      uint64_t word;
      std::memcpy(&word, data + i, sizeof word);
#pragma GCC unroll 8
      for (size_t k = 0; k < 8; ++k) ++table[k % kTables][(word >> (8 * k)) & 0xFF];
    }
    for (size_t code = 0; code < 256; ++code)
      for (size_t k = 0; k < kTables; ++k) counts_[code] += table[k][code];
  }
  for (; i < bytes; ++i) ++counts_[static_cast<uint8_t>(data[i])];
}

void ByteHistogram::merge(const ByteHistogram& other) {
  for (size_t code = 0; code < 256; ++code) counts_[code] += other.counts_[code];
}

StatsPart ByteHistogram::stats(DType dtype) const {
  TTAP_CHECK(size_of(dtype) == 1);
  const CodeTable& table = code_table(dtype);
  std::array<uint64_t, 256> halves = {};
  if (dtype == DType::kF4E2M1FNx2) {
    for (size_t code = 0; code < 256; ++code) {
      halves[code & 0xF] += counts_[code];
      halves[code >> 4] += counts_[code];
    }
  }
  const auto& counts = dtype == DType::kF4E2M1FNx2 ? halves : counts_;

  StatsPart part;
  double sum = 0;
  for (size_t code = 0; code < table.size; ++code) {
    const uint64_t count = counts[code];
    if (count == 0) continue;
    const double value = table.value[code];
    if (std::isnan(value)) {
      part.nan += count;
    } else if (std::isinf(value)) {
      (value > 0 ? part.pos_inf : part.neg_inf) += count;
    } else {
      const double magnitude = std::fabs(value);
      part.finite += count;
      if (value < part.min) part.min = value;
      if (value > part.max) part.max = value;
      if (magnitude == 0)
        part.zeros += count;
      else if (magnitude < part.min_abs_nonzero)
        part.min_abs_nonzero = magnitude;
      if (table.subnormal[code]) part.subnormals += count;
      part.l1 += magnitude * static_cast<double>(count);
      sum += value * static_cast<double>(count);
    }
  }
  if (part.finite == 0) return part;
  const double near_mean = sum / static_cast<double>(part.finite);
  double distance = 0;
  for (size_t code = 0; code < table.size; ++code) {
    const double offset = table.value[code] - near_mean;
    if (counts[code] == 0 || !std::isfinite(offset)) continue;
    distance += offset * static_cast<double>(counts[code]);
    part.m2 += offset * offset * static_cast<double>(counts[code]);
  }
  set_mean(part, near_mean, distance / static_cast<double>(part.finite));
  return part;
}

}  // namespace ttap
