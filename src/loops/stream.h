/* Parts of a stream as words, uniforms and normals, and functions of arrays. Word i of a stream is word i % 4 of block
   i / 4, whatever part of it a call asks for. */

#ifndef LOOPS_STREAM_H
#define LOOPS_STREAM_H

#include "share.h"

static void normals_f32(float *out, const uint32_t *word, int pairs) {
  for (int j = 0; j < pairs; j++) {
    float u = unit_open_low(word[2 * j]);
    float r = sqrtf(-2.0f * log32(u)), s, c;
    turn32(word[2 * j + 1] >> 8, &s, &c);
    out[2 * j] = r * c;
    out[2 * j + 1] = r * s;
  }
}

static void normals_f64(double *out, const uint32_t *word, int pairs) {
  for (int j = 0; j < pairs; j++) {
    const uint32_t *w = word + 4 * j;
    double u = half_open(w[0], w[1]) + 0x1p-53, s, c;
    double r = sqrt(-2.0 * log64(u));
    turn64(half_open(w[2], w[3]), &s, &c);
    out[2 * j] = r * c;
    out[2 * j + 1] = r * s;
  }
}

static void convert(const job_t *job, const uint32_t *word, void *out) {
  const int n = 4 * LANES;
  if (job->kind == WORDS) {
    memcpy(out, word, sizeof(uint32_t) * (size_t)n);
  } else if (job->kind == UNIFORM_F32) {
    float *to = out;
    for (int i = 0; i < n; i++) to[i] = (float)(word[i] >> 8) * 0x1p-24f;
  } else if (job->kind == UNIFORM_F64) {
    double *to = out;
    for (int i = 0; i < n / 2; i++) to[i] = half_open(word[2 * i], word[2 * i + 1]);
  } else if (job->kind == NORMAL_F32) {
    normals_f32(out, word, n / 2);
  } else {
    normals_f64(out, word, n / 4);
  }
}

static int wide(int kind) { return kind == UNIFORM_F64 || kind == NORMAL_F64; }

HOT static void fill(const job_t *job) {
  const uint64_t per = wide(job->kind) ? 2 * LANES : 4 * LANES; /* elements of a batch */
  const size_t size = wide(job->kind) ? 8 : 4;
  uint32_t word[4 * LANES];
  double aligned[4 * LANES];
  uint64_t at = job->first, end = job->first + job->count;
  char *out = job->out;
  while (at < end) {
    uint64_t number = at / per, skip = at % per, take = per - skip;
    if (take > end - at) take = end - at;
    batch(word, job->engine, job->key, job->base, number * LANES);
    if (take == per) {
      convert(job, word, out);
    } else {
      convert(job, word, aligned);
      memcpy(out, (char *)aligned + skip * size, take * size);
    }
    out += take * size;
    at += take;
  }
}

HOT static void given(const job_t *job) {
  uint32_t x[4][LANES] = {{0}}, *out = job->out;
  const int64_t *in = (const void *)job->in;
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int n = job->count - at < LANES ? (int)(job->count - at) : LANES;
    for (int l = 0; l < n; l++)
      for (int w = 0; w < 4; w++) x[w][l] = (uint32_t)*in++;
    mixed(x, job->engine, job->key);
    for (int l = 0; l < n; l++)
      for (int w = 0; w < 4; w++) *out++ = x[w][l];
  }
}

enum { LOG, EXP, SIN_TURN, COS_TURN };

HOT static void map_work(const job_t *job) {
  const double *in = job->in;
  double *out = job->out, other;
  uint64_t n = job->count;
  switch (job->kind) {
    case LOG: FOR_ALL(n, out[i] = log64(in[i])) break;
    case EXP: FOR_ALL(n, out[i] = exp64(in[i])) break;
    case SIN_TURN: FOR_ALL(n, turn64(in[i], &out[i], &other)) break;
    default: FOR_ALL(n, turn64(in[i], &other, &out[i]))
  }
}

#endif
