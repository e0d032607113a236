// Large blobs that go round the page cache: the same file comes out, and what cannot be written is taken back.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/mix64.h"
#include "scratch.h"
#include "store/segment/segment_writer.h"
#include "ttap/fingerprint.h"
#include "ttap/run.h"

namespace ttap {
namespace {

using namespace std::chrono_literals;

// Bytes on a page of their own, as the staging memory has them.
class Blob {
 public:
  Blob(size_t size, uint64_t seed)
      : memory_(static_cast<std::byte*>(
            std::aligned_alloc(kDirectAlignment, size + 2 * kDirectAlignment - size % kDirectAlignment))),
        shape_{static_cast<int64_t>(size)} {
    for (size_t i = 0; i < size; ++i) memory_.get()[i] = static_cast<std::byte>(mix64(seed + i / 8) >> (i % 8 * 8));
  }
  std::span<const std::byte> bytes() const { return {memory_.get(), static_cast<size_t>(shape_[0])}; }
  TensorRecord record(std::string_view name) const {
    TensorRecord record;
    record.name = name;
    record.dtype = DType::kU8;
    record.shape = shape_;
    record.byte_count = bytes().size();
    record.has_fingerprint = record.has_bytes = true;
    record.fingerprint = fingerprint({memory_.get(), DType::kU8, shape_, {}});
    return record;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<int64_t> shape_;
};

constexpr size_t kSizes[] = {kDirectBytes - 1,       kDirectBytes,        100, kDirectBytes + 1,
                             kDirectBytes + 63,      kDirectBytes + 4096, 0,   64,
                             3 * kDirectBytes + 4095};

// Every size, two to a flush, then one in pieces. Returns how much went directly.
uint64_t write_sizes(const std::filesystem::path& path, DiskPace* pace) {
  auto writer = SegmentWriter::create(path, 0, 0, "{}", {.deduplicate = false, .pace = pace});
  EXPECT_TRUE(writer.ok());
  std::vector<Blob> blobs;
  for (const size_t size : kSizes) blobs.emplace_back(size, size);
  for (size_t i = 0; i < blobs.size(); ++i) {
    writer->add_tensor(blobs[i].record("x" + std::to_string(i)), 0, blobs[i].bytes());
    if (i % 2 == 1) {
      EXPECT_FALSE(writer->flush().error);
    }
  }
  EXPECT_FALSE(writer->flush().error);
  const Blob large(2 * kDirectBytes + 777, 7);
  EXPECT_TRUE(writer->begin_large(large.bytes().size()).ok());
  EXPECT_TRUE(writer->write_large(large.bytes().first(kDirectBytes)).ok());
  EXPECT_TRUE(writer->write_large(large.bytes().subspan(kDirectBytes)).ok());
  writer->add_tensor_of_large(large.record("large"), 0);
  EXPECT_FALSE(writer->flush().error);
  const uint64_t direct = writer->direct_bytes();
  EXPECT_TRUE(writer->finish("{}", {}).ok());
  return direct;
}

void expect_all_readable(const std::filesystem::path& path) {
  const auto pass = Pass::open(path);
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().problem, "");
  ASSERT_EQ(pass->tensor_count(), std::size(kSizes) + 1);
  for (size_t i = 0; i < pass->tensor_count(); ++i) {
    const auto view = pass->read(i);  // checks the hash
    ASSERT_TRUE(view.ok()) << view.error().describe();
    if (byte_count(*view) >= kDirectBytes) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % kDirectAlignment, 0u);
    }
  }
}

TEST(DirectWrite, MakesTheSameFileAsTheCache) {
  const ScratchDirectory scratch;
  DiskPace always(DiskPace::Rule::kAlways);
  const uint64_t direct = write_sizes(scratch / "direct.ttap", &always);
  EXPECT_EQ(write_sizes(scratch / "buffered.ttap", nullptr), 0u);
  expect_all_readable(scratch / "direct.ttap");
  EXPECT_EQ(read_file(scratch / "direct.ttap"), read_file(scratch / "buffered.ttap"));
  // All whole pages of the large ones; where the file system refuses, none.
  EXPECT_TRUE(direct == 0 || direct == 9 * kDirectBytes + 4096) << direct;
}

TEST(DirectWrite, AFileSystemThatRefusesIsWrittenThroughTheCache) {
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "disk");
  // ramfs knows nothing of it; tmpfs did not for a long time.
  if (::mount("ramfs", (scratch / "disk").c_str(), "ramfs", 0, nullptr) != 0)
    GTEST_SKIP() << "skipped: mounting a ramfs needs root";
  DiskPace always(DiskPace::Rule::kAlways);
  EXPECT_EQ(write_sizes(scratch / "disk/x.ttap", &always), 0u);
  expect_all_readable(scratch / "disk/x.ttap");
  ::umount2((scratch / "disk").c_str(), MNT_DETACH);
}

TEST(DirectWrite, WorksInSharedMemoryToo) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "skipped: no /dev/shm";
  std::string pattern = "/dev/shm/ttap-test-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  DiskPace always(DiskPace::Rule::kAlways);
  write_sizes(std::filesystem::path(pattern) / "x.ttap", &always);
  expect_all_readable(std::filesystem::path(pattern) / "x.ttap");
  std::filesystem::remove_all(pattern);
}

TEST(DirectWrite, WhatCannotBeWrittenIsTakenBack) {
  const ScratchDirectory scratch;
  DiskPace always(DiskPace::Rule::kAlways);
  auto writer = SegmentWriter::create(scratch / "pass00000.ttap", 0, 0, "{}", {.pace = &always});
  ASSERT_TRUE(writer.ok());
  const Blob first(2 * kDirectBytes + 5, 1), second(4 * kDirectBytes, 2), third(2 * kDirectBytes, 3);
  writer->add_tensor(first.record("first"), 0, first.bytes());
  ASSERT_FALSE(writer->flush().error);
  const uint64_t sound = writer->file_bytes();

  // A file may not grow any further than into the second blob.
  ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{sound + 2 * kDirectBytes + 512, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  writer->add_tensor(second.record("second"), 0, second.bytes());
  const auto outcome = writer->flush();
  ASSERT_TRUE(writer->begin_large(second.bytes().size()).ok());
  EXPECT_FALSE(writer->write_large(second.bytes()).ok());
  const uint64_t size = std::filesystem::file_size(scratch / "pass00000.ttap.incomplete");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);

  EXPECT_TRUE(outcome.error);
  EXPECT_EQ(outcome.tensors_without_bytes, 1u);
  EXPECT_EQ(outcome.tensors_lost, 0u);
  EXPECT_EQ(size, writer->file_bytes());
  EXPECT_LT(size, sound + 4096) << "only the row is there";
  writer->add_tensor(third.record("third"), 0, third.bytes());
  ASSERT_FALSE(writer->flush().error);
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  const auto pass = Pass::open(scratch / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  ASSERT_EQ(pass->tensor_count(), 3u);
  EXPECT_TRUE(pass->read(0).ok());
  EXPECT_FALSE(pass->tensor(1).has_bytes);
  EXPECT_TRUE(pass->read(2).ok());
}

TEST(DiskPace, ASlowDiskIsLeftToTheCacheUnlessToldOtherwise) {
  DiskPace pace(DiskPace::Rule::kWhileFast);
  DiskPace always(DiskPace::Rule::kAlways);
  const auto write = [&](std::chrono::milliseconds time) {
    for (DiskPace* each : {&pace, &always})
      for (int i = 0; i < 4; ++i) each->took(DiskPace::kWindowBytes / 4, time / 4);
  };
  write(100ms);
  EXPECT_TRUE(pace.direct());
  write(240ms);
  EXPECT_TRUE(pace.direct()) << "0.56 GB/s is fast";
  write(300ms);
  EXPECT_FALSE(pace.direct()) << "0.45 GB/s is not";
  EXPECT_TRUE(always.direct());
  pace.left_to_cache(DiskPace::kRestBytes - 1);
  EXPECT_FALSE(pace.direct());
  pace.left_to_cache(1);
  EXPECT_TRUE(pace.direct()) << "and is asked again";
  write(300ms);
  EXPECT_FALSE(pace.direct());
}

}  // namespace
}  // namespace ttap
