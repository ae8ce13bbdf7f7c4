/* Many cosine and sine transforms of few points: those of `rows.h`, a point of each in a lane; for one type.

   Two blocks of transforms are the parts of complex points, except for type 4 of even length, whose own are complex. */

/* The spectra of both parts, doubled, from that of the whole at k and n - k */
INLINE void NAME(apart)(C p, C q, C *u, C *v) {
    *u = (C){p.r + q.r, p.i - q.i};
    *v = (C){p.i + q.i, q.r - p.r};
}

/* The real and the imaginary part of w u, for the parts of both */
INLINE C NAME(real_of)(C u, C v, T r, T i) { return (C){r * u.r - i * u.i, r * v.r - i * v.i}; }
INLINE C NAME(imag_of)(C u, C v, T r, T i) { return (C){r * u.i + i * u.r, r * v.i + i * v.r}; }
INLINE C NAME(scaled)(C a, T by) { return (C){a.r * by, a.i * by}; }

static void NAME(many1)(const J *job, C *line, T scale, C *a, C *b) {
    const idx n = job->n, N = job->period, sine = job->flags & SINE ? 1 : 0;
    const T sign = sine ? -1 : 1;
    a[0] = a[N / 2] = (C){{0}, {0}};
    for (idx j = 0; j < n; j++) {
        if (j || sine) a[N - j - sine] = NAME(scaled)(line[j], sign);
        a[j + sine] = line[j];
    }
    const C *z = NAME(all)(&job->many, a, b);
    /* spectra of even rows are real, of odd ones imaginary */
    for (idx k = 0; k < n; k++)
        line[k] = NAME(scaled)(sine ? (C){-z[k + 1].i, z[k + 1].r} : z[k], scale);
}

static void NAME(many2)(const J *job, C *line, T scale, C *a, C *b) {
    const idx n = job->n, m = n / 2, first = job->flags & SINE ? n - 1 : 0, step = job->flags & SINE ? -1 : 1;
    const T *p = job->turn;
    for (idx j = 0; j < n - m; j++) a[j] = line[2 * j];
    for (idx j = 0; j < m; j++) a[n - 1 - j] = NAME(scaled)(line[2 * j + 1], (T)step);
    const C *z = NAME(all)(&job->many, a, b);
    line[first] = NAME(scaled)(z[0], 2 * scale);
    for (idx k = 1; k <= m; k++) {
        C u, v;
        NAME(apart)(z[k], z[n - k], &u, &v);
        line[first + step * (n - k)] = NAME(scaled)(NAME(imag_of)(u, v, p[2 * k], p[2 * k + 1]), -scale);
        line[first + step * k] = NAME(scaled)(NAME(real_of)(u, v, p[2 * k], p[2 * k + 1]), scale);
    }
}

static void NAME(many3)(const J *job, C *line, T scale, C *a, C *b) {
    const idx n = job->n, m = n / 2, first = job->flags & SINE ? n - 1 : 0, step = job->flags & SINE ? -1 : 1;
    const T *p = job->turn;
    a[0] = NAME(swapped)(line[first]);
    for (idx k = 1; k <= m; k++) {
        C x = line[first + step * k], y = line[first + step * (n - k)];
        C re = {p[2 * k] * x.r - p[2 * k + 1] * y.r, p[2 * k] * x.i - p[2 * k + 1] * y.i};
        C im = {-p[2 * k] * y.r - p[2 * k + 1] * x.r, -p[2 * k] * y.i - p[2 * k + 1] * x.i};
        a[n - k] = NAME(swapped)((C){re.r + im.i, re.i - im.r});
        a[k] = NAME(swapped)((C){re.r - im.i, im.r + re.i});
    }
    const C *z = NAME(all)(&job->many, a, b);
    for (idx j = 0; j < n - m; j++) line[2 * j] = NAME(scaled)(NAME(swapped)(z[j]), scale);
    for (idx j = 0; j < m; j++) line[2 * j + 1] = NAME(scaled)(NAME(swapped)(z[n - 1 - j]), (T)step * scale);
}

static void NAME(many4_odd)(const J *job, C *line, T scale, C *a, C *b) {
    const idx n = job->n;
    const T by = (T)(scale * 0.70710678118654752440L);
    for (idx j = 0; j < n; j++) a[j] = NAME(scaled)(line[job->from[j] >> 1], (T)(1 - 2 * (job->from[j] & 1)));
    const C *z = NAME(all)(&job->many, a, b);
    for (idx k = 0; k < n; k++) {
        C u, v;
        idx at = job->to[k];
        NAME(apart)(z[at], z[at ? n - at : 0], &u, &v);
        line[k] = NAME(scaled)(NAME(real_of)(u, v, job->turn[2 * k], -job->turn[2 * k + 1]), by);
    }
}

/* of the real part of the line alone */
static void NAME(many4_even)(const J *job, C *line, T scale, C *a, C *b) {
    const idx n = job->n, m = n / 2;
    const int sine = job->flags & SINE;
    const T *p = job->turn, *q = job->turn_more;
    for (idx j = 0; j < m; j++) {
        V x = line[sine ? n - 1 - 2 * j : 2 * j].r, y = line[sine ? 2 * j : n - 1 - 2 * j].r;
        a[j] = NAME(turned)((C){x, y}, p[2 * j], p[2 * j + 1]);
    }
    const C *z = NAME(all)(&job->many, a, b);
    for (idx k = 0; k < m; k++) {
        C c = NAME(turned)(z[k], q[2 * k], q[2 * k + 1]);
        line[2 * k].r = c.r * (2 * scale);
        line[n - 1 - 2 * k].r = c.i * ((sine ? 2 : -2) * scale);
    }
}

/* A block of `count` transforms; x and y are its first elements */
static void NAME(trigonometric)(const J *job, idx inner, idx count, const T *x, T *y, double factor, C *line) {
    const idx n = job->n, first = count < LANES ? count : LANES, more = count - first;
    const idx apart = inner > 1 ? LANES : LANES * n;
    const T scale = (T)factor;
    C *a = line + NAME(buffer)(job), *b = a + NAME(buffer)(job);
    NAME(take_real)(x, n, inner, first, &line->r);
    if (more) NAME(take_real)(x + apart, n, inner, more, &line->i);
    else for (idx j = 0; j < n; j++) line[j].i = (V){0};
    if (job->flags & BEFORE) {
        line[0] = NAME(scaled)(line[0], (T)job->ends[0]);
        line[n - 1] = NAME(scaled)(line[n - 1], (T)job->ends[1]);
    }
    switch (job->kind) {
        case TYPE1: NAME(many1)(job, line, scale, a, b); break;
        case TYPE2: NAME(many2)(job, line, scale, a, b); break;
        case TYPE3: NAME(many3)(job, line, scale, a, b); break;
        default:
            if (n % 2) NAME(many4_odd)(job, line, scale, a, b);
            else NAME(many4_even)(job, line, scale, a, b);
    }
    if (job->flags & AFTER) {
        line[0] = NAME(scaled)(line[0], (T)job->ends[2]);
        line[n - 1] = NAME(scaled)(line[n - 1], (T)job->ends[3]);
    }
    NAME(give_real)(&line->r, n, inner, first, 1, y);
    if (more) NAME(give_real)(&line->i, n, inner, more, 1, y + apart);
}
