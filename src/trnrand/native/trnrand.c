/* Host loops of trnrand: parts of a stream as words, uniforms and normals, the two samplers that reject, functions of
   arrays, and Sobol points. Word i of a stream is word i % 4 of block i / 4, whatever part of it a call asks for. */

#include <pthread.h>

#include "engines.h"
#include "numbers.h"

#define MAX_THREADS 64
#define MIN_SHARE 32768

enum { WORDS, UNIFORM_F32, UNIFORM_F64, NORMAL_F32, NORMAL_F64 };

typedef struct job {
  void (*work)(const struct job *);
  int engine, kind, dims;
  const uint32_t *key;
  uint32_t base[4];
  uint64_t first, count;
  const double *in, *also;
  const uint64_t *table;
  int64_t step, also_step;
  void *out;
} job_t;

static void *start(void *given) {
  const job_t *job = given;
  job->work(job);
  return NULL;
}

/* Cut `whole` into shares of whole units of `unit` elements, and run them side by side. `size` is bytes per element. */
static void share(const job_t *whole, uint64_t unit, size_t size, int threads) {
  pthread_t id[MAX_THREADS];
  job_t job[MAX_THREADS];
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  if (threads < 1 || whole->count < 2 * MIN_SHARE) threads = 1;
  uint64_t each = (whole->count / (uint64_t)threads + unit) / unit * unit, done = 0;
  int started = 0;
  for (int t = 0; done < whole->count; t++) {
    job_t *j = &job[t];
    *j = *whole;
    uint64_t left = whole->count - done;
    j->first = whole->first + done;
    j->count = t == threads - 1 || each > left ? left : each;
    j->out = (char *)whole->out + done * size;
    if (whole->in) j->in = whole->in + (int64_t)done * whole->step;
    if (whole->also) j->also = whole->also + (int64_t)done * whole->also_step;
    done += j->count;
    /* a thread that cannot start is no error: its share runs here */
    if (done == whole->count || pthread_create(&id[started], NULL, start, j) != 0)
      j->work(j);
    else
      started++;
  }
  for (int t = 0; t < started; t++) pthread_join(id[t], NULL);
}

/* -- words, uniforms, normals -------------------------------------------------------------------------------------- */

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

static void fill(const job_t *job) {
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

/* Elements first .. first + count of a stream. */
void trnrand_fill(int kind, int engine, const uint32_t *key, const uint32_t *base, uint64_t first, uint64_t count,
                  void *out, int threads) {
  job_t job = {.work = fill, .engine = engine, .kind = kind, .key = key, .first = first, .count = count, .out = out};
  memcpy(job.base, base, sizeof job.base);
  share(&job, 4 * LANES, wide(kind) ? 8 : 4, threads);
}

/* -- samplers that reject ------------------------------------------------------------------------------------------

   Attempt t of element i reads the block base + i + t * 2^96, so an element is the same whatever happens to others. */

static void attempt_block(uint32_t word[4], const job_t *job, uint64_t element, uint32_t attempt) {
  counter_t c = advance(job->base, element);
  c.word[3] += attempt;
  block(word, job->engine, job->key, c);
}

static void attempt_blocks(uint32_t x[4][LANES], const job_t *job, uint64_t element, uint32_t attempt) {
  uint32_t base[4] = {job->base[0], job->base[1], job->base[2], job->base[3] + attempt};
  blocks(x, job->engine, job->key, base, element);
}

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

static void gamma_work(const job_t *job) {
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
          attempt_block(b, job, job->first + at + (uint64_t)l, attempt);
          p[l] = propose(b[0], b[1], b[2], b[3], c[l]);
        }
      double made = d[l] * p[l].v;
      if (shape[l] < 1.0) made = made * boost[l];
      out[at + (uint64_t)l] = made;
    }
  }
}

/* Standard gamma variates of elements first .. first + count; `shape` moves by `step` doubles per element. */
void trnrand_gamma(int engine, const uint32_t *key, const uint32_t *base, uint64_t first, uint64_t count,
                   const double *shape, int64_t step, double *out, int threads) {
  job_t job = {.work = gamma_work, .engine = engine, .key = key, .first = first, .count = count, .in = shape,
               .step = step, .out = out};
  memcpy(job.base, base, sizeof job.base);
  share(&job, LANES, 8, threads);
}

static double small_poisson(double u, double rate, double none) {
  double p = none, total = p, k = 0.0;
  while (u >= total) {
    k = k + 1.0;
    p = p * (rate / k);
    double more = total + p;
    if (more == total && k > rate) break;
    total = more;
  }
  return k;
}

/* Hörmann's PTRS. Returns 1 and the count when the attempt is taken. */
static inline int large_poisson(const uint32_t w[4], double rate, double a, double b, double alpha, double vr, double *k) {
  double u = open_unit(w[0], w[1]) - 0.5, v = open_unit(w[2], w[3]), us = 0.5 - fabs(u);
  *k = floor((2.0 * a / us + b) * u + rate + 0.43);
  if (us >= 0.07 && v <= vr) return 1;
  if (*k < 0.0 || (us < 0.013 && v > us)) return 0;
  return log64(v * alpha / (a / (us * us) + b)) <= log_poisson(*k, rate);
}

static void poisson_work(const job_t *job) {
  double *out = job->out;
  double known = -1.0, none = 0.0, a = 0.0, b = 0.0, alpha = 0.0, vr = 0.0;
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int n = job->count - at < LANES ? (int)(job->count - at) : LANES;
    uint32_t x[4][LANES];
    attempt_blocks(x, job, job->first + at, 0);
    for (int l = 0; l < n; l++) {
      double rate = job->in[(int64_t)(at + (uint64_t)l) * job->step];
      if (rate != known) {
        known = rate;
        none = exp64(-rate);
        b = 0.931 + 2.53 * sqrt(rate);
        a = -0.059 + 0.02483 * b;
        alpha = 1.1239 + 1.1328 / (b - 3.4);
        vr = 0.9277 - 3.6224 / (b - 2.0);
      }
      uint32_t w[4] = {x[0][l], x[1][l], x[2][l], x[3][l]};
      double k;
      if (rate < 10.0)
        k = small_poisson(half_open(w[0], w[1]), rate, none);
      else
        for (uint32_t attempt = 1; !large_poisson(w, rate, a, b, alpha, vr, &k); attempt++)
          attempt_block(w, job, job->first + at + (uint64_t)l, attempt);
      out[at + (uint64_t)l] = k;
    }
  }
}

/* Poisson counts as doubles; arguments as for gamma. */
void trnrand_poisson(int engine, const uint32_t *key, const uint32_t *base, uint64_t first, uint64_t count,
                     const double *rate, int64_t step, double *out, int threads) {
  job_t job = {.work = poisson_work, .engine = engine, .key = key, .first = first, .count = count, .in = rate,
               .step = step, .out = out};
  memcpy(job.base, base, sizeof job.base);
  share(&job, LANES, 8, threads);
}

static double small_binomial(double u, double n, double p, double none) {
  double odds = p / (1.0 - p), chance = none, total = none, k = 0.0;
  while (u >= total && k < n) {
    k = k + 1.0;
    chance = chance * (odds * ((n - k + 1.0) / k));
    double more = total + chance;
    if (more == total && k > n * p) break;
    total = more;
  }
  return k;
}

/* What Hörmann's BTRS needs of n and p. */
typedef struct { double n, p, q, a, b, c, vr, alpha, top; } btrs_t;

static btrs_t btrs(double n, double p) {
  btrs_t t = {.n = n, .p = p, .q = 1.0 - p};
  double spread = sqrt(n * p * t.q);
  t.b = 1.15 + 2.53 * spread;
  t.a = -0.0873 + 0.0248 * t.b + 0.01 * p;
  t.c = n * p + 0.5;
  t.vr = 0.92 - 4.2 / t.b;
  t.alpha = (2.83 + 5.1 / t.b) * spread;
  t.top = log_binomial(floor((n + 1.0) * p), n, p, t.q);
  return t;
}

static int large_binomial(const uint32_t w[4], const btrs_t *t, double *k) {
  double u = open_unit(w[0], w[1]) - 0.5, v = open_unit(w[2], w[3]), us = 0.5 - fabs(u);
  *k = floor((2.0 * t->a / us + t->b) * u + t->c);
  if (*k < 0.0 || *k > t->n) return 0;
  if (us >= 0.07 && v <= t->vr) return 1;
  return log64(v * t->alpha / (t->a / (us * us) + t->b)) <= log_binomial(*k, t->n, t->p, t->q) - t->top;
}

static void binomial_work(const job_t *job) {
  double *out = job->out;
  btrs_t t = {.n = -1.0};
  double known_n = -1.0, known_p = -1.0, none = 0.0;
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int count = job->count - at < LANES ? (int)(job->count - at) : LANES;
    uint32_t x[4][LANES];
    attempt_blocks(x, job, job->first + at, 0);
    for (int l = 0; l < count; l++) {
      int64_t i = (int64_t)(at + (uint64_t)l);
      double n = job->in[i * job->step], p = job->also[i * job->also_step];
      double rare = p > 0.5 ? 1.0 - p : p, k;
      uint32_t w[4] = {x[0][l], x[1][l], x[2][l], x[3][l]};
      if (n * rare < 10.0) {
        if (known_n != n || known_p != rare) none = exp64(n * log_complement(rare));
        known_n = n;
        known_p = rare;
        k = small_binomial(half_open(w[0], w[1]), n, rare, none);
      } else {
        if (t.n != n || t.p != rare) t = btrs(n, rare);
        for (uint32_t attempt = 1; !large_binomial(w, &t, &k); attempt++)
          attempt_block(w, job, job->first + at + (uint64_t)l, attempt);
      }
      out[i] = p > 0.5 ? n - k : k;
    }
  }
}

/* Binomial counts as doubles; arguments as for gamma, with trials and chances. */
void trnrand_binomial(int engine, const uint32_t *key, const uint32_t *base, uint64_t first, uint64_t count,
                      const double *trials, int64_t step, const double *chance, int64_t chance_step, double *out,
                      int threads) {
  job_t job = {.work = binomial_work, .engine = engine, .key = key, .first = first, .count = count, .in = trials,
               .step = step, .also = chance, .also_step = chance_step, .out = out};
  memcpy(job.base, base, sizeof job.base);
  share(&job, LANES, 8, threads);
}

/* -- functions of arrays ------------------------------------------------------------------------------------------- */

enum { LOG, EXP, SIN_TURN, COS_TURN };

static void map_work(const job_t *job) {
  const double *in = job->in;
  double *out = job->out, other;
  uint64_t n = job->count;
  if (job->kind == LOG)
    for (uint64_t i = 0; i < n; i++) out[i] = log64(in[i]);
  else if (job->kind == EXP)
    for (uint64_t i = 0; i < n; i++) out[i] = exp64(in[i]);
  else if (job->kind == SIN_TURN)
    for (uint64_t i = 0; i < n; i++) turn64(in[i], &out[i], &other);
  else
    for (uint64_t i = 0; i < n; i++) turn64(in[i], &other, &out[i]);
}

/* out[i] = function(in[i]) */
void trnrand_map(int kind, const double *in, double *out, uint64_t count, int threads) {
  job_t job = {.work = map_work, .kind = kind, .in = in, .step = 1, .count = count, .out = out};
  share(&job, 64, 8, threads);
}

/* -- Sobol points -------------------------------------------------------------------------------------------------- */

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

/* -- Halton points ------------------------------------------------------------------------------------------------- */

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
