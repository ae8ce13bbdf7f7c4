/* Host loops over indices: sorting, transposition, blocks, and the products of two sparse matrices. */
#include <complex.h>
#include <stdint.h>

/* Complex products without the standard's detour for infinities: what BLAS and NumPy compute. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("cx-fortran-rules")
#endif

typedef int64_t idx;

#define DONE (-2)

/* Row pointers of keys below `count`, which start at zero. */
static void counted(idx entries, idx count, const idx *key, idx *ptr) {
    for (idx p = 0; p < entries; p++) ptr[key[p] + 1]++;
    for (idx k = 0; k < count; k++) ptr[k + 1] += ptr[k];
}

/* Entries by row, then column, those at one place in the order they had: where rows start, where each entry was, and
   its column. They are laid out by column first. Pointers start at zero; returns how many entries repeat a place. */
idx sorted(idx entries, idx rows, idx columns, const idx *row, const idx *col, idx *ptr, idx *order, idx *out,
           idx *by_col, idx *row_of, idx *entry) {
    counted(entries, columns, col, by_col);
    for (idx p = 0; p < entries; p++) {
        const idx at = by_col[col[p]]++;
        row_of[at] = row[p];
        entry[at] = p;
    }
    counted(entries, rows, row, ptr);
    idx repeats = 0;
    /* by_col[j] is now where column j ends, and ptr[i] moves on from where row i starts */
    for (idx j = 0, k = 0; j < columns; j++)
        for (; k < by_col[j]; k++) {
            const idx at = ptr[row_of[k]]++;
            order[at] = entry[k];
            out[at] = j;
        }
    for (idx i = rows; i > 0; i--) ptr[i] = ptr[i - 1];
    ptr[0] = 0;
    for (idx i = 0; i < rows; i++)
        for (idx p = ptr[i] + 1; p < ptr[i + 1]; p++) repeats += out[p] == out[p - 1];
    return repeats;
}

/* The pattern compressed along its other axis, and the entry each came from. `to` starts at zero. */
void turned(idx rows, idx columns, const idx *ptr, const idx *col, idx *to, idx *row, idx *order) {
    counted(ptr[rows], columns, col, to);
    for (idx i = 0; i < rows; i++)
        for (idx p = ptr[i]; p < ptr[i + 1]; p++) {
            const idx at = to[col[p]]++;
            row[at] = i;
            order[at] = p;
        }
    for (idx j = columns; j > 0; j--) to[j] = to[j - 1];
    to[0] = 0;
}

/* Whether entries rise by row, then column: the first that does not, or -1. */
idx falls(idx entries, const idx *row, const idx *col) {
    for (idx p = 1; p < entries; p++)
        if (row[p] < row[p - 1] || (row[p] == row[p - 1] && col[p] <= col[p - 1])) return p;
    return -1;
}

/* Whether pointers rise from 0 to the number of entries, and indices within every row from 0 on below `bound`. */
idx sound(idx rows, idx bound, idx entries, const idx *ptr, const idx *col) {
    idx bad = ptr[0] != 0 || ptr[rows] != entries;
    for (idx i = 0; i < rows; i++) bad |= ptr[i + 1] < ptr[i];
    if (bad) return 0;
    /* Indices may fall where a row begins, and nowhere else. */
    idx falls = 0, allowed = 0;
    for (idx p = 0; p < entries; p++) bad |= (uint64_t)col[p] >= (uint64_t)bound;
    for (idx p = 1; p < entries; p++) falls += col[p] <= col[p - 1];
    for (idx i = 1; i < rows; i++) {
        const idx p = ptr[i];
        if (p > ptr[i - 1] && p < entries) allowed += col[p] <= col[p - 1];
    }
    return !bad && falls == allowed;
}

/* Whether indices rise within every row: the first that does not, or -1. */
idx unsorted(idx rows, const idx *ptr, const idx *col) {
    for (idx i = 0; i < rows; i++)
        for (idx p = ptr[i] + 1; p < ptr[i + 1]; p++)
            if (col[p] <= col[p - 1]) return p;
    return -1;
}

/* Stored blocks of bm x bn: their number, and where given, the place of every entry in them, pointers and columns of
   the blocks. Blocks of a row are numbered by column. `seen` holds one entry of -1 for each block column. */
idx blocks(idx rows, idx bm, idx bn, const idx *ptr, const idx *col, idx *seen, idx *place, idx *to, idx *columns) {
    idx count = 0;
    for (idx first = 0; first < rows; first += bm) {
        const idx last = first + bm < rows ? first + bm : rows, start = count;
        for (idx p = ptr[first]; p < ptr[last]; p++)
            if (seen[col[p] / bn] < start) {
                if (columns) columns[count] = col[p] / bn;
                seen[col[p] / bn] = count++;
            }
        if (!columns) continue;
        /* Few blocks a row, nearly in order already. */
        for (idx q = start + 1; q < count; q++) {
            const idx c = columns[q];
            idx at = q;
            for (; at > start && columns[at - 1] > c; at--) columns[at] = columns[at - 1];
            columns[at] = c;
        }
        for (idx q = start; q < count; q++) seen[columns[q]] = q;
        for (idx i = first; i < last; i++)
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {
                const idx j = col[p] / bn;
                place[p] = (seen[j] * bm + i - first) * bn + col[p] - j * bn;
            }
        to[first / bm + 1] = count;
    }
    return count;
}

/* The entries of two patterns side by side: their columns, and where each was in either, or the length of that one
   where it was not. With `both`, those they share alone. Returns how many there are. */
idx united(idx rows, idx both, const idx *ap, const idx *ac, const idx *bp, const idx *bc, idx *to, idx *col, idx *in_a,
           idx *in_b) {
    const idx absent_a = ap[rows], absent_b = bp[rows];
    idx count = to[0] = 0;
    for (idx i = 0; i < rows; i++) {
        idx p = ap[i], q = bp[i];
        const idx last_p = ap[i + 1], last_q = bp[i + 1];
        while (p < last_p || q < last_q) {
            const idx c = p < last_p ? ac[p] : INT64_MAX, d = q < last_q ? bc[q] : INT64_MAX;
            col[count] = c < d ? c : d;
            in_a[count] = c <= d ? p : absent_a;
            in_b[count] = d <= c ? q : absent_b;
            count += !both || c == d;
            p += c <= d;
            q += d <= c;
        }
        to[i + 1] = count;
    }
    return count;
}

/* The entries whose column has a new number, and that number; -1 stands for none. Returns how many there are. */
idx kept(idx rows, const idx *ptr, const idx *col, const idx *number, idx *to, idx *out, idx *entry) {
    idx count = to[0] = 0;
    for (idx i = 0; i < rows; i++) {
        for (idx p = ptr[i]; p < ptr[i + 1]; p++) {
            out[count] = number[col[p]];
            entry[count] = p;
            count += number[col[p]] >= 0;
        }
        to[i + 1] = count;
    }
    return count;
}

/* Breadth first from `root` over vertices not marked, with `ranked` those of one parent by degree. Returns the end of
   the list; `last` is where its last level starts, `depth` how many levels came before. */
static idx walked(const idx *ptr, const idx *col, idx root, idx *list, idx at, idx *seen, idx mark, idx ranked,
                  idx *last, idx *depth) {
    idx end = at, stop = at + 1;
    list[end++] = root;
    seen[root] = mark;
    for (*last = at, *depth = 0;; *last = stop, stop = end, ++*depth) {
        for (at = *last; at < stop; at++) {
            const idx v = list[at], first = end;
            for (idx p = ptr[v]; p < ptr[v + 1]; p++)
                if (seen[col[p]] != mark && seen[col[p]] != DONE) seen[list[end++] = col[p]] = mark;
            for (idx k = first + 1; ranked && k < end; k++) {
                const idx c = list[k], degree = ptr[c + 1] - ptr[c];
                idx to = k;
                for (; to > first && ptr[list[to - 1] + 1] - ptr[list[to - 1]] > degree; to--) list[to] = list[to - 1];
                list[to] = c;
            }
        }
        if (end == stop) return end;
    }
}

/* Cuthill and McKee's order of a symmetric pattern, started in each component at a vertex at the end of a long path
   (George and Liu). `starts` holds the vertices by degree, `seen` one entry of -1 for each. */
void cuthill(idx n, const idx *ptr, const idx *col, const idx *starts, idx *seen, idx *list) {
    idx end = 0, mark = 0, last, deep;
    for (idx k = 0; k < n; k++) {
        if (seen[starts[k]] == DONE) continue;
        idx root = starts[k], depth = -1;
        while (1) {
            const idx stop = walked(ptr, col, root, list, end, seen, mark++, 0, &last, &deep);
            if (deep <= depth) break;
            depth = deep;
            root = list[last];
            for (idx v = last + 1; v < stop; v++)
                if (ptr[list[v] + 1] - ptr[list[v]] < ptr[root + 1] - ptr[root]) root = list[v];
        }
        const idx first = end;
        end = walked(ptr, col, root, list, end, seen, mark++, 1, &last, &deep);
        for (idx v = first; v < end; v++) seen[list[v]] = DONE;
    }
}

/* Entries of a @ b, row by row into `to`. `seen` holds one entry of -1 for each column of b. */
void reached(idx rows, const idx *ap, const idx *ac, const idx *bp, const idx *bc, idx *seen, idx *to) {
    to[0] = 0;
    for (idx i = 0; i < rows; i++) {
        idx count = 0;
        for (idx p = ap[i]; p < ap[i + 1]; p++)
            for (idx q = bp[ac[p]]; q < bp[ac[p] + 1]; q++)
                if (seen[bc[q]] != i) seen[bc[q]] = i, count++;
        to[i + 1] = to[i] + count;
    }
}

/* The entries themselves, by column. A row's columns are marked in bits, and words of bits in bits of `top`, so that
   they are found in order without sorting; both start at zero and are zero again after each row. */
#define SPGEMM(NAME, T)                                                                                               \
    idx spgemm_##NAME(idx rows, const idx *ap, const idx *ac, const T *a, const idx *bp, const idx *bc, const T *b,   \
                       idx *to, uint64_t *bits, uint64_t *top, T *sum, idx *col, T *out) {                            \
        idx at = to[0] = 0;                                                                                           \
        for (idx i = 0; i < rows; i++) {                                                                              \
            idx low = INT64_MAX, high = -1;                                                                           \
            for (idx p = ap[i]; p < ap[i + 1]; p++) {                                                                 \
                const T v = a[p];                                                                                     \
                for (idx q = bp[ac[p]]; q < bp[ac[p] + 1]; q++) {                                                     \
                    const idx c = bc[q];                                                                              \
                    if (bits[c >> 6] >> (c & 63) & 1) {                                                               \
                        sum[c] += v * b[q];                                                                           \
                        continue;                                                                                     \
                    }                                                                                                 \
                    sum[c] = v * b[q];                                                                                \
                    bits[c >> 6] |= (uint64_t)1 << (c & 63);                                                          \
                    top[c >> 12] |= (uint64_t)1 << (c >> 6 & 63);                                                     \
                    if (c < low) low = c;                                                                             \
                    if (c > high) high = c;                                                                           \
                }                                                                                                     \
            }                                                                                                         \
            for (idx t = low >> 12; t <= high >> 12; t++)                                                             \
                for (; top[t]; top[t] &= top[t] - 1) {                                                                \
                    const idx word = t << 6 | __builtin_ctzll(top[t]);                                                \
                    for (; bits[word]; bits[word] &= bits[word] - 1) {                                                \
                        const idx c = word << 6 | __builtin_ctzll(bits[word]);                                        \
                        col[at] = c;                                                                                  \
                        out[at++] = sum[c];                                                                           \
                    }                                                                                                 \
                }                                                                                                     \
            to[i + 1] = at;                                                                                           \
        }                                                                                                             \
        return at;                                                                                                    \
    }

SPGEMM(float32, float)
SPGEMM(float64, double)
SPGEMM(complex64, float complex)
SPGEMM(complex128, double complex)
