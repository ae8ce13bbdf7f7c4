/* The MP2 energy of blocks of integrals T[a, b] of orbital pairs: sums of T_ab^2 / D and T_ab T_ba / D in one pass.
 *
 * D = occ - vir[a] - vir[b] is symmetric, so elements (a, b) and (b, a) share one division. */

#ifndef LOOPS_PAIRS_H
#define LOOPS_PAIRS_H

#include "engines.h"

#define TILE 16

#define DEFINE(NAME, T)                                                                                               \
  HOT static void pairs_##NAME(int64_t from, int64_t end, int64_t n, const T *all, const T *occ, const T *vir,        \
                               double *square, double *cross) {                                                       \
    for (int64_t p = from; p < end; p++) {                                                                            \
      const T *t = all + p * n * n;                                                                                   \
      double squares = 0, crosses = 0;                                                                                \
      for (int64_t a0 = 0; a0 < n; a0 += TILE) {                                                                     \
        int64_t rows = n - a0 < TILE ? n - a0 : TILE;                                                               \
        T sq[TILE] = {0}, cr[TILE] = {0}, half[TILE] = {0}, own[TILE] = {0};                                      \
        for (int64_t b0 = a0; b0 < n; b0 += TILE) {                                                                  \
          int64_t columns = n - b0 < TILE ? n - b0 : TILE;                                                          \
          /* lanes beyond the edge hold zero integrals over a denominator of one */                                   \
          T flipped[TILE][TILE] = {{0}}, x[TILE] = {0}, v[TILE];                                                   \
          for (int64_t b = 0; b < columns; b++)                                                                       \
            for (int64_t a = 0; a < rows; a++) flipped[a][b] = t[(b0 + b) * n + a0 + a];                               \
          for (int64_t b = 0; b < columns; b++) v[b] = vir[b0 + b];                                                   \
          T *to_square = a0 == b0 ? half : sq, *to_cross = a0 == b0 ? own : cr;                                       \
          for (int64_t a = 0; a < rows; a++) {                                                                        \
            T base = occ[p] - vir[a0 + a];                                                                            \
            for (int64_t b = columns; b < TILE; b++) v[b] = base - 1;                                                \
            const T *row = t + (a0 + a) * n + b0;                                                                     \
            if (columns < TILE) {                                                                                    \
              for (int64_t b = 0; b < columns; b++) x[b] = row[b];                                                    \
              row = x;                                                                                                \
            }                                                                                                         \
            for (int64_t b = 0; b < TILE; b++) {                                                                     \
              T y = flipped[a][b], r = 1 / (base - v[b]);                                                              \
              to_square[b] += (row[b] * row[b] + y * y) * r;                                                          \
              to_cross[b] += row[b] * y * r;                                                                          \
            }                                                                                                         \
          }                                                                                                           \
        }                                                                                                             \
        /* a tile on the diagonal meets each of its elements twice, the others stand for two tiles */                 \
        for (int64_t b = 0; b < TILE; b++) {                                                                         \
          squares += (double)sq[b] + 0.5 * (double)half[b];                                                           \
          crosses += 2.0 * (double)cr[b] + (double)own[b];                                                            \
        }                                                                                                             \
      }                                                                                                               \
      square[p] = squares;                                                                                            \
      cross[p] = crosses;                                                                                             \
    }                                                                                                                 \
  }

DEFINE(float32, float)
DEFINE(float64, double)

#endif
