/* Gamma variates. */

#ifndef LOOPS_GAMMA_H
#define LOOPS_GAMMA_H

#include "share.h"

/* Marsaglia and Tsang: a normal from a radius of 53 bits and an angle of 32, a test of 32. */
typedef struct { double x, v, u; } proposal_t;

static inline proposal_t propose(const uint32_t w0, const uint32_t w1, const uint32_t w2, const uint32_t w3, double c) {
  double radius = sqrt(-2.0 * log64(half_open(w0, w1) + 0x1p-53)), s, cosine;
  turn64((double)w2 * 0x1p-32, &s, &cosine);
  double x = radius * cosine, t = 1.0 + c * x;
  return (proposal_t){x, t * t * t, ((double)w3 + 0.5) * 0x1p-32};
}

static inline int squeezed(proposal_t p) {
  double square = p.x * p.x;
  return (p.v > 0.0) & (p.u < 1.0 - 0.0331 * (square * square));
}

static int accepted(proposal_t p, double d) {
  if (!(p.v > 0.0)) return 0;
  if (squeezed(p)) return 1;
  return log64(p.u) < 0.5 * (p.x * p.x) + d * ((1.0 - p.v) + log64(p.v));
}

HOT static void gamma_work(const job_t *job) {
  double *out = job->out;
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int n = job->count - at < LANES ? (int)(job->count - at) : LANES;
    uint32_t w[4][LANES];
    proposal_t p[LANES];
    double shape[LANES], d[LANES], c[LANES], boost[LANES];
    int ok[LANES], small = 0;
    attempt_blocks(w, job, job->first + at, 1);
    for (int l = 0; l < LANES; l++) shape[l] = l < n ? job->in[(int64_t)(at + (uint64_t)l) * job->step] : 1.0;
    for (int l = 0; l < LANES; l++) {
      d[l] = (shape[l] < 1.0 ? shape[l] + 1.0 : shape[l]) - 1.0 / 3.0;
      c[l] = 1.0 / sqrt(9.0 * d[l]);
      p[l] = propose(w[0][l], w[1][l], w[2][l], w[3][l], c[l]);
      ok[l] = squeezed(p[l]);
    }
    for (int l = 0; l < n; l++) small |= shape[l] < 1.0;
    if (small) {
      attempt_blocks(w, job, job->first + at, 0);
      for (int l = 0; l < LANES; l++) boost[l] = exp64(log64(open_unit(w[0][l], w[1][l])) / shape[l]);
    }
    for (int l = 0; l < n; l++) {
      uint32_t b[4];
      if (!ok[l])
        for (uint32_t attempt = 2; !accepted(p[l], d[l]); attempt++) {
          if (given_up(job, attempt)) return;
          block(b, job->engine, job->key, attempt_counter(job, job->first + at + (uint64_t)l, attempt));
          p[l] = propose(b[0], b[1], b[2], b[3], c[l]);
        }
      double made = d[l] * p[l].v;
      if (shape[l] < 1.0) made = made * boost[l];
      out[at + (uint64_t)l] = made;
    }
  }
}

#endif
