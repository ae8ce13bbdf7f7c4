/* One complex transform of n = n1 n2 points, for one type of number: included once for each.

   With j = j1 n2 + j2 and k = k1 + n1 k2, columns j2 are transformed along j1, turned by exp(-2 pi i k1 j2 / n),
   transposed, and transformed along j2. A vector holds as many columns as it has lanes, so that both halves are plain
   transforms of vectors: no step works across lanes but the transposition. Tables come from float64 (`host.py`).

   Before inclusion: T, the type; LANES, how many make a vector; NAME(x), x with the type in its name. */

#undef LOW
#undef HIGH
#undef EVEN
#undef ODD
#undef BACK
#define V NAME(vector)
#define L NAME(loose)
#define C NAME(pair)
#define P struct NAME(plan)

typedef T V __attribute__((vector_size(LANES * sizeof(T))));
/* the same in memory of any alignment */
typedef T L __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef struct { V r, i; } C;

/* `half` describes one of the two halves: its length, its radices from the first pass on (a 0 ends them), and the
   twiddles of each pass in turn; the roots of a radix above 8 come before its twiddles */
struct NAME(half) { idx n, count, radix[24]; const T *w; };
P {
    struct NAME(half) one, two;
    const T *lane;   /* [n1][2][LANES] exp(-2 pi i k1 lane / n) */
    const T *block;  /* [blocks of n2][n1][2] exp(-2 pi i k1 LANES block / n) */
};

/* A transform of n vectors, where n has a large factor as a convolution with a chirp like that of `rows.h` */
struct NAME(many) {
    idx n, length;
    struct NAME(half) half;
    const T *chirp, *spectrum;
};

#if LANES == 8
#define LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define BACK(a) SHUFFLE(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#elif LANES == 4
#define LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#define EVEN(a, b) SHUFFLE(a, b, 0, 2, 4, 6)
#define ODD(a, b) SHUFFLE(a, b, 1, 3, 5, 7)
#define BACK(a) SHUFFLE(a, a, 3, 2, 1, 0)
#else
#define LOW(a, b) SHUFFLE(a, b, 0, 2)
#define HIGH(a, b) SHUFFLE(a, b, 1, 3)
#define EVEN(a, b) SHUFFLE(a, b, 0, 2)
#define ODD(a, b) SHUFFLE(a, b, 1, 3)
#define BACK(a) SHUFFLE(a, a, 1, 0)
#endif

INLINE V NAME(get)(const T *p) { return *(const L *)p; }
INLINE void NAME(put)(T *p, V v) { *(L *)p = v; }

/* `count` real numbers from memory, and into it, upward from the first or downward from the last; more than LANES are
   LANES, and lanes beyond a smaller count are 0 */
INLINE V NAME(up)(const T *p, idx count) {
    T edge[LANES] = {0};
    if (count < LANES) p = memcpy(edge, p, (size_t)count * sizeof(T));
    return NAME(get)(p);
}

INLINE V NAME(down)(const T *last, idx count) {
    T edge[LANES] = {0};
    const T *p = last - LANES + 1;
    if (count < LANES) memcpy(edge + LANES - count, last - count + 1, (size_t)count * sizeof(T)), p = edge;
    return BACK(NAME(get)(p));
}

INLINE void NAME(put_up)(T *p, V v, idx count) {
    if (count >= LANES) NAME(put)(p, v);
    else memcpy(p, &v, (size_t)count * sizeof(T));
}

INLINE void NAME(put_down)(T *last, V v, idx count) {
    v = BACK(v);
    if (count >= LANES) NAME(put)(last - LANES + 1, v);
    else memcpy(last - count + 1, (T *)&v + LANES - count, (size_t)count * sizeof(T));
}

/* The same of complex numbers; `swap` exchanges their parts, which turns a transform round */
INLINE C NAME(load)(const T *p, idx count, int swap) {
    T edge[2 * LANES] = {0};
    if (count < LANES) p = memcpy(edge, p, 2 * (size_t)count * sizeof(T));
    V a = NAME(get)(p), b = NAME(get)(p + LANES);
    V r = EVEN(a, b), i = ODD(a, b);
    return swap ? (C){i, r} : (C){r, i};
}

/* of two planes, unless the second one is not there */
INLINE C NAME(load_parts)(const T *p, const T *im, idx at, idx count, int swap) {
    if (!im) return NAME(load)(p + 2 * at, count, swap);
    V r = NAME(up)(p + at, count), i = NAME(up)(im + at, count);
    return swap ? (C){i, r} : (C){r, i};
}

INLINE C NAME(load_down)(const T *last, idx count) {
    T edge[2 * LANES] = {0};
    const T *p = last - 2 * LANES + 2;
    if (count < LANES) memcpy(edge + 2 * (LANES - count), last - 2 * count + 2, 2 * (size_t)count * sizeof(T)), p = edge;
    C c = NAME(load)(p, LANES, 0);
    return (C){BACK(c.r), BACK(c.i)};
}

INLINE void NAME(store)(T *p, C c, idx count, int swap) {
    V r = swap ? c.i : c.r, i = swap ? c.r : c.i, a = LOW(r, i), b = HIGH(r, i);
    if (count >= LANES) {
        NAME(put)(p, a);
        NAME(put)(p + LANES, b);
        return;
    }
    T edge[2 * LANES];
    NAME(put)(edge, a);
    NAME(put)(edge + LANES, b);
    memcpy(p, edge, 2 * (size_t)count * sizeof(T));
}

INLINE void NAME(store_down)(T *last, C c, idx count) {
    T edge[2 * LANES], *p = count >= LANES ? last - 2 * LANES + 2 : edge;
    NAME(store)(p, (C){BACK(c.r), BACK(c.i)}, LANES, 0);
    if (count < LANES) memcpy(last - 2 * count + 2, edge + 2 * (LANES - count), 2 * (size_t)count * sizeof(T));
}

/* LANES interleavings of the upper with the lower half: after log2(LANES) rounds rows are columns */
INLINE void NAME(transpose)(V *a) {
    V b[LANES];
    UNROLLED for (int round = 1; round < LANES; round *= 2) {
        UNROLLED for (int k = 0; k < LANES / 2; k++) {
            b[2 * k] = LOW(a[k], a[k + LANES / 2]);
            b[2 * k + 1] = HIGH(a[k], a[k + LANES / 2]);
        }
        UNROLLED for (int k = 0; k < LANES; k++) a[k] = b[k];
    }
}

INLINE C NAME(plus)(C a, C b) { return (C){a.r + b.r, a.i + b.i}; }
INLINE C NAME(minus)(C a, C b) { return (C){a.r - b.r, a.i - b.i}; }
INLINE C NAME(turned)(C a, T r, T i) { return (C){a.r * r - a.i * i, a.r * i + a.i * r}; }
INLINE C NAME(conjugate)(C a) { return (C){a.r, -a.i}; }
/* times -i */
INLINE C NAME(quarter)(C a) { return (C){a.i, -a.r}; }

INLINE void NAME(two)(C *a) {
    C t = a[1];
    a[1] = NAME(minus)(a[0], t);
    a[0] = NAME(plus)(a[0], t);
}

INLINE void NAME(three)(C *a) {
    const T s = (T)0.866025403784438646763723170752936183L;
    C t = NAME(plus)(a[1], a[2]), u = NAME(minus)(a[1], a[2]);
    C m = {a[0].r - (T)0.5 * t.r, a[0].i - (T)0.5 * t.i}, d = {s * u.i, -s * u.r};
    a[0] = NAME(plus)(a[0], t);
    a[1] = NAME(plus)(m, d);
    a[2] = NAME(minus)(m, d);
}

INLINE void NAME(four)(C *a) {
    C p = NAME(plus)(a[0], a[2]), q = NAME(minus)(a[0], a[2]);
    C u = NAME(plus)(a[1], a[3]), v = NAME(quarter)(NAME(minus)(a[1], a[3]));
    a[0] = NAME(plus)(p, u);
    a[1] = NAME(plus)(q, v);
    a[2] = NAME(minus)(p, u);
    a[3] = NAME(minus)(q, v);
}

INLINE void NAME(five)(C *a) {
    const T c1 = (T)0.309016994374947424102293417182819059L, s1 = (T)0.951056516295153572116439333379382143L;
    const T c2 = (T)-0.809016994374947424102293417182819059L, s2 = (T)0.587785252292473129168705954639072769L;
    C t = NAME(plus)(a[1], a[4]), u = NAME(minus)(a[1], a[4]);
    C p = NAME(plus)(a[2], a[3]), q = NAME(minus)(a[2], a[3]);
    C m1 = {a[0].r + c1 * t.r + c2 * p.r, a[0].i + c1 * t.i + c2 * p.i};
    C m2 = {a[0].r + c2 * t.r + c1 * p.r, a[0].i + c2 * t.i + c1 * p.i};
    C d1 = {s1 * u.i + s2 * q.i, -(s1 * u.r + s2 * q.r)}, d2 = {s2 * u.i - s1 * q.i, -(s2 * u.r - s1 * q.r)};
    a[0] = (C){a[0].r + t.r + p.r, a[0].i + t.i + p.i};
    a[1] = NAME(plus)(m1, d1);
    a[2] = NAME(plus)(m2, d2);
    a[3] = NAME(minus)(m2, d2);
    a[4] = NAME(minus)(m1, d1);
}

INLINE void NAME(eight)(C *a) {
    const T h = (T)0.707106781186547524400844362104849039L;
    C e[4] = {a[0], a[2], a[4], a[6]}, o[4] = {a[1], a[3], a[5], a[7]};
    NAME(four)(e);
    NAME(four)(o);
    o[1] = (C){h * (o[1].r + o[1].i), h * (o[1].i - o[1].r)};
    o[2] = NAME(quarter)(o[2]);
    o[3] = (C){h * (o[3].i - o[3].r), -h * (o[3].r + o[3].i)};
    UNROLLED for (int k = 0; k < 4; k++) {
        a[k] = NAME(plus)(e[k], o[k]);
        a[k + 4] = NAME(minus)(e[k], o[k]);
    }
}

/* One pass of Stockham's scheme: [R][m][s] to [m][R][s], turned by exp(-2 pi i p k / R m) */
#define PASS(WORD, R)                                                                                                \
    static const T *NAME(pass_##WORD)(idx m, idx s, const C *restrict x, C *restrict y, const T *restrict w) {       \
        for (idx p = 0; p < m; p++, x += s, y += R * s, w += 2 * R - 2)                                              \
            for (idx q = 0; q < s; q++) {                                                                            \
                C a[R];                                                                                              \
                UNROLLED for (int j = 0; j < R; j++) a[j] = x[q + s * m * j];                                        \
                NAME(WORD)(a);                                                                                       \
                y[q] = a[0];                                                                                         \
                if (m == 1)                                                                                          \
                    UNROLLED for (int k = 1; k < R; k++) y[q + s * k] = a[k];                                        \
                else                                                                                                 \
                    UNROLLED for (int k = 1; k < R; k++) y[q + s * k] = NAME(turned)(a[k], w[2 * k - 2], w[2 * k - 1]); \
            }                                                                                                        \
        return w;                                                                                                    \
    }
PASS(two, 2)
PASS(three, 3)
PASS(four, 4)
PASS(five, 5)
PASS(eight, 8)

/* The same for any odd radix; `w` starts with its cosines and sines */
static const T *NAME(pass_odd)(idx R, idx m, idx s, const C *restrict x, C *restrict y, const T *restrict w) {
    const T *root = w;
    C t[RADIX_MOST / 2 + 1], u[RADIX_MOST / 2 + 1];
    w += 2 * R;
    for (idx p = 0; p < m; p++, x += s, y += R * s, w += 2 * R - 2)
        for (idx q = 0; q < s; q++) {
            C zero = x[q], sum = zero;
            for (idx j = 1; j <= R / 2; j++) {
                C a = x[q + s * m * j], b = x[q + s * m * (R - j)];
                t[j] = NAME(plus)(a, b);
                u[j] = NAME(minus)(a, b);
                sum = NAME(plus)(sum, t[j]);
            }
            y[q] = sum;
            for (idx k = 1; k <= R / 2; k++) {
                C even = zero, odd = {{0}, {0}};
                for (idx j = 1, at = k; j <= R / 2; j++, at = at + k < R ? at + k : at + k - R) {
                    T c = root[2 * at], d = root[2 * at + 1];
                    even.r += c * t[j].r;
                    even.i += c * t[j].i;
                    odd.r += d * u[j].i;
                    odd.i -= d * u[j].r;
                }
                const T *f = w + 2 * k - 2, *g = w + 2 * (R - k) - 2;
                y[q + s * k] = NAME(turned)(NAME(plus)(even, odd), f[0], f[1]);
                y[q + s * (R - k)] = NAME(turned)(NAME(minus)(even, odd), g[0], g[1]);
            }
        }
    return w;
}

/* All passes of a half over x [n]; the two buffers take turns, and the one with the result is returned */
static C *NAME(passes)(const struct NAME(half) *h, const C *x, C *a, C *b) {
    const T *w = h->w;
    idx m = h->n, s = 1;
    C *y = h->count ? a : memmove(a, x, sizeof(C));
    for (idx pass = 0; pass < h->count; pass++) {
        idx R = h->radix[pass];
        m /= R;
        y = x == a ? b : a;
        switch (R) {
            case 2: w = NAME(pass_two)(m, s, x, y, w); break;
            case 3: w = NAME(pass_three)(m, s, x, y, w); break;
            case 4: w = NAME(pass_four)(m, s, x, y, w); break;
            case 5: w = NAME(pass_five)(m, s, x, y, w); break;
            case 8: w = NAME(pass_eight)(m, s, x, y, w); break;
            default: w = NAME(pass_odd)(R, m, s, x, y, w);
        }
        s *= R;
        x = y;
    }
    return y;
}

/* exp(-2 pi i k1 j2 / n) for the columns j2 of a block */
INLINE C NAME(twiddle)(const P *plan, idx block, idx k) {
    const T *at = plan->lane + 2 * LANES * k, *by = plan->block + 2 * (plan->one.n * block + k);
    return NAME(turned)((C){NAME(get)(at), NAME(get)(at + LANES)}, by[0], by[1]);
}

INLINE C NAME(product)(C a, C b) { return (C){a.r * b.r - a.i * b.i, a.r * b.i + a.i * b.r}; }

/* A block of columns x [k1], k1 < count, turned and transposed into groups z [k1 / LANES][j2] */
static void NAME(middle)(const P *plan, idx block, idx count, const C *x, C *z) {
    const idx rows = (plan->two.n + LANES - 1) / LANES * LANES;
    for (idx g = 0; g * LANES < count; g++) {
        V r[LANES], i[LANES];
        for (idx t = 0; t < LANES; t++) {
            idx k = g * LANES + t < count ? g * LANES + t : count - 1;
            C c = NAME(product)(x[k], NAME(twiddle)(plan, block, k));
            r[t] = c.r;
            i[t] = c.i;
        }
        NAME(transpose)(r);
        NAME(transpose)(i);
        C *to = z + g * rows + block * LANES;
        for (idx t = 0; t < LANES; t++) to[t] = (C){r[t], i[t]};
    }
}

#define VECTORS(n) (((n) + LANES - 1) / LANES)

static idx NAME(room)(const P *plan) {
    idx n1 = plan->one.n, n2 = plan->two.n;
    return 2 * (n1 > n2 ? n1 : n2) + VECTORS(n1) * VECTORS(n2) * LANES;
}

/* One row, interleaved or of planes: in and out may be the same memory */
static void NAME(row)(const P *plan, const T *in, const T *im, T *out, int swap, T scale, C *space) {
    const idx n1 = plan->one.n, n2 = plan->two.n, longest = n1 > n2 ? n1 : n2;
    C *a = space, *b = a + longest, *z = b + longest;
    for (idx block = 0; block < VECTORS(n2); block++) {
        for (idx j = 0; j < n1; j++)
            a[j] = NAME(load_parts)(in, im, j * n2 + block * LANES, n2 - block * LANES, swap);
        NAME(middle)(plan, block, n1, NAME(passes)(&plan->one, a, a, b), z);
    }
    for (idx g = 0; g < VECTORS(n1); g++) {
        const C *y = NAME(passes)(&plan->two, z + g * VECTORS(n2) * LANES, a, b);
        for (idx k = 0; k < n2; k++) {
            C c = {y[k].r * scale, y[k].i * scale};
            NAME(store)(out + 2 * (k * n1 + g * LANES), c, n1 - g * LANES, swap);
        }
    }
}
