/* Host loops of trnrand: counter-based words, and the transforms from words to numbers.

   Word i of a stream is word i % 4 of block i / 4, whatever part of the stream a call asks for.
   Floating-point code uses only additions, multiplications and square roots, each rounded once (the build forbids
   contraction), so that the torch implementation of the same formulas gives the same bits. */

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define LANES 64  /* blocks computed side by side, for the vectoriser */
#define MAX_THREADS 64

typedef struct { uint32_t word[4]; } counter_t;

static inline counter_t advance(const uint32_t base[4], uint64_t blocks) {
  /* base + blocks as 128-bit integers */
  counter_t c;
  uint64_t lo = ((uint64_t)base[1] << 32) | base[0], hi = ((uint64_t)base[3] << 32) | base[2];
  uint64_t sum = lo + blocks;
  hi += sum < lo;
  c.word[0] = (uint32_t)sum;
  c.word[1] = (uint32_t)(sum >> 32);
  c.word[2] = (uint32_t)hi;
  c.word[3] = (uint32_t)(hi >> 32);
  return c;
}

static void fill_counters(uint32_t x[4][LANES], const uint32_t base[4], uint64_t first) {
  counter_t start = advance(base, first);
  if (start.word[0] <= UINT32_MAX - LANES) {
    for (int l = 0; l < LANES; l++) {
      x[0][l] = start.word[0] + (uint32_t)l;
      x[1][l] = start.word[1];
      x[2][l] = start.word[2];
      x[3][l] = start.word[3];
    }
  } else {
    for (int l = 0; l < LANES; l++) {
      counter_t c = advance(base, first + (uint64_t)l);
      for (int w = 0; w < 4; w++) x[w][l] = c.word[w];
    }
  }
}

static void philox_blocks(uint32_t x[4][LANES], const uint32_t *key) {
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    for (int l = 0; l < LANES; l++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * x[0][l], p1 = (uint64_t)0xCD9E8D57u * x[2][l];
      uint32_t y0 = (uint32_t)(p1 >> 32) ^ x[1][l] ^ k0, y2 = (uint32_t)(p0 >> 32) ^ x[3][l] ^ k1;
      x[0][l] = y0;
      x[1][l] = (uint32_t)p1;
      x[2][l] = y2;
      x[3][l] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

static inline uint32_t rotl(uint32_t v, int by) { return (v << by) | (v >> (32 - by)); }

static void threefry_blocks(uint32_t x[4][LANES], const uint32_t *key) {
  static const int turn[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  uint32_t ks[5] = {key[0], key[1], key[2], key[3], 0x1BD11BDAu ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
  for (int w = 0; w < 4; w++)
    for (int l = 0; l < LANES; l++) x[w][l] += ks[w];
  for (int round = 0; round < 20; round++) {
    int a = turn[round % 8][0], b = turn[round % 8][1];
    uint32_t *second = round % 2 ? x[3] : x[1], *fourth = round % 2 ? x[1] : x[3];
    for (int l = 0; l < LANES; l++) {
      x[0][l] += second[l];
      second[l] = rotl(second[l], a) ^ x[0][l];
      x[2][l] += fourth[l];
      fourth[l] = rotl(fourth[l], b) ^ x[2][l];
    }
    if (round % 4 == 3) {
      uint32_t s = (uint32_t)(round / 4 + 1);
      for (int w = 0; w < 4; w++) {
        uint32_t add = ks[(s + (uint32_t)w) % 5] + (w == 3 ? s : 0);
        for (int l = 0; l < LANES; l++) x[w][l] += add;
      }
    }
  }
}

/* One batch of LANES blocks, interleaved into 4 * LANES consecutive words. */
static void batch(uint32_t *out, int engine, const uint32_t *key, const uint32_t base[4], uint64_t first) {
  uint32_t x[4][LANES];
  fill_counters(x, base, first);
  if (engine == 0)
    philox_blocks(x, key);
  else
    threefry_blocks(x, key);
  for (int l = 0; l < LANES; l++)
    for (int w = 0; w < 4; w++) out[4 * l + w] = x[w][l];
}

/* -- numbers ------------------------------------------------------------------------------------------------------ */

static inline float unit_open_low(uint32_t word) { /* (0, 1], 24 bits */
  return (float)((word >> 8) + 1) * 0x1p-24f;
}

/* ln(x) for x = k * 2^-24, 0 < k <= 2^24: exponent and a degree-9 polynomial on [sqrt(1/2), sqrt(2)) */
static inline float log_unit(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t shifted = bits - 0x3F3504F3u;
  int32_t e = (int32_t)shifted >> 23;
  uint32_t mantissa = (shifted & 0x7FFFFFu) + 0x3F3504F3u;
  float m;
  memcpy(&m, &mantissa, 4);
  float t = m - 1.0f, z = t * t, k = (float)e;
  float p = 7.0376836292e-2f;
  p = p * t + -1.1514610310e-1f;
  p = p * t + 1.1676998740e-1f;
  p = p * t + -1.2420140846e-1f;
  p = p * t + 1.4249322787e-1f;
  p = p * t + -1.6668057665e-1f;
  p = p * t + 2.0000714765e-1f;
  p = p * t + -2.4999993993e-1f;
  p = p * t + 3.3333331174e-1f;
  float y = p * t;
  y = y * z;
  y = y + k * -2.12194440e-4f;
  y = y - 0.5f * z;
  float r = t + y;
  return r + k * 0.693359375f;
}

/* sin and cos of 2 pi k / 2^24 for an integer k: exact reduction to an eighth of a turn, then polynomials */
static inline void turn(uint32_t k, float *s, float *c) {
  int32_t eighth = (int32_t)((k + (1u << 21)) >> 22) & 3; /* nearest quarter turn */
  int32_t rest = (int32_t)(k << 8) - (int32_t)((uint32_t)eighth << 30);
  rest >>= 8; /* in [-2^21, 2^21): an angle within pi/4 */
  float a = (float)rest * 3.745070282923929e-7f; /* 2 pi / 2^24 */
  float z = a * a;
  float ps = -1.9515295891e-4f;
  ps = ps * z + 8.3321608736e-3f;
  ps = ps * z + -1.6666654611e-1f;
  float sine = ps * z;
  sine = sine * a + a;
  float pc = 2.443315711809948e-5f;
  pc = pc * z + -1.388731625493765e-3f;
  pc = pc * z + 4.166664568298827e-2f;
  float cosine = pc * z;
  cosine = cosine * z;
  cosine = cosine - 0.5f * z;
  cosine = cosine + 1.0f;
  float first = eighth & 1 ? cosine : sine, second = eighth & 1 ? sine : cosine;
  *s = eighth & 2 ? -first : first;
  *c = (eighth + 1) & 2 ? -second : second;
}

static void normals_f32(float *out, const uint32_t *word, int pairs) {
  for (int j = 0; j < pairs; j++) {
    float u = unit_open_low(word[2 * j]);
    float r = sqrtf(-2.0f * log_unit(u)), s, c;
    turn(word[2 * j + 1] >> 8, &s, &c);
    out[2 * j] = r * c;
    out[2 * j + 1] = r * s;
  }
}

/* -- jobs --------------------------------------------------------------------------------------------------------- */

enum { WORDS, UNIFORM_F32, UNIFORM_F64, NORMAL_F32 };

typedef struct {
  int engine, kind;
  const uint32_t *key;
  uint32_t base[4];
  uint64_t first, count; /* elements of this job: uint32, float, double or float */
  float low, scale;
  void *out;
} job_t;

static void convert(const job_t *job, const uint32_t *word, void *out) {
  const int n = 4 * LANES;
  if (job->kind == WORDS) {
    memcpy(out, word, sizeof(uint32_t) * (size_t)n);
  } else if (job->kind == UNIFORM_F32) {
    float *to = out;
    for (int i = 0; i < n; i++) to[i] = (float)(word[i] >> 8) * 0x1p-24f;
  } else if (job->kind == UNIFORM_F64) {
    double *to = out;
    for (int i = 0; i < n / 2; i++) {
      uint64_t wide = ((uint64_t)word[2 * i + 1] << 32) | word[2 * i];
      to[i] = (double)(wide >> 11) * 0x1p-53;
    }
  } else {
    normals_f32(out, word, n / 2);
  }
}

static void *work(void *given) {
  const job_t *job = given;
  const uint64_t per = job->kind == UNIFORM_F64 ? 2 * LANES : 4 * LANES; /* elements of a batch */
  const size_t size = job->kind == UNIFORM_F64 ? 8 : 4;
  uint32_t word[4 * LANES];
  double aligned[4 * LANES];
  uint64_t at = job->first, end = job->first + job->count;
  char *out = job->out;
  while (at < end) {
    uint64_t block = at / per, skip = at % per, take = per - skip;
    if (take > end - at) take = end - at;
    batch(word, job->engine, job->key, job->base, block * LANES);
    if (take == per) {
      convert(job, word, out);
    } else {
      convert(job, word, aligned);
      memcpy(out, (char *)aligned + skip * size, take * size);
    }
    out += take * size;
    at += take;
  }
  return NULL;
}

/* Elements first .. first + count of the stream, on up to `threads` threads. Returns 0, or 1 when a thread could not start. */
int trnrand_fill(int kind, int engine, const uint32_t *key, const uint32_t *base, uint64_t first, uint64_t count,
                 void *out, int threads) {
  pthread_t id[MAX_THREADS];
  job_t job[MAX_THREADS];
  const size_t size = kind == UNIFORM_F64 ? 8 : 4;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  if (threads < 1 || count < 1u << 16) threads = 1;
  uint64_t share = (count / (uint64_t)threads + 255) / 256 * 256, done = 0;
  int started = 0, failed = 0;
  for (int t = 0; t < threads && done < count; t++) {
    uint64_t take = t == threads - 1 || share > count - done ? count - done : share;
    job_t *j = &job[t];
    memset(j, 0, sizeof *j);
    j->engine = engine;
    j->kind = kind;
    j->key = key;
    memcpy(j->base, base, sizeof j->base);
    j->first = first + done;
    j->count = take;
    j->out = (char *)out + done * size;
    done += take;
    if (done == count) {
      work(j);
    } else if (pthread_create(&id[started], NULL, work, j) == 0) {
      started++;
    } else {
      failed = 1;
      work(j);
    }
  }
  for (int t = 0; t < started; t++) pthread_join(id[t], NULL);
  return failed;
}
