/* Products of a few rows with a weight that was put in order before. */
#ifndef REGARD_PRODUCT_H
#define REGARD_PRODUCT_H

#include <stdint.h>

#define PANEL 32 /* outputs whose weights lie together: panel after panel (in, PANEL), the last filled up with zeros */

/* Floats in a register of this processor that the tiles were made for, 16 or 8; 0 where there are none, and nothing
 * here is to be called. Where `most` is not 0 no more are used from now on. */
int product_lanes(int most);

/* out[r] = x[r] weight^T + bias (or NULL), and max(0, .) of it where `relu` is; of `outs` outputs the part-th of `parts`
 * shares of panels. The weight's floats have sixteen bits where `half` is. A row of x is `far` from the next, a row of
 * out `apart`; bias has room for whole panels. */
void product_part(const float *x, long rows, long far, long deep, const void *weight, int half, const float *bias,
                  long outs, int relu, float *out, long apart, long part, long parts);

/* The same of weights and rows that are rounded to eight bits (product8.c), where `product8_ready`. A row of x is first
 * rounded to `product8_bytes`; the weight's panels are (in / 4, PANEL, 4), the last quad filled up with zeros; an output
 * has its step, and `sums` its weights' sum times 128. */
int product8_ready(void);

/* A row's numbers, on their own lines and not 4 KiB from the next row's; and behind all rows their scales. */
static inline long product8_bytes(long rows, long deep) {
    long wide = (deep + 63) / 64 * 64;
    return rows * ((wide % 4096 ? wide : wide + 64) + (long)sizeof(float));
}

void product8_round(const float *x, long rows, long far, long deep, void *rounded, long part, long parts);

void product8_part(const void *rounded, long rows, long deep, const int8_t *weight, const float *steps,
                   const int32_t *sums, const float *bias, long outs, int relu, float *out, long apart, long part,
                   long parts);

#endif
