// Graphs recorded as .npy: a folder for each execution, with an index that tells all that the segment told.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "capture/recording.h"
#include "recorded_graph.h"
#include "scratch.h"
#include "ttap/group.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;
using test::RecordedGraph;
using Values = RecordedGraph::Values;

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), folder).string());
  return files;
}

nlohmann::json index_of(const fs::path& folder) {
  std::ifstream file(folder / "index.json");
  return nlohmann::json::parse(file);
}

const std::string kGraph = "graph_3f2a00000001";

// y = relu(x + w) twice, below a module.
void run_small_graph(Recorder& recorder, uint32_t pass, uint64_t step, Level level = Level::kFull) {
  RecordedGraph graph(recorder, pass);
  graph.begin(kGraph, step);
  const auto x = graph.placeholder("%x", {-1, 2});
  const Event module = graph.begin_module("layers.0");
  const auto add = graph.node({.name = "%add",
                               .target = "aten.add.Tensor",
                               .in = {RecordedGraph::of(x), RecordedGraph::outside({3, 4})},
                               .literals = ", alpha=1",
                               .module = "layers.0",
                               .parent = module,
                               .level = level},
                              {2, 6});
  graph.nodes({.name = "%split",
               .target = "aten.split.Tensor",
               .in = {{.value = add, .path = "/input"}},
               .module = "layers.0",
               .parent = module},
              {{2}, {6}});
  graph.end_module(module, {2, 6});
  graph.end();
}

RecorderOptions as_npy(const fs::path& directory) {
  return {.directory = directory, .world_size = 1, .format = Format::kNpy};
}

void expect_same(const Pass& a, const Pass& b) {
  ASSERT_EQ(a.event_count(), b.event_count());
  ASSERT_EQ(a.tensor_count(), b.tensor_count());
  for (size_t i = 0; i < a.event_count(); ++i) {
    const EventRecord x = a.event(i), y = b.event(i);
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.call, y.call);
    EXPECT_EQ(x.parent, y.parent);
    EXPECT_EQ(x.thread, y.thread);
    EXPECT_EQ(x.time_ns, y.time_ns);
    EXPECT_EQ(x.duration_ns, y.duration_ns);
    EXPECT_EQ(x.returned, y.returned);
    EXPECT_EQ(x.arguments, y.arguments);
    EXPECT_EQ(x.results, y.results);
    EXPECT_EQ(x.notes.empty(), y.notes.empty());
    if (!x.notes.empty()) {
      EXPECT_EQ(nlohmann::json::parse(x.notes), nlohmann::json::parse(y.notes));
    }
    ASSERT_EQ(x.use_count, y.use_count);
    for (size_t u = 0; u < x.use_count; ++u) {
      EXPECT_EQ(a.use(i, u).role, b.use(i, u).role);
      EXPECT_EQ(a.use(i, u).path, b.use(i, u).path);
      EXPECT_EQ(a.use(i, u).tensor, b.use(i, u).tensor);
      EXPECT_EQ(a.use(i, u).record, b.use(i, u).record);
      EXPECT_EQ(a.use(i, u).written, b.use(i, u).written);
    }
  }
  for (size_t i = 0; i < a.tensor_count(); ++i) {
    const TensorRecord x = a.tensor(i), y = b.tensor(i);
    EXPECT_EQ(x.key(), y.key());
    EXPECT_EQ(x.event, y.event);
    EXPECT_EQ(x.level, y.level);
    EXPECT_EQ(x.has_bytes, y.has_bytes);
    EXPECT_EQ(x.has_fingerprint, y.has_fingerprint);
    EXPECT_EQ(x.fingerprint.hash, y.fingerprint.hash);
    EXPECT_EQ(x.fingerprint.stats.mean, y.fingerprint.stats.mean);
    EXPECT_EQ(x.value, y.value);
    if (x.has_bytes) {
      EXPECT_EQ(values_of(a, x.key()), values_of(b, y.key()));
    }
  }
}

TEST(GraphsAsNpy, AreFilesNamedByNodeTargetRoleAndPlace) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  run_small_graph(*recorder, recorder->begin_pass(), 0);
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->rank_directory().filename(), "worldsize1_global_rank0");
  const std::string folder = kGraph + "/0/";
  EXPECT_EQ(files_below(recorder->rank_directory()),
            (std::set<std::string>{
                "rank.json", "coverage.json", folder + "index.json", folder + "x-x.OUTPUT.0.npy",
                folder + "add-aten.add.Tensor.INPUT.0.npy", folder + "add-aten.add.Tensor.INPUT.1.npy",
                folder + "add-aten.add.Tensor.OUTPUT.0.npy", folder + "split-aten.split.Tensor.INPUT.input.npy",
                folder + "split-aten.split.Tensor.OUTPUT.0.npy", folder + "split-aten.split.Tensor.OUTPUT.1.npy"}));
  // An argument is what the node was given, whoever made it.
  const auto given = Pass::open(recorder->rank_directory() / kGraph / "0" / "add-aten.add.Tensor.INPUT.0.npy");
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(values_of(*given, {.name = "add-aten.add.Tensor.INPUT.0"}), (Values{-1, 2}));
}

TEST(GraphsAsNpy, AreReadBackAsTheSegmentSaidThem) {
  const ScratchDirectory scratch;
  auto npy = make(as_npy(scratch / "npy"));
  auto segment = make({.directory = scratch / "ttap"});
  for (uint64_t step : {0, 1}) run_small_graph(*npy, npy->begin_pass(), step);
  run_small_graph(*segment, segment->begin_pass(), 0);
  ASSERT_TRUE(npy->close().ok());
  ASSERT_TRUE(segment->close().ok());

  const auto run = Run::open(scratch / "npy");
  ASSERT_TRUE(run.ok()) << run.error().describe();
  ASSERT_EQ(run->ranks.size(), 1u);
  ASSERT_EQ(run->ranks[0].passes.size(), 2u);
  EXPECT_EQ(run->ranks[0].passes[1].number, 1u);
  const auto read = Pass::open(run->ranks[0].passes[0].path);
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(read->info().ending, Ending::kComplete);
  EXPECT_GT(read->info().started_unix_ns, 0u);
  EXPECT_EQ(nlohmann::json::parse(read->info().metadata_json)["rank"], 0);

  // The segment from which it was made is gone; the same pass exported from a segment says the same.
  const Pass original = open_pass(*segment, 0);
  const auto exported = export_pass(original, Format::kNpy, scratch / "out");
  ASSERT_TRUE(exported.ok()) << exported.error().describe();
  EXPECT_EQ(exported->path, scratch / "out" / kGraph / "0");
  const auto again = Pass::open(exported->path);
  ASSERT_TRUE(again.ok()) << again.error().describe();
  expect_same(original, *again);
  EXPECT_FALSE(export_pass(original, Format::kNpy, scratch / "out").ok()) << "is there already";
  // And once more from there.
  const auto twice = export_pass(*again, Format::kNpy, scratch / "twice");
  ASSERT_TRUE(twice.ok()) << twice.error().describe();
  expect_same(original, Pass::open(twice->path).value());
}

TEST(GraphsAsNpy, NeedNoSegmentBesideThemWhateverTheyTell) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  run_small_graph(*recorder, recorder->begin_pass(), 0, Level::kFingerprint);
  (void)recorder->count_unsupported("%odd", "sparse");
  recorder->end_pass(Ending::kAborted);
  ASSERT_TRUE(recorder->close().ok());
  for (const std::string& file : files_below(scratch.path())) EXPECT_EQ(file.find(".ttap"), std::string::npos) << file;
  const auto run = Run::open(scratch.path());
  const auto pass = Pass::open(run->ranks[0].passes.at(0).path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().ending, Ending::kAborted);
  EXPECT_EQ(pass->info().drops.unsupported, 1u);
  const auto add = pass->find({.name = "%add"});
  ASSERT_TRUE(add);
  EXPECT_FALSE(pass->tensor(*add).has_bytes);
  EXPECT_EQ(pass->tensor(*add).fingerprint.stats.mean, 4);
  EXPECT_EQ(pass->read(*add).error().code, ErrorCode::kNotRecorded);
}

TEST(GraphsAsNpy, KeepTheCodesOfQuantizedTensors) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  const uint32_t pass_number = recorder->begin_pass();
  const Event graph = recorder->begin_event({.name = kGraph, .kind = "graph", .pass = pass_number});
  const Event node = recorder->begin_event({.name = "%w", .kind = "node", .parent = graph, .pass = pass_number});
  const uint8_t codes[] = {0x38, 0xC0, 0xFF, 0x80};  // 1, -2, NaN, -0
  const std::vector<int64_t> shape = {4};
  const float scale = 1;
  const TensorView payload{codes, DType::kF8E4M3FN, shape, {}};
  recorder->capture(node, payload, {.path = "/plain"});
  recorder->capture(node, payload, {.path = "/payload"});
  recorder->capture(node, {&scale, DType::kF32, {}, {}}, {.path = "/scale"});
  const std::string description =
      to_json(GroupDescription{.format = *quant_format("fp8_e4m3"), .parts = {"payload", "scale"}});
  recorder->capture(node, {nullptr, DType::kF32, shape, {}}, {.at_most = Level::kMeta, .group = description});
  recorder->end_event(node, {});
  recorder->end_event(graph, {.notes = R"({"stage": "aot", "part": "inference", "step": 0, "nodes": 1})"});
  ASSERT_TRUE(recorder->close().ok());

  const auto run = Run::open(scratch.path());
  const auto pass = Pass::open(run->ranks[0].passes.at(0).path);
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  const size_t kept = pass->find({.name = "%w", .path = "/payload"}).value();
  EXPECT_EQ(pass->tensor(kept).dtype, DType::kF8E4M3FN);
  const auto read = pass->read(kept);
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(std::memcmp(read->data, codes, sizeof codes), 0);
  const auto values = read_values(*pass, pass->find({.name = "%w"}).value());
  ASSERT_TRUE(values.ok()) << values.error().describe();
  EXPECT_EQ(static_cast<const float*>(values->view.data)[1], -2);
  // What is no part of one is there as values, as ever.
  EXPECT_EQ(pass->tensor(pass->find({.name = "%w", .path = "/plain"}).value()).true_dtype, DType::kF8E4M3FN);
}

TEST(GraphsAsNpy, SeveralGraphsOfOnePassAreOnePass) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  const uint32_t pass = recorder->begin_pass();
  RecordedGraph first(*recorder, pass);
  first.begin("graph_aaaaaaaaaaaa", 4);
  const auto x = first.placeholder("%x", {1, 2});
  first.end();
  RecordedGraph second(*recorder, pass, first.values());
  second.begin("graph_bbbbbbbbbbbb", 7);
  second.node({.name = "%neg", .target = "aten.neg.default", .in = {RecordedGraph::of(x)}}, {-1, -2});
  second.end();
  ASSERT_TRUE(recorder->close().ok());

  const fs::path rank = recorder->rank_directory();
  EXPECT_TRUE(fs::exists(rank / "graph_bbbbbbbbbbbb/7/neg-aten.neg.default.INPUT.0.npy"));
  EXPECT_EQ(index_of(rank / "graph_bbbbbbbbbbbb/7")["part_of"], "graph_aaaaaaaaaaaa/4");
  const auto run = Run::open(rank);
  ASSERT_TRUE(run.ok());
  ASSERT_EQ(run->ranks[0].passes.size(), 1u);
  for (const fs::path& folder : {run->ranks[0].passes[0].path, rank / "graph_bbbbbbbbbbbb/7"}) {
    const auto read = Pass::open(folder);
    ASSERT_TRUE(read.ok()) << read.error().describe();
    EXPECT_EQ(values_of(*read, {.name = "%neg"}), (Values{-1, -2}));
    EXPECT_EQ(read->use(3, 0).record, *read->find({.name = "%x"}));
  }
  // A part that was carried off by itself still tells what its files are.
  fs::remove_all(rank / "graph_aaaaaaaaaaaa");
  const auto part = Pass::open(rank / "graph_bbbbbbbbbbbb/7");
  ASSERT_TRUE(part.ok()) << part.error().describe();
  EXPECT_EQ(values_of(*part, {.name = "%neg", .role = "in", .path = "/0"}), (Values{1, 2}));
  EXPECT_EQ(Run::open(rank)->ranks[0].passes.size(), 1u);
}

TEST(GraphsAsNpy, AppendingCountsOn) {
  const ScratchDirectory scratch;
  for (int run = 0; run < 2; ++run) {
    RecorderOptions options = as_npy(scratch.path());
    options.append = true;
    auto recorder = make(options);
    for (uint64_t step : {0, 1}) run_small_graph(*recorder, recorder->begin_pass(), step);
    ASSERT_TRUE(recorder->close().ok());
  }
  const fs::path graph = scratch / "worldsize1_global_rank0" / kGraph;
  for (int step = 0; step < 4; ++step) EXPECT_TRUE(fs::exists(graph / std::to_string(step))) << step;
  EXPECT_EQ(index_of(graph / "3")["step"], 1);
  EXPECT_EQ(index_of(graph / "3")["pass"], 3);
}

TEST(GraphsAsNpy, ASecondRecorderAtTheSameTimeHasADirectoryOfItsOwn) {
  const ScratchDirectory scratch;
  auto one = make(as_npy(scratch.path()));
  auto other = make(as_npy(scratch.path()));
  EXPECT_NE(one->rank_directory(), other->rank_directory());
  run_small_graph(*one, one->begin_pass(), 0);
  run_small_graph(*other, other->begin_pass(), 0);
  ASSERT_TRUE(one->close().ok());
  ASSERT_TRUE(other->close().ok());
  const auto run = Run::open(scratch.path());
  ASSERT_TRUE(run.ok());
  ASSERT_EQ(run->ranks.size(), 2u);
  for (const Rank& rank : run->ranks) EXPECT_EQ(rank.passes.size(), 1u);
}

TEST(GraphsAsNpy, WhatANodeWritesToIsThereBeforeAndAfter) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  RecordedGraph graph(*recorder, recorder->begin_pass());
  graph.begin(kGraph, 0);
  const auto x = graph.placeholder("%x", {1, 2});
  graph.node({.name = "%add_", .target = "aten.add_.Tensor", .in = {{.value = x, .written = true, .after = {2, 3}}}},
             {2, 3});
  graph.end();
  ASSERT_TRUE(recorder->close().ok());
  const fs::path folder = recorder->rank_directory() / kGraph / "0";
  const auto value = [&](const std::string& file) {
    const auto pass = Pass::open(folder / (file + ".npy"));
    return pass.ok() ? values_of(*pass, {.name = file}) : Values{};
  };
  EXPECT_EQ(value("add_-aten.add_.Tensor.INPUT.0"), (Values{1, 2}));
  EXPECT_EQ(value("add_-aten.add_.Tensor.AFTER.0"), (Values{2, 3}));
  EXPECT_EQ(value("add_-aten.add_.Tensor.OUTPUT.0"), (Values{2, 3}));
}

TEST(GraphsAsNpy, TrueDtypesAreInTheIndex) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  const uint32_t pass = recorder->begin_pass();
  const Event graph = recorder->begin_event({.name = kGraph, .kind = "graph", .pass = pass});
  const std::vector<int64_t> shape = {2};
  const auto record = [&](std::string_view name, DType dtype, const void* data) {
    const Event node = recorder->begin_event({.name = name, .kind = "node", .parent = graph, .pass = pass});
    recorder->capture(node, {data, dtype, shape, {}}, {.value = static_cast<uint32_t>(dtype) + 1});
    const Use use{.role = "out", .value = static_cast<uint32_t>(dtype) + 1};
    recorder->end_event(node,
                        {.results = "%0", .notes = R"({"op": "call_function", "target": "f"})", .uses = {&use, 1}});
  };
  const uint16_t halves[] = {0x3F80, 0xC000};  // 1, -2 as bf16
  const uint8_t bytes[] = {0x38, 0xB8};        // 1, -1 as e4m3; four numbers as packed f4
  record("%bf16", DType::kBF16, halves);
  record("%f8", DType::kF8E4M3FN, bytes);
  record("%f4", DType::kF4E2M1FNx2, bytes);
  recorder->end_event(graph, {.notes = R"({"step": 0})"});
  ASSERT_TRUE(recorder->close().ok());

  const fs::path folder = recorder->rank_directory() / kGraph / "0";
  std::map<std::string, std::string> true_dtypes;
  const nlohmann::json index = index_of(folder);
  for (const auto& file : index["files"]) {
    EXPECT_EQ(file["dtype"], "f32");
    true_dtypes[file["node"]] = file["true_dtype"];
  }
  EXPECT_EQ(true_dtypes,
            (std::map<std::string, std::string>{
                {"%bf16", "bf16"}, {"%f8", "f8_e4m3fn"}, {"%f4", std::string(dtype_name(DType::kF4E2M1FNx2))}}));
  const auto read = Pass::open(folder);
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(values_of(*read, {.name = "%bf16"}), (Values{1, -2}));
  EXPECT_EQ(values_of(*read, {.name = "%f8"}), (Values{1, -1}));
  EXPECT_EQ(values_of(*read, {.name = "%f4"}).size(), 4u);
  EXPECT_EQ(read->tensor(*read->find({.name = "%bf16"})).true_dtype, DType::kBF16);
  // What is written again from there is still known to be narrower.
  ASSERT_TRUE(export_pass(*read, Format::kNpy, scratch / "again").ok());
  const auto again = Pass::open(scratch / "again" / kGraph / "0");
  EXPECT_EQ(values_of(*again, {.name = "%f4"}), values_of(*read, {.name = "%f4"}));
  EXPECT_EQ(again->tensor(*again->find({.name = "%f8"})).true_dtype, DType::kF8E4M3FN);
}

TEST(GraphsAsNpy, AFileThatWasChangedIsNoticed) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch.path()));
  run_small_graph(*recorder, recorder->begin_pass(), 0);
  ASSERT_TRUE(recorder->close().ok());
  const fs::path file = recorder->rank_directory() / kGraph / "0" / "add-aten.add.Tensor.OUTPUT.0.npy";
  auto bytes = read_file(file);
  bytes.back() ^= std::byte{1};
  write_file(file, bytes);
  const auto pass = Pass::open(file.parent_path());
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->read(*pass->find({.name = "%add"})).error().code, ErrorCode::kCorrupt);
}

fs::path folder_of_one_pass(const ScratchDirectory& scratch) {
  auto recorder = make(as_npy(scratch.path()));
  run_small_graph(*recorder, recorder->begin_pass(), 0);
  EXPECT_TRUE(recorder->close().ok());
  return recorder->rank_directory() / kGraph / "0";
}

// The first record is read before the second, which names the same file.
TEST(GraphsAsNpy, EveryRecordIsHeldToTheFileItNames) {
  const ScratchDirectory scratch;
  const fs::path folder = folder_of_one_pass(scratch);
  const nlohmann::json good = index_of(folder);
  const auto code_with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json index = good, second = good["tensors"][0];
    second["name"] = "second";
    change(second);
    index["tensors"].push_back(second);
    std::ofstream(folder / "index.json") << index.dump();
    const auto pass = Pass::open(folder);
    EXPECT_TRUE(pass.ok() && pass->read(0).ok());
    const auto read = pass->read(*pass->find({.name = "second"}));
    return read.ok() ? std::string("fine") : std::string(to_string(read.error().code));
  };
  const std::string corrupt(to_string(ErrorCode::kCorrupt));
  EXPECT_EQ(code_with([](auto&) {}), "fine");
  EXPECT_EQ(code_with([](auto& t) { t["shape"] = {1000}; }), corrupt);
  EXPECT_EQ(code_with([](auto& t) { t["dtype"] = "f64"; }), corrupt);
  EXPECT_EQ(code_with([](auto& t) { t["hash"] = std::string(32, '1'); }), corrupt);
}

TEST(GraphsAsNpy, AnIndexThatIsNotSoundIsAnError) {
  const ScratchDirectory scratch;
  const fs::path folder = folder_of_one_pass(scratch);
  const nlohmann::json good = index_of(folder);
  const auto code_with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json index = good;
    change(index);
    std::ofstream(folder / "index.json") << index.dump();
    const auto pass = Pass::open(folder);
    return pass.ok() ? std::string("fine") : std::string(to_string(pass.error().code));
  };
  const std::string corrupt(to_string(ErrorCode::kCorrupt));
  EXPECT_EQ(code_with([](auto&) {}), "fine");
  EXPECT_EQ(code_with([](auto& i) { i["events"][1]["parent"] = 5; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["event"] = 99; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["file"] = "../../secret.npy"; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["file"] = "/etc/0/x.npy"; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["dtype"] = "f33"; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["shape"] = {-1}; }), corrupt);
  const auto too_long = [](auto& i) {
    i["tensors"][0]["dtype"] = dtype_name(DType::kF4E2M1FNx2);
    i["tensors"][0]["shape"] = {int64_t{1} << 62};
  };
  EXPECT_EQ(code_with(too_long), corrupt) << "its file would have twice as many values";
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["hash"] = "12"; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["tensors"][0]["name"] = ""; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["events"][2]["uses"][0]["record"] = 99; }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i.erase("events"); }), corrupt);
  EXPECT_EQ(code_with([](auto& i) { i["version"] = 2; }), to_string(ErrorCode::kVersion));
}

TEST(DumpedGraphs, AreReadByTheNamesOfTheirFiles) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch / "ours"));
  run_small_graph(*recorder, recorder->begin_pass(), 0);
  ASSERT_TRUE(recorder->close().ok());
  // As torchair names them: with a timestamp, which is the order, and without an index.
  const fs::path ours = recorder->rank_directory() / kGraph / "0";
  const fs::path theirs = scratch / "theirs" / "worldsize2_global_rank1" / "graph_1" / "3";
  fs::create_directories(theirs);
  const auto take = [&](const std::string& file, const std::string& as) {
    fs::copy_file(ours / (file + ".npy"), theirs / (as + ".npy"));
  };
  take("add-aten.add.Tensor.INPUT.0", "z_1-aten.add.Tensor.INPUT.0.20251017071211190258");
  take("add-aten.add.Tensor.INPUT.1", "z_1-aten.add.Tensor.INPUT.1.20251017071211190258");
  take("add-aten.add.Tensor.OUTPUT.0", "z_1-aten.add.Tensor.OUTPUT.0.20251017071211190258");
  take("add-aten.add.Tensor.OUTPUT.0", "split-aten.split.Tensor.INPUT.0.20251017071211202083");
  take("split-aten.split.Tensor.OUTPUT.0", "split-aten.split.Tensor.OUTPUT.0.20251017071211202083");
  take("split-aten.split.Tensor.OUTPUT.1", "split-aten.split.Tensor.OUTPUT.1.20251017071211202083");

  const auto run = Run::open(scratch / "theirs");
  ASSERT_TRUE(run.ok()) << run.error().describe();
  EXPECT_EQ(run->ranks.at(0).number, 1u);
  ASSERT_EQ(run->ranks[0].passes.size(), 1u);
  EXPECT_EQ(run->ranks[0].passes[0].number, 3u);
  const auto pass = Pass::open(run->ranks[0].passes[0].path);
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().number, 3u);
  ASSERT_EQ(pass->event_count(), 3u);
  EXPECT_EQ(pass->event(0).name, "graph_1");
  EXPECT_EQ(pass->event(1).name, "%z_1") << "in the order of the timestamps";
  EXPECT_EQ(pass->event(1).arguments, "%0, %1");
  EXPECT_EQ(pass->event(2).results, "(%1, %2)");
  EXPECT_EQ(values_of(*pass, {.name = "%z_1"}), (Values{2, 6}));
  EXPECT_EQ(values_of(*pass, {.name = "%split", .path = "/1"}), (Values{6}));
  EXPECT_EQ(pass->use(2, 0).record, *pass->find({.name = "%z_1"})) << "an input that a node made is that node's";
}

TEST(DumpedGraphs, OfSeveralGraphsAreAPassEach) {
  const ScratchDirectory scratch;
  auto recorder = make(as_npy(scratch / "ours"));
  run_small_graph(*recorder, recorder->begin_pass(), 0);
  ASSERT_TRUE(recorder->close().ok());
  const fs::path rank = scratch / "theirs" / "worldsize1_global_rank0";
  for (const char* folder : {"graph_1/0", "graph_1/1", "graph_2/0", "graph_2/1"}) {
    fs::create_directories(rank / folder);
    fs::copy_file(recorder->rank_directory() / kGraph / "0" / "add-aten.add.Tensor.OUTPUT.0.npy",
                  rank / folder / "add-aten.add.Tensor.OUTPUT.0.20251017071211190258.npy");
  }
  const auto run = Run::open(rank);
  ASSERT_TRUE(run.ok());
  std::vector<std::string> found;
  for (const PassFile& file : run->ranks.at(0).passes) {
    found.push_back(fs::relative(file.path, rank).string());
    EXPECT_EQ(Pass::open(file.path)->info().number, file.number);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"graph_1/0", "graph_2/0", "graph_1/1", "graph_2/1"}));
}

}  // namespace
}  // namespace ttap
