/* Integers below a span.

   Spans up to 2^32 take one word of the stream each (Lemire); an uneven one is drawn again from the element's own
   substream, whose block 0 is `other`. Wider spans take two words of that substream at every attempt. */

#ifndef LOOPS_INTEGERS_H
#define LOOPS_INTEGERS_H

#include "share.h"

/* The integer that words propose, and whether it is refused. */
static inline int above(const job_t *job, uint32_t w0, uint32_t w1, int narrow, uint64_t *made) {
  uint64_t product = w0 * job->span, last = job->span - 1;
  *made = narrow ? product >> 32 : (uint64_t)(w1 >> __builtin_clzll(last)) << 32 | w0;
  return narrow ? (uint32_t)product < job->uneven : *made > last;
}

/* Try what a queue holds again, until no more than `left` are. `sub` reads the elements' substreams. */
static void retried(queue_t *q, const job_t *sub, int narrow, int left) {
  uint32_t x[4][LANES];
  uint64_t *out = sub->out, made;
  while (q->n > left) {
    int n = queued_blocks(x, sub, q), from = q->n - n;
    q->n = from;
    for (int l = 0; l < n; l++) {
      uint64_t element = q->element[from + l];
      int again = above(sub, x[0][l], x[1][l], narrow, &made);
      out[element - sub->first] = made + (uint64_t)sub->low;
      refused(q, element, q->attempt[from + l] + 1, again && !given_up(sub, q->attempt[from + l]));
    }
  }
}

HOT static void narrow_work(const job_t *job) {
  uint64_t at = job->first, end = job->first + job->count, made, *out = job->out;
  uint32_t word[4 * LANES];
  job_t sub = *job;
  queue_t queue = {.n = 0};
  memcpy(sub.base, job->other, sizeof sub.base);
  while (at < end) {
    uint64_t skip = at % (4 * LANES), take = 4 * LANES - skip;
    if (take > end - at) take = end - at;
    batch(word, job->engine, job->key, job->base, at / (4 * LANES) * LANES);
    int odd = 0;
    for (uint64_t i = 0; i < take; i++) {
      odd |= above(job, word[skip + i], 0, 1, &made);
      out[i] = made + (uint64_t)job->low;
    }
    for (uint64_t i = 0; odd && i < take; i++) {
      refused(&queue, at + i, 0, above(job, word[skip + i], 0, 1, &made));
      if (queue.n == 2 * LANES) retried(&queue, &sub, 1, LANES);
    }
    out += take;
    at += take;
  }
  retried(&queue, &sub, 1, 0);
}

HOT static void wide_work(const job_t *job) {
  uint64_t made, again[LANES], *out = job->out;
  uint32_t x[4][LANES];
  queue_t queue = {.n = 0};
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int n = job->count - at < LANES ? (int)(job->count - at) : LANES;
    attempt_blocks(x, job, job->first + at, 0);
    for (int l = 0; l < n; l++) {
      again[l] = (uint64_t)above(job, x[0][l], x[1][l], 0, &made);
      out[at + (uint64_t)l] = made + (uint64_t)job->low;
    }
    for (int l = 0; l < n; l++) refused(&queue, job->first + at + (uint64_t)l, 1, (int)again[l]);
    if (queue.n > LANES) retried(&queue, job, 0, LANES);
  }
  retried(&queue, job, 0, 0);
}

#endif
