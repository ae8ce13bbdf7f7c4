/* Many transforms of few points: a vector holds one point of as many transforms as it has lanes; for one type.

   Transforms lie beside each other, [n][inner], or one after the other, [count][n], which a transposition on either side
   turns into the first. Real ones are taken in two blocks, as the parts of complex ones. */

INLINE C NAME(swapped)(C a) { return (C){a.i, a.r}; }

/* The transform of a, in one of the two buffers */
static C *NAME(all)(const struct NAME(many) *many, C *a, C *b) {
    if (!many->length) return NAME(passes)(&many->half, a, a, b);
    const T *w = many->chirp, *s = many->spectrum;
    for (idx j = 0; j < many->n; j++) a[j] = NAME(turned)(a[j], w[2 * j], w[2 * j + 1]);
    for (idx j = many->n; j < many->length; j++) a[j] = (C){{0}, {0}};
    C *y = NAME(passes)(&many->half, a, a, b);
    for (idx k = 0; k < many->length; k++) y[k] = NAME(swapped)(NAME(turned)(y[k], s[2 * k], s[2 * k + 1]));
    y = NAME(passes)(&many->half, y, a, b);
    for (idx j = 0; j < many->n; j++) y[j] = NAME(turned)(NAME(swapped)(y[j]), w[2 * j], w[2 * j + 1]);
    return y;
}

/* Rows [count][length] of real numbers, at most LANES, to and from a vector for each column: vector step t of a.
   The last columns are taken with some before them, a second time, rather than apart; lanes without a row repeat the
   last one */
INLINE void NAME(take_rows)(const T *x, idx length, idx count, idx step, idx swap, V *a) {
    const T *row[LANES];
    for (idx t = 0; t < LANES; t++) row[t] = x + (t < count ? t : count - 1) * length;
    if (length < LANES) {
        for (idx t = 0; t < LANES; t++)
            for (idx j = 0; j < length; j++) a[step * (j ^ swap)][t] = row[t][j];
        return;
    }
    for (idx at = 0; at < length; at += LANES) {
        const idx j = at + LANES <= length ? at : length - LANES;
        V r[LANES];
        UNROLLED for (int t = 0; t < LANES; t++) r[t] = NAME(get)(row[t] + j);
        NAME(transpose)(r);
        UNROLLED for (int t = 0; t < LANES; t++) a[step * (j + (t ^ swap))] = r[t];
    }
}

INLINE void NAME(give_rows)(const V *a, idx length, idx count, idx step, idx swap, T scale, T *y) {
    if (length < LANES) {
        for (idx t = 0; t < count; t++)
            for (idx j = 0; j < length; j++) y[t * length + j] = a[step * (j ^ swap)][t] * scale;
        return;
    }
    for (idx at = 0; at < length; at += LANES) {
        const idx j = at + LANES <= length ? at : length - LANES;
        V r[LANES];
        UNROLLED for (int t = 0; t < LANES; t++) r[t] = a[step * (j + (t ^ swap))] * scale;
        NAME(transpose)(r);
        if (count == LANES)
            UNROLLED for (int t = 0; t < LANES; t++) NAME(put)(y + t * length + j, r[t]);
        else
            for (idx t = 0; t < count; t++) NAME(put)(y + t * length + j, r[t]);
    }
}

/* Points of `count` complex transforms, at most LANES; inner is 1 for rows */
static void NAME(take_complex)(const T *x, const T *im, idx n, idx inner, idx count, int swap, C *a) {
    if (inner > 1)
        for (idx j = 0; j < n; j++) a[j] = NAME(load_parts)(x, im, j * inner, count, swap);
    else if (im) {
        NAME(take_rows)(x, n, count, 2, 0, swap ? &a->i : &a->r);
        NAME(take_rows)(im, n, count, 2, 0, swap ? &a->r : &a->i);
    } else NAME(take_rows)(x, 2 * n, count, 1, swap != 0, &a->r);
}

static void NAME(give_complex)(const C *a, idx n, idx inner, idx count, int swap, T scale, T *y) {
    if (inner == 1) NAME(give_rows)(&a->r, 2 * n, count, 1, swap != 0, scale, y);
    else for (idx k = 0; k < n; k++) NAME(store)(y + 2 * k * inner, (C){a[k].r * scale, a[k].i * scale}, count, swap);
}

/* The same of real transforms, into and from one part of a: every other vector */
static void NAME(take_real)(const T *x, idx n, idx inner, idx count, V *a) {
    if (inner == 1) NAME(take_rows)(x, n, count, 2, 0, a);
    else for (idx j = 0; j < n; j++) a[2 * j] = NAME(up)(x + j * inner, count);
}

static void NAME(give_real)(const V *a, idx n, idx inner, idx count, T scale, T *y) {
    if (inner == 1) NAME(give_rows)(a, n, count, 2, 0, scale, y);
    else for (idx k = 0; k < n; k++) NAME(put_up)(y + k * inner, a[2 * k] * scale, count);
}

/* How many transforms a block has, and what memory it needs */
static inline idx NAME(block)(const J *job) {
    return job->kind == C2C || (job->kind == TYPE4 && job->n % 2 == 0) ? LANES : 2 * LANES;
}
static inline idx NAME(buffer)(const J *job) {
    return 2 * (job->n + 1) > job->many.length ? 2 * (job->n + 1) : job->many.length;
}

/* A block of `count` transforms; x and y are its first elements, and complex ones may be planes */
static void NAME(columns)(const J *job, idx inner, idx count, const T *x, const T *im, T *y, double factor, C *a) {
    const idx n = job->n, m = n / 2, first = count < LANES ? count : LANES, more = count - first;
    const idx apart = inner > 1 ? LANES : LANES * n, apart_half = LANES * (inner > 1 ? 1 : m + 1) * job->take_unit;
    const T scale = (T)factor;
    C *b = a + NAME(buffer)(job);
    if (job->kind == C2C) {
        NAME(take_complex)(x, im, n, inner, first, job->flags & INVERSE, a);
        NAME(give_complex)(NAME(all)(&job->many, a, b), n, inner, first, job->flags & INVERSE, scale, y);
        return;
    }
    if (job->kind == C2R) {
        const T sign = job->flags & CONJUGATE ? -1 : 1;
        NAME(take_complex)(x, im, m + 1, inner, first, 0, a);
        if (more) NAME(take_complex)(x + apart_half, im ? im + apart_half : NULL, m + 1, inner, more, 0, a + m + 1);
        else for (idx k = 0; k <= m; k++) a[m + 1 + k] = (C){{0}, {0}};
        /* parts change places, which makes the transform the inverse */
        for (idx k = 0; k <= m; k++) {
            C u = a[k], v = a[m + 1 + k];
            u.i *= sign;
            v.i *= sign;
            if (k == 0 || 2 * k == n) u.i = v.i = (V){0};
            if (k) b[n - k] = (C){v.r - u.i, u.r + v.i};
            b[k] = (C){u.i + v.r, u.r - v.i};
        }
        const C *z = NAME(all)(&job->many, b, a);
        NAME(give_real)(&z->i, n, inner, first, scale, y);
        if (more) NAME(give_real)(&z->r, n, inner, more, scale, y + apart);
        return;
    }
    NAME(take_real)(x, n, inner, first, &a->r);
    if (more) NAME(take_real)(x + apart, n, inner, more, &a->i);
    else for (idx j = 0; j < n; j++) a[j].i = (V){0};
    C *z = NAME(all)(&job->many, a, b), *u = z == a ? b : a;
    const int whole = job->kind == R2CC;
    const idx length = whole ? n : m + 1;
    const T half = (T)0.5;
    C *v = u + length;
    for (idx k = 0; k <= m; k++) {
        C p = z[k], q = NAME(conjugate)(z[k ? n - k : 0]);
        u[k] = (C){(p.r + q.r) * half, (p.i + q.i) * half};
        v[k] = (C){(p.i - q.i) * half, (q.r - p.r) * half};
        if (job->flags & INVERSE) u[k] = NAME(conjugate)(u[k]), v[k] = NAME(conjugate)(v[k]);
    }
    for (idx k = m + 1; k < length; k++) u[k] = NAME(conjugate)(u[n - k]), v[k] = NAME(conjugate)(v[n - k]);
    NAME(give_complex)(u, length, inner, first, 0, scale, y);
    if (more) NAME(give_complex)(v, length, inner, more, 0, scale, y + (inner > 1 ? 2 * LANES : 2 * LANES * length));
}
