#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

// The bytes of a segment file. docs/format.md is the normative text; this is its only other definition.
namespace ttap::format {

static_assert(std::endian::native == std::endian::little, "segment files are little-endian and read in place");

inline constexpr uint64_t kAlignment = 64;
inline constexpr uint64_t align_up(uint64_t n) { return (n + kAlignment - 1) & ~(kAlignment - 1); }

inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 4;

// At offset 0.
struct FileHeader {
  char magic[8];           // kFileMagic
  uint16_t version_major;  // a reader refuses a larger one
  uint16_t version_minor;  // a reader ignores what it does not know
  uint32_t pass_number;
  uint64_t started_unix_ns;
  uint8_t reserved[36];  // zero
  uint32_t crc;          // CRC-32C of the 60 bytes before it
};
inline constexpr char kFileMagic[8] = {'T', 'T', 'A', 'P', 'S', 'E', 'G', '\n'};

enum class FrameType : uint16_t {
  kBegin = 1,      // JSON: what the recorder knew when the pass began
  kStrings = 2,    // interned byte strings: { StringHeader, bytes, zeros up to a multiple of 8 }…, numbered on from 1
  kEvents = 3,     // EventRow…
  kTensors = 4,    // TensorRow…
  kBlobs = 5,      // tensor bytes, each blob on a multiple of 64; no checksum: the rows hold the hashes
  kEnd = 6,        // JSON: how the pass ended and what was dropped
  kIndex = 7,      // IndexRow…
  kCalls = 8,      // CallRow…; since 1.1
  kUses = 9,       // UseRow…, numbered on from 0 through the file; since 1.1
  kGroups = 10,    // GroupRow…; since 1.2
  kSketches = 12,  // SketchRow…; since 1.4. 11 is that of 1.3, whose sketches are others, and is not read
};

inline constexpr uint64_t kMaxEndBytes = 64 << 10;

// At every multiple of 64 where a frame begins; its payload follows at once, padded with zeros to 64.
struct FrameHeader {
  uint32_t magic;  // kFrameMagic
  uint16_t type;
  uint16_t reserved0;
  uint64_t payload_bytes;
  uint32_t payload_crc;  // CRC-32C; 0 for kBlobs
  uint32_t row_count;    // of every type that has rows; else 0
  uint8_t reserved[36];
  uint32_t header_crc;  // CRC-32C of the 60 bytes before it
};
inline constexpr uint32_t kFrameMagic = 0x4D524654;  // "TFRM"

struct StringHeader {
  uint32_t length;
  uint32_t reserved;
};
inline constexpr uint64_t string_entry_bytes(uint64_t length) {
  return sizeof(StringHeader) + ((length + 7) & ~uint64_t{7});
}

struct EventRow {
  uint32_t name;  // numbers of strings; 0 is the empty string
  uint32_t kind;
  uint32_t call;
  uint32_t parent;  // number of an event, 0xFFFFFFFF for none
  uint32_t stack;
  uint32_t reserved;
  uint64_t thread;
  uint64_t time_ns;
};

// The end of an event; at most one per event, and after it.
struct CallRow {
  uint32_t event;
  uint32_t arguments;  // numbers of strings
  uint32_t results;
  uint32_t notes;
  uint32_t forward;    // number of an earlier event, 0xFFFFFFFF for none
  uint32_t first_use;  // its uses come before it, are contiguous, and belong to no other call
  uint32_t use_count;
  uint32_t reserved;
  uint64_t duration_ns;
};

enum UseFlags : uint32_t { kWritten = 1 };

struct UseRow {
  uint32_t role;  // numbers of strings
  uint32_t path;
  uint32_t tensor;  // 0xFFFFFFFF for none
  uint32_t value;   // TensorRow::value of a row of this file, before or after; 0 for none
  uint32_t flags;
  uint32_t reserved;
};

enum TensorFlags : uint8_t {
  kHasFingerprint = 1,
  kHasBytes = 2,
  kElsewhere = 4,  // its bytes are in another pass of the rank, and not here; since 1.2
};

struct TensorRow {
  uint32_t name;
  uint32_t call;
  uint32_t role;
  uint32_t path;
  uint32_t event;  // number of an event, 0xFFFFFFFF for none
  uint32_t device;
  uint32_t shape;    // a string holding int64 dimensions; the empty string is 0-d
  uint32_t strides;  // likewise; the empty string is C order
  uint8_t dtype;
  uint8_t level;
  uint8_t flags;
  uint8_t reserved0;
  uint32_t value;  // unique in the file, 0 for none; since 1.1
  uint64_t time_ns;
  uint64_t byte_count;   // of the logical tensor
  uint64_t blob_offset;  // from the start of the file; with kElsewhere the number of the pass; else 0
  uint64_t hash_low;
  uint64_t hash_high;
  uint64_t count, nan, pos_inf, neg_inf, zeros, subnormals;
  double min, max, max_abs, min_abs_nonzero, mean, std, l1, l2;
};

// A tensor row that stands for the values of a quantized tensor. In the order of the tensor rows, after theirs.
struct GroupRow {
  uint32_t tensor;       // number of the tensor row, from 0 through the file
  uint32_t description;  // a string that holds JSON
};

// The sketch of a tensor row's fingerprint. In the order of the tensor rows, after theirs.
struct SketchRow {
  uint32_t tensor;  // number of the tensor row, from 0 through the file
  uint32_t reserved;
  double buckets[32];
};

struct IndexRow {
  uint64_t offset;  // of the frame header
  uint16_t type;
  uint16_t reserved0;
  uint32_t reserved1;
};

// The last 64 bytes of a finished file.
struct Trailer {
  char magic[8];  // kTrailerMagic
  uint64_t index_offset;
  uint64_t file_bytes;
  uint8_t reserved[36];
  uint32_t crc;  // CRC-32C of the 60 bytes before it
};
inline constexpr char kTrailerMagic[8] = {'T', 'T', 'A', 'P', 'E', 'N', 'D', '\n'};

static_assert(sizeof(FileHeader) == 64 && sizeof(FrameHeader) == 64 && sizeof(Trailer) == 64);
static_assert(sizeof(EventRow) == 40 && sizeof(TensorRow) == 192 && sizeof(IndexRow) == 16);
static_assert(sizeof(CallRow) == 40 && sizeof(UseRow) == 24 && sizeof(GroupRow) == 8);
static_assert(sizeof(SketchRow) == 264);

}  // namespace ttap::format
