"""What a language model is taught: one file an objective, each pure in (seed, epoch, items) and without a loop over
tokens.

    causal   the next word                              gpt, cnn
    masked   words that were hidden                     bert, preln-bert
    blank    every word, from those on both sides of it birnn
    span     a stretch that was taken out               gpt, cnn
"""
