/* Sobol and Halton points. */

#ifndef TRNRAND_POINTS_H
#define TRNRAND_POINTS_H

#include "share.h"

static void sobol_row(void *out, const uint64_t *x, int dims, int kind, uint64_t row) {
  if (kind == UNIFORM_F64) {
    double *to = (double *)out + row * (uint64_t)dims;
    for (int d = 0; d < dims; d++) to[d] = (double)(int64_t)(x[d] >> 11) * 0x1p-53;
  } else if (kind == UNIFORM_F32) {
    float *to = (float *)out + row * (uint64_t)dims;
    for (int d = 0; d < dims; d++) to[d] = (float)(int32_t)(x[d] >> 40) * 0x1p-24f;
  } else {
    memcpy((uint64_t *)out + row * (uint64_t)dims, x, sizeof(uint64_t) * (size_t)dims);
  }
}

static void sobol_work(const job_t *job) {
  /* points in Gray-code order: neighbours differ in one direction number */
  int dims = job->dims;
  uint64_t x[dims];
  uint64_t gray = job->first ^ (job->first >> 1);
  for (int d = 0; d < dims; d++) x[d] = job->table[64 * dims + d];
  for (int bit = 0; bit < 64; bit++)
    if (gray >> bit & 1)
      for (int d = 0; d < dims; d++) x[d] ^= job->table[bit * dims + d];
  for (uint64_t i = 0; i < job->count; i++) {
    sobol_row(job->out, x, dims, job->kind, i);
    uint64_t next = job->first + i + 1;
    if (next == 0) break;
    const uint64_t *v = job->table + __builtin_ctzll(next) * dims;
    for (int d = 0; d < dims; d++) x[d] ^= v[d];
  }
}

/* Points first .. first + count, one row of `dims` each. `table` holds 64 rows of direction numbers, then a shift. */
void trnrand_sobol(int kind, const uint64_t *table, int dims, uint64_t first, uint64_t count, void *out, int threads) {
  job_t job = {.work = sobol_work, .kind = kind, .dims = dims, .table = table, .first = first, .count = count, .out = out};
  share(&job, 1, (size_t)dims * (kind == UNIFORM_F32 ? 4 : 8), threads);
}

static double mirrored(uint64_t index, uint64_t base, uint64_t digits, double whole) {
  uint64_t made = 0;
  for (uint64_t k = 0; k < digits; k++) {
    /* a division of 32 bits is several times faster */
    uint64_t above = index >> 32 ? index / base : (uint32_t)index / (uint32_t)base;
    made = made * base + (index - above * base);
    index = above;
  }
  return (double)(int64_t)made / whole;
}

static void halton_work(const job_t *job) {
  const uint64_t *bases = job->table, *digits = job->table + job->dims;
  for (int d = 0; d < job->dims; d++) {
    double whole = 1.0;
    for (uint64_t k = 0; k < digits[d]; k++) whole *= (double)bases[d];
    for (uint64_t i = 0; i < job->count; i++) {
      double x = mirrored(job->first + i, bases[d], digits[d], whole);
      uint64_t at = i * (uint64_t)job->dims + (uint64_t)d;
      if (job->kind == UNIFORM_F64)
        ((double *)job->out)[at] = x;
      else
        ((float *)job->out)[at] = (float)(floor(x * 0x1p24) * 0x1p-24);
    }
  }
}

/* Points first .. first + count. `table` holds the base of each dimension, then how many digits to mirror. */
void trnrand_halton(int kind, const uint64_t *table, int dims, uint64_t first, uint64_t count, void *out, int threads) {
  job_t job = {.work = halton_work, .kind = kind, .dims = dims, .table = table, .first = first, .count = count, .out = out};
  share(&job, 1, (size_t)dims * (kind == UNIFORM_F32 ? 4 : 8), threads);
}

#endif
