// kill -9 at hundreds of random moments: finished passes are whole, the torn one opens up to its tail, nothing false is
// read.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "capture/kill_pattern.h"
#include "scratch.h"
#include "ttap/run.h"

namespace ttap {
namespace {

void expect_true_tensor(const Pass& pass, size_t index, uint32_t scale) {
  const TensorRecord record = pass.tensor(index);
  ASSERT_EQ(record.name, kill_name(static_cast<uint32_t>(index))) << "tensors come in order, none is missing";
  const auto view = pass.read(index);
  ASSERT_TRUE(view.ok()) << view.error().describe();
  const auto expected = kill_values(pass.info().number, static_cast<uint32_t>(index), scale);
  ASSERT_EQ(byte_count(*view), expected.size() * sizeof(uint64_t));
  if (!expected.empty()) {
    ASSERT_EQ(std::memcmp(view->data, expected.data(), expected.size() * sizeof(uint64_t)), 0);
  }
}

struct Found {
  size_t finished = 0;
  size_t torn = 0;
  size_t torn_tensors = 0;
};

void inspect(const std::filesystem::path& directory, uint32_t scale, Found& found) {
  if (!std::filesystem::exists(directory)) return;
  const auto run = Run::open(directory);
  if (!run.ok()) return;  // killed before the first file
  ASSERT_EQ(run->ranks.size(), 1u);
  for (const PassFile& file : run->ranks[0].passes) {
    const bool finished = file.path.extension() == ".ttap";
    auto pass = Pass::open(file.path);
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    ASSERT_EQ(pass->info().number, file.number);
    ASSERT_FALSE(pass->info().being_written);
    for (size_t i = 0; i < pass->tensor_count(); ++i) ASSERT_NO_FATAL_FAILURE(expect_true_tensor(*pass, i, scale));
    if (finished) {
      ASSERT_EQ(pass->info().ending, Ending::kComplete);
      ASSERT_EQ(pass->tensor_count(), kKillTensors);
      ++found.finished;
      continue;
    }
    if (pass->info().readable_bytes == 0) {  // killed as the pass began: there is nothing to recover
      ASSERT_EQ(pass->tensor_count(), 0u);
      ASSERT_EQ(recover_pass(file.path).error().code, ErrorCode::kTruncated);
      continue;
    }
    ++found.torn;
    found.torn_tensors += pass->tensor_count();
    if (pass->info().ending == Ending::kComplete) {  // killed between the last write and the rename
      ASSERT_EQ(pass->tensor_count(), kKillTensors);
    }
    const auto recovered = recover_pass(file.path);
    ASSERT_TRUE(recovered.ok()) << recovered.error().describe();
    const auto again = Pass::open(recovered->path);
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(again->tensor_count(), pass->tensor_count());
    ASSERT_EQ(again->info().ending, pass->info().ending);
    ASSERT_EQ(again->info().problem, "");
  }
}

bool has_finished_pass(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory)) return false;
  for (const auto& rank : std::filesystem::directory_iterator(directory))
    if (std::filesystem::exists(rank.path() / "pass00000.ttap")) return true;
  return false;
}

struct Load {
  int passes_at_a_time = 1;
  uint32_t scale = 1;
  int longest_us = 45'000;
};

void kill_and_inspect(int rounds, const Load& load) {
  std::mt19937 random(20261115);
  std::uniform_int_distribution<int> delay_us(200, load.longest_us);
  const std::string at_a_time = std::to_string(load.passes_at_a_time);
  const std::string scale_text = std::to_string(load.scale);
  Found found;
  for (int round = 0; round < rounds; ++round) {
    const ScratchDirectory scratch;
    const auto directory = scratch / "run";
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::execl(TTAP_KILL_TARGET, TTAP_KILL_TARGET, directory.c_str(), at_a_time.c_str(), scale_text.c_str(), nullptr);
      ::_exit(127);
    }
    // Mostly once it records, and every other time once it has finished a pass, however slow the machine is; every
    // tenth time while it starts.
    const auto is_ready = [&] {
      return round % 10 == 0 || (round % 2 == 0 ? std::filesystem::exists(directory) : has_finished_pass(directory));
    };
    while (!is_ready() && ::waitpid(child, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us(random)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the program ended by itself in round " << round;
    ASSERT_NO_FATAL_FAILURE(inspect(directory, load.scale, found)) << "in round " << round;
  }
  // The test has seen what it is about.
  EXPECT_GT(found.finished, static_cast<size_t>(rounds) / 20);
  EXPECT_GT(found.torn, static_cast<size_t>(rounds) / 20);
  EXPECT_GT(found.torn_tensors, 0u);
  std::printf("%d kills: %zu finished passes whole, %zu torn passes gave %zu tensors\n", rounds, found.finished,
              found.torn, found.torn_tensors);
}

int rounds() {
  const char* text = std::getenv("TTAP_KILL_ROUNDS");
  return text != nullptr ? std::atoi(text) : 300;
}

TEST(Kill, AtAnyMomentLosesOnlyTheTornTail) { kill_and_inspect(rounds(), {}); }
TEST(Kill, AlsoOfPassesThatAreOpenAtOnce) {
  kill_and_inspect((rounds() + 1) / 2, {.passes_at_a_time = 2, .longest_us = 90'000});
}
// Two in seven tensors are large enough to go round the page cache, whole or in pieces.
TEST(Kill, OfLargeTensorsLosesNoMore) { kill_and_inspect((rounds() + 5) / 6, {.scale = 8, .longest_us = 250'000}); }

}  // namespace
}  // namespace ttap
