/* Poisson and binomial counts: inversion where few are expected, Hörmann's transformed rejection elsewhere. */

#ifndef LOOPS_COUNTS_H
#define LOOPS_COUNTS_H

#include "share.h"

#define SUMS 128
#define MEMO 4096

/* Cumulative chances as far as they were needed: total[k] is the chance of at most k, added up in order. The sum stops
   growing long before SUMS where fewer than 10 are expected. */
typedef struct {
  double total[SUMS], chance, mean, rate, odds, n;
  int sums;
} sums_t;

static void begin(sums_t *s, double none, double mean, double rate, double odds, double n) {
  s->total[0] = s->chance = none;
  s->mean = mean, s->rate = rate, s->odds = odds, s->n = n;
  s->sums = n > 0.0 ? 1 : 0;
  if (!s->sums) s->total[s->sums++] = INFINITY;
}

static void extend(sums_t *s) {
  double k = (double)s->sums, before = s->total[s->sums - 1];
  double step = s->odds > 0.0 ? s->odds * ((s->n - k + 1.0) / k) : s->rate / k;
  s->chance = s->chance * step;
  double more = before + s->chance;
  int ended = (more == before && k > s->mean) || k >= s->n || s->sums == SUMS - 1;
  s->total[s->sums++] = ended ? INFINITY : more;
}

static inline double inverted(sums_t *s, double u) {
  int k = 0;
  for (;; k++) {
    if (k == s->sums) extend(s);
    if (u < s->total[k]) return (double)k;
  }
}

/* Logarithms of chances already computed, by the low bits of the count. */
typedef struct { double k[MEMO], value[MEMO]; } memo_t;

static memo_t *forget(memo_t *m) {
  for (int i = 0; i < MEMO; i++) m->k[i] = -1.0;
  return m;
}

/* Hörmann's constants: PTRS of a rate, BTRS of n and p. */
typedef struct { double rate, n, p, q, a, b, c, vr, alpha, top; memo_t *memo; } hormann_t;

static double log_chance(const hormann_t *t, double k) {
  return t->n > 0.0 ? log_binomial(k, t->n, t->p, t->q) - t->top : log_poisson(k, t->rate);
}

static double remembered(const hormann_t *t, double k) {
  if (!t->memo) return log_chance(t, k);
  int slot = (int)(integer(k) & (MEMO - 1));
  if (t->memo->k[slot] != k) {
    t->memo->value[slot] = log_chance(t, k);
    t->memo->k[slot] = k;
  }
  return t->memo->value[slot];
}

typedef struct { double k, us, v; } count_t;

static inline count_t count_of(const hormann_t *t, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
  double u = open_unit(w0, w1) - 0.5, us = 0.5 - fabs(u), wide = (2.0 * t->a / us + t->b) * u;
  return (count_t){floor64(t->n > 0.0 ? wide + t->c : wide + t->rate + 0.43), us, open_unit(w2, w3)};
}

static int taken(const hormann_t *t, count_t c) {
  int binomial = t->n > 0.0, inside = c.k >= 0.0 && (!binomial || c.k <= t->n);
  if (c.us >= 0.07 && c.v <= t->vr && (inside || !binomial)) return 1;
  if (!inside || (!binomial && c.us < 0.013 && c.v > c.us)) return 0;
  return log64(c.v * t->alpha / (t->a / (c.us * c.us) + t->b)) <= remembered(t, c.k);
}

static hormann_t ptrs(double rate, memo_t *memo) {
  hormann_t t = {.rate = rate, .memo = memo};
  t.b = 0.931 + 2.53 * sqrt(rate);
  t.a = -0.059 + 0.02483 * t.b;
  t.alpha = 1.1239 + 1.1328 / (t.b - 3.4);
  t.vr = 0.9277 - 3.6224 / (t.b - 2.0);
  return t;
}

static hormann_t btrs(double n, double p, memo_t *memo) {
  hormann_t t = {.n = n, .p = p, .q = 1.0 - p, .memo = memo};
  double spread = sqrt(n * p * t.q);
  t.b = 1.15 + 2.53 * spread;
  t.a = -0.0873 + 0.0248 * t.b + 0.01 * p;
  t.c = n * p + 0.5;
  t.vr = 0.92 - 4.2 / t.b;
  t.alpha = (2.83 + 5.1 / t.b) * spread;
  t.top = log_binomial(floor((n + 1.0) * p), n, p, t.q);
  return t;
}

/* The element's count: the proposal of attempt 0 is given, later ones are drawn here. */
static inline double count_at(const job_t *job, const hormann_t *t, uint64_t element, count_t c) {
  for (uint32_t attempt = 1, w[4]; !taken(t, c); attempt++) {
    if (given_up(job, attempt)) return NAN;
    block(w, job->engine, job->key, attempt_counter(job, element, attempt));
    c = count_of(t, w[0], w[1], w[2], w[3]);
  }
  return c.k;
}

/* Which of n proposals, made side by side, are taken. */
static void judged(const hormann_t *t, uint32_t x[4][LANES], int n, double *restrict k, int *restrict ok) {
  /* the vectoriser wants the law outside the loop, and flags as wide as what they are made of */
  double us[LANES], v[LANES], mark[LANES], at_once[LANES], never[LANES];
  const hormann_t law = *t;
  const int binomial = law.n > 0.0;
  for (int l = 0; l < LANES; l++) {
    double u = open_unit(x[0][l], x[1][l]) - 0.5, wide;
    us[l] = 0.5 - fabs(u);
    v[l] = open_unit(x[2][l], x[3][l]);
    wide = (2.0 * law.a / us[l] + law.b) * u;
    k[l] = floor64(binomial ? wide + law.c : wide + law.rate + 0.43);
    at_once[l] = us[l] >= 0.07 && v[l] <= law.vr ? 1.0 : 0.0;
    mark[l] = log64(v[l] * law.alpha / (law.a / (us[l] * us[l]) + law.b));
  }
  for (int l = 0; l < LANES; l++)
    never[l] = k[l] < 0.0 || (binomial ? k[l] > law.n : us[l] < 0.013 && v[l] > us[l]) ? 1.0 : 0.0;
  for (int l = 0; l < n; l++)
    if (at_once[l] != 0.0 && !(binomial && never[l] != 0.0))
      ok[l] = 1;
    else
      ok[l] = never[l] == 0.0 && mark[l] <= remembered(t, k[l]);
}

/* Counts of one law for every element; proposals that are not taken wait until there are many. */
static void alike(const job_t *job, const hormann_t *t, double *out) {
  uint32_t x[4][LANES];
  double k[LANES];
  int ok[LANES];
  queue_t queue = {.n = 0};
  for (uint64_t at = 0; at < job->count || queue.n; at += LANES) {
    if (at < job->count) {
      int n = job->count - at < LANES ? (int)(job->count - at) : LANES;
      attempt_blocks(x, job, job->first + at, 0);
      judged(t, x, n, k, ok);
      for (int l = 0; l < n; l++) {
        out[at + (uint64_t)l] = k[l];
        refused(&queue, job->first + at + (uint64_t)l, 1, !ok[l]);
      }
    }
    while (queue.n > LANES || (queue.n && at >= job->count)) {
      int n = queued_blocks(x, job, &queue), from = queue.n - n;
      judged(t, x, n, k, ok);
      queue.n = from;
      for (int l = 0; l < n; l++) {
        uint64_t element = queue.element[from + l];
        out[element - job->first] = k[l];
        refused(&queue, element, queue.attempt[from + l] + 1, !ok[l] && !given_up(job, queue.attempt[from + l]));
      }
    }
  }
}

/* How counts are drawn: Poisson of a rate, or binomial of n and p, by sums where few are expected. */
typedef struct { int few; double a, b; sums_t sums; hormann_t t; } counting_t;

static void prepare(counting_t *c, int binomial, double a, double b, memo_t *memo) {
  double rare = b > 0.5 ? 1.0 - b : b, mean = binomial ? a * rare : a;
  c->a = a, c->b = b, c->few = mean < 10.0;
  if (!c->few)
    c->t = binomial ? btrs(a, rare, memo) : ptrs(a, memo);
  else if (binomial)
    begin(&c->sums, exp64(a * log_complement(rare)), mean, 0.0, rare / (1.0 - rare), a);
  else
    begin(&c->sums, exp64(-a), a, a, 0.0, INFINITY);
}

HOT static void counts_each(const job_t *job) {
  double *out = job->out;
  counting_t c = {.a = -1.0};
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int count = job->count - at < LANES ? (int)(job->count - at) : LANES;
    uint32_t x[4][LANES];
    attempt_blocks(x, job, job->first + at, 0);
    for (int l = 0; l < count; l++) {
      uint64_t i = at + (uint64_t)l;
      double a = job->in[(int64_t)i * job->step], b = job->also ? job->also[(int64_t)i * job->also_step] : 0.0, k;
      if (c.a != a || c.b != b) prepare(&c, job->also != NULL, a, b, NULL);
      if (c.few)
        k = inverted(&c.sums, half_open(x[0][l], x[1][l]));
      else
        k = count_at(job, &c.t, job->first + i, count_of(&c.t, x[0][l], x[1][l], x[2][l], x[3][l]));
      out[i] = b > 0.5 ? a - k : k;
    }
  }
}

/* The same where the parameters are those of every element. */
HOT static void counts_alike(const job_t *job) {
  counting_t c = {0};
  memo_t memo;
  double n = job->in[0], p = job->also ? job->also[0] : 0.0, *out = job->out;
  prepare(&c, job->also != NULL, n, p, job->count > MEMO ? forget(&memo) : NULL);
  if (c.few) return counts_each(job);
  alike(job, &c.t, out);
  for (uint64_t i = 0; p > 0.5 && i < job->count; i++) out[i] = n - out[i];
}

#endif
