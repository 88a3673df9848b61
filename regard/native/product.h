/* Products of a few rows with a weight that was put in order before. */
#ifndef REGARD_PRODUCT_H
#define REGARD_PRODUCT_H

#define PANEL 32 /* outputs whose weights lie together: panel after panel (in, PANEL), the last filled up with zeros */

/* Floats in a register of this processor that the tiles were made for, 16 or 8; 0 where there are none, and nothing
 * here is to be called. Where `most` is not 0 no more are used from now on. */
int product_lanes(int most);

/* out[r] = x[r] weight^T + bias (or NULL), and max(0, .) of it where `relu` is; of `outs` outputs the part-th of `parts`
 * shares of panels. A row of x is `far` from the next, a row of out `apart`; bias has room for whole panels. */
void product_part(const float *x, long rows, long far, long deep, const float *weight, const float *bias, long outs,
                  int relu, float *out, long apart, long part, long parts);

#endif
