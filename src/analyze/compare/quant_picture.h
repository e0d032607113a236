#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/compare/measures.h"
#include "ttap/quant.h"

// What a quantized tensor looks like: its blocks and their scales, its codes, and how far it is from what it was made
// of. Everything is told of the tensor as a matrix, all but the last dimension down, however it is stored.
namespace ttap {

// The scales as a rectangle of at most kMostScaleCells cells a side. A cell holds the largest of its scales, NaN where
// one of them is NaN.
struct ScaleMap {
  uint64_t rows = 0;  // of blocks, before thinning
  uint64_t columns = 0;
  uint64_t row_step = 1;  // blocks in a cell
  uint64_t column_step = 1;
  uint64_t cells_down = 0;
  uint64_t cells_right = 0;
  std::vector<float> cells = {};  // row by row
};
inline constexpr uint64_t kMostScaleCells = 128;

// A few rows and columns of the values, with the scale of the block that each is in.
struct BlockGrid {
  std::vector<int64_t> rows = {};     // those shown; a step of more than 1 is a gap
  std::vector<int64_t> columns = {};  // likewise
  std::vector<float> values = {};     // rows × columns, decoded
  std::vector<float> scales = {};     // rows × columns
  std::vector<float> before = {};     // rows × columns of the twin; empty without one
};

struct QuantPicture {
  QuantFormat format = {};
  std::vector<int64_t> shape = {};
  int64_t rows = 0;  // of the matrix
  int64_t columns = 0;
  int64_t block_rows = 1;  // of one block in it
  int64_t block_columns = 1;
  std::vector<double> globals = {};  // as stored; the first few
  uint64_t global_count = 0;
  double scale_min = 0;  // decoded
  double scale_max = 0;
  uint64_t scales_nan = 0;
  uint64_t zero_blocks = 0;          // blocks of zeros
  std::vector<uint64_t> codes = {};  // how often each code occurs
  ScaleMap scales = {};
  BlockGrid grid = {};
  std::optional<QuantStats> stats = {};  // against the twin, without codes
  std::vector<WorstPair> worst = {};     // a: the twin's value, b: the decoded one; the worst first
};

struct QuantPictureOptions {
  int64_t first_row = 0;  // where the grid begins
  int64_t first_column = 0;
  size_t worst = 5;
};

// Of a group that decodes. `twin`: what it was made from, of the same shape and of f32, bf16 or f16; or null.
Result<QuantPicture> quant_picture(const QuantGroup& group, const TensorView* twin,
                                   const QuantPictureOptions& options = {});
// What a recipe would make of a tensor.
Result<QuantPicture> quant_picture(const TensorView& tensor, const QuantFormat& recipe,
                                   const QuantPictureOptions& options = {});

// How often codes occur, for people: every code of four bits by value; of more bits what has the same exponent, by
// magnitude; integers of eight bits in sixteen steps.
struct CodeBin {
  float low = 0;  // the values of its codes; equal when it is one
  float high = 0;
  uint64_t count = 0;
  std::string codes = {};  // "0x3", "0x38-0x3f"
};
std::vector<CodeBin> code_bins(QuantElement element, const std::vector<uint64_t>& codes);

}  // namespace ttap
