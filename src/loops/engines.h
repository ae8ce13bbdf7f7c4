/* Counter-based words: Philox4x32-10 and Threefry4x32-20, many blocks side by side. */

#ifndef LOOPS_ENGINES_H
#define LOOPS_ENGINES_H

#include <stdint.h>
#include <string.h>

#define LANES 64  /* blocks computed side by side, for the vectoriser */

/* A function compiled for several processors, with everything it calls; the loader takes the best this one runs. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define HOT __attribute__((flatten, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HOT
#endif

typedef struct { uint32_t word[4]; } counter_t;

static inline counter_t advance(const uint32_t base[4], uint64_t blocks) {
  /* base + blocks as 128-bit integers */
  uint64_t lo = ((uint64_t)base[1] << 32) | base[0], hi = ((uint64_t)base[3] << 32) | base[2];
  uint64_t sum = lo + blocks;
  hi += sum < lo;
  return (counter_t){{(uint32_t)sum, (uint32_t)(sum >> 32), (uint32_t)hi, (uint32_t)(hi >> 32)}};
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

/* Words of `lanes` counters in place, word w of counter l in x[w * lanes + l]. */
static inline void philox(uint32_t *x, int lanes, const uint32_t *key) {
  uint32_t k0 = key[0], k1 = key[1], *a = x, *b = x + lanes, *c = b + lanes, *d = c + lanes;
  for (int round = 0; round < 10; round++) {
    for (int l = 0; l < lanes; l++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * a[l], p1 = (uint64_t)0xCD9E8D57u * c[l];
      a[l] = (uint32_t)(p1 >> 32) ^ b[l] ^ k0;
      b[l] = (uint32_t)p1;
      c[l] = (uint32_t)(p0 >> 32) ^ d[l] ^ k1;
      d[l] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

static inline uint32_t rotl(uint32_t v, int by) { return (v << by) | (v >> (32 - by)); }

static inline void mix(uint32_t *restrict x, uint32_t *restrict y, int lanes, int turn) {
  for (int l = 0; l < lanes; l++) {
    x[l] += y[l];
    y[l] = rotl(y[l], turn) ^ x[l];
  }
}

static inline void threefry(uint32_t *x, int lanes, const uint32_t *key) {
  static const int turn[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  uint32_t ks[5] = {key[0], key[1], key[2], key[3], 0x1BD11BDAu ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
  for (int w = 0; w < 4; w++)
    for (int l = 0; l < lanes; l++) x[w * lanes + l] += ks[w];
  for (int round = 0; round < 20; round++) {
    mix(x, x + (round % 2 ? 3 : 1) * lanes, lanes, turn[round % 8][0]);
    mix(x + 2 * lanes, x + (round % 2 ? 1 : 3) * lanes, lanes, turn[round % 8][1]);
    if (round % 4 == 3) {
      uint32_t s = (uint32_t)(round / 4 + 1);
      for (int w = 0; w < 4; w++) {
        uint32_t add = ks[(s + (uint32_t)w) % 5] + (w == 3 ? s : 0);
        for (int l = 0; l < lanes; l++) x[w * lanes + l] += add;
      }
    }
  }
}

/* Counters turned into words. */
static inline void words(uint32_t *x, int lanes, int engine, const uint32_t *key) {
  if (engine == 0)
    philox(x, lanes, key);
  else
    threefry(x, lanes, key);
}

static void mixed(uint32_t x[4][LANES], int engine, const uint32_t *key) { words(x[0], LANES, engine, key); }

/* LANES blocks that follow block `first`, one array per word of a block. */
static void blocks(uint32_t x[4][LANES], int engine, const uint32_t *key, const uint32_t base[4], uint64_t first) {
  fill_counters(x, base, first);
  mixed(x, engine, key);
}

/* The same blocks as 4 * LANES consecutive words. */
static void batch(uint32_t *out, int engine, const uint32_t *key, const uint32_t base[4], uint64_t first) {
  uint32_t x[4][LANES];
  blocks(x, engine, key, base, first);
  for (int l = 0; l < LANES; l++)
    for (int w = 0; w < 4; w++) out[4 * l + w] = x[w][l];
}

/* One block. */
static void block(uint32_t out[4], int engine, const uint32_t *key, counter_t c) {
  memcpy(out, c.word, sizeof c.word);
  words(out, 1, engine, key);
}

#endif
