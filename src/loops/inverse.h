/* Functions of one uniform. The order of operations is that of the formulas in trnrand/inverse.py, so that both
   give the same bits. */

#ifndef LOOPS_INVERSE_H
#define LOOPS_INVERSE_H

#include "share.h"

enum { EXPONENTIAL, LAPLACE, CAUCHY, GUMBEL, LOGISTIC, WEIBULL, PARETO, GEOMETRIC, BERNOULLI };
enum { TO_F32, TO_F64, TO_I64, TO_BOOL };

#define EACH(formula)                                                          \
  for (int i = 0; i < 2 * LANES; i++) {                                        \
    double u = open_unit(word[2 * i], word[2 * i + 1]);                        \
    made[i] = (formula);                                                       \
  }

static inline double cotangent(double half) { /* of 2 pi half */
  double s, c;
  turn64(half, &s, &c);
  return c / s;
}

static void laws(double *restrict made, const uint32_t *restrict word, int law, double a, double b) {
  switch (law) {
    case EXPONENTIAL: EACH(-a * log64(u)) break;
    case LAPLACE: EACH(a + b * (u < 0.5 ? 1.0 : -1.0) * log64(2.0 * (u < 1.0 - u ? u : 1.0 - u))) break;
    case CAUCHY: EACH(a - b * cotangent(0.5 * u)) break;
    case GUMBEL: EACH(a - b * log64(-log64(u))) break;
    case LOGISTIC: EACH(a + b * (log64(u) - log64(1.0 - u))) break;
    case WEIBULL: EACH(b * exp64(1.0 / a * log64(-log64(u)))) break;
    case PARETO: EACH(b * exp64(-1.0 / a * log64(u))) break;
    case GEOMETRIC: EACH(-floor64(-(log64(u) / a))) break;
    default:
      for (int i = 0; i < 2 * LANES; i++) made[i] = half_open(word[2 * i], word[2 * i + 1]) < a ? 1.0 : 0.0;
  }
  if (law == GEOMETRIC) /* an integer holds no more than this */
    for (int i = 0; i < 2 * LANES; i++) made[i] = made[i] < 1.0 ? 1.0 : made[i] > 0x1p62 ? 0x1p62 : made[i];
}

static const size_t width[] = {4, 8, 8, 1};

static void put(void *out, const double *made, int to, uint64_t n) {
  switch (to) {
    case TO_F32: FOR_ALL(n, ((float *)out)[i] = (float)made[i]) break;
    case TO_F64: memcpy(out, made, 8 * n); break;
    case TO_I64: FOR_ALL(n, ((int64_t *)out)[i] = integer(made[i])) break;
    default: FOR_ALL(n, ((uint8_t *)out)[i] = made[i] != 0.0)
  }
}

HOT static void inverse_work(const job_t *job) {
  const uint64_t per = 2 * LANES;
  uint32_t word[4 * LANES];
  double made[2 * LANES];
  uint64_t at = job->first, end = job->first + job->count;
  char *out = job->out;
  while (at < end) {
    uint64_t skip = at % per, take = per - skip;
    if (take > end - at) take = end - at;
    batch(word, job->engine, job->key, job->base, at / per * LANES);
    laws(made, word, job->kind, job->parameter[0], job->parameter[1]);
    put(out, made + skip, job->dims, take);
    out += take * width[job->dims];
    at += take;
  }
}

#endif
