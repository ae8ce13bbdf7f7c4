/* Real rows of odd length n = n1 n2, at half the cost of complex ones; for one type.

   Columns of real numbers are the parts of complex ones, and of their spectra those with k1 <= n1 / 2 are enough: with
   k = k1 + n1 k2 the others are conjugates, of n - k. */

/* Half a spectrum y [n / 2 + 1] of x [n] */
static void NAME(odd_forward)(const P *plan, const T *x, T *y, T scale, C *space) {
    const idx n1 = plan->one.n, n2 = plan->two.n, n = n1 * n2, kept = n1 / 2 + 1, longest = n1 > n2 ? n1 : n2;
    const T half = (T)0.5;
    C *a = space, *b = a + longest, *z = b + longest;
    for (idx block = 0; block < VECTORS(n2); block += 2) {
        const idx first = n2 - block * LANES, more = first - LANES;
        for (idx j = 0; j < n1; j++) {
            const T *from = x + j * n2 + block * LANES;
            a[j] = (C){NAME(up)(from, first), more > 0 ? NAME(up)(from + LANES, more) : (V){0}};
        }
        C *c = NAME(passes)(&plan->one, a, a, b), *u = c == a ? b : a;
        for (idx k = 0; k < kept; k++) {
            C p = c[k], q = c[k ? n1 - k : 0];
            u[k] = (C){half * (p.r + q.r), half * (p.i - q.i)};
            /* what is overwritten was used: k comes before n1 - k */
            c[k] = (C){half * (p.i + q.i), half * (q.r - p.r)};
        }
        NAME(middle)(plan, block, kept, u, z);
        if (more > 0) NAME(middle)(plan, block + 1, kept, c, z);
    }
    for (idx g = 0; g < VECTORS(kept); g++) {
        const C *c = NAME(passes)(&plan->two, z + g * VECTORS(n2) * LANES, a, b);
        const idx left = kept - g * LANES, lanes = left < LANES ? left : LANES;
        for (idx k2 = 0; k2 < n2; k2++) {
            const idx k = n1 * k2 + g * LANES;
            C d = {c[k2].r * scale, c[k2].i * scale};
            if (2 * (k + lanes - 1) < n) NAME(store)(y + 2 * k, d, left, 0);
            else if (2 * k > n) NAME(store_down)(y + 2 * (n - k), NAME(conjugate)(d), left);
            else
                for (idx t = 0; t < lanes; t++) {
                    idx at = 2 * (k + t) < n ? k + t : n - k - t;
                    y[2 * at] = d.r[t];
                    y[2 * at + 1] = at == k + t ? d.i[t] : -d.i[t];
                }
        }
    }
    y[1] = 0;
}

/* A group of the spectrum whose half is x: k = k1 + n1 k2 for LANES k1, turned round by `sign` */
INLINE C NAME(odd_load)(const T *x, idx n, idx k, idx left, T sign) {
    const idx lanes = left < LANES ? left : LANES;
    C c = {{0}, {0}};
    if (2 * (k + lanes - 1) < n) c = NAME(load)(x + 2 * k, left, 0);
    else if (2 * k > n) c = NAME(conjugate)(NAME(load_down)(x + 2 * (n - k), left));
    else
        for (idx t = 0; t < lanes; t++) {
            idx at = 2 * (k + t) < n ? k + t : n - k - t;
            c.r[t] = x[2 * at];
            c.i[t] = at == k + t ? x[2 * at + 1] : -x[2 * at + 1];
        }
    c.i *= sign;
    return c;
}

/* y [n] of half a spectrum: a forward transform, of the conjugate unless `sign` is -1 */
static void NAME(odd_backward)(const P *plan, const T *x, T *y, T scale, T sign, C *space) {
    const idx n1 = plan->one.n, n2 = plan->two.n, n = n1 * n2, kept = n1 / 2 + 1, longest = n1 > n2 ? n1 : n2;
    const idx blocks = VECTORS(n2);
    C *a = space, *b = a + longest, *z = b + longest;
    for (idx g = 0; g < VECTORS(kept); g++) {
        for (idx k2 = 0; k2 < n2; k2++) a[k2] = NAME(odd_load)(x, n, n1 * k2 + g * LANES, kept - g * LANES, -sign);
        /* the mean of a real row is real */
        if (g == 0) a[0].i[0] = 0;
        const C *c = NAME(passes)(&plan->two, a, a, b);
        for (idx block = 0; block < blocks; block++) {
            V r[LANES], i[LANES];
            for (idx t = 0; t < LANES; t++) {
                idx j = block * LANES + t < n2 ? block * LANES + t : n2 - 1;
                r[t] = c[j].r;
                i[t] = c[j].i;
            }
            NAME(transpose)(r);
            NAME(transpose)(i);
            for (idx t = 0; t < LANES && g * LANES + t < kept; t++) {
                idx k = g * LANES + t;
                z[block * kept + k] = NAME(product)((C){r[t], i[t]}, NAME(twiddle)(plan, block, k));
            }
        }
    }
    for (idx block = 0; block < blocks; block += 2) {
        const idx first = n2 - block * LANES, more = first - LANES;
        const C *u = z + block * kept, *v = u + kept;
        for (idx k = 0; k < kept; k++) {
            C p = u[k], q = more > 0 ? v[k] : (C){{0}, {0}};
            if (k) a[n1 - k] = (C){p.r + q.i, q.r - p.i};
            a[k] = (C){p.r - q.i, p.i + q.r};
        }
        const C *c = NAME(passes)(&plan->one, a, a, b);
        for (idx j = 0; j < n1; j++) {
            T *to = y + j * n2 + block * LANES;
            NAME(put_up)(to, c[j].r * scale, first);
            if (more > 0) NAME(put_up)(to + LANES, c[j].i * scale, more);
        }
    }
}
