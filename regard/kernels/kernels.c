/* What a step of decoding does between its matrix products, each in one pass: attention of few queries, the norm of a
 * sum, and the likeliest ways to go on. Floats in, floats out; the caller (regard/native/__init__.py) says where they lie.
 *
 *   product     out = x weight^T + bias, of few rows (product.c, product8.c)
 *   attend      out[b, w, h] = sum_t softmax_t(q[b, w, h] . k[b, h, s]) v[b, h, s],   s = path[b, w, t], or t itself
 *   add_norm    sum = x + y,   out = (sum - mean) / sqrt(var + eps) * weight + bias
 *   block       a whole block of a decoder: products, attention and norms, with no way back to Python between them
 *   likeliest   of all beams and words, the k greatest of   log softmax(logits[b, w])[word] + score[b, w]
 *
 * There is no mask: what may be seen is a stretch of keys, or a path of places through those that beams have said. Work
 * is shared among OpenMP's threads, which are torch's own where torch was loaded first.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "product.h"

#ifdef _OPENMP
#include <omp.h>
#define PART omp_get_thread_num()
#define PARTS omp_get_num_threads()
#else
#define PART 0
#define PARTS 1
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12
#define EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_PROCESSOR
#endif

#define VERSION 2 /* of what Python asks; regard/native/__init__.py has the same */
#define BLOCK 64
#define SMALL 16384 /* multiplications that are not worth a second thread */

/* exp of what is not above 0, to about 1e-7 of itself; what is below -87 is taken as that. Cephes' polynomial. */
static inline float exp_(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = x < -87.0f ? -87.0f : x; /* what is no number stays none */
    float n = (x * 1.44269504f + magic) - magic;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t i; float f; } scale = {((int32_t)n + 127) << 23};
    return p * scale.f;
}

/* Sixteen floats, wherever they lie; a processor with narrower registers takes several. */
typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
#define AT(p, i) (*(const v16 *)((p) + (i)))

/* The sum of each of four vectors. */
static inline __attribute__((always_inline)) v4 sums(v16 a, v16 b, v16 c, v16 d) {
#if defined(__clang__) || __GNUC__ >= 12
#define HALF8(x) \
    (__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) + \
     __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15))
#define HALF4(x) (__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7))
    v8 a8 = HALF8(a), b8 = HALF8(b), c8 = HALF8(c), d8 = HALF8(d);
    v4 a4 = HALF4(a8), b4 = HALF4(b8), c4 = HALF4(c8), d4 = HALF4(d8);
    v4 ab = __builtin_shufflevector(a4, b4, 0, 4, 2, 6) + __builtin_shufflevector(a4, b4, 1, 5, 3, 7);
    v4 cd = __builtin_shufflevector(c4, d4, 0, 4, 2, 6) + __builtin_shufflevector(c4, d4, 1, 5, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#else
    v4 whole = {0};
    for (int i = 0; i < 16; i++) whole += (v4){a[i], b[i], c[i], d[i]};
    return whole;
#endif
}

/* One query: its scores, and then its weights, are kept in `weights`, of as many places. `far` is from one key to the
 * next, and `wide` how many numbers a key has. Keys and values lie alike. Four keys at a time, and what is read of the
 * values stays in registers. */
EACH_PROCESSOR
static void regard_one(const float *q, const float *keys, const float *values, const int32_t *path, long first, long last,
                       long far, long wide, float *restrict weights, float *restrict out) {
#define PLACE(t) ((path ? path[t] : (t)) * far)
    float most = -FLT_MAX, sum = 0.0f;
    long t = first, whole = wide / 16 * 16;
    for (; t < last; t += 4) { /* where fewer are left, the last is taken again and not kept */
        long left = last - t < 4 ? last - t : 4, l1 = t + (left > 1), l2 = left > 2 ? t + 2 : l1, l3 = left > 3 ? t + 3 : l2;
        const float *k0 = keys + PLACE(t), *k1 = keys + PLACE(l1), *k2 = keys + PLACE(l2), *k3 = keys + PLACE(l3);
        v16 a = {0}, b = {0}, c = {0}, d = {0};
        long i = 0;
        for (; i < whole; i += 16) {
            v16 x = AT(q, i);
            a += x * AT(k0, i);
            b += x * AT(k1, i);
            c += x * AT(k2, i);
            d += x * AT(k3, i);
        }
        v4 s = sums(a, b, c, d);
        for (; i < wide; i++) s += q[i] * (v4){k0[i], k1[i], k2[i], k3[i]};
        memcpy(weights + t, &s, left * sizeof(float));
    }
#pragma omp simd reduction(max : most)
    for (t = first; t < last; t++) most = weights[t] > most ? weights[t] : most;
#pragma omp simd reduction(+ : sum)
    for (t = first; t < last; t++) {
        weights[t] = exp_(weights[t] - most);
        sum += weights[t];
    }
    float by = last > first ? 1.0f / sum : 0.0f;
    long i = 0;
    for (; i + 64 <= wide; i += 64) {
        v16 a = {0}, b = {0}, c = {0}, d = {0};
        for (t = first; t < last; t++) {
            const float *value = values + PLACE(t) + i;
            a += weights[t] * AT(value, 0);
            b += weights[t] * AT(value, 16);
            c += weights[t] * AT(value, 32);
            d += weights[t] * AT(value, 48);
        }
        *(v16 *)(out + i) = a * by;
        *(v16 *)(out + i + 16) = b * by;
        *(v16 *)(out + i + 32) = c * by;
        *(v16 *)(out + i + 48) = d * by;
    }
    for (; i + 32 <= wide; i += 32) {
        v16 a = {0}, b = {0};
        for (t = first; t < last; t++) {
            const float *value = values + PLACE(t) + i;
            a += weights[t] * AT(value, 0);
            b += weights[t] * AT(value, 16);
        }
        *(v16 *)(out + i) = a * by;
        *(v16 *)(out + i + 16) = b * by;
    }
    for (; i + 16 <= wide; i += 16) {
        v16 a = {0};
        for (t = first; t < last; t++) a += weights[t] * AT(values + PLACE(t), i);
        *(v16 *)(out + i) = a * by;
    }
    if (i < wide) {
        for (long j = i; j < wide; j++) out[j] = 0.0f;
        for (t = first; t < last; t++) {
            const float *value = values + PLACE(t);
            for (long j = i; j < wide; j++) out[j] += weights[t] * value[j];
        }
        for (long j = i; j < wide; j++) out[j] *= by;
    }
#undef PLACE
}

EACH_PROCESSOR
static void norm_one(const float *x, const float *y, const float *weight, const float *bias, long wide, float eps,
                     float *whole, float *out) {
    float mean = 0.0f, spread = 0.0f;
    if (y) {
#pragma omp simd
        for (long i = 0; i < wide; i++) whole[i] = x[i] + y[i];
        x = whole;
    }
#pragma omp simd reduction(+ : mean)
    for (long i = 0; i < wide; i++) mean += x[i];
    mean /= wide;
#pragma omp simd reduction(+ : spread)
    for (long i = 0; i < wide; i++) spread += (x[i] - mean) * (x[i] - mean);
    float by = 1.0f / sqrtf(spread / wide + eps);
#pragma omp simd
    for (long i = 0; i < wide; i++) out[i] = (x[i] - mean) * by * weight[i] + bias[i];
}

/* The greatest of each block of a row, and of all; then log sum exp(x - greatest). */
EACH_PROCESSOR
static float tops_of(const float *x, long n, float *restrict tops) {
    float most = -INFINITY;
    for (long start = 0, at = 0; start < n; start += BLOCK, at++) {
        long stop = start + BLOCK < n ? start + BLOCK : n;
        float top = -INFINITY;
#pragma omp simd reduction(max : top)
        for (long i = start; i < stop; i++) top = x[i] > top ? x[i] : top;
        tops[at] = top;
        most = top > most ? top : most;
    }
    return most;
}

EACH_PROCESSOR
static float log_sum(const float *x, long n, float most) {
    double whole = 0.0;
    for (long start = 0; start < n; start += 1024) {
        long stop = start + 1024 < n ? start + 1024 : n;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (long i = start; i < stop; i++) sum += exp_(x[i] - most);
        whole += sum;
    }
    return (float)log(whole);
}

/* Put a candidate where it belongs among the k best so far, the greatest first; equals stay in the order they came. */
static void insert(float value, int64_t beam, int64_t word, long k, float *values, int64_t *beams, int64_t *words) {
    long at = k - 1;
    for (; at > 0 && values[at - 1] < value; at--) {
        values[at] = values[at - 1];
        beams[at] = beams[at - 1];
        words[at] = words[at - 1];
    }
    values[at] = value;
    beams[at] = beam;
    words[at] = word;
}

static void likeliest_of(const float *logits, const float *scores, long beams, long vocab, long k, float *tops,
                         float *values, int64_t *parents, int64_t *words) {
    for (long j = 0; j < k; j++) values[j] = -INFINITY, parents[j] = words[j] = 0;
    for (long beam = 0; beam < beams; beam++, logits += vocab) {
        float most = tops_of(logits, vocab, tops);
        if (!(most > -INFINITY) || !(scores[beam] > -INFINITY)) continue;
        float sum = log_sum(logits, vocab, most), score = scores[beam];
        for (long start = 0, at = 0; start < vocab; start += BLOCK, at++) {
            if (!(((tops[at] - most) - sum) + score > values[k - 1])) continue;
            long stop = start + BLOCK < vocab ? start + BLOCK : vocab;
            for (long i = start; i < stop; i++) {
                float value = ((logits[i] - most) - sum) + score;
                if (value > values[k - 1]) insert(value, beam, i, k, values, parents, words);
            }
        }
    }
}

/* Queries (b, w, h) with their steps, and what they regard. */
typedef struct {
    const float *q;
    long qb, qw, qh;
    float *keys, *values;
    long kb, kh, far;
    const int32_t *path; /* (b, w, step), or NULL */
    long step;
    const int32_t *first, *last; /* (b,), or NULL */
    long n;                      /* keys, or places of a path */
    float *out;
    long b, w, h, wide, apart; /* from a row of out to the next */
    float *scratch;            /* n for each part */
    const float *new_keys, *new_values; /* with q's steps, written to the places slot + w before; or NULL */
    long slot;
} Attention;

static void attend_part(const Attention *a, long part, long parts) {
    long rows = a->b * a->w * a->h, w = a->w, h = a->h, n = a->n;
    for (long row = rows * part / parts; row < rows * (part + 1) / parts; row++) {
        /* beams inside heads: what one head regards is still near when the next beam comes */
        long beam = row % w, head = row / w % h, item = row / (h * w), at = item * a->kb + head * a->kh;
        long from = item * a->qb + beam * a->qw + head * a->qh, to = at + (a->slot + beam) * a->far;
        if (a->new_keys) { /* seen by this beam alone, so that no other thread waits for it */
            memcpy(a->keys + to, a->new_keys + from, a->wide * sizeof(float));
            memcpy(a->values + to, a->new_values + from, a->wide * sizeof(float));
        }
        regard_one(a->q + from, a->keys + at, a->values + at, a->path ? a->path + (item * w + beam) * a->step : NULL,
                   a->first ? a->first[item] : 0, a->last ? a->last[item] : n, a->far, a->wide, a->scratch + part * n,
                   a->out + (item * w + beam) * a->apart + head * a->wide);
    }
}

/* Of a block, what is the same at each step; written by regard/decoding/fused.py, field by field. */
typedef struct {
    int64_t bits; /* of a weight: 32, 16 or 8 */
    const void *weight;
    const float *bias;
    const float *steps; /* and sums: of eight bits */
    const int32_t *sums;
} Map;

typedef struct {
    const float *weight, *bias;
    double eps;
} Norm;

typedef struct {
    int64_t dim, heads, width, hidden;
    int64_t before, gelu; /* whether norms come before their parts, and which activation; else it is relu */
    Map qkv, own, query, source, up, down;     /* query.weight is NULL where there is no source */
    Norm own_norm, source_norm, feed_norm;
} Plan;

/* And what is not. */
typedef struct {
    const float *x;
    float *out;
    long b, w;
    float *keys, *values;
    long places, slot;
    const int32_t *path;
    long path_step;
    const int32_t *first;
    long n;
    float *source_keys, *source_values;
    long source_places;
    const int32_t *last;
    const float *turn; /* cos and sin (width / 2 each) of this place, or NULL */
    float *scratch;
} Step;

#define SPACED(n) ((n) % 1024 ? (n) : (n) + 16) /* rows 4 KiB apart would share a few lines of the cache */

static long rounded_room(const Plan *p, long rows) {
    long inner = p->heads * p->width, most = p->dim > inner ? p->dim : inner;
    return p->qkv.bits == 8 ? product8_bytes(rows, most > p->hidden ? most : p->hidden) / sizeof(float) + 1 : 0;
}

static long room(const Plan *p, long rows) {
    long inner = p->heads * p->width;
    return rounded_room(p, rows) + rows * (3 * SPACED(p->dim) + p->dim + 3 * inner + SPACED(inner) + SPACED(p->hidden));
}

/* x P(X <= x) of a normal X (Hendrycks & Gimpel 2016), its tail to about 1e-7 (Abramowitz & Stegun 7.1.26). */
EACH_PROCESSOR
static void gelu_of(float *x, long n) {
#pragma omp simd
    for (long i = 0; i < n; i++) {
        float z = fabsf(x[i]) * 0.707106781f, t = 1.0f / (1.0f + 0.3275911f * z);
        float p = 1.061405429f;
        p = p * t - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = p * t + 0.254829592f;
        float tail = 0.5f * p * t * exp_(-z * z);
        x[i] *= x[i] > 0.0f ? 1.0f - tail : tail;
    }
}

#ifdef _OPENMP
#define TOGETHER if (parts > 1) { _Pragma("omp barrier") }
#else
#define TOGETHER
#endif

/* A product of all threads; the rows are rounded first where the weight is, into `rounded`. */
static void multiply(const Map *map, const float *x, long rows, long far, long deep, long outs, int relu, float *out,
                     long apart, float *rounded, long part, long parts) {
    if (map->bits > 8) {
        product_part(x, rows, far, deep, map->weight, map->bits == 16, map->bias, outs, relu, out, apart, part, parts);
        return;
    }
    product8_round(x, rows, far, deep, rounded, part, parts);
    TOGETHER
    product8_part(rounded, rows, deep, map->weight, map->steps, map->sums, map->bias, outs, relu, out, apart, part, parts);
}

static void norm_part(const Norm *norm, const float *x, long far, const float *y, long wide, long rows, float *whole,
                      float *out, long part, long parts) {
    for (long r = rows * part / parts; r < rows * (part + 1) / parts; r++)
        norm_one(x + r * far, y ? y + r * wide : NULL, norm->weight, norm->bias, wide, (float)norm->eps, whole + r * far,
                 out + r * far);
}

/* The pairs (i, i + half) of each head of queries and keys, turned by this place's angles (Su et al. 2021). */
EACH_PROCESSOR
static void turn_row(float *x, const float *turn, long heads, long width) {
    long half = width / 2;
    const float *c = turn, *s = turn + half;
    for (long h = 0; h < heads; h++, x += width)
        for (long i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = a * c[i] - b * s[i];
            x[i + half] = b * c[i] + a * s[i];
        }
}

static void block_part(const Plan *p, const Step *s, long part, long parts) {
    long rows = s->b * s->w, dim = p->dim, inner = p->heads * p->width, wide = p->width;
    long apart = SPACED(dim), inner_apart = SPACED(inner), hidden_apart = SPACED(p->hidden);
    float *x = s->scratch, *sum = x + rows * apart, *normed = sum + rows * apart, *y = normed + rows * apart;
    float *qkv = y + rows * dim, *context = qkv + rows * 3 * inner, *hidden = context + rows * inner_apart;
    float *rounded = hidden + rows * hidden_apart, *weights = rounded + rounded_room(p, rows);
    long from = rows * part / parts, to = rows * (part + 1) / parts;
    const Norm *norms[3] = {&p->own_norm, &p->source_norm, &p->feed_norm};
    for (long r = from; r < to; r++) memcpy(x + r * apart, s->x + r * dim, dim * sizeof(float));
    int begun = 0;
    for (int i = 0; i < 3; i++) {
        if (i == 1 && !p->query.weight) continue;
        const float *in = x;
        if (p->before) {
            norm_part(norms[i], x, apart, begun ? y : NULL, dim, rows, sum, normed, part, parts);
            if (begun) {
                float *other = x;
                x = sum, sum = other;
            }
            in = normed;
        }
        begun = 1;
        TOGETHER
        Attention it = {.b = s->b, .w = s->w, .h = p->heads, .wide = wide, .apart = inner_apart, .out = context, .far = wide};
        it.scratch = weights;
        if (i == 0) {
            multiply(&p->qkv, in, rows, apart, dim, 3 * inner, 0, qkv, 3 * inner, rounded, part, parts);
            TOGETHER
            if (s->turn) {
                for (long r = from; r < to; r++) turn_row(qkv + r * 3 * inner, s->turn, 2 * p->heads, wide);
                TOGETHER
            }
            it.q = qkv, it.qb = 3 * s->w * inner, it.qw = 3 * inner, it.qh = wide;
            it.new_keys = qkv + inner, it.new_values = qkv + 2 * inner, it.slot = s->slot;
            it.keys = s->keys, it.values = s->values, it.kb = p->heads * s->places * wide, it.kh = s->places * wide;
            it.path = s->path, it.step = s->path_step, it.first = s->first, it.n = s->n;
        } else if (i == 1) {
            multiply(&p->query, in, rows, apart, dim, inner, 0, qkv, inner, rounded, part, parts);
            TOGETHER
            it.q = qkv, it.qb = s->w * inner, it.qw = inner, it.qh = wide;
            it.keys = s->source_keys, it.values = s->source_values;
            it.kb = p->heads * s->source_places * wide, it.kh = s->source_places * wide;
            it.last = s->last, it.n = s->source_places;
        }
        if (i < 2) {
            attend_part(&it, part, parts);
            TOGETHER
            multiply(i ? &p->source : &p->own, context, rows, inner_apart, inner, dim, 0, y, dim, rounded, part, parts);
        } else {
            multiply(&p->up, in, rows, apart, dim, p->hidden, !p->gelu, hidden, hidden_apart, rounded, part, parts);
            if (p->gelu) { /* the panels that this thread has just made */
                long panels = (p->hidden + PANEL - 1) / PANEL, left = panels * part / parts * PANEL;
                long right = panels * (part + 1) / parts * PANEL;
                right = right < p->hidden ? right : p->hidden;
                for (long r = 0; r < rows; r++) gelu_of(hidden + r * hidden_apart + left, right - left);
            }
            TOGETHER
            multiply(&p->down, hidden, rows, hidden_apart, p->hidden, dim, 0, y, dim, rounded, part, parts);
        }
        TOGETHER
        if (!p->before) norm_part(norms[i], x, apart, y, dim, rows, sum, x, part, parts);
    }
    for (long r = from; r < to; r++) {
        const float *row = x + r * apart, *more = y + r * dim;
        float *out = s->out + r * dim;
        for (long i = 0; i < dim; i++) out[i] = p->before ? row[i] + more[i] : row[i];
    }
}

/* From Python: whole numbers, of which some are addresses. */
#define MOST 24 /* arguments */
static int numbers(const char *name, PyObject *const *given, Py_ssize_t count, Py_ssize_t wanted, long long *to) {
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "%s takes %zd numbers, and was given %zd", name, wanted, count);
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        to[i] = PyLong_AsLongLong(given[i]);
        if (to[i] == -1 && PyErr_Occurred()) return 0;
    }
    return 1;
}

/* x, rows, from row to row, in; bits, weight, bias, steps, sums (0 where there are none), out; relu; to, from row to row;
 * scratch of `rounded_bytes` for eight bits; threads */
static PyObject *product(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("product", given, count, 15, a)) return NULL;
    Map map = {a[4], (const void *)a[5], (const float *)a[6], (const float *)a[7], (const int32_t *)a[8]};
    long rows = a[1], far = a[2], deep = a[3], outs = a[9], apart = a[12], threads = a[14];
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel num_threads((int)threads) if (threads > 1 && rows * deep * outs > SMALL)
    multiply(&map, (const float *)a[0], rows, far, deep, outs, (int)a[10], (float *)a[11], apart, (float *)a[13], PART, PARTS);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* Rows, in: bytes of scratch for a product of rounded rows; 0 where this processor has none. */
static PyObject *rounded_bytes(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("rounded_bytes", given, count, 2, a)) return NULL;
    return PyLong_FromLong(product8_ready() ? product8_bytes(a[0], a[1]) : 0);
}

/* q, its steps (b, w, h); keys, values, their steps (b, h, key); path, its step, first, last (addresses or 0); n keys or
 * places of a path; out; b, w, h, wide; threads; scratch of threads * n; new keys and values (addresses or 0), which have
 * q's steps and are first written to the places `slot` + w. first and last are (b,), path is (b, w, step). */
static PyObject *attend(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("attend", given, count, 24, a)) return NULL;
    Attention it = {
        .q = (const float *)a[0], .qb = a[1], .qw = a[2], .qh = a[3], .keys = (float *)a[4], .values = (float *)a[5],
        .kb = a[6], .kh = a[7], .far = a[8], .path = (const int32_t *)a[9], .step = a[10],
        .first = (const int32_t *)a[11], .last = (const int32_t *)a[12], .n = a[13], .out = (float *)a[14], .b = a[15],
        .w = a[16], .h = a[17], .wide = a[18], .apart = a[17] * a[18], .scratch = (float *)a[20],
        .new_keys = (const float *)a[21], .new_values = (const float *)a[22], .slot = a[23],
    };
    long threads = a[19];
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1 && it.b * it.w * it.h * it.n * it.wide > SMALL)
    for (long part = 0; part < threads; part++) attend_part(&it, part, threads);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* The address of a plan; rows, the most keys that are regarded, threads. How many floats of scratch `block` wants. */
static PyObject *block_room(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("block_room", given, count, 4, a)) return NULL;
    return PyLong_FromLong(room((const Plan *)a[0], a[1]) + a[2] * a[3]);
}

/* The address of a plan; x (b * w, dim), out; b, w; keys, values and places of the past (b, h, places, d), of which
 * `slot` are taken; path (or 0), its step, first (or 0), n; keys, values, places, last (or 0) of the source; cos and sin
 * of this place (or 0); scratch of `block_room`; threads */
static PyObject *block(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("block", given, count, 20, a)) return NULL;
    const Plan *plan = (const Plan *)a[0];
    Step step = {
        .x = (const float *)a[1], .out = (float *)a[2], .b = a[3], .w = a[4], .keys = (float *)a[5],
        .values = (float *)a[6], .places = a[7], .slot = a[8], .path = (const int32_t *)a[9], .path_step = a[10],
        .first = (const int32_t *)a[11], .n = a[12], .source_keys = (float *)a[13], .source_values = (float *)a[14],
        .source_places = a[15], .last = (const int32_t *)a[16], .turn = (const float *)a[17], .scratch = (float *)a[18],
    };
    long threads = a[19];
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel num_threads((int)threads) if (threads > 1)
    block_part(plan, &step, PART, PARTS);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* x, y (or 0), weight, bias, sum (where y is), out; rows, wide; eps' bits; threads */
static PyObject *add_norm(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (count != 10) {
        PyErr_Format(PyExc_TypeError, "add_norm takes 10 numbers, and was given %zd", count);
        return NULL;
    }
    double eps = PyFloat_AsDouble(given[8]);
    if (eps == -1.0 && PyErr_Occurred()) return NULL;
    if (!numbers("add_norm", given, 8, 8, a)) return NULL;
    long long threads = PyLong_AsLongLong(given[9]);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    const float *x = (const float *)a[0], *y = (const float *)a[1];
    const float *weight = (const float *)a[2], *bias = (const float *)a[3];
    float *whole = (float *)a[4], *out = (float *)a[5];
    long rows = a[6], wide = a[7];
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1 && rows * wide > SMALL)
    for (long row = 0; row < rows; row++) {
        long at = row * wide;
        norm_one(x + at, y ? y + at : NULL, weight, bias, wide, (float)eps, whole ? whole + at : NULL, out + at);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* logits (b, w, vocab), scores (b, w); b, w, vocab, k; values, parents, words (b, k); threads; scratch of b * blocks */
static PyObject *likeliest(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("likeliest", given, count, 11, a)) return NULL;
    const float *logits = (const float *)a[0], *scores = (const float *)a[1];
    long b = a[2], w = a[3], vocab = a[4], k = a[5];
    float *values = (float *)a[6], *scratch = (float *)a[10];
    int64_t *parents = (int64_t *)a[7], *words = (int64_t *)a[8];
    int threads = (int)a[9];
    long blocks = (vocab + BLOCK - 1) / BLOCK;
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && b * w * vocab > SMALL)
    for (long item = 0; item < b; item++)
        likeliest_of(logits + item * w * vocab, scores + item * w, w, vocab, k, scratch + item * blocks,
                     values + item * k, parents + item * k, words + item * k);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* The most floats of a register that products may use from now on, or 0; how many they use. */
static PyObject *lanes(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    return numbers("lanes", given, count, 1, a) ? PyLong_FromLong(product_lanes((int)a[0])) : NULL;
}

static PyMethodDef METHODS[] = {
    {"product", (PyCFunction)(void (*)(void))product, METH_FASTCALL, NULL},
    {"rounded_bytes", (PyCFunction)(void (*)(void))rounded_bytes, METH_FASTCALL, NULL},
    {"lanes", (PyCFunction)(void (*)(void))lanes, METH_FASTCALL, NULL},
    {"block", (PyCFunction)(void (*)(void))block, METH_FASTCALL, NULL},
    {"block_room", (PyCFunction)(void (*)(void))block_room, METH_FASTCALL, NULL},
    {"attend", (PyCFunction)(void (*)(void))attend, METH_FASTCALL, NULL},
    {"add_norm", (PyCFunction)(void (*)(void))add_norm, METH_FASTCALL, NULL},
    {"likeliest", (PyCFunction)(void (*)(void))likeliest, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "kernels", .m_size = -1, .m_methods = METHODS};

PyMODINIT_FUNC PyInit_kernels(void) {
    PyObject *made = PyModule_Create(&MODULE);
    if (made && PyModule_AddIntConstant(made, "VERSION", VERSION) < 0) Py_CLEAR(made);
    if (made && PyModule_AddIntConstant(made, "PLAN", sizeof(Plan)) < 0) Py_CLEAR(made); /* bytes, which tests compare */
    return made;
}
