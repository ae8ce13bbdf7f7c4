/* Band matrices stored by diagonals: row d of a holds A[j + d - ku, j] at column j, as BLAS has it, rows contiguous.
 *
 * Each diagonal is one pass over short vectors, taken in blocks that stay in the first cache. */

#include <stdint.h>

#define BLOCK 1024
#define MAX(p, q) ((p) > (q) ? (p) : (q))
#define MIN(p, q) ((p) < (q) ? (p) : (q))

#define DEFINE(NAME, T)                                                                                               \
  /* Rows start to stop of y += A x, or of A.T x when `trans`; A is m by n. Diagonal `skip` is left out. */           \
  static inline void band_rows_##NAME(int64_t m, int64_t n, int64_t diagonals, int64_t ku, const T *a, int64_t row,   \
                                      const T *x, T *y, int64_t trans, int64_t skip, int64_t start, int64_t stop) {   \
    for (int64_t d = 0; d < diagonals; d++) {                                                                         \
      if (d == skip) continue;                                                                                        \
      int64_t by = d - ku; /* i - j */                                                                                \
      const T *w = a + d * row;                                                                                       \
      if (trans) {                                                                                                    \
        int64_t lo = MAX(start, MAX(0, -by)), hi = MIN(stop, MIN(n, m - by));                                         \
        const T *v = x + by;                                                                                          \
        for (int64_t j = lo; j < hi; j++) y[j] += w[j] * v[j];                                                        \
      } else {                                                                                                        \
        int64_t lo = MAX(start, MAX(0, by)), hi = MIN(stop, MIN(m, n + by));                                          \
        const T *u = w - by, *v = x - by;                                                                             \
        for (int64_t i = lo; i < hi; i++) y[i] += u[i] * v[i];                                                        \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  /* y = op(A) x. unit: the main diagonal is ones. symmetric: the other side of A is that below or above, mirrored. */\
  void band_product_##NAME(int64_t m, int64_t n, int64_t diagonals, int64_t ku, const T *a, int64_t row, const T *x,  \
                           T *y, int64_t trans, int64_t unit, int64_t symmetric) {                                    \
    int64_t length = trans ? n : m;                                                                                   \
    for (int64_t start = 0; start < length; start += BLOCK) {                                                         \
      int64_t stop = MIN(start + BLOCK, length);                                                                      \
      for (int64_t i = start; i < stop; i++) y[i] = unit ? x[i] : 0;                                                  \
      band_rows_##NAME(m, n, diagonals, ku, a, row, x, y, trans, unit ? ku : -1, start, stop);                        \
      if (symmetric) band_rows_##NAME(m, n, diagonals, ku, a, row, x, y, 1, ku, start, stop);                         \
    }                                                                                                                 \
  }                                                                                                                   \
  /* Solve op(A) y = x in place; A is triangular, its main diagonal is row `main`, the others lie on one side. Returns\
     0 at a zero on the diagonal, 1 otherwise. */                                                                     \
  int64_t band_solve_##NAME(int64_t n, int64_t diagonals, int64_t main, const T *a, int64_t row, T *y, int64_t trans, \
                            int64_t unit) {                                                                           \
    int64_t lower = main == 0, k = diagonals - 1, forward = lower != trans;                                           \
    for (int64_t step = 0; step < n; step++) {                                                                        \
      int64_t i = forward ? step : n - 1 - step, sign = forward ? -1 : 1;                                             \
      T sum = y[i];                                                                                                   \
      for (int64_t s = MIN(k, step); s > 0; s--) {                                                                    \
        /* the element s places away: in its own column of the storage, or in this one when transposed */             \
        const T *w = a + (lower ? s : k - s) * row;                                                                   \
        sum -= w[trans ? i : i + sign * s] * y[i + sign * s];                                                         \
      }                                                                                                               \
      if (!unit && a[main * row + i] == 0) return 0;                                                                  \
      y[i] = unit ? sum : sum / a[main * row + i];                                                                    \
    }                                                                                                                 \
    return 1;                                                                                                         \
  }

DEFINE(float32, float)
DEFINE(float64, double)
