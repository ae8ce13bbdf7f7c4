/* Batches of small matrices: Cholesky, LU and QR factors, triangular systems. One matrix at a time, in the first cache.
 *
 * Matrices are read with any strides (rows rs, columns cs) and written by columns, as LAPACK has them. Inside, rows are
 * whole vectors: a row operation is a few instructions, and entries beyond the last column are zero. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 64 /* SMALL in small.py */
#define UNROLL _Pragma("GCC unroll 8")
#define MIN(p, q) ((p) < (q) ? (p) : (q))

#define DEFINE(NAME, T, ABS, SQRT)                                                                                     \
  typedef T vec_##NAME __attribute__((vector_size(64)));                                                               \
  enum { LANES_##NAME = 64 / sizeof(T), WIDE_##NAME = ROWS / (64 / sizeof(T)) };                                       \
  typedef vec_##NAME rows_##NAME[ROWS][WIDE_##NAME];                                                                   \
                                                                                                                       \
  static void take_##NAME(int64_t m, int64_t n, const T *a, int64_t rs, int64_t cs, rows_##NAME x) {                   \
    int64_t wide = (n + LANES_##NAME - 1) / LANES_##NAME;                                                              \
    for (int64_t i = 0; i < m; i++) {                                                                                  \
      T *row = (T *)x[i];                                                                                              \
      if (cs == 1) memcpy(row, a + i * rs, n * sizeof(T));                                                             \
      else                                                                                                             \
        for (int64_t j = 0; j < n; j++) row[j] = a[i * rs + j * cs];                                                   \
      for (int64_t j = n; j < wide * LANES_##NAME; j++) row[j] = 0;                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  static void give_##NAME(int64_t m, int64_t n, rows_##NAME x, T *out) {                                               \
    for (int64_t j = 0; j < n; j++)                                                                                    \
      for (int64_t i = 0; i < m; i++) out[j * m + i] = ((T *)x[i])[j];                                                 \
  }                                                                                                                    \
                                                                                                                       \
  /* The factor L of a = L L^T from the lower triangle; info: the minor, from 1, that is not positive, or 0. */        \
  void cholesky_##NAME(int64_t batch, int64_t n, const T *a, int64_t step, int64_t rs, int64_t cs, T *out,             \
                       int32_t *info) {                                                                                \
    rows_##NAME u; /* L^T: row k is column k of L */                                                                   \
    T pivots[ROWS];                                                                                                    \
    int64_t wide = (n + LANES_##NAME - 1) / LANES_##NAME;                                                              \
    for (int64_t b = 0; b < batch; b++, a += step, out += n * n) {                                                     \
      take_##NAME(n, n, a, cs, rs, u);                                                                                 \
      info[b] = 0;                                                                                                     \
      for (int64_t k = 0; k < n; k++) {                                                                                \
        T *row = (T *)u[k];                                                                                            \
        if (!(row[k] > 0) && !info[b]) info[b] = (int32_t)(k + 1);                                                     \
        pivots[k] = SQRT(row[k]);                                                                                      \
        for (int64_t v = k / LANES_##NAME; v < wide; v++) u[k][v] /= pivots[k];                                        \
        for (int64_t i = k + 1; i < n; i++)                                                                            \
          for (int64_t v = i / LANES_##NAME; v < wide; v++) u[i][v] -= row[i] * u[k][v];                               \
      }                                                                                                                \
      for (int64_t k = 0; k < n; k++, out += n) {                                                                      \
        for (int64_t j = 0; j < k; j++) out[j] = 0;                                                                    \
        memcpy(out + k, (T *)u[k] + k, (n - k) * sizeof(T));                                                           \
        out[k] = pivots[k];                                                                                            \
      }                                                                                                                \
      out -= n * n;                                                                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
                                                                                                                       \
  /* getrf: the first largest entry of a column is its pivot; pivots count from 1. Rows change places by their index,  \
   * and L is kept apart: a scalar written into a vector that is read next would stall it. */                          \
  void lu_##NAME(int64_t batch, int64_t m, int64_t n, const T *a, int64_t step, int64_t rs, int64_t cs, T *out,        \
                 int32_t *pivots) {                                                                                    \
    rows_##NAME x;                                                                                                     \
    T lower[ROWS][ROWS];                                                                                               \
    int64_t at[ROWS], wide = (n + LANES_##NAME - 1) / LANES_##NAME, size = MIN(m, n);                                  \
    for (int64_t b = 0; b < batch; b++, a += step, out += m * n, pivots += size) {                                     \
      take_##NAME(m, n, a, rs, cs, x);                                                                                 \
      for (int64_t i = 0; i < m; i++) at[i] = i;                                                                       \
      for (int64_t k = 0; k < size; k++) {                                                                             \
        int64_t best = k, first = (k + 1) / LANES_##NAME;                                                              \
        T most = ABS(((T *)x[at[k]])[k]);                                                                              \
        for (int64_t i = k + 1; i < m; i++) {                                                                          \
          T here = ABS(((T *)x[at[i]])[k]);                                                                            \
          best = here > most ? i : best;                                                                               \
          most = here > most ? here : most;                                                                            \
        }                                                                                                              \
        pivots[k] = (int32_t)(best + 1);                                                                               \
        int64_t top = at[best];                                                                                        \
        at[best] = at[k], at[k] = top;                                                                                 \
        T pivot = ((T *)x[top])[k];                                                                                    \
        for (int64_t i = k + 1; i < m; i++) {                                                                          \
          int64_t r = at[i];                                                                                           \
          T by = pivot == 0 ? ((T *)x[r])[k] : ((T *)x[r])[k] / pivot;                                                 \
          lower[r][k] = by;                                                                                            \
          for (int64_t v = first; v < wide; v++) x[r][v] -= by * x[top][v];                                            \
        }                                                                                                              \
      }                                                                                                                \
      for (int64_t i = 0; i < m; i++) {                                                                                \
        int64_t r = at[i], below = MIN(i, size);                                                                       \
        for (int64_t j = 0; j < below; j++) out[j * m + i] = lower[r][j];                                              \
        for (int64_t j = below; j < n; j++) out[j * m + i] = ((T *)x[r])[j];                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  typedef T part_##NAME __attribute__((vector_size(32)));                                                              \
  enum { PART_##NAME = 32 / sizeof(T) };                                                                               \
  /* Solve in place with a lower triangle, R rows at a time in registers; x has a row of V parts every `step`. */      \
  static inline __attribute__((always_inline)) void forward_##NAME(int64_t n, const T *a, int64_t rs, int64_t cs,      \
                                                                   int64_t unit, part_##NAME *x, int64_t step,         \
                                                                   const int V, const int R) {                         \
    int64_t s = 0;                                                                                                     \
    for (; s + R <= n; s += R) {                                                                                       \
      part_##NAME sum[8][4];                                                                                           \
      const T *rows = a + s * rs;                                                                                      \
      UNROLL for (int r = 0; r < R; r++)                                                                               \
        for (int v = 0; v < V; v++) sum[r][v] = x[(s + r) * step + v];                                                 \
      for (int64_t j = 0; j < s; j++)                                                                                  \
        UNROLL for (int r = 0; r < R; r++)                                                                             \
          for (int v = 0; v < V; v++) sum[r][v] -= rows[r * rs + j * cs] * x[j * step + v];                            \
      UNROLL for (int r = 0; r < R; r++) {                                                                             \
        UNROLL for (int q = 0; q < r; q++)                                                                             \
          for (int v = 0; v < V; v++) sum[r][v] -= rows[r * rs + (s + q) * cs] * sum[q][v];                            \
        for (int v = 0; v < V; v++) {                                                                                  \
          if (!unit) sum[r][v] /= rows[r * rs + (s + r) * cs];                                                         \
          x[(s + r) * step + v] = sum[r][v];                                                                           \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    for (; s < n; s++)                                                                                                 \
      for (int v = 0; v < V; v++) {                                                                                    \
        part_##NAME sum = x[s * step + v];                                                                             \
        for (int64_t j = 0; j < s; j++) sum -= a[s * rs + j * cs] * x[j * step + v];                                   \
        x[s * step + v] = unit ? sum : sum / a[s * rs + s * cs];                                                       \
      }                                                                                                                \
  }                                                                                                                    \
  static void triangle_##NAME(int64_t n, const T *a, int64_t rs, int64_t cs, int64_t lower, int64_t unit,              \
                              part_##NAME *x, int64_t parts) {                                                         \
    int64_t step = parts;                                                                                              \
    /* an upper triangle is a lower one with rows and columns counted from the last */                                 \
    if (!lower) a += (n - 1) * (rs + cs), rs = -rs, cs = -cs, x += (n - 1) * parts, step = -parts;                     \
    if (parts == 1) forward_##NAME(n, a, rs, cs, unit, x, step, 1, 8);                                                 \
    else if (parts == 2) forward_##NAME(n, a, rs, cs, unit, x, step, 2, 8);                                            \
    else forward_##NAME(n, a, rs, cs, unit, x, step, 4, 4);                                                            \
  }                                                                                                                    \
  static void exchange_##NAME(part_##NAME *x, int64_t parts, int64_t i, int64_t j) {                                   \
    for (int64_t v = 0; v < parts; v++) {                                                                              \
      part_##NAME held = x[i * parts + v];                                                                             \
      x[i * parts + v] = x[j * parts + v], x[j * parts + v] = held;                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  /* kind 0: op(A) x = b, A triangular. 1: L L^T x = b. 2: P L U x = b. 3: its transpose. b is [n, k] with strides.    \
   * Returns 0; 1 where the solution or a divisor is not finite; 2 where a pivot is no row; -1 for lack of memory. */  \
  int64_t solve_##NAME(int64_t batch, int64_t n, int64_t k, int64_t kind, int64_t lower, int64_t unit, const T *a,     \
                       int64_t step, int64_t rs, int64_t cs, const int32_t *pivots, const T *b, int64_t bstep,         \
                       int64_t brs, int64_t bcs, T *out) {                                                             \
    int64_t parts = k > 2 * PART_##NAME ? 4 : k > PART_##NAME ? 2 : 1, wide = parts * PART_##NAME, found = 0;          \
    part_##NAME *x = aligned_alloc(64, (n * parts * sizeof *x + 63) / 64 * 64), bad = {0};                             \
    T diagonal = 0;                                                                                                    \
    if (!x) return -1;\
    for (int64_t s = 0; kind > 1 && s < batch * n; s++)                                                                \
      if (pivots[s] < 1 || pivots[s] > n) found = 2;                                                                   \
    for (; batch > 0 && !found; batch--, a += step, b += bstep, out += n * k, pivots += kind < 2 ? 0 : n) {            \
      for (int64_t i = 0; i < n && !unit; i++) diagonal += a[i * (rs + cs)] - a[i * (rs + cs)];                        \
      for (int64_t first = 0; first < k; first += wide) {                                                              \
        int64_t count = MIN(k - first, wide);                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
          T *row = (T *)(x + i * parts);                                                                               \
          const T *from = b + i * brs + first * bcs;                                                                   \
          if (bcs == 1) memcpy(row, from, count * sizeof(T));                                                          \
          else                                                                                                         \
            for (int64_t j = 0; j < count; j++) row[j] = from[j * bcs];                                                \
          for (int64_t j = count; j < wide; j++) row[j] = 0;                                                           \
        }                                                                                                              \
        if (kind == 2)                                                                                                 \
          for (int64_t s = 0; s < n; s++) exchange_##NAME(x, parts, s, pivots[s] - 1);                                 \
        if (kind == 0) triangle_##NAME(n, a, rs, cs, lower, unit, x, parts);                                           \
        if (kind == 1) triangle_##NAME(n, a, rs, cs, 1, 0, x, parts), triangle_##NAME(n, a, cs, rs, 0, 0, x, parts);   \
        if (kind == 2) triangle_##NAME(n, a, rs, cs, 1, 1, x, parts), triangle_##NAME(n, a, rs, cs, 0, 0, x, parts);   \
        if (kind == 3) triangle_##NAME(n, a, cs, rs, 1, 0, x, parts), triangle_##NAME(n, a, cs, rs, 0, 1, x, parts);   \
        if (kind == 3)                                                                                                 \
          for (int64_t s = n - 1; s >= 0; s--) exchange_##NAME(x, parts, s, pivots[s] - 1);                            \
        for (int64_t i = 0; i < n * parts; i++) bad += x[i] - x[i];                                                    \
        for (int64_t j = 0; j < count; j++)                                                                            \
          for (int64_t i = 0; i < n; i++) out[(first + j) * n + i] = ((T *)(x + i * parts))[j];                        \
      }                                                                                                                \
    }                                                                                                                  \
    found = !found && diagonal != 0 ? 1 : found;                                                                       \
    for (int v = 0; v < PART_##NAME; v++)\
      if (!found && bad[v] != 0) found = 1;                                                                            \
    free(x);                                                                                                           \
    return found;                                                                                                      \
  }                                                                                                                    \
  /* x[from:m, columns of vectors first..wide) -= tau v (v^T x) */                                                     \
  static void reflect_##NAME(int64_t from, int64_t m, int64_t first, int64_t wide, const T *v, T tau, rows_##NAME x) { \
    vec_##NAME w[WIDE_##NAME];                                                                                         \
    for (int64_t c = first; c < wide; c++) {                                                                           \
      vec_##NAME sum = {0};                                                                                            \
      for (int64_t i = from; i < m; i++) sum += v[i] * x[i][c];                                                        \
      w[c] = tau * sum;                                                                                                \
    }                                                                                                                  \
    for (int64_t i = from; i < m; i++)                                                                                 \
      for (int64_t c = first; c < wide; c++) x[i][c] -= v[i] * w[c];                                                   \
  }                                                                                                                    \
  /* Reflections, in v and tau, that bring the first n columns of x to a triangle; all columns follow. */              \
  static inline __attribute__((always_inline)) void reduce_##NAME(int64_t m, int64_t n, int64_t wide, rows_##NAME x,   \
                                                                  T v[ROWS][ROWS], T *tau) {                           \
    for (int64_t k = 0; k < MIN(m, n); k++) {                                                                          \
      T most = 0, sum = 0, head = ((T *)x[k])[k];                                                                      \
      for (int64_t i = k; i < m; i++) v[k][i] = ((T *)x[i])[k];                                                        \
      for (int64_t i = k + 1; i < m; i++) most = ABS(v[k][i]) > most ? ABS(v[k][i]) : most;                            \
      tau[k] = 0;                                                                                                      \
      if (most > 0) {                                                                                                  \
        most = ABS(head) > most ? ABS(head) : most;                                                                    \
        for (int64_t i = k; i < m; i++) sum += (v[k][i] / most) * (v[k][i] / most);                                    \
        T beta = most * SQRT(sum);                                                                                     \
        beta = head > 0 ? -beta : beta;                                                                                \
        tau[k] = (beta - head) / beta;                                                                                 \
        for (int64_t i = k + 1; i < m; i++) v[k][i] /= head - beta;                                                    \
        v[k][k] = 1;                                                                                                   \
        reflect_##NAME(k, m, k / LANES_##NAME, wide, v[k], tau[k], x);                                                 \
        ((T *)x[k])[k] = beta;                                                                                         \
      }                                                                                                                \
      for (int64_t i = k + 1; i < m; i++) ((T *)x[i])[k] = 0;                                                          \
    }                                                                                                                  \
  }                                                                                                                    \
  /* a = q r by reflections; q is [m, columns], r [rows, n]; columns 0: r alone. */                                    \
  void qr_##NAME(int64_t batch, int64_t m, int64_t n, const T *a, int64_t step, int64_t rs, int64_t cs,                \
                 int64_t columns, T *q, int64_t rows, T *r) {                                                          \
    rows_##NAME x;                                                                                                     \
    T v[ROWS][ROWS], tau[ROWS];                                                                                        \
    int64_t wide = (n + LANES_##NAME - 1) / LANES_##NAME, size = MIN(m, n);                                            \
    for (int64_t b = 0; b < batch; b++, a += step, q += m * columns, r += rows * n) {                                  \
      take_##NAME(m, n, a, rs, cs, x);                                                                                 \
      reduce_##NAME(m, n, wide, x, v, tau);                                                                            \
      give_##NAME(rows, n, x, r);                                                                                      \
      if (!columns) continue;                                                                                          \
      int64_t across = (columns + LANES_##NAME - 1) / LANES_##NAME;                                                    \
      memset(x, 0, m * sizeof x[0]);                                                                                   \
      for (int64_t i = 0; i < columns; i++) ((T *)x[i])[i] = 1;                                                        \
      for (int64_t k = size - 1; k >= 0; k--)                                                                          \
        if (tau[k] != 0) reflect_##NAME(k, m, k / LANES_##NAME, across, v[k], tau[k], x);                              \
      give_##NAME(m, columns, x, q);                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Rows of x become those of inv(r) x, r the triangle of their first n columns; vectors from `first` on. */          \
  static void back_##NAME(int64_t n, int64_t first, int64_t wide, rows_##NAME r, rows_##NAME x) {                      \
    for (int64_t i = n - 1; i >= 0; i--) {                                                                             \
      const T *by = (T *)r[i];                                                                                         \
      for (int64_t j = i + 1; j < n; j++)                                                                              \
        for (int64_t c = first; c < wide; c++) x[i][c] -= by[j] * x[j][c];                                             \
      for (int64_t c = first; c < wide; c++) x[i][c] /= by[i];                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Least squares, m >= n: b joins the columns of a under the reflections. full: the norms of the triangle and of its \
   * inverse prove that every singular value exceeds `least` times the largest; the solution counts only then. */      \
  void least_##NAME(int64_t batch, int64_t m, int64_t n, int64_t k, const T *a, int64_t step, int64_t rs, int64_t cs,  \
                    const T *b, int64_t bstep, int64_t brs, int64_t bcs, T *out, uint8_t *full, double least) {        \
    rows_##NAME x, y;                                                                                                  \
    T v[ROWS][ROWS], tau[ROWS];                                                                                        \
    int64_t start = (n + LANES_##NAME - 1) / LANES_##NAME, wide = start + (k + LANES_##NAME - 1) / LANES_##NAME;       \
    for (; batch > 0; batch--, a += step, b += bstep, out += n * k, full++) {                                          \
      double size = 0, other = 0;                                                                                      \
      take_##NAME(m, n, a, rs, cs, x);                                                                                 \
      for (int64_t i = 0; i < m; i++) {                                                                                \
        T *row = (T *)x[i] + start * LANES_##NAME;                                                                     \
        for (int64_t j = 0; j < k; j++) row[j] = b[i * brs + j * bcs];                                                 \
        for (int64_t j = k; j < (wide - start) * LANES_##NAME; j++) row[j] = 0;                                        \
      }                                                                                                                \
      reduce_##NAME(m, n, wide, x, v, tau);                                                                            \
      memset(y, 0, n * sizeof y[0]);                                                                                   \
      for (int64_t i = 0; i < n; i++) ((T *)y[i])[i] = 1;                                                              \
      back_##NAME(n, 0, start, x, y);                                                                                  \
      back_##NAME(n, start, wide, x, x);                                                                               \
      for (int64_t i = 0; i < n; i++)                                                                                  \
        for (int64_t j = i; j < n; j++) {                                                                              \
          double one = ((T *)x[i])[j], two = ((T *)y[i])[j];                                                           \
          size += one * one, other += two * two;                                                                       \
        }                                                                                                              \
      *full = sqrt(size) * sqrt(other) * least < 1;                                                                    \
      for (int64_t j = 0; j < k; j++)                                                                                  \
        for (int64_t i = 0; i < n; i++) out[j * n + i] = ((T *)x[i])[start * LANES_##NAME + j];                        \
    }                                                                                                                  \
  }

DEFINE(float32, float, fabsf, sqrtf)
DEFINE(float64, double, fabs, sqrt)
