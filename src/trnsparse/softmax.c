/* Rows of scores into exponentials, for attention on the host. */
#include <math.h>
#include <stdint.h>

typedef int64_t idx;
typedef float v64_float32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double v64_float64 __attribute__((vector_size(64), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* exp(x) for x <= 0 is 2^n times the Taylor series of what is left, at most ln(2) / 2, whose first term left out is
   below half a unit of the last place. What would be subnormal is 0. The list holds the terms from last to first. */
#define SOFTMAX(NAME, R, I, BITS, BIAS, LEAST, MAGIC, HIGH, LOW, TERMS, ...)                                          \
    typedef I bits_##NAME __attribute__((vector_size(64)));                                                           \
    INLINE v64_##NAME exp_##NAME(v64_##NAME x) {                                                                      \
        static const R inverse[] = {__VA_ARGS__};                                                                     \
        const v64_##NAME n = (x * (R)1.44269504088896340736 + (R)MAGIC) - (R)MAGIC;                                   \
        const v64_##NAME r = (x - n * (R)HIGH) - n * (R)LOW;                                                          \
        v64_##NAME p = r * inverse[0] + inverse[1];                                                                   \
        for (int k = 2; k < TERMS; k++) p = p * r + inverse[k];                                                       \
        const bits_##NAME power = (__builtin_convertvector(n, bits_##NAME) + BIAS) << BITS;                           \
        return (v64_##NAME)((bits_##NAME)(p * (v64_##NAME)power) & ~(bits_##NAME)(x < (R)LEAST));                     \
    }                                                                                                                 \
    INLINE v64_##NAME larger_##NAME(v64_##NAME x, v64_##NAME y) {                                                     \
        const bits_##NAME first = (bits_##NAME)(x > y);                                                               \
        return (v64_##NAME)(((bits_##NAME)x & first) | ((bits_##NAME)y & ~first));                                    \
    }                                                                                                                 \
    /* Rows of n scores become exp(score - top), with top and total of each row; a row of -inf becomes zeros. */      \
    void softmax_##NAME(idx rows, idx n, R *x, R *top, R *total) {                                                    \
        enum { W = 64 / sizeof(R) };                                                                                  \
        for (idx i = 0; i < rows; i++, x += n) {                                                                      \
            R most[W], rest[W];                                                                                       \
            v64_##NAME large = (v64_##NAME){0} - (R)INFINITY, sum = {0}, *last = (v64_##NAME *)rest;                  \
            idx j = 0;                                                                                                \
            for (int w = 0; w < W; w++) rest[w] = n - n % W + w < n ? x[n - n % W + w] : -(R)INFINITY;                \
            for (; j + W <= n; j += W) {                                                                              \
                const v64_##NAME here = *(v64_##NAME *)(x + j);                                                       \
                large = larger_##NAME(here, large);                                                                   \
            }                                                                                                         \
            large = larger_##NAME(*last, large);                                                                      \
            *(v64_##NAME *)most = large;                                                                              \
            R m = most[0];                                                                                            \
            for (int w = 1; w < W; w++) m = most[w] > m ? most[w] : m;                                                \
            if (m == -(R)INFINITY) m = 0;                                                                             \
            for (j = 0; j + W <= n; j += W) {                                                                         \
                const v64_##NAME e = exp_##NAME(*(v64_##NAME *)(x + j) - m);                                          \
                *(v64_##NAME *)(x + j) = e;                                                                           \
                sum += e;                                                                                             \
            }                                                                                                         \
            *last = exp_##NAME(*last - m);                                                                            \
            for (int w = 0; j + w < n; w++) x[j + w] = rest[w];                                                       \
            sum += *last;                                                                                             \
            *(v64_##NAME *)most = sum;                                                                                \
            for (int w = W / 2; w > 0; w /= 2)                                                                        \
                for (int u = 0; u < w; u++) most[u] += most[u + w];                                                   \
            top[i] = m;                                                                                               \
            total[i] = most[0];                                                                                       \
        }                                                                                                             \
    }
SOFTMAX(float32, float, int32_t, 23, 127, -87.0, 12582912.0, 0.693359375, -2.12194440e-4, 8, 1.0 / 5040, 1.0 / 720,
        1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1)
SOFTMAX(float64, double, int64_t, 52, 1023, -708.0, 6755399441055744.0, 6.93147180369123816490e-01,
        1.90821492927058770002e-10, 14, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
        1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1)
