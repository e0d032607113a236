/* Compiled as C: the header must be plain C, and the calls must do what they say. Returns the line that failed. */
#include <stddef.h>
#include <string.h>

#include "ttap/capi.h"

#define EXPECT(condition) \
  if (!(condition)) return __LINE__

int record_from_c(const char* directory) {
  ttap_options options;
  ttap_options_init(&options);
  options.directory = directory;
  options.rank = 5;
  const char* filter[] = {"^keep"};
  options.filter = filter;
  options.filter_count = 1;
  ttap_recorder* recorder = NULL;
  EXPECT(ttap_recorder_create(&options, &recorder) == 0);
  EXPECT(recorder != NULL);
  EXPECT(ttap_begin_pass(recorder) == 0);
  const int32_t values[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[2] = {2, 2};
  const int64_t strides[2] = {3, 1};
  const ttap_tensor tensor = {values, TTAP_I32, 2, shape, strides};
  EXPECT(ttap_wants(recorder, "keep.me") == 1);
  EXPECT(ttap_wants(recorder, "not.me") == 0);
  EXPECT(ttap_capture(recorder, "keep.me", &tensor, "in", "/0") == 0);
  EXPECT(ttap_capture(recorder, "not.me", &tensor, NULL, NULL) == 0);
  const ttap_tensor broken = {NULL, TTAP_I32, 2, shape, strides};
  EXPECT(ttap_capture(recorder, "keep.broken", &broken, NULL, NULL) != 0);
  EXPECT(strstr(ttap_last_error(), "keep.broken") != NULL);
  const ttap_tensor unknown = {values, 99 + 256, 2, shape, strides};
  EXPECT(ttap_capture(recorder, "keep.unknown", &unknown, NULL, NULL) != 0);
  EXPECT(ttap_flush(recorder) == 0);
  ttap_end_pass(recorder, 1);
  EXPECT(ttap_recorder_close(recorder) == 0);

  options.struct_size = 1;
  EXPECT(ttap_recorder_create(&options, &recorder) != 0);
  EXPECT(recorder == NULL);
  return 0;
}

/* As an older and a newer header would have it: without the last members, and with one more. */
int create_with_other_headers(const char* directory) {
  ttap_options options;
  const size_t old_size = offsetof(ttap_options, level_rules);
  memset(&options, 0xFF, sizeof options); /* what an old program does not have, nobody may read */
  ttap_options_init_sized(&options, old_size);
  options.directory = directory;
  ttap_recorder* recorder = NULL;
  EXPECT(ttap_recorder_create(&options, &recorder) == 0);
  EXPECT(recorder != NULL);
  EXPECT(ttap_recorder_close(recorder) == 0);

  struct {
    ttap_options options;
    const char* more;
  } newer;
  ttap_options_init_sized(&newer.options, sizeof newer);
  newer.options.directory = directory;
  EXPECT(ttap_recorder_create(&newer.options, &recorder) == 0);
  EXPECT(ttap_recorder_close(recorder) == 0);
  newer.more = "this library does not know it";
  EXPECT(ttap_recorder_create(&newer.options, &recorder) != 0);
  EXPECT(strstr(ttap_last_error(), "newer") != NULL);
  return 0;
}

int record_at_levels(const char* directory) {
  EXPECT(ttap_level_from_name("fingerprint") == TTAP_LEVEL_FINGERPRINT);
  EXPECT(ttap_level_from_name("sketch") == TTAP_LEVEL_SKETCH);
  EXPECT(ttap_level_from_name("loud") == -1);
  EXPECT(ttap_level_from_name(NULL) == -1);
  const ttap_level_rule rules[] = {
      {"^head", TTAP_LEVEL_FULL}, {"norm", TTAP_LEVEL_META}, {"^fc", TTAP_LEVEL_SKETCH}};
  ttap_options options;
  ttap_options_init(&options);
  options.directory = directory;
  options.level = TTAP_LEVEL_FINGERPRINT;
  options.level_rules = rules;
  options.level_rule_count = 3;
  ttap_recorder* recorder = NULL;
  EXPECT(ttap_recorder_create(&options, &recorder) == 0);
  const float value = 1;
  const ttap_tensor tensor = {&value, TTAP_F32, 0, NULL, NULL};
  EXPECT(ttap_capture(recorder, "head", &tensor, NULL, NULL) == 0);
  EXPECT(ttap_capture(recorder, "norm", &tensor, NULL, NULL) == 0);
  EXPECT(ttap_capture(recorder, "fc", &tensor, NULL, NULL) == 0);
  EXPECT(ttap_recorder_close(recorder) == 0);
  const ttap_level_rule wrong = {"x", 7};
  options.level_rules = &wrong;
  options.level_rule_count = 1;
  EXPECT(ttap_recorder_create(&options, &recorder) != 0);
  return 0;
}
