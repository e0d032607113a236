#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/segment/segment_writer.h"
#include "ttap/fingerprint.h"
#include "ttap/group.h"

// A segment with quantized tensors, as tests write it by hand.
namespace ttap::test {

// A matrix of 4 × 32, quantized as NVFP4: payload, scales and a global scale.
inline const EncodedTensor& sample_weight() {
  static const EncodedTensor encoded = [] {
    std::vector<float> values(4 * 32);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 6.0F;
    const std::vector<int64_t> shape = {4, 32};
    return encode({values.data(), DType::kF32, shape, {}}, *quant_format("nvfp4")).value();
  }();
  return encoded;
}

inline std::vector<float> decoded_weight() {
  std::vector<float> values(4 * 32);
  EXPECT_TRUE(decode(sample_weight().group(), DType::kF32, values.data()).ok());
  return values;
}

inline std::string sample_description() {
  return to_json(GroupDescription{.format = sample_weight().format, .parts = {"payload", "scale", "global_scale"}});
}

inline TensorRecord record_at(std::string_view path, const TensorView& view) {
  TensorRecord record;
  record.name = "fc";
  record.role = "param";
  record.path = path;
  record.dtype = view.dtype;
  record.shape = view.shape;
  record.byte_count = byte_count(view);
  record.has_fingerprint = true;
  record.fingerprint = fingerprint(view);
  return record;
}

// `fc@param/weight`, its parts, and in a flush of its own a plain `fc@param/bias`; `also` is an alias of `fc`.
inline std::filesystem::path write_groups(const std::filesystem::path& directory) {
  const auto path = directory / "pass00003.ttap";
  const EncodedTensor& weight = sample_weight();
  const QuantGroup group = weight.group();
  const std::vector<float> values = decoded_weight();
  auto writer = SegmentWriter::create(path, 3, 0, "{}", {});
  EXPECT_TRUE(writer.ok());
  const auto add_part = [&](std::string_view at, const TensorView& view) {
    TensorRecord record = record_at(at, view);
    record.has_bytes = true;
    writer->add_tensor(record, 0, {static_cast<const std::byte*>(view.data), record.byte_count});
    writer->add_alias_row("also");
  };
  add_part("/weight/payload", group.payload);
  add_part("/weight/scale", *group.scale);
  add_part("/weight/global_scale", *group.global);
  TensorRecord whole = record_at("/weight", {values.data(), DType::kF32, weight.shape, {}});
  whole.level = Level::kFingerprint;
  const std::string description = sample_description();
  whole.group = description;
  writer->add_tensor(whole, 0, {});
  writer->add_alias_row("also");
  EXPECT_FALSE(writer->flush().error);
  const std::vector<int64_t> shape = {4};
  TensorRecord bias = record_at("/bias", {values.data(), DType::kF32, shape, {}});
  bias.has_bytes = true;
  writer->add_tensor(bias, 0, std::as_bytes(std::span(values).first(4)));
  whole.path = "/weight/columnwise";
  writer->add_tensor(whole, 0, {});
  EXPECT_FALSE(writer->flush().error);
  EXPECT_TRUE(writer->finish(to_json(EndRecord{}), {}).ok());
  return path;
}

}  // namespace ttap::test
