#include <algorithm>
#include <bit>
#include <numeric>

#include "core/float_mode.h"
#include "quant/quantizer.h"
#include "quant/row_decoder.h"
#include "quant/row_reader.h"
#include "quant/stats_sums.h"

namespace ttap {
namespace {

// Blocks with more rows than this are observed before anything is encoded.
constexpr int64_t kTallest = 512;

struct Recipe {
  Quantizer quantizer;
  StatsSums sums;
  bool observed = false;  // its blocks are taller than a strip: scales were chosen before
};

// The same blocks in the tensor as it is: what is stored transposed has its blocks turned.
QuantFormat as_it_is(QuantFormat format) {
  if (!format.stored_transposed) return format;
  format.stored_transposed = false;
  if (format.shared_rows == 1) std::swap(format.block_rows, format.block_columns);
  return format;
}

bool is_tall(const Quantizer& quantizer) { return quantizer.strip_rows() > kTallest; }

// What a strip of rows does to one recipe.
void take_strip(Recipe& recipe, std::span<const float* const> rows, float global, std::vector<uint8_t>& codes,
                std::vector<float>& after) {
  Quantizer& quantizer = recipe.quantizer;
  const auto columns = static_cast<size_t>(quantizer.geometry().columns);
  const auto height = recipe.observed ? rows.size() : static_cast<size_t>(quantizer.strip_rows());
  for (size_t first = 0; first < rows.size(); first += height) {
    const auto block = rows.subspan(first, std::min(height, rows.size() - first));
    if (!recipe.observed) {
      quantizer.start_strip();
      for (const float* row : block) quantizer.observe(row);
      quantizer.choose(global);
      recipe.sums.add_blocks(quantizer.largest_finite(), quantizer.least_finite());
      for (const BlockScale& scale : quantizer.chosen()) recipe.sums.add_scale(scale.scale);
    }
    for (const float* row : block) {
      quantizer.encode(row, codes.data());
      recipe.sums.add_codes(codes.data(), columns);
      quantizer.decode(codes.data(), after.data());
      row_kernels().errors(row, after.data(), columns, quantizer.run(), quantizer.lower(), quantizer.upper(),
                           recipe.sums.errors());
    }
  }
}

// The scales of tall blocks, of which all rows must be seen first. Returns the largest magnitude of the tensor.
float observe_all(RowReader& reader, std::span<Recipe> recipes, std::vector<float>& buffer) {
  uint32_t largest = 0;
  uint32_t least = 0xFFFFFFFF;
  const auto columns = static_cast<size_t>(reader.columns());
  for (Recipe& recipe : recipes)
    if (is_tall(recipe.quantizer)) recipe.quantizer.start_strip();
  for (int64_t i = 0; i < reader.rows(); ++i) {
    const float* row = reader.row(i, buffer.data());
    row_kernels().extremes(row, columns, (columns + 15) / 16 * 16, &largest, &least);
    for (Recipe& recipe : recipes)
      if (is_tall(recipe.quantizer)) recipe.quantizer.observe(row);
  }
  return std::bit_cast<float>(largest);
}

Status check_recipe(const QuantFormat& recipe) {
  if (recipe.stored_transposed && recipe.global_per_row)
    return Error{ErrorCode::kUnsupported, "a global scale per column is not computed: '" + recipe.name + "'"};
  return {};
}

}  // namespace

Result<std::vector<QuantStats>> quant_statistics(const TensorView& tensor, std::span<const QuantFormat> formats,
                                                 const QuantStatsOptions& options) {
  TTAP_TRY(validate(tensor));
  TTAP_TRY(RowReader::check_dtype(tensor.dtype));
  const DefaultFloatMode mode;
  std::vector<Recipe> recipes;
  int64_t strip = 1;
  bool looks_first = false;
  for (const QuantFormat& format : formats) {
    TTAP_TRY(check_recipe(format));
    const QuantFormat turned = as_it_is(format);
    TTAP_ASSIGN(Geometry geometry, geometry_of(turned, tensor.shape));
    if (geometry.empty()) geometry = {};  // nothing is to be as long as one of its lengths
    TTAP_ASSIGN(Quantizer quantizer, Quantizer::create(turned, geometry, tensor.dtype, options.encode));
    if (is_tall(quantizer) && geometry.grid_rows > 1)
      return Error{ErrorCode::kUnsupported, "blocks of more than 512 rows, but not of all: '" + format.name + "'"};
    if (!is_tall(quantizer)) strip = std::lcm(strip, std::min(quantizer.strip_rows(), geometry.rows));
    // One block of known magnitude needs no looking; its dynamic range is then found by the way.
    looks_first = looks_first || is_tall(quantizer) || (quantizer.wants_amax() && !options.encode.amax);
    recipes.push_back({std::move(quantizer), StatsSums(format.element, options.block_amax)});
  }
  if (element_count(tensor) == 0) return std::vector<QuantStats>(formats.size());
  RowReader reader(tensor, false);
  const auto columns = static_cast<size_t>(reader.columns());

  std::vector<float> after(columns);
  float amax = options.encode.amax.value_or(0.0F);
  if (looks_first) amax = observe_all(reader, recipes, after);
  std::vector<float> globals;
  globals.reserve(recipes.size());
  for (Recipe& recipe : recipes) {
    globals.push_back(recipe.quantizer.wants_amax() ? recipe.quantizer.global(options.encode.amax.value_or(amax))
                                                    : options.encode.global.value_or(1.0F));
    if (!is_tall(recipe.quantizer)) continue;
    recipe.observed = true;
    recipe.quantizer.choose(globals.back());
    recipe.sums.add_blocks(recipe.quantizer.largest_finite(), recipe.quantizer.least_finite());
    for (const BlockScale& scale : recipe.quantizer.chosen()) recipe.sums.add_scale(scale.scale);
  }

  // Each row is read once, and lies in the cache for every recipe.
  std::vector<float> buffer(static_cast<size_t>(std::min(strip, reader.rows())) * columns);
  std::vector<const float*> rows;
  std::vector<uint8_t> codes(columns);
  for (int64_t first = 0; first < reader.rows(); first += strip) {
    rows.clear();
    const int64_t height = std::min(strip, reader.rows() - first);
    for (int64_t i = 0; i < height; ++i)
      rows.push_back(reader.row(first + i, buffer.data() + static_cast<size_t>(i) * columns));
    for (size_t k = 0; k < recipes.size(); ++k) take_strip(recipes[k], rows, globals[k], codes, after);
  }
  std::vector<QuantStats> results;
  results.reserve(recipes.size());
  const uint64_t count = static_cast<uint64_t>(reader.rows()) * columns;
  for (const Recipe& recipe : recipes)
    results.push_back(recipe.sums.result(count, recipe.quantizer.geometry().grid_columns));
  return results;
}

Result<QuantStats> quant_statistics(const TensorView& tensor, const QuantGroup& group, bool block_amax) {
  TTAP_TRY(validate(tensor));
  TTAP_TRY(RowReader::check_dtype(tensor.dtype));
  TTAP_TRY(validate(group));
  if (!std::equal(tensor.shape.begin(), tensor.shape.end(), group.shape.begin(), group.shape.end()))
    return wrong_group("the tensor and its quantized form differ in shape");
  if (group.format.rotated)
    return Error{ErrorCode::kUnsupported,
                 "the values were rotated before they were quantized: they are not the tensor's"};
  TTAP_ASSIGN(const Geometry geometry, geometry_of(group.format, group.shape));
  if (geometry.empty()) return QuantStats();
  const DefaultFloatMode mode;
  TTAP_ASSIGN(RowDecoder decoder, RowDecoder::create(group));
  StatsSums sums(group.format.element, block_amax);
  const auto columns = static_cast<size_t>(geometry.columns);

  RowReader reader(tensor, group.format.stored_transposed);
  const auto blocks = static_cast<size_t>(geometry.grid_columns);
  std::vector<float> buffer(columns), after(columns), scales(blocks), lower(columns), upper(columns), edges(blocks);
  std::vector<uint32_t> largest(blocks), least(blocks);
  const size_t run = run_of(geometry.block_columns, geometry.columns);
  // Rows whose scales were chosen together are one block.
  const int64_t height = std::max(geometry.block_rows, group.format.shared_rows);
  for (int64_t row = 0; row < geometry.rows; ++row) {
    if (row % geometry.block_rows == 0 || decoder.scales().varies_by_row()) {
      decoder.scales().fill(row, scales.data());
      for (const float scale : scales) sums.add_scale(scale);
      const float* zeros = decoder.scales().has_zeros() ? decoder.scales().zeros(row / geometry.block_rows) : nullptr;
      const auto edge = [&](size_t k) { return overflow_edges(group.format, scales[k], zeros ? zeros[k] : 0.0F); };
      for (size_t k = 0; k < blocks; ++k) edges[k] = edge(k).lower;
      spread(edges.data(), geometry.block_columns, geometry.columns, run, lower.data());
      for (size_t k = 0; k < blocks; ++k) edges[k] = edge(k).upper;
      spread(edges.data(), geometry.block_columns, geometry.columns, run, upper.data());
    }
    if (row % height == 0) {
      std::fill(largest.begin(), largest.end(), 0u);
      std::fill(least.begin(), least.end(), 0xFFFFFFFFu);
    }
    const float* before = reader.row(row, buffer.data());
    decoder.decode(row, after.data());
    sums.add_codes(decoder.codes(row), columns);
    row_kernels().errors(before, after.data(), columns, run, lower.data(), upper.data(), sums.errors());
    for (size_t i = 0; i < columns; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(before[i]) & 0x7FFFFFFF;
      if (magnitude >= 0x7F800000) continue;
      const size_t block = i / static_cast<size_t>(geometry.block_columns);
      largest[block] = std::max(largest[block], magnitude);
      least[block] = std::min(least[block], magnitude - 1);
    }
    if (row % height == height - 1 || row == geometry.rows - 1) sums.add_blocks(largest, least);
  }
  return sums.result(static_cast<uint64_t>(geometry.rows) * columns, geometry.grid_columns);
}

}  // namespace ttap
