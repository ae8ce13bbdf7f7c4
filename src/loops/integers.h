/* Integers below a span.

   Spans up to 2^32 take one word of the stream each (Lemire); an uneven one is drawn again from the element's own
   substream, whose block 0 is `other`. Wider spans take two words of that substream at every attempt. */

#ifndef LOOPS_INTEGERS_H
#define LOOPS_INTEGERS_H

#include "share.h"

/* The integer that words propose, and whether it is taken. */
static inline int below(const job_t *job, uint32_t w0, uint32_t w1, int narrow, uint32_t uneven, uint64_t *made) {
  uint64_t span = job->span;
  if (narrow) {
    uint64_t product = w0 * span;
    *made = product >> 32;
    return (uint32_t)product >= uneven;
  }
  *made = (uint64_t)(w1 >> __builtin_clzll(span - 1)) << 32 | w0;
  return *made <= span - 1;
}

/* Try what a queue holds again, until no more than `left` are. `sub` reads the elements' substreams. */
static void retried(queue_t *q, const job_t *sub, int narrow, uint32_t uneven, int left) {
  uint32_t x[4][LANES];
  while (q->n > left) {
    int n = queued_blocks(x, sub, q), from = q->n - n;
    q->n = from;
    for (int l = 0; l < n; l++) {
      uint64_t element = q->element[from + l], made;
      uint32_t attempt = q->attempt[from + l];
      if (below(sub, x[0][l], x[1][l], narrow, uneven, &made))
        ((int64_t *)sub->out)[element - sub->first] = (int64_t)(made + (uint64_t)sub->low);
      else
        refused(q, element, attempt + 1);
    }
  }
}

HOT static void narrow_work(const job_t *job) {
  uint64_t span = job->span, at = job->first, end = job->first + job->count;
  uint32_t word[4 * LANES], uneven = (uint32_t)((UINT64_C(1) << 32) % span);
  int64_t low = job->low, *out = job->out;
  job_t sub = *job;
  queue_t queue = {.n = 0};
  memcpy(sub.base, job->other, sizeof sub.base);
  while (at < end) {
    uint64_t skip = at % (4 * LANES), take = 4 * LANES - skip;
    if (take > end - at) take = end - at;
    batch(word, job->engine, job->key, job->base, at / (4 * LANES) * LANES);
    int odd = 0;
    for (uint64_t i = 0; i < take; i++) {
      uint64_t product = word[skip + i] * span;
      odd |= (uint32_t)product < uneven;
      out[i] = (int64_t)((product >> 32) + (uint64_t)low);
    }
    for (uint64_t i = 0; odd && i < take; i++)
      if ((uint32_t)(word[skip + i] * span) < uneven) {
        refused(&queue, at + i, 0);
        if (queue.n == 2 * LANES) retried(&queue, &sub, 1, uneven, LANES);
      }
    out += take;
    at += take;
  }
  retried(&queue, &sub, 1, uneven, 0);
}

HOT static void wide_work(const job_t *job) {
  int64_t low = job->low, *out = job->out;
  queue_t queue = {.n = 0};
  for (uint64_t at = 0; at < job->count; at += LANES) {
    int n = job->count - at < LANES ? (int)(job->count - at) : LANES;
    uint32_t x[4][LANES];
    attempt_blocks(x, job, job->first + at, 0);
    for (int l = 0; l < n; l++) {
      uint64_t made;
      if (below(job, x[0][l], x[1][l], 0, 0, &made))
        out[at + (uint64_t)l] = (int64_t)(made + (uint64_t)low);
      else
        refused(&queue, job->first + at + (uint64_t)l, 1);
    }
    if (queue.n > LANES) retried(&queue, job, 0, 0, LANES);
  }
  retried(&queue, job, 0, 0, 0);
}

#endif
