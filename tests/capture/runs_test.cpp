// A directory that is recorded into several times: which run a recorder takes, and which one a reader.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>

#include "capture/recording.h"
#include "core/json.h"
#include "scratch.h"
#include "store/files/mapped_file.h"

namespace ttap {
namespace {
namespace fs = std::filesystem;

// Records one pass as a rank of a launch; which run that was.
uint32_t record_run(RecorderOptions options, float value = 0) {
  auto recorder = Recorder::create(options);
  EXPECT_TRUE(recorder.ok()) << recorder.error().describe();
  (*recorder)->begin_pass();
  (*recorder)->capture("x", view_of(eight(value)));
  EXPECT_TRUE((*recorder)->close().ok());
  return (*recorder)->run_number();
}

float first_value(const fs::path& path) {
  const auto run = Run::open(path).value();
  const Pass pass = Pass::open(run.ranks.at(0).passes.at(0).path).value();
  return values_of(pass, {.name = "x"}).at(0);
}

TEST(Runs, ADirectoryThatHoldsARunGetsANewOneBesideIt) {
  const ScratchDirectory scratch;
  for (uint32_t number : {1u, 2u, 3u})
    EXPECT_EQ(record_run({.directory = scratch.path()}, static_cast<float>(number)), number);
  const auto newest = Run::open(scratch.path()).value();
  EXPECT_EQ(newest.path, scratch / "run00003");
  EXPECT_EQ(newest.number, 3u);
  EXPECT_EQ(newest.runs, 3u);
  EXPECT_EQ(newest.ranks.size(), 1u);
  EXPECT_EQ(first_value(scratch.path()), 3);
  EXPECT_EQ(first_value(scratch / "run00002"), 2);
  EXPECT_EQ(Run::open(scratch / "run00002")->number, 2u);
  EXPECT_EQ(Run::open(scratch / "run00002/")->runs, 3u);
  EXPECT_EQ(first_value(scratch / "run00001"), 1) << "which is no folder: its ranks lie in the directory";
  const auto runs = runs_in(scratch.path()).value();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].path, scratch / "run00001");
  EXPECT_EQ(Run::open(scratch / "run00004").error().code, ErrorCode::kNotFound);
}

TEST(Runs, OneRunLooksAsItAlwaysDid) {
  const ScratchDirectory scratch;
  EXPECT_EQ(record_run({.directory = scratch.path()}), 1u);
  const auto run = Run::open(scratch.path()).value();
  EXPECT_EQ(run.path, scratch.path());
  EXPECT_EQ(run.runs, 1u);
  EXPECT_EQ(run.ranks.at(0).path.parent_path(), scratch.path());
}

TEST(Runs, FoldersThatAreNoRunsAreNotTakenForOne) {
  const ScratchDirectory scratch;
  record_run({.directory = scratch.path()});
  record_run({.directory = scratch / "run2"});  // a name of the user's
  fs::create_directory(scratch / "run00007");   // nothing was recorded there
  std::ofstream(scratch / "run00008") << "not a folder";
  const auto run = Run::open(scratch.path()).value();
  EXPECT_EQ(run.number, 1u);
  EXPECT_EQ(run.runs, 1u);
  EXPECT_EQ(record_run({.directory = scratch.path()}), 9u) << "a number that somebody has is not given out again";
}

TEST(Runs, TheNewestCanBeAppendedToAndOneBeNamed) {
  const ScratchDirectory scratch;
  EXPECT_EQ(record_run({.directory = scratch.path(), .append = true}), 1u);
  EXPECT_EQ(record_run({.directory = scratch.path()}), 2u);
  EXPECT_EQ(record_run({.directory = scratch.path(), .append = true}), 2u);
  EXPECT_EQ(Run::open(scratch.path())->ranks.at(0).passes.size(), 2u);
  EXPECT_EQ(record_run({.directory = scratch.path(), .run = 1}), 1u);
  EXPECT_EQ(Run::open(scratch / "run00001")->ranks.at(0).passes.size(), 2u);
}

TEST(Runs, RanksOfOneLaunchRecordIntoTheSame) {
  const ScratchDirectory scratch;
  const auto as_rank = [&](uint32_t rank) {
    return RecorderOptions{.directory = scratch.path(), .rank = rank, .rank_count = 3};
  };
  for (uint32_t rank : {1u, 0u, 2u}) EXPECT_EQ(record_run(as_rank(rank)), 1u) << rank;
  EXPECT_EQ(Run::open(scratch.path())->ranks.size(), 3u);
  // Recorded again by each, in another order: the second of each rank is the second run.
  EXPECT_EQ(record_run(as_rank(0)), 2u);
  EXPECT_EQ(record_run(as_rank(0)), 3u);
  for (uint32_t rank : {2u, 1u}) EXPECT_EQ(record_run(as_rank(rank)), 2u) << rank;
  for (uint32_t rank : {2u, 1u}) EXPECT_EQ(record_run(as_rank(rank)), 3u) << rank;
  EXPECT_EQ(record_run({.directory = scratch.path(), .rank = 7, .rank_count = 8}), 4u) << "a launch of another size";
}

TEST(Runs, ALaunchThatEndedBeforeThisProcessBeganIsNotJoined) {
  const ScratchDirectory scratch;
  record_run({.directory = scratch.path(), .rank = 0, .rank_count = 2});
  const fs::path rank = Run::open(scratch.path())->ranks.at(0).path;
  fs::last_write_time(rank, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(record_run({.directory = scratch.path(), .rank = 1, .rank_count = 2}), 2u);
}

TEST(Runs, AnotherLauncherIsAnotherLaunch) {
  const ScratchDirectory scratch;
  ASSERT_EQ(::setenv("MASTER_PORT", "29500", 1), 0);
  EXPECT_EQ(record_run({.directory = scratch.path(), .rank = 0, .rank_count = 2}), 1u);
  ASSERT_EQ(::setenv("MASTER_PORT", "29501", 1), 0);
  EXPECT_EQ(record_run({.directory = scratch.path(), .rank = 1, .rank_count = 2}), 2u);
  ASSERT_EQ(::unsetenv("MASTER_PORT"), 0);
  const Json about = parse_json(side_file_text(Run::open(scratch.path())->ranks.at(0).path / "rank.json"));
  EXPECT_EQ(about["launch"]["ranks"], 2);
  EXPECT_EQ(about["launch"]["MASTER_PORT"], "29501");
}

TEST(Runs, OfGraphsAsNpyHaveTheirFoldersToo) {
  const ScratchDirectory scratch;
  for (uint32_t number : {1u, 2u})
    EXPECT_EQ(record_run({.directory = scratch.path(), .world_size = 1, .format = Format::kNpy}), number);
  EXPECT_TRUE(fs::is_directory(scratch / "run00002" / "worldsize1_global_rank0"));
}

}  // namespace
}  // namespace ttap
