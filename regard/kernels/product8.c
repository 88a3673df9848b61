/* The same tiles with weights and rows rounded to whole numbers of eight bits: four times as many to a register, and
 * four products of a pair of registers at once (AVX-512 VNNI). Sums are whole numbers of 32 bits, so that none is cut.
 *
 *   x[r] = a[r] (n[r] - 128),  n from 1 to 255        weight[o] = s[o] m[o],  m from -127 to 127
 *   out[r, o] = a[r] s[o] (sum_i n[r, i] m[o, i] - 128 sum_i m[o, i]) + bias[o]
 *
 * Each row has its own a, so that what it gives does not hang on the others of its batch.
 */
#include "product.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12

#include <immintrin.h>

#define FOUR __attribute__((target("arch=x86-64-v4,avx512vnni")))
#define UNROLL _Pragma("GCC unroll 16")
#define MOST 14

/* _mm512_dpbusd_epi32 in its place: gcc 12 makes copies of the sums for the intrinsic, and has no registers for these. */
#define ADD_FOUR(sum, n, m) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(n), "v"(m))

/* A weight of this panel lies as (in / 4, PANEL, 4). */
FOUR static inline __attribute__((always_inline)) void tile(const int rows, const uint8_t *x, long far, const float *scales,
                                                            const int8_t *w, long quads, const float *steps,
                                                            const int32_t *sums, const float *bias, int relu, float *out,
                                                            long apart) {
    __m512i whole[MOST][2];
    const uint8_t *at[(MOST + 2) / 3];
    long ahead = quads * 4 * PANEL;
    UNROLL for (int r = 0; r < rows; r++) whole[r][0] = whole[r][1] = _mm512_setzero_si512();
    UNROLL for (int r = 0; r < rows; r += 3) at[r / 3] = x + r * far;
    UNROLL for (int r = 0; r < rows; r++) {
        __builtin_prefetch(out + r * apart, 1);
        __builtin_prefetch(out + r * apart + PANEL - 1, 1);
    }
    for (long i = 0; i < quads; i++, w += 4 * PANEL) {
        __m512i left = _mm512_loadu_si512(w), right = _mm512_loadu_si512(w + 64);
        __builtin_prefetch(w + ahead, 0, 2);
        __builtin_prefetch(w + ahead + 64, 0, 2);
        UNROLL for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, at[r / 3] + r % 3 * far, 4);
            __m512i n = _mm512_set1_epi32(four);
            ADD_FOUR(whole[r][0], n, left);
            ADD_FOUR(whole[r][1], n, right);
        }
        UNROLL for (int r = 0; r < rows; r += 3) at[r / 3] += 4;
    }
    UNROLL for (int half = 0; half < 2; half++) { /* unrolled, or the sums would not stay in registers */
        __m512i less = _mm512_loadu_si512(sums + 16 * half);
        __m512 step = _mm512_loadu_ps(steps + 16 * half), add = _mm512_setzero_ps();
        if (bias) add = _mm512_loadu_ps(bias + 16 * half);
        UNROLL for (int r = 0; r < rows; r++) {
            __m512 y = _mm512_cvtepi32_ps(_mm512_sub_epi32(whole[r][half], less));
            y = _mm512_fmadd_ps(_mm512_mul_ps(y, _mm512_set1_ps(scales[r])), step, add);
            if (relu) y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_LT_OQ), _mm512_setzero_ps());
            _mm512_storeu_ps(out + r * apart + 16 * half, y);
        }
    }
}

#define CASE(n) case n: tile(n, x, far, scales, w, quads, steps, sums, bias, relu, out, apart); break;
FOUR static void some_rows(int rows, const uint8_t *x, long far, const float *scales, const int8_t *w, long quads,
                           const float *steps, const int32_t *sums, const float *bias, int relu, float *out, long apart) {
    switch (rows) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
        CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
    }
}

FOUR static void round_row(const float *x, long deep, uint8_t *restrict to, float *scale) {
    float most = 0.0f;
    int bad = 0;
#pragma omp simd reduction(max : most) reduction(| : bad)
    for (long i = 0; i < deep; i++) {
        float size = fabsf(x[i]);
        most = size > most ? size : most;
        bad |= !(size <= 3.4e38f);
    }
    float by = most > 0.0f && !bad ? 127.0f / most : 0.0f;
#pragma omp simd
    for (long i = 0; i < deep; i++) to[i] = (uint8_t)((int)nearbyintf((by > 0.0f ? x[i] : 0.0f) * by) + 128);
    for (long i = deep; i < (deep + 3) / 4 * 4; i++) to[i] = 128;
    *scale = bad ? NAN : most / 127.0f;
}

int product8_ready(void) { return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni"); }

void product8_round(const float *x, long rows, long far, long deep, void *rounded, long part, long parts) {
    long wide = product8_bytes(1, deep) - sizeof(float);
    float *scales = (float *)((char *)rounded + rows * wide);
    for (long r = rows * part / parts; r < rows * (part + 1) / parts; r++)
        round_row(x + r * far, deep, (uint8_t *)rounded + r * wide, scales + r);
}

void product8_part(const void *rounded, long rows, long deep, const int8_t *weight, const float *steps,
                   const int32_t *sums, const float *bias, long outs, int relu, float *out, long apart, long part,
                   long parts) {
    long wide = product8_bytes(1, deep) - sizeof(float), quads = (deep + 3) / 4;
    const float *scales = (const float *)((const char *)rounded + rows * wide);
    const uint8_t *x = rounded;
    long tiles = (rows + MOST - 1) / MOST, panels = (outs + PANEL - 1) / PANEL;
    for (long panel = panels * part / parts; panel < panels * (part + 1) / parts; panel++) {
        long start = panel * PANEL, left = outs - start;
        const int8_t *w = weight + start * quads * 4;
        const float *add = bias ? bias + start : 0;
        for (long t = 0; t < tiles; t++) {
            long from = rows * t / tiles, count = rows * (t + 1) / tiles - from;
            float last[MOST * PANEL]; /* of a panel with more outputs than are wanted */
            float *to = left >= PANEL ? out + from * apart + start : last;
            some_rows((int)count, x + from * wide, wide, scales + from, w, quads, steps + start, sums + start, add, relu,
                      to, left >= PANEL ? apart : PANEL);
            for (long r = 0; left < PANEL && r < count; r++)
                memcpy(out + (from + r) * apart + start, last + r * PANEL, left * sizeof(float));
        }
    }
}

#else

int product8_ready(void) { return 0; }

void product8_round(const float *x, long rows, long far, long deep, void *rounded, long part, long parts) {}

void product8_part(const void *rounded, long rows, long deep, const int8_t *weight, const float *steps,
                   const int32_t *sums, const float *bias, long outs, int relu, float *out, long apart, long part,
                   long parts) {}

#endif
