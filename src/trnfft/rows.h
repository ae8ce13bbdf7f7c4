/* Rows of every kind on top of `fft.h`: complex ones of any length, real ones, cosines and sines; for one type. */

#define A struct NAME(any)
#define J struct NAME(job)

/* A complex transform of n points: by `plan` itself, or where n has a large factor as a convolution with a chirp,
   x[j] exp(-pi i j^2 / n), by transforms of `length` points */
A {
    idx n, length;
    P plan;
    const T *chirp, *spectrum; /* [n][2], and of the conjugate chirp [length][2], divided by the length */
};

/* What is done to rows of n points; `core` transforms complex rows inside, `period` is the length of a real transform
   inside */
J {
    idx kind, n, period;
    idx take, give;           /* real numbers of a row of operand and result */
    idx take_unit, give_unit; /* of one element */
    int flags;
    A core;
    struct NAME(many) many;   /* for many transforms of few points; else without points */
    const T *half;            /* exp(-2 pi i k / period), for even periods */
    const T *turn, *turn_more;
    const int32_t *from, *to; /* permutations of type 4 of odd length */
    double ends[4];           /* factors of the first and last element, before and after */
};

INLINE void NAME(times)(const T *a, const T *im, const T *b, idx count, int swap_in, int swap_out, T scale, T *to) {
    for (idx j = 0; j < count; j += LANES) {
        idx left = count - j;
        C x = NAME(load_parts)(a, im, j, left, swap_in), y = NAME(load)(b + 2 * j, left, 0);
        C z = {(x.r * y.r - x.i * y.i) * scale, (x.r * y.i + x.i * y.r) * scale};
        NAME(store)(to + 2 * j, z, left, swap_out);
    }
}

/* Vector pairs that hold so many real numbers */
static inline idx NAME(pairs)(idx reals) { return reals / (2 * LANES) + 1; }

static void NAME(complex)(const A *any, const T *in, const T *im, T *out, int swap, T scale, C *space) {
    if (!any->length) {
        NAME(row)(&any->plan, in, im, out, swap, scale, space);
        return;
    }
    T *line = (T *)space;
    space += NAME(pairs)(2 * any->length);
    NAME(times)(in, im, any->chirp, any->n, swap, 0, 1, line);
    memset(line + 2 * any->n, 0, 2 * (any->length - any->n) * sizeof(T));
    NAME(row)(&any->plan, line, NULL, line, 0, 1, space);
    NAME(times)(line, NULL, any->spectrum, any->length, 0, 0, 1, line);
    NAME(row)(&any->plan, line, NULL, line, 1, 1, space);
    NAME(times)(line, NULL, any->chirp, any->n, 0, swap, scale, out);
}

/* k from FIRST to LAST by vectors; `left` are those not done */
#define BLOCKS(k, FIRST, LAST) for (idx k = FIRST, left; (left = (LAST) - k + 1) > 0; k += LANES)

/* Half spectra [count][period / 2 + 1] of real rows: by complex rows of half the length, by `odd.h`, and where an odd
   length has a large factor by two rows as the parts of a complex one */
static void NAME(forward)(const J *job, idx count, const T *x, T *y, T scale, C *space) {
    const idx n = job->period, m = n / 2;
    const T half = (T)0.5;
    if (n % 2 && !job->core.length) {
        NAME(odd_forward)(&job->core.plan, x, y, scale, space);
        return;
    }
    T *z = (T *)space;
    space += NAME(pairs)(2 * n);
    if (n % 2) {
        BLOCKS(j, 0, n - 1) {
            C c = {NAME(up)(x + j, left), count == 2 ? NAME(up)(x + n + j, left) : (V){0}};
            NAME(store)(z + 2 * j, c, left, 0);
        }
        NAME(complex)(&job->core, z, NULL, z, 0, scale, space);
        y[0] = z[0];
        y[1] = 0;
        if (count == 1) {
            memcpy(y + 2, z + 2, (size_t)(n - 1) * sizeof(T));
            return;
        }
        T *second = y + n + 1;
        second[0] = z[1];
        second[1] = 0;
        BLOCKS(k, 1, m) {
            C p = NAME(load)(z + 2 * k, left, 0), q = NAME(load_down)(z + 2 * (n - k), left);
            NAME(store)(y + 2 * k, (C){half * (p.r + q.r), half * (p.i - q.i)}, left, 0);
            NAME(store)(second + 2 * k, (C){half * (p.i + q.i), half * (q.r - p.r)}, left, 0);
        }
        return;
    }
    NAME(complex)(&job->core, x, NULL, z, 0, scale, space);
    y[0] = z[0] + z[1];
    y[2 * m] = z[0] - z[1];
    y[1] = y[2 * m + 1] = 0;
    BLOCKS(k, 1, m / 2) {
        C p = NAME(load)(z + 2 * k, left, 0), q = NAME(load_down)(z + 2 * (m - k), left);
        C w = NAME(load)(job->half + 2 * k, left, 0);
        C e = {half * (p.r + q.r), half * (p.i - q.i)}, o = {half * (p.i + q.i), half * (q.r - p.r)};
        C t = {o.r * w.r - o.i * w.i, o.r * w.i + o.i * w.r};
        NAME(store)(y + 2 * k, NAME(plus)(e, t), left, 0);
        NAME(store_down)(y + 2 * (m - k), (C){e.r - t.r, t.i - e.i}, left);
    }
}

/* The inverse, without a factor but `scale`; `sign` -1 takes the conjugate of the spectra */
static void NAME(backward)(const J *job, idx count, const T *x, T *y, T scale, T sign, C *space) {
    const idx n = job->period, m = n / 2;
    if (n % 2 && !job->core.length) {
        NAME(odd_backward)(&job->core.plan, x, y, scale, sign, space);
        return;
    }
    T *z = (T *)space;
    space += NAME(pairs)(2 * n);
    if (n % 2) {
        const T *second = x + n + 1;
        z[0] = x[0];
        z[1] = count == 2 ? second[0] : 0;
        BLOCKS(k, 1, m) {
            C p = NAME(load)(x + 2 * k, left, 0), q = count == 2 ? NAME(load)(second + 2 * k, left, 0) : (C){{0}, {0}};
            p.i *= sign;
            q.i *= sign;
            NAME(store)(z + 2 * k, (C){p.r - q.i, p.i + q.r}, left, 0);
            NAME(store_down)(z + 2 * (n - k), (C){p.r + q.i, q.r - p.i}, left);
        }
        NAME(complex)(&job->core, z, NULL, z, 1, scale, space);
        BLOCKS(j, 0, n - 1) {
            C c = NAME(load)(z + 2 * j, left, 0);
            NAME(put_up)(y + j, c.r, left);
            if (count == 2) NAME(put_up)(y + n + j, c.i, left);
        }
        return;
    }
    z[0] = x[0] + x[2 * m];
    z[1] = x[0] - x[2 * m];
    BLOCKS(k, 1, m / 2) {
        C p = NAME(load)(x + 2 * k, left, 0), q = NAME(load_down)(x + 2 * (m - k), left);
        C w = NAME(load)(job->half + 2 * k, left, 0);
        p.i *= sign;
        q.i *= sign;
        C e = {p.r + q.r, p.i - q.i}, d = {p.r - q.r, p.i + q.i};
        C o = {d.r * w.r + d.i * w.i, d.i * w.r - d.r * w.i};
        NAME(store)(z + 2 * k, (C){e.r - o.i, e.i + o.r}, left, 0);
        NAME(store_down)(z + 2 * (m - k), (C){e.r + o.i, o.r - e.i}, left);
    }
    NAME(complex)(&job->core, z, NULL, y, 1, scale, space);
}

/* Type 1: the real transform of the even, or odd, extension */
static void NAME(type1)(const J *job, const T *x, T *y, T scale, T *line, C *space) {
    const idx n = job->n, sine = job->flags & SINE ? 1 : 0, ends = 2 * sine - 1;
    const T sign = sine ? -1 : 1;
    T *half = line + job->period;
    line[0] = line[n + ends] = 0;
    memcpy(line + sine, x, (size_t)n * sizeof(T));
    BLOCKS(j, 0, n - 2 + ends) NAME(put_up)(line + n + 2 * sine + j, sign * NAME(down)(x + n - 2 + sine - j, left), left);
    NAME(forward)(job, 1, line, half, scale, space);
    BLOCKS(k, 0, n - 1) {
        C c = NAME(load)(half + 2 * (k + sine), left, 0);
        NAME(put_up)(y + k, sine ? -c.i : c.r, left);
    }
}

/* The real transform of even length whose complex one of half of it is z, turned as type 2 needs it: both in one pass */
static void NAME(finish2)(const J *job, const T *z, T *y) {
    const idx n = job->n, m = n / 2;
    const T half = (T)0.5;
    const int sine = job->flags & SINE;
    y[sine ? n - 1 : 0] = z[0] + z[1];
    y[sine ? m - 1 : m] = job->turn[2 * m] * (z[0] - z[1]);
    BLOCKS(k, 1, m / 2) {
        C p = NAME(load)(z + 2 * k, left, 0), q = NAME(load_down)(z + 2 * (m - k), left);
        C w = NAME(load)(job->half + 2 * k, left, 0);
        C e = {half * (p.r + q.r), half * (p.i - q.i)}, o = {half * (p.i + q.i), half * (q.r - p.r)};
        C t = NAME(product)(o, w);
        C low = NAME(product)(NAME(plus)(e, t), NAME(load)(job->turn + 2 * k, left, 0));
        C high = NAME(product)((C){e.r - t.r, t.i - e.i}, NAME(load_down)(job->turn + 2 * (m - k), left));
        if (sine) {
            NAME(put_down)(y + n - 1 - k, low.r, left);
            NAME(put_up)(y + k - 1, -low.i, left);
            NAME(put_up)(y + m - 1 + k, high.r, left);
            NAME(put_down)(y + m - 1 - k, -high.i, left);
        } else {
            NAME(put_up)(y + k, low.r, left);
            NAME(put_down)(y + n - k, -low.i, left);
            NAME(put_down)(y + m - k, high.r, left);
            NAME(put_up)(y + m + k, -high.i, left);
        }
    }
}

/* Type 2: even terms forward, odd ones backward; the real transform; a turn by exp(-pi i k / 2 n). For sines odd terms
   change their sign, and the result is reversed */
static void NAME(type2)(const J *job, idx count, const T *x, T *y, T scale, T *line, C *space) {
    const idx n = job->n, m = n / 2;
    const T sign = job->flags & SINE ? -1 : 1;
    T *spectra = line + count * n;
    for (idx row = 0; row < count; row++, x += n) {
        T *to = line + row * n;
        BLOCKS(j, 0, m - 1) {
            C c = NAME(load)(x + 2 * j, left, 0);
            NAME(put_up)(to + j, c.r, left);
            NAME(put_down)(to + n - 1 - j, sign * c.i, left);
        }
        if (n % 2) to[m] = x[n - 1];
    }
    if (n % 2 == 0) {
        NAME(complex)(&job->core, line, NULL, line, 0, 2 * scale, space);
        NAME(finish2)(job, line, y);
        return;
    }
    NAME(forward)(job, count, line, spectra, 2 * scale, space);
    for (idx row = 0; row < count; row++, y += n) {
        const T *s = spectra + row * 2 * (m + 1);
        y[job->flags & SINE ? n - 1 : 0] = s[0];
        BLOCKS(k, 1, m) {
            C c = NAME(product)(NAME(load)(s + 2 * k, left, 0), NAME(load)(job->turn + 2 * k, left, 0));
            if (job->flags & SINE) {
                NAME(put_up)(y + k - 1, -c.i, left);
                NAME(put_down)(y + n - 1 - k, c.r, left);
            } else {
                NAME(put_down)(y + n - k, -c.i, left);
                NAME(put_up)(y + k, c.r, left);
            }
        }
    }
}

/* Terms k of half a spectrum, from a and b = x[k], x[n - k] of type 3 */
INLINE C NAME(term3)(V a, V b, C p) { return (C){p.r * a - p.i * b, -p.r * b - p.i * a}; }

/* The complex row of half the length whose inverse transform is that of the spectrum of type 3: both in one pass */
static void NAME(start3)(const J *job, const T *x, T *z) {
    const idx n = job->n, m = n / 2;
    const int sine = job->flags & SINE;
    const T first = x[sine ? n - 1 : 0], middle = 2 * job->turn[2 * m] * x[sine ? m - 1 : m];
    z[0] = first + middle;
    z[1] = first - middle;
    BLOCKS(k, 1, m / 2) {
        V a = sine ? NAME(down)(x + n - 1 - k, left) : NAME(up)(x + k, left);
        V b = sine ? NAME(up)(x + k - 1, left) : NAME(down)(x + n - k, left);
        V c = sine ? NAME(up)(x + m - 1 + k, left) : NAME(down)(x + m - k, left);
        V d = sine ? NAME(down)(x + m - 1 - k, left) : NAME(up)(x + m + k, left);
        C p = NAME(term3)(a, b, NAME(load)(job->turn + 2 * k, left, 0));
        C q = NAME(term3)(c, d, NAME(load_down)(job->turn + 2 * (m - k), left));
        C w = NAME(load)(job->half + 2 * k, left, 0);
        C e = {p.r + q.r, p.i - q.i}, o = NAME(product)((C){p.r - q.r, p.i + q.i}, NAME(conjugate)(w));
        NAME(store)(z + 2 * k, (C){e.r - o.i, e.i + o.r}, left, 0);
        NAME(store_down)(z + 2 * (m - k), (C){e.r + o.i, o.r - e.i}, left);
    }
}

/* Type 3: the same the other way */
static void NAME(type3)(const J *job, idx count, const T *x, T *y, T scale, T *line, C *space) {
    const idx n = job->n, m = n / 2;
    const T sign = job->flags & SINE ? -1 : 1;
    T *spectra = line + count * n;
    if (n % 2 == 0) {
        NAME(start3)(job, x, line);
        NAME(complex)(&job->core, line, NULL, line, 1, scale, space);
    } else {
        for (idx row = 0; row < count; row++, x += n) {
            T *s = spectra + row * 2 * (m + 1);
            s[0] = x[job->flags & SINE ? n - 1 : 0];
            s[1] = 0;
            BLOCKS(k, 1, m) {
                V a = job->flags & SINE ? NAME(down)(x + n - 1 - k, left) : NAME(up)(x + k, left);
                V b = job->flags & SINE ? NAME(up)(x + k - 1, left) : NAME(down)(x + n - k, left);
                NAME(store)(s + 2 * k, NAME(term3)(a, b, NAME(load)(job->turn + 2 * k, left, 0)), left, 0);
            }
        }
        NAME(backward)(job, count, spectra, line, scale, 1, space);
    }
    for (idx row = 0; row < count; row++, y += n) {
        const T *from = line + row * n;
        BLOCKS(j, 0, m - 1)
            NAME(store)(y + 2 * j, (C){NAME(up)(from + j, left), sign * NAME(down)(from + n - 1 - j, left)}, left, 0);
        if (n % 2) y[n - 1] = from[m];
    }
}

/* Type 4 of odd length: a real transform between permutations, because 8 and n have no common factor */
static void NAME(type4_odd)(const J *job, idx count, const T *x, T *y, T scale, T *line, C *space) {
    const idx n = job->n;
    T *spectra = line + count * n;
    for (idx row = 0; row < count; row++, x += n)
        for (idx j = 0; j < n; j++) {
            /* twice the place, and whether the sign changes: a branch could not be foreseen */
            int32_t at = job->from[j];
            line[row * n + j] = x[at >> 1] * (T)(1 - 2 * (at & 1));
        }
    NAME(forward)(job, count, line, spectra, (T)(scale * 1.41421356237309504880L), space);
    for (idx row = 0; row < count; row++, y += n) {
        const T *s = spectra + row * (n + 1), *sign = job->turn;
        for (idx k = 0; k < n; k++) {
            int32_t at = job->to[k];
            y[k] = sign[2 * k] * s[2 * at] + sign[2 * k + 1] * s[2 * at + 1];
        }
    }
}

/* Type 4 of even length: a complex transform of half of it between turns. Sines reverse the operand and alternate the
   result */
static void NAME(type4_even)(const J *job, const T *x, T *y, T scale, T *line, C *space) {
    const idx n = job->n, m = n / 2;
    const T sign = job->flags & SINE ? 1 : -1;
    BLOCKS(j, 0, m - 1) {
        C up = NAME(load)(x + 2 * j, left, 0), down = NAME(load_down)(x + n - 2 - 2 * j, left);
        C p = NAME(load)(job->turn + 2 * j, left, 0);
        V a = job->flags & SINE ? down.i : up.r, b = job->flags & SINE ? up.r : down.i;
        NAME(store)(line + 2 * j, (C){a * p.r - b * p.i, a * p.i + b * p.r}, left, 0);
    }
    NAME(complex)(&job->core, line, NULL, line, 0, 2 * scale, space);
    BLOCKS(k, 0, m - 1) {
        C a = NAME(load)(line + 2 * k, left, 0), q = NAME(load)(job->turn_more + 2 * k, left, 0);
        C b = NAME(load_down)(line + 2 * (m - 1 - k), left), s = NAME(load_down)(job->turn_more + 2 * (m - 1 - k), left);
        NAME(store)(y + 2 * k, (C){a.r * q.r - a.i * q.i, sign * (b.r * s.i + b.i * s.r)}, left, 0);
    }
}

/* Memory for lines of the rows below: two extended rows, their half spectra, and a copy of two operands */
static inline idx NAME(lines)(const J *job) {
    idx longest = job->n > job->period ? job->n : job->period;
    return NAME(pairs)(4 * longest + 4 + 2 * job->n);
}

/* Vector pairs a row, or two, need beside operand and result */
static idx NAME(job_room)(const J *job) {
    const A *core = &job->core;
    return NAME(lines)(job) + NAME(pairs)(2 * job->period) + NAME(pairs)(2 * core->length) + NAME(room)(&core->plan);
}

/* Planes [count][n] as one interleaved whole */
static void NAME(interleave)(const T *x, const T *im, idx length, T *y) {
    BLOCKS(j, 0, length - 1) NAME(store)(y + 2 * j, NAME(load_parts)(x, im, j, left, 0), left, 0);
}

/* One row, or two where the job takes them in pairs; complex ones may be planes */
static void NAME(rows)(const J *job, idx count, const T *x, const T *im, T *y, double factor, C *space) {
    const idx n = job->n;
    const T scale = (T)factor;
    T *line = (T *)space;
    switch (job->kind) {
        case C2C: NAME(complex)(&job->core, x, im, y, job->flags & INVERSE, scale, space); return;
        case R2C:
            NAME(forward)(job, count, x, y, scale, space);
            if (job->flags & INVERSE)
                for (idx k = 1; k < count * job->give; k += 2) y[k] = -y[k];
            return;
        case C2R:
            if (im) {
                NAME(interleave)(x, im, count * job->take, line);
                x = line;
                space += NAME(lines)(job);
            }
            NAME(backward)(job, count, x, y, scale, job->flags & CONJUGATE ? -1 : 1, space);
            return;
    }
    space += NAME(lines)(job);
    if (job->kind == R2CC) {
        /* all of the spectrum, from the half that is computed */
        T *half = line;
        NAME(forward)(job, count, x, half, scale, space);
        const T sign = job->flags & INVERSE ? -1 : 1;
        for (idx row = 0; row < count; row++, half += 2 * (n / 2 + 1), y += 2 * n) {
            y[0] = half[0];
            y[1] = 0;
            BLOCKS(k, 1, n / 2) {
                C c = NAME(load)(half + 2 * k, left, 0);
                NAME(store_down)(y + 2 * (n - k), (C){c.r, -sign * c.i}, left);
                NAME(store)(y + 2 * k, (C){c.r, sign * c.i}, left, 0);
            }
        }
        return;
    }
    if (job->flags & BEFORE) {
        T *copy = line;
        line += 2 * n;
        memcpy(copy, x, count * n * sizeof(T));
        for (idx row = 0; row < count; row++) {
            copy[row * n] *= (T)job->ends[0];
            copy[row * n + n - 1] *= (T)job->ends[1];
        }
        x = copy;
    }
    switch (job->kind) {
        case TYPE1: NAME(type1)(job, x, y, scale, line, space); break;
        case TYPE2: NAME(type2)(job, count, x, y, scale, line, space); break;
        case TYPE3: NAME(type3)(job, count, x, y, scale, line, space); break;
        default:
            if (n % 2) NAME(type4_odd)(job, count, x, y, scale, line, space);
            else NAME(type4_even)(job, x, y, scale, line, space);
    }
    if (job->flags & AFTER)
        for (idx row = 0; row < count; row++) {
            y[row * n] *= (T)job->ends[2];
            y[row * n + n - 1] *= (T)job->ends[3];
        }
}
