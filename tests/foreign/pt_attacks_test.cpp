#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <functional>

#include "foreign/pickles.h"
#include "store/foreign/pt.h"

// Every attack tried on the .pt reader, one test each. A pickle that would run a command would make a file
// called `pwned` in the working directory: after each attack there must be none.
namespace ttap {
namespace {

using namespace test;

struct Attack {
  const char* name;
  std::function<std::vector<std::byte>()> file;
  ErrorCode code;
  const char* message = "";  // what it must say
};
void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

class PtAttack : public testing::TestWithParam<Attack> {};

TEST_P(PtAttack, IsRefusedAndNothingRuns) {
  const auto begin = std::chrono::steady_clock::now();
  const auto parsed = parse_pt(GetParam().file());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, GetParam().code) << parsed.error().describe();
  EXPECT_NE(parsed.error().describe().find(GetParam().message), std::string::npos) << parsed.error().describe();
  EXPECT_TRUE(parsed.error().offset.has_value());
  EXPECT_TRUE(parsed.error().code != ErrorCode::kForbidden || !parsed.error().hint.empty());
  EXPECT_FALSE(std::filesystem::exists("pwned"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

std::function<std::vector<std::byte>()> pickle(std::string code, Entries storages = {{"0", std::string(16, 'x')}}) {
  return [=] { return pt_file(code, storages); };
}
std::function<std::vector<std::byte>()> archive(Entries entries) {
  return [=] { return zip_file(entries); };
}
// An archive in which the bytes `distance` from the last (or first) occurrence of `after` read `to`.
std::function<std::vector<std::byte>()> patched(std::vector<std::byte> file, std::string_view after, size_t distance,
                                                std::string to, bool last = true) {
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t at = (last ? all.rfind(after) : all.find(after)) + distance;
  for (size_t i = 0; i < to.size(); ++i) file[at + i] = static_cast<std::byte>(to[i]);
  return [=] { return file; };
}
std::vector<std::byte> good() {
  return pt_file(tensor_pickle("ByteStorage", "0", 4, 0, {4}, {1}) + ".", {{"0", "abcd"}});
}

std::string repeat(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}
std::string tensor(int64_t elements, int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  return tensor_pickle("FloatStorage", "0", elements, offset, shape, strides) + ".";
}
// Each list holds the one before ten times: 10^levels leaves.
std::string billion_laughs(size_t levels, std::string leaf) {
  std::string code = leaf + std::string("q\0", 2);
  for (size_t i = 0; i < levels; ++i) {
    const std::string get = {'h', static_cast<char>(i)}, put = {'q', static_cast<char>(i + 1)};
    code += "](" + repeat(get, 10) + "e" + put;
  }
  return code + ".";
}

constexpr auto kForbidden = ErrorCode::kForbidden;
constexpr auto kCorrupt = ErrorCode::kCorrupt;
constexpr auto kTruncated = ErrorCode::kTruncated;
constexpr auto kTooLarge = ErrorCode::kTooLarge;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

// --- code ---
INSTANTIATE_TEST_SUITE_P(
    Code, PtAttack,
    testing::Values(
        Attack{"GlobalOsSystem", pickle("cos\nsystem\n" + text("touch pwned") + "\x85R."), kForbidden, "os.system"},
        Attack{"GlobalPosixSystem", pickle("cposix\nsystem\n" + text("touch pwned") + "\x85R."), kForbidden,
               "posix.system"},
        Attack{"StackGlobalSubprocess",
               pickle(text("subprocess") + text("Popen") + "\x93" + text("touch pwned") + "\x85R."), kForbidden,
               "subprocess.Popen"},
        Attack{"BuiltinsEval", pickle("cbuiltins\neval\n" + text("open('pwned','w')") + "\x85R."), kForbidden,
               "builtins.eval"},
        Attack{"BuiltinsExec2", pickle("c__builtin__\nexec\n" + text("1") + "\x85R."), kForbidden, "__builtin__.exec"},
        Attack{"GetattrChain", pickle("cbuiltins\ngetattr\n."), kForbidden, "builtins.getattr"},
        Attack{"GlobalNeverCalled", pickle("cos\nsystem\n0N."), kForbidden, "os.system"},
        Attack{"TorchHubLoad", pickle("ctorch.hub\nload\n" + text("x") + "\x85R."), kForbidden, "torch.hub.load"},
        Attack{"TorchLoadFromBytes", pickle("ctorch.storage\n_load_from_bytes\nC\1x\x85R."), kForbidden,
               "_load_from_bytes"},
        Attack{"DottedNameInsideAnAllowedModule",
               pickle(text("torch") + text("serialization.os.system") +
                      "\x93"
                      "."),
               kForbidden, "torch.serialization.os.system"},
        Attack{"NumpyReconstruct", pickle("cnumpy.core.multiarray\n_reconstruct\n."), kForbidden, "_reconstruct"},
        Attack{"CallOfADType", pickle("ctorch\nfloat32\n)R."), kForbidden, "float32"},
        Attack{"CallOfAText", pickle(text("os.system") + ")R."), kForbidden, "call a str"},
        Attack{"Inst", pickle("(" + text("touch pwned") + "ios\nsystem\n."), kForbidden, "os.system"},
        Attack{"Obj", pickle("(ctorch\nSize\no."), kForbidden, "OBJ"},
        Attack{"NewObj", pickle("ctorch\nSize\n)\x81."), kForbidden, "Size"},
        Attack{"NewObjEx", pickle("ctorch\nSize\n)}\x92."), kForbidden, "Size"},
        Attack{"Extension1", pickle("\x82\1."), kForbidden, "extension code 1"},
        Attack{"Extension2", pickle("\x83\1\1."), kForbidden, "extension code 257"},
        Attack{"Extension4", pickle(std::string("\x84\1\0\0\1", 5) + "."), kForbidden, "extension code 16777217"},
        Attack{"BuildOnATensor",
               pickle(tensor_pickle("FloatStorage", "0", 4, 0, {4}, {1}) + "}" + text("__setstate__") + "Nsb."),
               kForbidden, "state of a tensor"},
        Attack{"BuildOnAName", pickle("ctorch\nSize\n}b."), kForbidden, "state of a name"},
        Attack{"HookThatIsCode",
               pickle("ctorch._utils\n_rebuild_tensor_v2\n(" + storage_pickle("FloatStorage", "0", 4) + "K\0" +
                      tuple({4}) + tuple({1}) + "\x89" + "cos\nsystem\n" + "tR."),
               kForbidden, "os.system"},
        Attack{"RebuildFromTypeWithAnotherFunction",
               pickle("ctorch._tensor\n_rebuild_from_type_v2\n(ccollections\nOrderedDict\nctorch\nTensor\n)}tR."),
               kCorrupt},
        Attack{"WholeModel", pickle("c__main__\nModel\n)\x81."), kForbidden, "__main__.Model"}),
    [](const auto& test_info) { return test_info.param.name; });

// --- memory and time ---
INSTANTIATE_TEST_SUITE_P(
    Size, PtAttack,
    testing::Values(
        Attack{"TextLongerThanTheFile",
               pickle("X\xff\xff\xff\x7f"
                      "abc."),
               kTruncated},
        Attack{"TextOfExabytes", pickle("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f."), kTruncated},
        Attack{"BytesOfExabytes", pickle("\x8e\xff\xff\xff\xff\xff\xff\xff\xff."), kTruncated},
        Attack{"IntegerLongerThanTheFile", pickle("\x8b\xff\xff\xff\x7f."), kTruncated},
        Attack{"FrameLongerThanTheFile", pickle("\x95\xff\xff\xff\xff\xff\xff\xff\xff."), kTruncated},
        Attack{"DeepNesting", pickle(repeat("]", 100'000) + repeat("a", 99'999) + "."), kTooLarge, "nested"},
        Attack{"ManyMarks", pickle(repeat("(", 1'000'000) + "."), kCorrupt},
        Attack{"ListInsideItself", pickle(std::string("]q\0h\0a.", 7)), kTooLarge, "nested"},
        Attack{"DictInsideItself", pickle(std::string("}q\0", 3) + text("a") + std::string("h\0s.", 4)), kTooLarge,
               "nested"},
        Attack{"BillionLaughs", pickle(billion_laughs(30, "K\1")), kTooLarge, "unfold"},
        Attack{"BillionEmptyLists", pickle(billion_laughs(30, "](K\1K\1K\1K\1K\1K\1K\1K\1K\1e")), kTooLarge, "unfold"},
        Attack{
            "LongKeyThatManyTensorsShare",
            pickle("}" + text(std::string(100'000, 'k')) + "](" + tensor_pickle("FloatStorage", "0", 4, 0, {4}, {1}) +
                   std::string("q\7", 2) + repeat("h\7", 50'000) + "es."),
            kTooLarge, "unfold"},
        Attack{"MemoNumberOfBillions", pickle("Nj\xff\xff\xff\xff."), kCorrupt, "4294967295"},
        Attack{"SetOfTheSameListAgainAndAgain",
               pickle("](" + repeat("N", 100'000) + std::string("eq\0(", 4) +
                      repeat(std::string("cbuiltins\nset\nh\0\x85R", 18), 20'000) + "l."),
               kTooLarge, "unfold"},
        Attack{"ShapeOfThousandsOfDimensions",
               pickle(tensor(4, 0, std::vector<int64_t>(5000, 1), std::vector<int64_t>(5000, 1))), kTooLarge},
        Attack{"ShapeThatOverflows", pickle(tensor(4, 0, {int64_t{1} << 32, int64_t{1} << 32}, {0, 0})), kTooLarge}),
    [](const auto& test_info) { return test_info.param.name; });

// --- tensors that lie about their storage ---
INSTANTIATE_TEST_SUITE_P(
    Tensor, PtAttack,
    testing::Values(
        Attack{"BeyondTheStorage", pickle(tensor(4, 0, {5}, {1})), kCorrupt, "beyond its storage"},
        Attack{"OffsetBeyondTheStorage", pickle(tensor(4, 4, {1}, {1})), kCorrupt, "beyond its storage"},
        Attack{"OffsetThatOverflows", pickle(tensor(4, INT64_MAX, {2}, {1})), kCorrupt, "overflow"},
        Attack{"StrideThatOverflows", pickle(tensor(4, 0, {3}, {INT64_MAX})), kCorrupt, "overflow"},
        Attack{"NegativeOffset", pickle(tensor(4, -1, {1}, {1})), kCorrupt, "offset"},
        Attack{"NegativeStride", pickle(tensor(4, 3, {4}, {-1})), kCorrupt, "negative stride"},
        Attack{"NegativeDimension", pickle(tensor(4, 0, {-4}, {1})), kCorrupt, "negative dimension"},
        Attack{"MoreStridesThanDimensions", pickle(tensor(4, 0, {4}, {1, 1})), kCorrupt, "strides"},
        Attack{"StorageShorterThanItSays", pickle(tensor(5, 0, {4}, {1})), kCorrupt, "shorter"},
        Attack{"StorageOfExabytes", pickle(tensor(INT64_MAX, 0, {4}, {1})), kCorrupt, "shorter"},
        Attack{"StorageThatIsNotThere", pickle(tensor_pickle("FloatStorage", "1", 4, 0, {4}, {1}) + "."), kCorrupt,
               "not in the file"},
        Attack{"StorageKeyThatLeavesTheFolder",
               pickle(tensor_pickle("FloatStorage", "../../etc/passwd", 4, 0, {4}, {1}) + "."), kCorrupt,
               "not in the file"},
        Attack{"PutOffConjugation",
               pickle(tensor_pickle("ComplexFloatStorage", "0", 2, 0, {2}, {1}, "}" + text("conj") + "\x88s") + "."),
               kUnsupported, "conjugation"},
        Attack{"TwoTensorsOfOneName",
               pickle("}(K\1" + tensor_pickle("FloatStorage", "0", 4, 0, {4}, {1}) + text("1") +
                      tensor_pickle("FloatStorage", "0", 4, 0, {4}, {1}) + "u."),
               kUnsupported, "'1'"},
        Attack{"Sparse", pickle("ctorch._utils\n_rebuild_sparse_tensor\n."), kUnsupported, "_rebuild_sparse_tensor"}),
    [](const auto& test_info) { return test_info.param.name; });

// --- pickles that are none ---
INSTANTIATE_TEST_SUITE_P(Pickle, PtAttack,
                         testing::Values(Attack{"Empty", pickle(""), kTruncated},
                                         Attack{"StopsWithNothing", pickle("."), kCorrupt},
                                         Attack{"UnknownOpcode", pickle("\xff."), kCorrupt},
                                         Attack{"LaterProtocol", pickle("\x80\x06N."), ErrorCode::kVersion},
                                         Attack{"TextOpcodes", pickle("I1\n."), kUnsupported},
                                         Attack{"OutsideBuffers", pickle("\x97."), kUnsupported},
                                         Attack{"TextNotUtf8", pickle(std::string("X\1\0\0\0\xff.", 7)), kCorrupt},
                                         Attack{"AppendToATuple", pickle(")Na."), kCorrupt},
                                         Attack{"KeyWithoutValue", pickle("}(Nu."), kCorrupt},
                                         Attack{"TakesBelowTheMark", pickle("N(a."), kCorrupt},
                                         Attack{"MarkNeverSet", pickle("Nt."), kCorrupt},
                                         Attack{"NameWithoutEnd", pickle("ctorch"), kTruncated},
                                         Attack{"NameNotText", pickle("NN\x93."), kCorrupt},
                                         Attack{"ArgumentsNotATuple", pickle("ctorch\nSize\nNR."), kCorrupt},
                                         Attack{"PersistentNotAStorage", pickle("NQ."), kCorrupt},
                                         Attack{"WrongArguments", pickle("ctorch\nSize\n)R."), kCorrupt, "Size"}),
                         [](const auto& test_info) { return test_info.param.name; });

// --- archives that are none; the numbers are offsets in the records of the zip format ---
INSTANTIATE_TEST_SUITE_P(
    Archive, PtAttack,
    testing::Values(
        Attack{"NotAnArchive", [] { return bytes_of("hello"); }, ErrorCode::kNotThisFormat},
        Attack{"Legacy", [] { return bytes_of("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.more"); },
               ErrorCode::kVersion, "torch.save"},
        Attack{"NoPickle", archive({{"a/version", "3\n"}}), ErrorCode::kNotThisFormat},
        Attack{"TwoPickles", archive({{"a/data.pkl", "\x80\x02N."}, {"b/data.pkl", "\x80\x02N."}}), kCorrupt},
        Attack{"PickleInAnotherFolder", archive({{"a/../data.pkl", "\x80\x02N."}}), ErrorCode::kNotThisFormat},
        Attack{"SameNameTwice", archive({{"a/data.pkl", "\x80\x02N."}, {"a/x", "1"}, {"a/x", "2"}}), kCorrupt, "twice"},
        Attack{"BigEndian", archive({{"a/data.pkl", "\x80\x02N."}, {"a/byteorder", "big"}}), kUnsupported, "big"},
        Attack{"DataDamaged", patched(good(), "abcd", 0, "x"), kCorrupt, "checksum"},
        Attack{"PickleDamaged", patched(good(), "ByteStorage", 0, "CharStorage", false), kCorrupt, "checksum"},
        Attack{"NameInDirectoryDiffers", patched(good(), "archive/data/0", 0, "archive/data/1"), kCorrupt, "differs"},
        Attack{"SizeLies", patched(good(), "archive/data/0", 20 - 46, std::string("\5\0\0\0\5\0\0\0", 8)), kCorrupt},
        Attack{"SizeBeyondTheFile", patched(good(), "archive/data/0", 20 - 46, "\xfe\xff\xff\xff\xfe\xff\xff\xff"),
               kCorrupt, "reaches"},
        Attack{"TwoSizes", patched(good(), "archive/data/0", 20 - 46, "\5"), kCorrupt, "two sizes"},
        Attack{"SizeInAZip64FieldThatIsMissing", patched(good(), "archive/data/0", 20 - 46, "\xff\xff\xff\xff"),
               kCorrupt, "zip64"},
        Attack{"OverlappingEntries",
               [] {
                 // The directory's record for data/0 is made to claim the bytes up to the next entry's data.
                 auto file = good();
                 const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
                 const size_t record = all.rfind("archive/data/0") - 46;
                 for (size_t i : {20u, 24u}) file[record + i] = std::byte{60};
                 return file;
               },
               kCorrupt, "overlaps"},
        Attack{"HeaderOffsetOfAnotherEntry", patched(good(), "archive/data/0", 42 - 46, std::string(4, '\0')), kCorrupt,
               "differs"},
        Attack{"HeaderOffsetBeyondTheFile", patched(good(), "archive/data/0", 42 - 46, "\xfe\xff\xff\xff"), kCorrupt},
        Attack{"Compressed", patched(good(), "archive/data/0", 10 - 46, "\x08"), kUnsupported, "compressed"},
        Attack{"Encrypted", patched(good(), "archive/data/0", 8 - 46, "\x09"), kUnsupported, "encrypted"},
        Attack{"CountTooSmall", patched(good(), "PK\5\6", 8, std::string("\1\0\1\0", 4)), kCorrupt},
        Attack{"CountTooLarge", patched(good(), "PK\5\6", 8, "\xfe\xff\xfe\xff"), kCorrupt},
        Attack{"DirectoryElsewhere", patched(good(), "PK\5\6", 16, std::string(4, '\0')), kCorrupt},
        Attack{"Zip64RecordMissing", patched(good(), "PK\5\6", 16, "\xff\xff\xff\xff"), kCorrupt, "zip64"},
        Attack{"SeveralDisks", patched(good(), "PK\5\6", 4, "\1"), kUnsupported, "disks"}),
    [](const auto& test_info) { return test_info.param.name; });

}  // namespace
}  // namespace ttap
