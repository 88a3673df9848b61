"""What a layer regards, for tests that compare it with plain loops."""

from regard.attention.token_positions import Places


def weights_of(layer, x, memory, mask=None):
    """The attention weights of a layer."""
    mechanism, q_at, k_at = layer.mechanism, range(x.shape[1]), range(memory.shape[1])
    keys, _ = mechanism.remember(memory, k_at)
    return mechanism.score(mechanism.query(x, q_at), keys, Places(q_at, k_at)).weights(mask)
