/* Transforms of rows on the host: complex, real, cosine and sine, of any length (`fft.h`, `odd.h`, `rows.h`, `columns.h`,
   `trigonometric.h`, `steps.h`, `run.h`,
   `stft.h`). */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int64_t idx;

enum { C2C, R2C, C2R, R2CC, TYPE1, TYPE2, TYPE3, TYPE4 };
enum { CONSTANT, REFLECT, REPLICATE, CIRCULAR };
enum { INVERSE = 1, CONJUGATE = 2, SINE = 4, BEFORE = 8, AFTER = 16, PAIRED = 32, PLANES = 64 };

#define RADIX_MOST 127
#define THREADS_MOST 64

/* products and sums may become one instruction here: nothing promises the bits of another path */
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("fp-contract=fast")
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) < (a))){__VA_ARGS__})
#endif
#define INLINE static inline __attribute__((always_inline))

/* A first touch of fresh memory costs more than a transform of what lies on it; large pages have few */
#define LARGE_PAGE ((size_t)1 << 21)

static void in_large_pages(void *at, size_t bytes) {
#ifdef MADV_HUGEPAGE
    char *first = (char *)(((uintptr_t)at + 4095) / 4096 * 4096);
    if (bytes >= 2 * LARGE_PAGE) madvise(first, bytes - (size_t)(first - (char *)at), MADV_HUGEPAGE);
#else
    (void)at;
    (void)bytes;
#endif
}

/* Memory for intermediate results, which starts with its size; some of what was given back is kept for later calls */
#define KEPT 4
#define KEPT_MOST ((size_t)1 << 26)
#define HEAD 64
static _Atomic(size_t *) kept[KEPT];

static void *borrow(size_t bytes) {
    bytes += HEAD;
    for (int k = 0; k < KEPT; k++) {
        size_t *found = atomic_exchange(kept + k, NULL), *none = NULL;
        if (found && *found >= bytes) return (char *)found + HEAD;
        if (found && !atomic_compare_exchange_strong(kept + k, &none, found)) free(found);
    }
    size_t unit = bytes >= 2 * LARGE_PAGE ? LARGE_PAGE : HEAD;
    bytes = (bytes + unit - 1) / unit * unit;
    size_t *made = aligned_alloc(unit, bytes);
    if (!made) return NULL;
    in_large_pages(made, bytes);
    *made = bytes;
    return (char *)made + HEAD;
}

static void give_back(void *at) {
    size_t *used = (size_t *)((char *)at - HEAD);
    for (int k = 0; k < KEPT && *used <= KEPT_MOST; k++) {
        size_t *none = NULL;
        if (atomic_compare_exchange_strong(kept + k, &none, used)) return;
    }
    free(*used <= KEPT_MOST ? atomic_exchange(kept, used) : used);
}

/* Work on units from 0 to `units`, in equal shares of threads; not 0 where memory did not suffice for one */
struct share {
    int (*work)(const void *task, idx first, idx last);
    const void *task;
    idx first, last;
    int failed;
};

static void *work_share(void *argument) {
    struct share *s = argument;
    s->failed = s->work(s->task, s->first, s->last);
    return 0;
}

static int shared(int (*work)(const void *, idx, idx), const void *task, idx units, idx threads) {
    struct share shares[THREADS_MOST];
    pthread_t ids[THREADS_MOST];
    int started[THREADS_MOST] = {0}, failed = 0;
    threads = threads < units ? threads : units;
    threads = threads < THREADS_MOST ? threads : THREADS_MOST;
    if (threads <= 1) return work(task, 0, units);
    for (idx t = 0; t < threads; t++)
        shares[t] = (struct share){work, task, t * units / threads, (t + 1) * units / threads, 0};
    for (idx t = 1; t < threads; t++) started[t] = !pthread_create(ids + t, 0, work_share, shares + t);
    for (idx t = 0; t < threads; t++)
        if (!started[t]) work_share(shares + t);
    for (idx t = 0; t < threads; t++) {
        if (started[t]) pthread_join(ids[t], 0);
        failed |= shares[t].failed;
    }
    return failed;
}

/* vectors of 32 bytes are as fast as longer ones where those are two halves, and leave twice as much in the cache */
#if defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif

#define T float
#define LANES (BYTES / 4)
#define NAME(x) x##_float32
#include "fft.h"
#include "odd.h"
#include "rows.h"
#include "columns.h"
#include "trigonometric.h"
#include "steps.h"
#include "run.h"
#include "stft.h"
#undef T
#undef LANES
#undef NAME

#define T double
#define LANES (BYTES / 8)
#define NAME(x) x##_float64
#include "fft.h"
#include "odd.h"
#include "rows.h"
#include "columns.h"
#include "trigonometric.h"
#include "steps.h"
#include "run.h"
#include "stft.h"
