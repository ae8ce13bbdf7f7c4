/* Work cut into shares for threads, and the substreams of elements that may need several attempts. */

#ifndef LOOPS_SHARE_H
#define LOOPS_SHARE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engines.h"
#include "numbers.h"

#define MAX_THREADS 64
#define MIN_SHARE 32768
#define ATTEMPTS 1000 /* of an element; half of them are refused at most, so that nobody with a right parameter gets here */

#define FOR_ALL(n, step) for (uint64_t i = 0; i < (n); i++) step;

enum { WORDS, UNIFORM_F32, UNIFORM_F64, NORMAL_F32, NORMAL_F64 };

typedef struct job {
  void (*work)(const struct job *);
  int engine, kind, dims;
  uint32_t key[4], base[4], other[4], uneven;
  uint64_t first, count, apart; /* substreams of neighbours lie apart + 1 blocks from each other */
  double parameter[2];
  const double *in, *also;
  uint64_t span;
  int64_t step, also_step, low;
  void *out;
  atomic_int *failed; /* whether an element had no luck */
} job_t;

static void *start(void *given) {
  const job_t *job = given;
  job->work(job);
  return NULL;
}

/* `count` elements of a job from element `done` on. `size` is bytes per element. */
static job_t part(const job_t *whole, uint64_t done, uint64_t count, size_t size) {
  job_t job = *whole;
  job.first += done, job.count = count;
  job.out = (char *)whole->out + done * size;
  if (whole->in) job.in += (int64_t)done * whole->step;
  if (whole->also) job.also += (int64_t)done * whole->also_step;
  return job;
}

/* Cut `whole` into shares of whole units of `unit` elements, and run them side by side. */
static void share(const job_t *whole, uint64_t unit, size_t size, int threads) {
  pthread_t id[MAX_THREADS];
  job_t job[MAX_THREADS];
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  if (threads < 1 || whole->count < 2 * MIN_SHARE) threads = 1;
  uint64_t each = (whole->count / (uint64_t)threads + unit) / unit * unit, done = 0;
  int started = 0;
  for (int t = 0; done < whole->count; t++) {
    uint64_t left = whole->count - done;
    job[t] = part(whole, done, t == threads - 1 || each > left ? left : each, size);
    done += job[t].count;
    /* a thread that cannot start is no error: its share runs here */
    if (done == whole->count || pthread_create(&id[started], NULL, start, &job[t]) != 0)
      job[t].work(&job[t]);
    else
      started++;
  }
  for (int t = 0; t < started; t++) pthread_join(id[t], NULL);
}

/* Attempt t of element i reads the block base + i (apart + 1) + t * 2^96, so an element is the same whatever happens to
   others. */

static counter_t attempt_counter(const job_t *job, uint64_t element, uint32_t attempt) {
  counter_t c = advance(job->base, element * (job->apart + 1));
  c.word[3] += attempt;
  return c;
}

static void attempt_blocks(uint32_t x[4][LANES], const job_t *job, uint64_t element, uint32_t attempt) {
  if (job->apart == 0) {
    uint32_t base[4] = {job->base[0], job->base[1], job->base[2], job->base[3] + attempt};
    blocks(x, job->engine, job->key, base, element);
    return;
  }
  for (int l = 0; l < LANES; l++) {
    counter_t c = attempt_counter(job, element + (uint64_t)l, attempt);
    for (int w = 0; w < 4; w++) x[w][l] = c.word[w];
  }
  mixed(x, job->engine, job->key);
}

/* Whether an attempt is one too many: then the whole call has failed. */
static inline int given_up(const job_t *job, uint32_t attempt) {
  if (attempt <= ATTEMPTS) return 0;
  *job->failed = 1;
  return 1;
}

/* Elements whose attempt was refused, each with the number of the next one, to be tried again many at a time. */
typedef struct {
  uint64_t element[2 * LANES];
  uint32_t attempt[2 * LANES];
  int n;
} queue_t;

/* Without a branch, which no processor would predict. */
static inline void refused(queue_t *q, uint64_t element, uint32_t attempt, int is) {
  q->element[q->n] = element;
  q->attempt[q->n] = attempt;
  q->n += is;
}

/* The blocks of the last min(n, LANES) of a queue. */
static int queued_blocks(uint32_t x[4][LANES], const job_t *job, const queue_t *q) {
  int n = q->n < LANES ? q->n : LANES, from = q->n - n;
  for (int l = 0; l < LANES; l++) {
    int at = from + (l < n ? l : 0);
    counter_t c = attempt_counter(job, q->element[at], q->attempt[at]);
    for (int w = 0; w < 4; w++) x[w][l] = c.word[w];
  }
  mixed(x, job->engine, job->key);
  return n;
}

#endif
