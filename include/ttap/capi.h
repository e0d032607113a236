#ifndef TTAP_CAPI_H
#define TTAP_CAPI_H

/* The recorder for programs in C, or in anything that can call C. Every function may be called from any thread, none
 * throws, and a NULL recorder is allowed everywhere: it records nothing, so that a program needs no `if` when recording
 * is off. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define TTAP_CAPI
#else
#define TTAP_CAPI __attribute__((visibility("default")))
#endif

typedef struct ttap_recorder ttap_recorder;

/* As ttap::DType. */
typedef enum ttap_dtype {
  TTAP_BOOL = 1,
  TTAP_U8 = 2,
  TTAP_U16 = 3,
  TTAP_U32 = 4,
  TTAP_U64 = 5,
  TTAP_I8 = 6,
  TTAP_I16 = 7,
  TTAP_I32 = 8,
  TTAP_I64 = 9,
  TTAP_F16 = 10,
  TTAP_BF16 = 11,
  TTAP_F32 = 12,
  TTAP_F64 = 13,
  TTAP_C64 = 14,
  TTAP_C128 = 15,
  TTAP_F8_E4M3FN = 16,
  TTAP_F8_E5M2 = 17,
  TTAP_F8_E4M3FNUZ = 18,
  TTAP_F8_E5M2FNUZ = 19,
  TTAP_F8_E8M0FNU = 20,
  TTAP_F4_E2M1FN_X2 = 21
} ttap_dtype;

typedef enum ttap_level {
  TTAP_LEVEL_META = 0,
  TTAP_LEVEL_FINGERPRINT = 1,
  TTAP_LEVEL_FULL = 2,
  TTAP_LEVEL_SKETCH = 3 /* more than a fingerprint, less than all */
} ttap_level;

/* Names in which the pattern is found are recorded at this level. */
typedef struct ttap_level_rule {
  const char* pattern;
  int32_t level; /* a ttap_level */
} ttap_level_rule;

/* Members are only ever added at the end: a program built against an older header has a smaller struct_size, and the
 * members that it does not know have their defaults. */
typedef struct ttap_options {
  size_t struct_size;        /* sizeof(ttap_options); set by ttap_options_init() */
  const char* directory;     /* of the run; NULL: only TTAP_DIR can switch recording on */
  int64_t rank;              /* -1: from the environment */
  const char* const* filter; /* patterns; NULL: every name */
  size_t filter_count;
  int32_t level;                      /* a ttap_level */
  uint64_t staging_bytes;             /* 0: the default */
  int drop_when_full;                 /* 0: wait */
  uint64_t quota_bytes;               /* 0: no limit */
  const char* metadata_json;          /* NULL, or an object */
  const ttap_level_rule* level_rules; /* the first that matches a name overrides `level` */
  size_t level_rule_count;
} ttap_options;

typedef struct ttap_tensor {
  const void* data;
  int32_t dtype; /* a ttap_dtype */
  int32_t ndim;
  const int64_t* shape;
  const int64_t* strides; /* in elements; NULL: C order */
} ttap_tensor;

TTAP_CAPI const char* ttap_version(void);

/* What went wrong in this thread's last call that returned non-zero. */
TTAP_CAPI const char* ttap_last_error(void);

#define ttap_options_init(options) ttap_options_init_sized(options, sizeof(ttap_options))
TTAP_CAPI void ttap_options_init_sized(ttap_options* options, size_t struct_size);

/* "meta", "fingerprint", "sketch" or "full" as a ttap_level; -1 for another word. */
TTAP_CAPI int32_t ttap_level_from_name(const char* name);

/* What `options` leaves at its default is taken from the environment (TTAP_*); with TTAP_OVERRIDE=1 the environment
 * comes before `options`. With no directory from either, *recorder is NULL and the result 0:
 * recording is off. */
TTAP_CAPI int ttap_recorder_create(const ttap_options* options, ttap_recorder** recorder);

TTAP_CAPI uint32_t ttap_begin_pass(ttap_recorder* recorder);
TTAP_CAPI void ttap_end_pass(ttap_recorder* recorder, int aborted);

/* Non-zero when a tensor of this name would be kept. */
TTAP_CAPI int ttap_wants(ttap_recorder* recorder, const char* name);

/* Copies the tensor and returns; `role` NULL is "out", `path` NULL is the whole output. Non-zero: not recorded; a
 * program may ignore it, the run's coverage counts it (unless the arguments themselves made no sense). */
TTAP_CAPI int ttap_capture(ttap_recorder* recorder, const char* name, const ttap_tensor* tensor, const char* role,
                           const char* path);

/* The same for a tensor in the memory of a GPU, whose `data` is a device pointer. It is read in the order of `stream`
 * (a cudaStream_t; NULL is the legacy default stream): nothing waits, and what is enqueued later changes nothing. */
TTAP_CAPI int ttap_capture_gpu(ttap_recorder* recorder, const char* name, const ttap_tensor* tensor, const char* role,
                               const char* path, int device, void* stream);

TTAP_CAPI int ttap_flush(ttap_recorder* recorder);

/* Ends the open pass and frees the recorder. Non-zero when something could not be written. */
TTAP_CAPI int ttap_recorder_close(ttap_recorder* recorder);

#ifdef __cplusplus
}
#endif

#endif /* TTAP_CAPI_H */
