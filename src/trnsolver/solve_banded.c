/* Systems with band matrices, by elimination with row exchanges: row i of the work array holds columns i-kl to i+ku+kl.
 *
 * ab[ku + i - j, j] is A[i, j], rows contiguous; x holds the right-hand sides [n, k] by rows and becomes the solution.
 * Returns 0; or the first matrix and column without a pivot, as matrix * n + column + 1; or -1 without memory. */

#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define MIN(p, q) ((p) < (q) ? (p) : (q))

#define DEFINE(NAME, T, ABS)                                                                                           \
  /* One tridiagonal matrix; room holds three diagonals. */                                                            \
  static int64_t tridiagonal_##NAME(int64_t n, int64_t k, const T *ab, T *room, T *x) {                                \
    const T *lower = ab + 2 * n;                                                                                       \
    T *d = room, *up = room + n, *far = room + 2 * n; /* far: two columns right of the diagonal */                     \
    for (int64_t i = 0; i < n; i++) d[i] = ab[n + i];                                                                  \
    for (int64_t i = 0; i + 1 < n; i++) up[i] = ab[i + 1];                                                             \
    for (int64_t i = 0; i + 1 < n; i++) {                                                                              \
      T l = lower[i], *here = x + i * k, *next = here + k;                                                             \
      far[i] = 0;                                                                                                      \
      if (ABS(d[i]) >= ABS(l)) {                                                                                       \
        if (d[i] == 0) return i + 1;                                                                                   \
        T by = l / d[i];                                                                                               \
        d[i + 1] -= by * up[i];                                                                                        \
        for (int64_t c = 0; c < k; c++) next[c] -= by * here[c];                                                       \
      } else {                                                                                                         \
        T by = d[i] / l, held = d[i + 1];                                                                              \
        d[i] = l, d[i + 1] = up[i] - by * held, up[i] = held;                                                          \
        if (i + 2 < n) far[i] = up[i + 1], up[i + 1] *= -by;                                                           \
        for (int64_t c = 0; c < k; c++) {                                                                              \
          T top = here[c];                                                                                             \
          here[c] = next[c], next[c] = top - by * here[c];                                                             \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    if (d[n - 1] == 0) return n;                                                                                       \
    for (int64_t i = n - 1; i >= 0; i--)                                                                               \
      for (int64_t c = 0; c < k; c++) {                                                                                \
        T sum = x[i * k + c];                                                                                          \
        if (i + 1 < n) sum -= up[i] * x[(i + 1) * k + c];                                                              \
        if (i + 2 < n) sum -= far[i] * x[(i + 2) * k + c];                                                             \
        x[i * k + c] = sum / d[i];                                                                                     \
      }                                                                                                                \
    return 0;                                                                                                          \
  }                                                                                                                    \
  int64_t solve_banded_##NAME(int64_t batch, int64_t n, int64_t kl, int64_t ku, int64_t k, const T *ab, T *x) {        \
    int64_t wide = 2 * kl + ku + 1, reach = ku + kl;                                                                   \
    T *rows = malloc(n * wide * sizeof(T));                                                                            \
    if (!rows) return -1;                                                                                              \
    for (int64_t m = 0; m < batch; m++, ab += (kl + ku + 1) * n, x += n * k) {                                         \
      if (kl == 1 && ku == 1) {                                                                                        \
        int64_t failed = tridiagonal_##NAME(n, k, ab, rows, x);                                                        \
        if (!failed) continue;                                                                                         \
        free(rows);                                                                                                    \
        return m * n + failed;                                                                                         \
      }                                                                                                                \
      for (int64_t i = 0; i < n; i++)                                                                                  \
        for (int64_t c = 0; c < wide; c++) {                                                                           \
          int64_t j = i - kl + c;                                                                                      \
          rows[i * wide + c] = j < 0 || j >= n || c > reach ? 0 : ab[(ku + i - j) * n + j];                            \
        }                                                                                                              \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        int64_t last = MIN(i + kl, n - 1), best = i, count = MIN(reach, n - 1 - i);                                    \
        T *top = rows + i * wide + kl; /* its columns from i on */                                                     \
        for (int64_t r = i + 1; r <= last; r++)                                                                        \
          if (ABS(rows[r * wide + kl + i - r]) > ABS(rows[best * wide + kl + i - best])) best = r;                     \
        if (best != i) {                                                                                               \
          T *other = rows + best * wide + kl + i - best;                                                               \
          for (int64_t c = 0; c <= count; c++) {                                                                       \
            T held = top[c];                                                                                           \
            top[c] = other[c], other[c] = held;                                                                        \
          }                                                                                                            \
          for (int64_t c = 0; c < k; c++) {                                                                            \
            T held = x[i * k + c];                                                                                     \
            x[i * k + c] = x[best * k + c], x[best * k + c] = held;                                                    \
          }                                                                                                            \
        }                                                                                                              \
        if (top[0] == 0) {                                                                                             \
          free(rows);                                                                                                  \
          return m * n + i + 1;                                                                                        \
        }                                                                                                              \
        for (int64_t r = i + 1; r <= last; r++) {                                                                      \
          T *row = rows + r * wide + kl + i - r, by = row[0] / top[0];                                                 \
          if (by == 0) continue;                                                                                       \
          for (int64_t c = 1; c <= count; c++) row[c] -= by * top[c];                                                  \
          for (int64_t c = 0; c < k; c++) x[r * k + c] -= by * x[i * k + c];                                           \
        }                                                                                                              \
      }                                                                                                                \
      for (int64_t i = n - 1; i >= 0; i--) {                                                                           \
        const T *top = rows + i * wide + kl;                                                                           \
        int64_t count = MIN(reach, n - 1 - i);                                                                         \
        for (int64_t j = 1; j <= count; j++)                                                                           \
          for (int64_t c = 0; c < k; c++) x[i * k + c] -= top[j] * x[(i + j) * k + c];                                 \
        for (int64_t c = 0; c < k; c++) x[i * k + c] /= top[0];                                                        \
      }                                                                                                                \
    }                                                                                                                  \
    free(rows);                                                                                                        \
    return 0;                                                                                                          \
  }

DEFINE(float32, float, fabsf)
DEFINE(float64, double, fabs)
DEFINE(complex64, float complex, cabsf)
DEFINE(complex128, double complex, cabs)
